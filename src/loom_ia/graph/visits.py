"""What a run visited, for its picture."""

from typing import Any

from loom_ia.core.state.run import RunState
from loom_ia.graph.topology import StepVisit, Visits
from loom_ia.graph.types import END


def visits_of(run: RunState) -> Visits | None:
    """Give the steps and edges that a run took, how often and for how long."""
    flow = run.flow
    if flow is None:
        return None
    counts: dict[str, int] = {}
    for place, count in flow.occurrences.items():
        step = place.rpartition("/")[2]
        counts[step] = counts.get(step, 0) + count
    failed = {call.name for call in run.table if call.failure is not None}
    paused = frozenset(call.name for call in run.table if call.awaits_answer or _is_open(call, run))
    steps = {
        step: StepVisit(count, flow.milliseconds.get(step, 0) / 1000, step in failed)
        for step, count in counts.items()
    }
    edges: dict[tuple[str, Any], int] = {
        (source, target or END): count for (source, target), count in flow.edges.items()
    }
    return Visits(steps, edges, paused)


def _is_open(call: Any, run: RunState) -> bool:
    return bool(call.child_run_id) and call.output is None and run.outcome is None
