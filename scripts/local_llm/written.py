"""What the model writes, taken apart while it comes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scripts.local_llm.prompt import ANSWER, CALL, JSON

_LABELS: Final = (ANSWER, JSON, CALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model has named the tool."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A piece of the arguments of the call."""

    text: str


Piece: TypeAlias = Text | CallBegun | Arguments


class Unread(Exception):
    """What the model wrote has not the form that it was held to."""


@dataclass(slots=True)
class Writing:
    """Takes the pieces of what the model writes, and gives those of the answer or of the call.

    The label and the name of the tool are kept back until they are whole; all that follows goes
    on as it came.
    """

    label: str = ""
    name: str = ""
    _held: str = field(default="")

    def feed(self, text: str) -> Iterator[Piece]:
        """Take a piece. Raises `Unread` when it cannot be what was allowed."""
        self._held += text
        if not self.label and not self._find_label():
            return
        if self.label == CALL and not self.name:
            name, blank, self._held = self._held.partition(" ")
            if not blank:
                self._held = name
                return
            self.name = name
            yield CallBegun(name)
        rest, self._held = self._held, ""
        if rest:
            yield Arguments(rest) if self.name else Text(rest)

    def _find_label(self) -> bool:
        for label in _LABELS:
            if self._held.startswith(label):
                self.label, self._held = label, self._held.removeprefix(label)
                return True
        if not any(label.startswith(self._held) for label in _LABELS):
            raise Unread(f"the model began with {self._held!r}")
        return False
