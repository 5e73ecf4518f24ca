"""E-mail addresses, telephone numbers, IBANs and addresses of pages."""

import re
from collections.abc import Iterator
from typing import Final

from loom_ia.policies.grounded.fold import Folded
from loom_ia.policies.grounded.values import Email, Iban, Phone, Reference, Value

Found = tuple[int, int, tuple[Value, ...]]
"""Where in the folded text, and what it says."""

_LOCAL: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._%+-'")
_HOST: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
_SPELT_AT: Final = re.compile(
    r"(?<![a-z0-9._%+-])(?P<local>[a-z0-9._%+-]{1,64}) ?"
    r"(?:[\[({] ?(?:at|arobase|a|@) ?[\])}]| arobase ) ?"
    r"(?P<host>[a-z0-9-]{1,63}(?:(?: ?[\[({] ?(?:dot|point|\.) ?[\])}] ?| (?:dot|point) |\.)"
    r"[a-z0-9-]{1,63}){1,4})"
)
_SPELT_DOT: Final = re.compile(r" ?[\[({]? ?(?:dot|point|\.) ?[\])}]? ?")
_PAGE: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"\x00]{1,2000}")

_LENGTHS: Final = {
    country: int(length)
    for length, countries in (
        ("15", "no"),
        ("16", "be"),
        ("18", "dk fi fo gl nl"),
        ("19", "mk si"),
        ("20", "at ba ee kz lt lu xk"),
        ("21", "ch cr hr li lv"),
        ("22", "bg bh de gb ge ie me rs va"),
        ("23", "ae gi il iq tl"),
        ("24", "ad cz es md pk ro sa se sk tn vg"),
        ("25", "ly pt st"),
        ("26", "is tr"),
        ("27", "fr gr it mc mr sm"),
        ("28", "al az by cy do gt hu lb ni pl sv"),
        ("29", "br eg ps qa ua"),
        ("30", "jo kw mu"),
        ("31", "mt sc"),
        ("32", "lc"),
        ("33", "ru"),
    )
    for country in countries.split()
}
_IBAN_START: Final = re.compile(r"(?<![a-z0-9])[a-z]{2} ?\d{2}[ .-]?(?=[a-z0-9])")
_VAT: Final = re.compile(r"(?<![a-z0-9])fr ?\d{2}(?: ?\d{3}){3}(?![\w]| ?\d)")
_BANKS: Final = re.compile(r"[a-z]{2} ?\d{2}[ .-]?\Z")
"""What stands before the only group of an IBAN that may be of letters alone."""

_PHONE: Final = re.compile(
    r"(?<![\w+.,/-])(?:"
    r"(?P<known>(?:\+|00) ?(?:33|32|41)(?: ?\(0\)| ?0)?[ .-]?[1-9](?:[ .-]{0,2}\d\d){4})"
    r"|(?P<world>(?:\+|00)\d{1,15}(?: ?\(0\))?(?:[ .)-]{1,2}\(?\d{1,8}(?!\d)){0,8})"
    r"|(?P<france>0[1-9](?:[ .-]{0,2}\d\d){4})"
    r"|(?P<home>\(?0\d{1,4}(?!\d)\)?(?:[ .-]{1,2}\d{2,8}(?!\d)){1,4})"
    r"|(?P<america>\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}[.-]\d{3}[.-]\d{4})"
    r")(?![\w]|[.,/-]\d)"
)
_MOST_DIGITS: Final = 15


def pages(text: str) -> Iterator[Found]:
    """Addresses of pages that hold a digit: each is one reference, whatever its parts say."""
    for found in _PAGE.finditer(text):
        address = found[0].rstrip(".,;:!?)'")
        digit = any(char.isdigit() for char in address)
        yield (
            found.start(),
            found.start() + len(address),
            (Reference(address.upper()),) if digit else (),
        )


def emails(source: str, folded: Folded, text: str) -> Iterator[Found]:
    """E-mail addresses, as they are written: a letter that only looks like another is another."""
    at = text.find("@")
    taken = 0
    while at >= 0:
        start, end = at, at + 1
        while start > max(taken, at - 64) and text[start - 1] in _LOCAL:
            start -= 1
        while end < min(len(text), at + 256) and text[end] in _HOST:
            end += 1
        while end > at + 1 and text[end - 1] in ".-":
            end -= 1
        while start < at and text[start] in ".'-":
            start += 1
        if start < at and "." in text[at:end]:
            yield start, end, (Email(_seen(source, folded.at[start:end])),)
            taken = end
        elif start < at and end > at + 1:
            yield start, end, ()
            taken = end
        at = text.find("@", max(end, at + 1))
    for found in _SPELT_AT.finditer(text):
        host = _SPELT_DOT.sub(".", found["host"])
        yield found.start(), found.end(), (Email(f"{found['local']}@{host}"),)


def _seen(source: str, at: tuple[int, ...]) -> str:
    """Give the address whose characters are `at` these places, without the marks between them."""
    written = "".join(source[place] for place in dict.fromkeys(at))
    return written.lower().replace("\uff20", "@").replace("\uff0e", ".")


def vat_numbers(source: str, folded: Folded, text: str) -> Iterator[Found]:
    """French VAT numbers, which are written in groups or not."""
    for found in _VAT.finditer(text):
        if source[folded.at[found.start()] : folded.to[found.start() + 1]].isupper():
            yield found.start(), found.end(), (Reference(found[0].replace(" ", "").upper()),)


def ibans(source: str, folded: Folded, text: str) -> Iterator[Found]:
    """IBANs in `text`, the folded writing: cut at the length of their country if it is known."""
    taken = 0
    for found in _IBAN_START.finditer(text):
        start = found.start()
        capitals = source[folded.at[start] : folded.to[start + 1]].isupper()
        if start < taken or (" " in found[0][:3] and not capitals):
            continue
        kept, end = _compact(text, start, _LENGTHS.get(found[0][:2], 34))
        if len(kept) >= 15 and sum(char.isdigit() for char in kept) >= 8:
            yield start, end, (Iban(kept.upper()),)
            taken = end


def _compact(text: str, start: int, most: int) -> tuple[str, int]:
    """Join whole groups from `start`, up to `most` characters; give where they end too."""
    kept, at = "", start
    while True:
        end = at
        while end < len(text) and end - at < 40 and text[end].isascii() and text[end].isalnum():
            end += 1
        group = text[at:end]
        after_bank = _BANKS.match(text[start:at]) is not None
        if at > start and not after_bank and not any(char.isdigit() for char in group):
            return kept, _trimmed(text, at)
        if len(kept) + len(group) > max(most, 4) and kept:
            return kept, _trimmed(text, at)
        kept, at = kept + group, end
        if text[at : at + 1] not in {" ", ".", "-"} or not text[at + 1 : at + 2].isalnum():
            return kept, at
        at += 1


def _trimmed(text: str, end: int) -> int:
    while text[end - 1] in " .-":
        end -= 1
    return end


def phones(text: str) -> Iterator[Found]:
    """Telephone numbers of at least seven digits."""
    for found in _PHONE.finditer(text):
        value = _phone(found)
        if value is not None:
            yield found.start(), found.end(), (value,)


def _phone(found: re.Match[str]) -> Phone | None:
    written = found[0]
    count = "".join(char for char in written.replace("(0)", "") if char.isdigit())
    if found["world"] or found["known"]:
        count = count.removeprefix("00") if written.startswith("00") else count
        if count.startswith(("330", "320", "410", "440")):
            count = count[:2] + count[3:]
        return Phone("+" + count) if 8 <= len(count) <= _MOST_DIGITS else None
    if found["france"]:
        return Phone("+33" + count[1:])
    if found["home"]:
        if not 9 <= len(count) <= 12:
            return None
        country = {11: "44", 9: "32"}.get(len(count), _ten(written))
        return Phone(f"+{country}{count[1:]}")
    return Phone("+1" + count)


def _ten(written: str) -> str:
    """Guess the country of a national number of ten digits, by how they are grouped."""
    groups = [len(group) for group in re.split(r"[^\d]+", written) if group]
    if groups[:2] == [3, 3]:
        return "41"
    return "32" if groups[:2] == [4, 2] else "33"
