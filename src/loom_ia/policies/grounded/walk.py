"""The claims of a JSON value, each at its path."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import cast

from loom_ia.policies.grounded.dates import language
from loom_ia.policies.grounded.fold import fold
from loom_ia.policies.grounded.lexicon import CURRENCIES
from loom_ia.policies.grounded.named import CURRENCY_NAMES, UNIT_NAMES, exact, named, words
from loom_ia.policies.grounded.scan import Reading, read
from loom_ia.policies.grounded.values import Claim, Count, Value


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text or a number of a value: where it is, its nearest name, what its object states.

    `key` when it is a name itself and not what is under it.
    """

    path: str
    name: str
    value: str | Decimal
    currency: str | None = None
    unit: str | None = None
    key: bool = False


def leaves(value: object) -> Iterator[Leaf]:
    """Every text and number of a JSON value in its order, without recursion, keys too."""
    stack: list[tuple[object, Leaf]] = [(value, Leaf("$", "", ""))]
    while stack:
        one, leaf = stack.pop()
        if isinstance(one, str):
            yield replace(leaf, value=one)
        elif isinstance(one, Mapping):
            items = cast("Mapping[object, object]", one)
            stated = _stated(items, leaf)
            children = [
                (child, replace(stated, path=_under(leaf.path, str(key)), name=str(key)))
                for key, child in items.items()
            ]
            for key in items:
                path = _under(leaf.path, str(key))
                yield Leaf(path, "", str(key), key=True)
            stack += reversed(children)
        elif isinstance(one, Sequence) and not isinstance(one, bytes | bytearray):
            listed = cast("Sequence[object]", one)
            stack += [
                (child, replace(leaf, path=f"{leaf.path}[{at}]"))
                for at, child in reversed(list(enumerate(listed)))
            ]
        elif isinstance(one, int | float | Decimal) and not isinstance(one, bool):
            number = exact(one)
            yield replace(leaf, value=str(Decimal(one)) if number is None else number)


def leaf_claims(leaf: Leaf, other: str, sourced: bool) -> tuple[Claim, ...]:
    """Read what a leaf claims; `other` is the language when its own text tells none.

    A doubt is read in the widest way in what is checked, and in the likeliest in what is `sourced`.
    """
    if isinstance(leaf.value, Decimal):
        kind, values = named(leaf.name, leaf.value, leaf.currency, leaf.unit)
        written = _written(leaf.value)
        return (Claim(kind, written, 0, len(written), values),)
    text = _key_text(leaf.value) if leaf.key else leaf.value
    folded = fold(text)
    spoken = language(folded.text) or other
    first = spoken == "en" if sourced else spoken != "fr"
    found = read(text, folded, Reading(month_first=first, joined=not sourced))
    if len(found) == 1 and found[0].text == text.strip() and leaf.name and not leaf.key:
        return (_renamed(found[0], leaf),)
    return found


def parsed(text: str) -> object:
    """Read the JSON value that `text` is, or `text` itself."""
    if text.lstrip()[:1] not in {"{", "["}:
        return text
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return text


def _renamed(claim: Claim, leaf: Leaf) -> Claim:
    """`"10"` under `taux` is a rate, as 10 is."""
    plain = all(isinstance(one, Count) and not one.things for one in claim.value)
    if not claim.value or not plain:
        return claim
    counts = [one for one in claim.value if isinstance(one, Count)]
    read_as = [named(leaf.name, one.number, leaf.currency, leaf.unit) for one in counts]
    values: list[Value] = [value for _, values in read_as for value in values]
    kind = read_as[0][0]
    if kind == "number":
        values += counts
    return replace(claim, kind=kind, value=tuple(values))


def _stated(items: Mapping[object, object], leaf: Leaf) -> Leaf:
    for key, value in items.items():
        if not isinstance(value, str) or len(value) > 20:
            continue
        said = fold(value).text.strip()
        known = words(str(key))
        if known & CURRENCY_NAMES:
            leaf = replace(leaf, currency=CURRENCIES.get(said, said.upper()))
        elif known & UNIT_NAMES:
            leaf = replace(leaf, unit=said)
    return leaf


def _under(path: str, key: str) -> str:
    return (
        f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    )


def _key_text(key: str) -> str:
    return key.replace("_", " ") if key.isidentifier() else key


def _written(number: Decimal) -> str:
    return f"{number:f}" if abs(number.adjusted()) < 40 else str(number)
