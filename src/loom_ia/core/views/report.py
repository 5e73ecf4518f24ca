"""What was consumed, by run, by role and by model: a fold of the answers of models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import fold
from loom_ia.core.events.model import ModelResponded, ModelRetried, is_unpriced
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.model.base import Value
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.run import RunState, Status
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.budget import BudgetUse, session_uses

Period: TypeAlias = Literal["day", "month"]

JUDGES: Final = "judge:"
"""What the role of a judge begins with; it looks at what a run, or a role, gives."""


class Consumption(Value):
    """Calls of models, their tokens, and their cost in dollars.

    `failed_attempts` gave no answer: they are no calls, but what they consumed counts.
    `unpriced_calls` are those of a provider whose prices are not known: they add nothing to the
    cost, which is then not the whole.
    """

    calls: int = 0
    failed_attempts: int = 0
    unpriced_calls: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0


class RunConsumption(Consumption):
    """What one run consumed by itself and in its roles; `depth` counts from 0, the run asked for.

    A report on a period reads the answers of models alone: it knows neither depth nor status.
    """

    run_id: RunId
    session_id: SessionId
    agent: str
    depth: int | None = None
    status: Status | None = None


class SessionConsumption(Consumption):
    """What the runs of one session consumed."""

    session_id: SessionId


class RoleConsumption(Consumption):
    """What one role consumed; the orchestrator is `main`."""

    name: str


class ModelConsumption(Consumption):
    """What one model consumed: `name` in the configuration, `model_id` at the provider."""

    name: str
    model_id: str


class UsageReport(Value):
    """Consumption of a run and those below it, of a whole session, or of a period.

    For a session `run_id` is None; for a period both ids are, and `since` and `until` bound it.
    `budget` has the limits that stop the run, or those of the session, and what was spent of each.
    """

    session_id: SessionId | None = None
    run_id: RunId | None = None
    since: datetime | None = None
    until: datetime | None = None
    total: Consumption
    runs: tuple[RunConsumption, ...]
    sessions: tuple[SessionConsumption, ...]
    roles: tuple[RoleConsumption, ...]
    models: tuple[ModelConsumption, ...]
    budget: tuple[BudgetUse, ...] = ()


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    failed: int = 0
    unpriced: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0

    def add(self, payload: ModelResponded | ModelRetried) -> None:
        if isinstance(payload, ModelResponded):
            self.calls += 1
        else:
            self.failed += 1
        if payload.usage is not None:
            self.usage += payload.usage
            self.unpriced += is_unpriced(payload.provider, payload.prices)
        self.cost += payload.cost_usd

    def fields(self, **more: object) -> dict[str, object]:
        # Sums of exact prices carry the noise of binary fractions: twelve decimals are exact.
        cost = round(self.cost, 12)
        return {
            "calls": self.calls,
            "failed_attempts": self.failed,
            "unpriced_calls": self.unpriced,
            "usage": self.usage,
            "cost_usd": cost,
            **more,
        }


@dataclass(slots=True)
class _Account:
    """What one run consumed, and since when."""

    session_id: SessionId
    agent: str
    since: datetime
    spent: _Sum = field(default_factory=_Sum)


class Ledger:
    """Adds up answers of models, one by one, in whatever order they come.

    Runs are listed in the order of their beginning, or of their first answer if that is all that
    is known.
    """

    def __init__(self) -> None:
        self._total = _Sum()
        self._runs: dict[RunId, _Account] = {}
        self._sessions: dict[SessionId, _Sum] = {}
        self._roles: dict[str, _Sum] = {}
        self._models: dict[tuple[str, str], _Sum] = {}
        self._of_roles: set[RunId] = set()

    def open(self, run: RunState) -> None:
        """List a run, whatever it consumes; that of a role is a part of its caller's."""
        header = run.header
        if header.role:
            self._of_roles.add(run.run_id)
            return
        self._runs[run.run_id] = _Account(header.session_id, header.agent, header.started_at)

    def add(self, event: Event) -> None:
        """Count an event, if it is an answer of a model or an attempt to get one."""
        payload = event.payload
        if not isinstance(payload, ModelResponded | ModelRetried):
            return
        self._total.add(payload)
        run_id = self._paying(event)
        account = self._runs.get(run_id)
        if account is None:
            account = _Account(event.session_id, event.agent, event.ts)
            self._runs[run_id] = account
        account.since = min(account.since, event.ts)
        account.spent.add(payload)
        self._sessions.setdefault(event.session_id, _Sum()).add(payload)
        self._roles.setdefault(event.role or "main", _Sum()).add(payload)
        self._models.setdefault((payload.model, payload.model_id), _Sum()).add(payload)

    def _paying(self, event: Event) -> RunId:
        """Give the run that pays: the caller's for a role, whose run is named after its call."""
        role = event.role or "main"
        if role != "main" and not role.startswith(JUDGES):
            self._of_roles.add(event.run_id)
        return event.run_id.rpartition("/")[0] if event.run_id in self._of_roles else event.run_id

    def report(
        self,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        states: Mapping[RunId, RunState] | None = None,
        budget: tuple[BudgetUse, ...] = (),
    ) -> UsageReport:
        """Give what was counted; `states` tells what the runs became, `budget` what bound them."""
        known = states or {}
        runs = sorted(self._runs.items(), key=lambda listed: (listed[1].since, listed[0]))
        return UsageReport(
            session_id=session_id,
            run_id=run_id,
            since=since,
            until=until,
            total=Consumption.model_validate(self._total.fields()),
            runs=tuple(
                RunConsumption.model_validate(
                    account.spent.fields(
                        run_id=run,
                        session_id=account.session_id,
                        agent=account.agent,
                        depth=known[run].header.depth if run in known else None,
                        status=known[run].status if run in known else None,
                    )
                )
                for run, account in runs
            ),
            sessions=tuple(
                SessionConsumption.model_validate(spent.fields(session_id=name))
                for name, spent in self._sessions.items()
            ),
            roles=tuple(
                RoleConsumption.model_validate(spent.fields(name=name))
                for name, spent in self._roles.items()
            ),
            models=tuple(
                ModelConsumption.model_validate(spent.fields(name=name, model_id=model_id))
                for (name, model_id), spent in self._models.items()
            ),
            budget=budget,
        )


def usage_report(
    events: Iterable[Event],
    session_id: SessionId,
    run_id: RunId | None = None,
    *,
    budget: tuple[BudgetUse, ...] = (),
) -> UsageReport:
    """Report on the events of a session, or of one run and those below it, bound by `budget`."""
    events = list(events)
    ledger, runs, session = Ledger(), fold(events), SessionState()
    for run in runs.values():
        ledger.open(run)
        session.put(run)
    if run_id is None:
        budget = session_uses(session)
    for event in events:
        ledger.add(event)
    return ledger.report(session_id, run_id, states=runs, budget=budget)


def bounds(period: Period, now: datetime) -> tuple[datetime, datetime]:
    """Give the beginning of the calendar day or month of `now`, in UTC, and that of the next."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return day, day + timedelta(days=1)
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
