"""What was consumed, by run, by role and by model: a fold of the answers of models."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import fold
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.model.base import Value
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.run import Status


class Consumption(Value):
    """Calls of models, their tokens, and their cost in dollars."""

    calls: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0


class RunConsumption(Consumption):
    """What one run consumed by itself; `depth` counts from 0, the run that was asked for."""

    run_id: RunId
    agent: str
    depth: int
    status: Status


class RoleConsumption(Consumption):
    """What one role consumed; the orchestrator is `main`."""

    name: str


class ModelConsumption(Consumption):
    """What one model consumed: `name` in the configuration, `model_id` at the provider."""

    name: str
    model_id: str


class UsageReport(Value):
    """Consumption of a run and those below it, or of a whole session (`run_id` is None)."""

    session_id: SessionId
    run_id: RunId | None = None
    total: Consumption
    runs: tuple[RunConsumption, ...]
    roles: tuple[RoleConsumption, ...]
    models: tuple[ModelConsumption, ...]


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0

    def add(self, payload: ModelResponded) -> None:
        self.calls += 1
        self.usage += payload.usage
        self.cost += payload.cost_usd

    def fields(self) -> dict[str, object]:
        # Sums of exact prices carry the noise of binary fractions: twelve decimals are exact.
        return {"calls": self.calls, "usage": self.usage, "cost_usd": round(self.cost, 12)}


def usage_report(
    events: Iterable[Event], session_id: SessionId, run_id: RunId | None = None
) -> UsageReport:
    """Report on the events of a session, or of one run and those below it."""
    events = list(events)
    runs, total = fold(events), _Sum()
    by_run: dict[RunId, _Sum] = {run: _Sum() for run in runs}
    by_role: dict[str, _Sum] = {}
    by_model: dict[tuple[str, str], _Sum] = {}
    for event in events:
        payload = event.payload
        if not isinstance(payload, ModelResponded):
            continue
        total.add(payload)
        by_run[event.run_id].add(payload)
        by_role.setdefault(event.role or "main", _Sum()).add(payload)
        by_model.setdefault((payload.model, payload.model_id), _Sum()).add(payload)
    return UsageReport(
        session_id=session_id,
        run_id=run_id,
        total=Consumption.model_validate(total.fields()),
        runs=tuple(
            RunConsumption.model_validate(
                {
                    **by_run[run.run_id].fields(),
                    "run_id": run.run_id,
                    "agent": run.header.agent,
                    "depth": run.header.depth,
                    "status": run.status,
                }
            )
            for run in runs.values()
        ),
        roles=tuple(
            RoleConsumption.model_validate({**spent.fields(), "name": name})
            for name, spent in by_role.items()
        ),
        models=tuple(
            ModelConsumption.model_validate({**spent.fields(), "name": name, "model_id": model_id})
            for (name, model_id), spent in by_model.items()
        ),
    )
