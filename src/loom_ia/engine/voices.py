"""What the models of one session are saying, for whoever listens in this process.

Laws. Nothing said here is ever written: the fact that follows holds the whole answer. There is one
copy of an answer, however many listen, and each listener has a place in it: one that is slow reads
on later in a longer piece, and one that comes in the middle begins at the beginning. Speaking
never waits for a listener.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from loom_ia.core.ids import RunId
from loom_ia.core.model.chunks import ModelChunk, Reset, Stopped, TextDelta, UsageReported


@dataclass(frozen=True, slots=True)
class Spoken(TextDelta):
    """A piece of the answer that the model of `run_id` is giving.

    `offset` counts the characters of that answer that came before it: an answer begins at 0.
    """

    run_id: RunId = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Unsaid(Reset):
    """Forget what was heard of the answer that `run_id` was giving."""

    run_id: RunId = ""


class Answer:
    """One answer, as far as it was given.

    `after` is the place of the last fact of the session when it began. `pieces` only grows, until
    the answer `is_dropped`.
    """

    __slots__ = ("after", "has_ended", "is_dropped", "pieces", "run_id")

    def __init__(self, run_id: RunId, after: int) -> None:
        self.run_id = run_id
        self.after = after
        self.pieces: list[str] = []
        self.has_ended = False
        self.is_dropped = False


class Ear(Protocol):
    """Somebody who listens to the answers of a session."""

    def begins(self, answer: Answer) -> None:
        """Hear that an answer begins."""
        ...

    def poke(self) -> None:
        """Hear that an answer went on, ended or was dropped."""
        ...


class Voices:
    """The answers that are being given in one session, one for each run."""

    def __init__(self) -> None:
        self.ears: list[Ear] = []
        self._answers: dict[RunId, Answer] = {}

    def under_way(self) -> Iterator[Answer]:
        """Give the answers that have begun and not ended."""
        return (answer for answer in self._answers.values() if not answer.has_ended)

    def piece(self, run_id: RunId, chunk: ModelChunk, after: int) -> None:
        """Take what the model of a run streams; `after` is the place of the last fact written."""
        answer = self._answers.get(run_id)
        match chunk:
            case TextDelta():
                if not chunk.text:
                    return
                if answer is None or answer.has_ended:
                    answer = self._begin(run_id, after)
                answer.pieces.append(chunk.text)
            case Stopped():
                if answer is None:
                    return
                answer.has_ended = True
            case Reset():
                if answer is None:
                    return
                self._drop(answer)
            case UsageReported():  # it may come after the end of an answer that is refused then
                return
            case _:
                if answer is not None and answer.has_ended:
                    del self._answers[run_id]  # the next answer begins, without text so far
                return
        for ear in self.ears:
            ear.poke()

    def whole(self, run_id: RunId, text: str, after: int) -> None:
        """Take an answer that was held back and is given at once."""
        answer = self._begin(run_id, after)
        answer.pieces.append(text)
        answer.has_ended = True
        del self._answers[run_id]
        for ear in self.ears:
            ear.poke()

    def hush(self, run_id: RunId) -> None:
        """Forget a run that is driven no more; an answer that it had not ended is dropped."""
        answer = self._answers.get(run_id)
        if answer is None:
            return
        if answer.has_ended:
            del self._answers[run_id]
            return
        self._drop(answer)
        for ear in self.ears:
            ear.poke()

    def _begin(self, run_id: RunId, after: int) -> Answer:
        answer = self._answers[run_id] = Answer(run_id, after)
        for ear in self.ears:
            ear.begins(answer)
        return answer

    def _drop(self, answer: Answer) -> None:
        del self._answers[answer.run_id]
        answer.pieces = []
        answer.has_ended = answer.is_dropped = True
