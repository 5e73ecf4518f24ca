"""The claims that no source holds."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from loom_ia.policies.grounded.fold import fold
from loom_ia.policies.grounded.scan import claims
from loom_ia.policies.grounded.sources import Sources
from loom_ia.policies.grounded.values import ALL, Claim, Kind
from loom_ia.policies.grounded.walk import leaf_claims, leaves


@dataclass(frozen=True, slots=True)
class Missing:
    """A claim without a source.

    In a text, `path` is empty, `start` and `end` are offsets in characters, `line` and `column`
    count from 1. In a value, `path` leads to what claims it (`$.lines[0].price`), and the others
    are those of the text that stands there. `readable` is False for what cannot be read at all.
    """

    kind: Kind
    text: str
    path: str
    start: int
    end: int
    line: int
    column: int
    readable: bool

    @property
    def place(self) -> str:
        """Where it is, for a reader: the path, or the line and the column."""
        return self.path or f"{self.line}:{self.column}"

    def __str__(self) -> str:
        doubt = "" if self.readable else " (unreadable)"
        return f"{self.kind} {self.text!r} at {self.place}{doubt}"


def missing(
    content: object,
    sources: Sources,
    *,
    kinds: Collection[Kind] = ALL,
    allow: Iterable[str] = (),
) -> tuple[Missing, ...]:
    """Return the claims of `content` that `sources` does not hold, in their order.

    `content` is a text, or a JSON value such as the arguments of a call. Only the claims of `kinds`
    are looked at. What the texts of `allow` say always passes: `24/7`, or an address that is the
    sender's own.
    """
    allowed = tuple(allow)
    known = sources | Sources.of(texts=allowed) if allowed else sources
    literal = {fold(text).text.strip() for text in allowed}
    return tuple(
        found
        for path, lines, claim in _claims(content)
        if claim.kind in kinds and not known.holds(claim)
        if fold(claim.text).text.strip() not in literal
        for found in (_missing(path, lines, claim),)
    )


def _claims(content: object) -> Iterator[tuple[str, tuple[int, ...], Claim]]:
    if isinstance(content, str):
        lines = _lines(content)
        for claim in claims(content):
            yield "", lines, claim
        return
    for leaf in leaves(content):
        if leaf.key and leaf.value.isidentifier():  # type: ignore[union-attr]
            continue  # the name of an argument is its tool's, not the model's
        lines = _lines(str(leaf.value))
        for claim in leaf_claims(leaf, "", sourced=False):
            yield leaf.path, lines, claim


def _lines(text: str) -> tuple[int, ...]:
    """Where each line of `text` starts."""
    return (0, *(at + 1 for at, char in enumerate(text) if char == "\n"))


def _missing(path: str, lines: tuple[int, ...], claim: Claim) -> Missing:
    line = bisect_right(lines, claim.start)
    column = claim.start - lines[line - 1] + 1
    shown = " ".join(claim.text.split())
    return Missing(claim.kind, shown, path, claim.start, claim.end, line, column, bool(claim.value))
