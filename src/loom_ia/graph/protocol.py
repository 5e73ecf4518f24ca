"""The keys by which steps of the Go package speak to its engine, read as what they mean here."""

from collections.abc import Mapping
from typing import Any, Final, cast

from loom_ia.graph.types import Ask

RUN_ID: Final = "__run_id"
_YIELD: Final = "__yield"
_PHASE: Final = "__yield_phase"
_PHASES: Final[Mapping[object, str]] = {"": "mid", "mid_step": "mid", "after_step": "after"}


def understood(given: Any) -> Any:
    """Give the `Ask` that a delta with `__yield` means; anything else as it is."""
    if not isinstance(given, Mapping):
        return given
    delta = dict(cast("Mapping[str, Any]", given))
    delta.pop(RUN_ID, None)
    asks = delta.pop(_YIELD, False)
    phase = delta.pop(_PHASE, "")
    if asks is not True:
        return delta
    if phase not in _PHASES:
        raise ValueError(f"{_PHASE} is {phase!r}: it is 'mid_step' or 'after_step'")
    if _PHASES[phase] == "after":
        return Ask(phase="after", update=delta)
    return Ask(update=delta)


def accepted(given: Any, *, compat: bool) -> tuple[Any, str | None]:
    """Give an input as the state takes it, and the run id that it asks for in compatibility."""
    if not compat or not isinstance(given, Mapping):
        return given, None
    return taken_run_id(cast("Mapping[str, Any]", given))


def taken_run_id(given: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Give an input without its protocol keys, and the run id that it asks for."""
    values = dict(given)
    run_id = values.pop(RUN_ID, None)
    for key in (_YIELD, _PHASE):
        values.pop(key, None)
    return values, run_id if isinstance(run_id, str) and run_id else None
