"""A session: its runs, and what the next run reads of those that are over.

`SessionState` is an accumulator, so that one more event costs the same in a session of ten runs
and of ten thousand. Only `apply` changes it; runs themselves are frozen values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.budget import Budget, BudgetScope, Reserve
from loom_ia.core.model.messages import Message
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.plan import RunShape
from loom_ia.core.session_values import seen
from loom_ia.core.state.calls import Call
from loom_ia.core.state.conversation import chain_text
from loom_ia.core.state.kept import NOTHING_KEPT, KeptValues, over, posed, present
from loom_ia.core.state.run import Completed, RunState, Spent
from loom_ia.core.state.turns import Turn, turn_of


@dataclass(frozen=True, slots=True)
class History:
    """The finished turns of a session, and flat, with their digest."""

    messages: tuple[Message, ...] = ()
    digest: str = ""
    turns: tuple[Turn, ...] = ()

    def then(self, turn: Turn) -> "History":
        """Add a turn that just ended."""
        return History(
            (*self.messages, *turn.messages),
            chain_text(self.digest, turn.digest),
            (*self.turns, turn),
        )


@dataclass(frozen=True, slots=True)
class PendingAction:
    """A call of another run of the session that awaits a human."""

    run_id: RunId
    call_id: str
    tool_name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a run and those below it consumed; `steps` of graphs."""

    spent: Spent = Spent()  # noqa: RUF009 -- frozen, so shared safely
    steps: int = 0

    def plus(self, other: "Ledger") -> "Ledger":
        """Add what another run consumed."""
        return Ledger(self.spent.with_others(other.spent), self.steps + other.steps)


@dataclass(frozen=True, slots=True)
class Reserved:
    """What is kept aside for `count` calls of models that are under way."""

    cost: float = 0.0
    tokens: int = 0
    calls: int = 0
    unbounded: bool = False
    count: int = 0

    def plus(self, other: Reserve) -> "Reserved":
        """Keep more aside, for one call."""
        return Reserved(
            self.cost + other.cost,
            self.tokens + other.tokens,
            self.calls + other.calls,
            self.unbounded or other.unbounded,
            self.count + 1,
        )


class Account(NamedTuple):
    """A budget that binds a run: its own, that of a run above it, or that of the session.

    `ledger` has what it paid for, `reserved` what other runs that it pays for are consuming, and
    `owner` is the run at whose top they are.
    """

    budget: Budget
    ledger: Ledger
    owner: RunId
    reserved: Reserved = Reserved()
    scope: BudgetScope = "run"


class RunView(NamedTuple):
    """What a decision may see: one run, what was said before it, and what else is pending.

    `ledger` has what it and those below it consumed, None when it opened none. `accounts` are the
    budgets that bind it, its own first. `runs` has the runs of the session, for those that it
    opened. `steps_left` bounds the steps that the process may still start, None for no bound.
    `session_spent` is what all the runs of the session consumed, `concluded` the run below the top
    of its tree that was the first to conclude because a budget was used up, and `sizes` remembers
    how large what is sent to models is.
    `kept` is the state of the session when the run began; `state_of` reads it.
    """

    run: RunState
    history: tuple[Message, ...] = ()
    history_digest: str = ""
    pending_elsewhere: tuple[PendingAction, ...] = ()
    ledger: Ledger | None = None
    accounts: tuple[Account, ...] = ()
    runs: Mapping[RunId, RunState] = MappingProxyType({})
    steps_left: int | None = None
    session_spent: Spent = Spent()
    concluded: RunId | None = None
    sizes: Sizes | None = None
    kept: KeptValues = NOTHING_KEPT

    @property
    def spent(self) -> Spent:
        """What the run and those below it consumed."""
        return self.run.spent if self.ledger is None else self.ledger.spent

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
        self._below: dict[RunId, Ledger] = {}
        self._children: dict[RunId, list[RunId]] = {}
        self._spent = Spent()
        self._reserves: dict[RunId, Reserve] = {}
        self._concluded: dict[RunId, RunId] = {}
        self._kept = NOTHING_KEPT
        self._kept_before: dict[RunId, KeptValues] = {}

    def put(self, run: RunState) -> None:
        """Replace one run by its next state."""
        run_id = run.run_id
        before = self.runs.get(run_id)
        if run.header.parent_run_id is not None:
            run = self._steered(run)
        self.runs[run_id] = run
        self._spent = self._with_spent(before, run)
        if run.header.parent_run_id is not None:
            self.note_reserve(run)
            if run.finalizing == "budget":
                self._concluded.setdefault(run.header.root_run_id, run_id)
        if before is None:
            self._before[run_id] = self._history
            self._keep_posed(run)
        elif before.header is not run.header:  # other limits bind it now
            self._concluded.pop(run_id, None)
        if isinstance(run.outcome, Completed):
            self._keep_written(before, run)
        if run.header.parent_run_id is not None:
            self._charge_above(before, run)
        elif self._children and before is not None and before.lease is not run.lease:
            self._steer(run)
        if run.outcome is None:
            self._open[run_id] = None
            return
        self._open.pop(run_id, None)
        if before is not None and before.outcome is not None and before.table == run.table:
            return
        self._note_turn(run)

    @property
    def kept(self) -> KeptValues:
        """The state of the session: what was posed, and what runs that are completed wrote."""
        return self._kept

    def kept_before(self, run: RunState) -> KeptValues:
        """Give the state of the session as a run found it, with what its caller posed.

        A run below found that of the run that opened it, with what was written there by then.
        """
        known = self._kept_before.get(run.run_id)
        return self._found_by(run) if known is None else known

    def _found_by(self, run: RunState) -> KeptValues:
        parent = self.runs.get(run.header.parent_run_id or "")
        found = self._kept if parent is None else over(self.kept_before(parent), parent.kept)
        return over(found, posed(run.header.state, run.run_id))

    def _keep_posed(self, run: RunState) -> None:
        self._kept_before[run.run_id] = found = self._found_by(run)
        if run.header.parent_run_id is None:
            self._kept = found

    def _keep_written(self, before: RunState | None, run: RunState) -> None:
        is_new = before is None or not isinstance(before.outcome, Completed)
        if is_new and run.header.parent_run_id is None:
            self._kept = over(self._kept, run.writes)

    def turns_before(self, run: RunState) -> tuple[Turn, ...]:
        """Give the turns that were over when a run of the top began; none for a run below."""
        if run.header.parent_run_id is not None:
            return ()
        return self._before.get(run.run_id, self._history).turns

    def ledger(self, run: RunState) -> Ledger:
        """Give what a run and those below it consumed."""
        below = self._below.get(run.run_id)
        own = own_ledger(run)
        return own if below is None else own.plus(below)

    def children(self, run_id: RunId) -> tuple[RunState, ...]:
        """Give the runs that a run opened itself, in the order of their first fact."""
        return tuple(self.runs[child] for child in self._children.get(run_id, ()))

    def tree(self, run_id: RunId) -> Iterator[RunState]:
        """Give a run and all those below it, each before those that it opened."""
        run = self.runs.get(run_id)
        if run is not None:
            yield run
        for child in self._children.get(run_id, ()):
            yield from self.tree(child)

    def accounts(self, run: RunState) -> tuple[Account, ...]:
        """Give the budgets that bind a run, its own first, then those of the runs above it."""
        own, top = run.header.budget, run
        found = [] if own is None else [self._account(own, self.ledger(run), run, run)]
        parent = run.header.parent_run_id
        while parent is not None and (above := self.runs.get(parent)) is not None:
            if above.header.budget is not None:
                ledger = self.ledger(above).plus(self._ahead(run))
                found.append(self._account(above.header.budget, ledger, above, run))
            parent, top = above.header.parent_run_id, above
        if (budget := top.header.session_budget) is not None:
            account = self._account(budget, Ledger(self.session_spent(run)), top, run)
            found.append(account._replace(scope="session"))
        return tuple(found)

    def _account(self, budget: Budget, ledger: Ledger, owner: RunState, run: RunState) -> Account:
        reserved = Reserved()
        for run_id, reserve in self._reserves.items():
            if run_id != run.run_id and self._is_below(run_id, owner.run_id):
                reserved = reserved.plus(reserve)
        return Account(budget, ledger, owner.run_id, reserved)

    def _is_below(self, run_id: RunId | None, owner: RunId) -> bool:
        while run_id is not None and run_id != owner:
            run = self.runs.get(run_id)
            run_id = run.header.parent_run_id if run is not None else None
        return run_id is not None

    def note_reserve(self, run: RunState) -> None:
        """Keep aside what a run below another one is consuming, even before it is written."""
        reserve = run.reserve
        if reserve is not None:
            self._reserves[run.run_id] = reserve
        elif self._reserves:
            self._reserves.pop(run.run_id, None)

    def session_spent(self, run: RunState) -> Spent:
        """Give what the runs of the session consumed, up to `run`, which may be ahead."""
        return self._with_spent(self.runs.get(run.run_id), run)

    def _with_spent(self, before: RunState | None, run: RunState) -> Spent:
        if before is None:
            return self._spent.with_others(run.spent)
        if before.spent is run.spent:
            return self._spent
        return self._spent.with_others(run.spent.since(before.spent))

    def _ahead(self, run: RunState) -> Ledger:
        """Give what a run consumed that is not charged here yet."""
        kept = self.runs.get(run.run_id)
        return own_ledger(run) if kept is None else ahead(kept, run)

    def _charge_above(self, before: RunState | None, run: RunState) -> None:
        """Let the runs above pay for what a run consumed since the last time."""
        parent = run.header.parent_run_id
        if before is None and parent is not None:
            self._children.setdefault(parent, []).append(run.run_id)
        more = own_ledger(run) if before is None else ahead(before, run)
        if more == _NOTHING:
            return
        while parent is not None:
            self._below[parent] = self._below.get(parent, _NOTHING).plus(more)
            above = self.runs.get(parent)
            parent = above.header.parent_run_id if above else None

    def has_children(self, run_id: RunId) -> bool:
        """Whether a run opened others."""
        return run_id in self._children

    def _steered(self, run: RunState) -> RunState:
        root = self.runs.get(run.header.root_run_id)
        return run if root is None or root.drives == run.drives else run.steered(root)

    def _steer(self, root: RunState) -> None:
        """Give the wheel of the runs below to whoever has that of the run at the top."""
        for run in list(self.tree(root.run_id)):
            if run is not root:
                self.runs[run.run_id] = steered = run.steered(root)
                if steered.drives != run.drives:
                    self.note_reserve(steered)

    @property
    def open_runs(self) -> tuple[RunState, ...]:
        """The runs that are not over, oldest first."""
        return tuple(self.runs[run_id] for run_id in self._open)

    def view(self, run: RunState) -> RunView:
        """Show what a decision about `run` may see: what was over when it began, and no later.

        `run` may be ahead of the state that is kept here, or not be in it yet.
        """
        accounts = self.accounts(run)
        ledger = self.ledger(run) if run.run_id in self._below else None
        kept = self.kept_before(run) if run.header.state_keys else NOTHING_KEPT
        spent = self.session_spent(run)
        if run.flow is not None or run.header.parent_run_id is not None:
            return RunView(
                run,
                ledger=ledger,
                accounts=accounts,
                runs=self.runs,
                session_spent=spent,
                kept=kept,
                concluded=self._concluded.get(run.header.root_run_id),
            )
        before = self._before.get(run.run_id, self._history)
        alone = not self._open or (len(self._open) == 1 and run.run_id in self._open)
        pending = () if alone else self._pending_elsewhere(run.run_id)
        return RunView(
            run,
            before.messages,
            before.digest,
            pending,
            ledger,
            accounts,
            self.runs,
            session_spent=spent,
            kept=kept,
        )

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


def state_of(session: SessionState | RunView, run: RunState) -> dict[str, JsonValue]:
    """Give the state of the session as a run sees it: the keys of its agent that have a value.

    A key without one has its default. Nothing that another run writes meanwhile is in it.
    """
    header = run.header
    if not header.state_keys:
        return {}
    found = session.kept if isinstance(session, RunView) else session.kept_before(run)
    return seen(header.state_keys, present(over(found, run.writes)))


_NOTHING: Final = Ledger()


def shape_of(view: RunView) -> RunShape:
    """Give what a run has that decides what its agent may call in it."""
    run = view.run
    above, parent = 0, run.header.parent_run_id
    while parent is not None and (caller := view.runs.get(parent)) is not None:
        above += caller.flow is None
        parent = caller.header.parent_run_id
    return RunShape(run.has_offloaded, run.has_image, above)


def own_ledger(run: RunState) -> Ledger:
    """Give what a run consumed itself."""
    return Ledger(run.spent, run.flow.started if run.flow else 0)


def ahead(before: RunState, run: RunState) -> Ledger:
    """Give what a run consumed itself since it was `before`."""
    spent = _NOTHING.spent if run.spent is before.spent else run.spent.since(before.spent)
    return Ledger(spent, own_ledger(run).steps - own_ledger(before).steps)


def is_held(run: RunState, runs: Mapping[RunId, RunState], now: datetime) -> bool:
    """Whether a run that another one opened can only advance once a human answers, in time."""
    if run.outcome is not None:
        return False
    flow = run.flow
    if flow is None:
        unsettled = [call for call in run.table if not call.is_settled]
        return bool(unsettled) and all(_waits(call, runs, now) for call in unsettled)
    if any(line.stage == "split" and flow.can_meet(line) for line in flow.lines.values()):
        return False
    calls = [
        run.call(flow.next_call(line)[0] if line.stage == "due" else line.call_id)
        for line in flow.active()
    ]
    return bool(calls) and all(call is not None and _waits(call, runs, now) for call in calls)


def _waits(call: Call, runs: Mapping[RunId, RunState], now: datetime) -> bool:
    if call.open_inquiries:
        return True
    if call.awaits_answer:
        limit = call.question.expire_at if call.question else None
        return limit is None or now < limit
    child = runs.get(call.child_run_id) if call.child_run_id and not call.is_settled else None
    return child is not None and is_held(child, runs, now)
