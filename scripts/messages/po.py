"""Files of gettext: reads and writes `.po`, writes `.mo`, compares a catalogue with the sources."""

import ast
import re
import struct
from collections.abc import Mapping
from string import Formatter

from scripts.messages.sources import Found

_PERCENT = re.compile(r"%\((\w+)\)[a-z]|%[sdr]")


def read(text: str) -> dict[str, str]:
    """Read the texts of a `.po` file and their translations, the header left out."""
    known: dict[str, str] = {}
    for entry in re.split(r"\n\s*\n", text):
        parts: dict[str, str] = {}
        name = ""
        for line in entry.splitlines():
            if line.startswith("#"):
                continue
            keyword, _, rest = line.partition(" ")
            if keyword in {"msgid", "msgstr"}:
                name, line = keyword, rest  # noqa: PLW2901 -- what follows the keyword
            parts[name] = parts.get(name, "") + str(ast.literal_eval(line))
        if parts.get("msgid"):
            known[parts["msgid"]] = parts.get("msgstr", "")
    return known


def write(known: Mapping[str, str], places: Mapping[str, list[str]], language: str) -> str:
    """Write a `.po` file, its texts in the order of the alphabet, with the files that say them."""
    entries = [f'msgid ""\nmsgstr ""\n{_lines(_header(language))}']
    for said in sorted(known):
        where = "\n".join(f"#: {place}" for place in sorted(set(places.get(said, []))))
        entries.append(f"{where}\nmsgid {_quoted(said)}\nmsgstr {_quoted(known[said])}")
    return "\n\n".join(entries) + "\n"


def compiled(known: Mapping[str, str], language: str) -> bytes:
    """Write a `.mo` file, in which a text without translation is left out."""
    texts = {"": _header(language)} | {said: told for said, told in known.items() if told}
    pairs = sorted((said.encode(), told.encode()) for said, told in texts.items())
    start = 7 * 4 + 16 * len(pairs)
    said_table: list[int] = []
    told_table: list[int] = []
    body = b""
    for column, table in ((0, said_table), (1, told_table)):
        for pair in pairs:
            table += [len(pair[column]), start + len(body)]
            body += pair[column] + b"\0"
    head = (0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return struct.pack(f"<7I{4 * len(pairs)}I", *head, *said_table, *told_table) + body


def faults(known: Mapping[str, str], found: Found, language: str) -> list[str]:
    """Tell what is wrong with a catalogue, seen from the sources."""
    wrong: list[str] = []
    for said in sorted(found.texts):
        told = known.get(said, "")
        if not told:
            wrong.append(f"{found.places[said][0]}: no text in {language}: {said!r}")
        elif placeholders(said) != placeholders(told):
            wrong.append(f"{found.places[said][0]}: other placeholders in {language}: {said!r}")
    return wrong


def placeholders(text: str) -> list[str]:
    """Give the parameters of a template, in the alphabet's order."""
    try:
        named = {f"{{{name}}}" for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError:
        named = {"(unreadable)"}
    return sorted(named | {match[0] for match in _PERCENT.finditer(text)})


def _header(language: str) -> str:
    lines = ("MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8")
    return "".join(f"{line}\n" for line in (*lines, f"Language: {language}"))


def _lines(text: str) -> str:
    return "\n".join(_quoted(line) for line in text.splitlines(keepends=True))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'
