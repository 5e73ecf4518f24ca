"""A session: its runs, and what the next run reads of those that are over.

`SessionState` is an accumulator, so that one more event costs the same in a session of ten runs
and of ten thousand. Only `apply` changes it; runs themselves are frozen values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from loom_ia.core.ids import RunId
from loom_ia.core.model.messages import Message
from loom_ia.core.state.conversation import chain_text
from loom_ia.core.state.run import RunState
from loom_ia.core.state.turns import Turn, turn_of


@dataclass(frozen=True, slots=True)
class History:
    """The finished turns of a session, flat, with their digest."""

    messages: tuple[Message, ...] = ()
    digest: str = ""

    def then(self, turn: Turn) -> "History":
        """Add a turn that just ended."""
        return History((*self.messages, *turn.messages), chain_text(self.digest, turn.digest))


@dataclass(frozen=True, slots=True)
class PendingAction:
    """A call of another run of the session that awaits a human."""

    run_id: RunId
    call_id: str
    tool_name: str
    arguments: Mapping[str, object]


class RunView(NamedTuple):
    """What a decision may see: one run, what was said before it, and what else is pending."""

    run: RunState
    history: tuple[Message, ...] = ()
    history_digest: str = ""
    pending_elsewhere: tuple[PendingAction, ...] = ()

    def is_same(self, other: "RunView") -> bool:
        """Whether nothing was written between the two that a decision could see."""
        return (
            self.run is other.run
            and self.history is other.history
            and self.pending_elsewhere == other.pending_elsewhere
        )


class SessionState:
    """The runs of a session by id, in the order of their first fact."""

    def __init__(self) -> None:
        self.runs: dict[RunId, RunState] = {}
        self.last_seq = 0
        self._turns: dict[RunId, Turn] = {}
        self._open: dict[RunId, None] = {}  # a set that keeps its order
        self._before: dict[RunId, History] = {}
        self._history = History()

    def put(self, run: RunState) -> None:
        """Replace one run by its next state."""
        run_id = run.run_id
        before = self.runs.get(run_id)
        self.runs[run_id] = run
        if before is None:
            self._before[run_id] = self._history
        if run.outcome is None:
            self._open[run_id] = None
            return
        self._open.pop(run_id, None)
        if before is not None and before.outcome is not None and before.table == run.table:
            return
        self._note_turn(run)

    @property
    def open_runs(self) -> tuple[RunState, ...]:
        """The runs that are not over, oldest first."""
        return tuple(self.runs[run_id] for run_id in self._open)

    def view(self, run: RunState) -> RunView:
        """Show what a decision about `run` may see: what was over when it began, and no later.

        `run` may be ahead of the state that is kept here, or not be in it yet.
        """
        if run.header.parent_run_id is not None:
            return RunView(run)
        before = self._before.get(run.run_id, self._history)
        alone = not self._open or (len(self._open) == 1 and run.run_id in self._open)
        pending = () if alone else self._pending_elsewhere(run.run_id)
        return RunView(run, before.messages, before.digest, pending)

    def _pending_elsewhere(self, run_id: RunId) -> tuple[PendingAction, ...]:
        return tuple(
            PendingAction(other.run_id, call.call_id, call.name, call.arguments)
            for other in self.open_runs
            if other.run_id != run_id
            for call in other.pending
        )

    def _note_turn(self, run: RunState) -> None:
        turn = turn_of(run)
        if turn is None:
            return
        if run.run_id in self._turns:  # a late fact changed a cancelled run
            self._turns[run.run_id] = turn
            self._history = History()
            for known in self._turns.values():
                self._history = self._history.then(known)
            return
        self._turns[run.run_id] = turn
        self._history = self._history.then(turn)
