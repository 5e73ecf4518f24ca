"""How two runs differ: where they part, what their states end as, what they cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from loom_ia.core.events.envelope import Event
from loom_ia.graph.codec import Codec
from loom_ia.graph.shown import fold, shown_event
from loom_ia.graph.types import MISSING, GraphEvent

_IGNORED = frozenset({"run.claimed"})
_OWN = frozenset(
    {"latency_ms", "question", "lease_until", "worker_id", "call_id", "child_run_id", "facts"}
)


def diff_runs(one: Sequence[GraphEvent], other: Sequence[GraphEvent]) -> dict[str, Any]:
    """Compare the events of two runs of one graph.

    `first_divergence` has the two first events that are not the same fact, None when there is none;
    `state` maps each key whose last value differs to the pair of values, `MISSING` for none;
    `steps` has how many steps each completed. Times, ids and leases are no difference.
    """
    left, right = _facts(one), _facts(other)
    parted = next(
        ((a, b) for (a, fa), (b, fb) in zip(left, right, strict=False) if fa != fb),
        None,
    )
    if parted is None and len(left) != len(right):
        shorter = min(len(left), len(right))
        parted = (
            left[shorter][0] if shorter < len(left) else None,
            right[shorter][0] if shorter < len(right) else None,
        )
    return {
        "first_divergence": parted,
        "state": _state_difference(fold(one), fold(other)),
        "steps": (_steps(one), _steps(other)),
    }


def difference(one: Sequence[Event], other: Sequence[Event], codec: Codec) -> dict[str, Any]:
    """Compare the stored events of two runs; see `diff_runs`."""
    left = [shown_event(event, codec) for event in one]
    right = [shown_event(event, codec) for event in other]
    return diff_runs(left, right)


def _facts(events: Sequence[GraphEvent]) -> list[tuple[GraphEvent, Any]]:
    return [
        (event, (event.type, event.step, _comparable(event.payload)))
        for event in events
        if event.type not in _IGNORED
    ]


def _comparable(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in _OWN}


def _state_difference(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    keys = {**one, **other}
    return {
        key: (one.get(key, MISSING), other.get(key, MISSING))
        for key in keys
        if one.get(key, MISSING) != other.get(key, MISSING)
    }


def _steps(events: Sequence[GraphEvent]) -> int:
    return sum(1 for event in events if event.type == "tool.completed")
