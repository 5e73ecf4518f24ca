"""The values of a session as a fold: what was posed, and what tools wrote.

Law. What a caller poses holds from the first fact of his run on. What tools write in a run holds in
that run at once, and in the session once the run at the top is completed, over whatever was there.
Results of one batch count in the order of their calls, whichever came first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.state.calls import Call


@dataclass(frozen=True, slots=True)
class Kept:
    """A value under a key, and who wrote it: the caller of a run, or a `tool` called in it.

    The value is null where a key was erased.
    """

    value: JsonValue
    run_id: RunId
    tool: str = ""


KeptValues: TypeAlias = Mapping[str, Kept]

NOTHING_KEPT: Final[KeptValues] = MappingProxyType({})


def posed(values: Mapping[str, JsonValue], run_id: RunId) -> KeptValues:
    """Give what the caller of a run writes."""
    return {name: Kept(value, run_id) for name, value in values.items()}


def by_calls(calls: Iterable[Call], run_id: RunId) -> KeptValues:
    """Give what the results of calls write, in the order of the calls."""
    changes: dict[str, Kept] = {}
    for call in calls:
        if call.output is not None and call.output.state:
            for name, value in call.output.state.items():
                changes[name] = Kept(value, run_id, call.name)
    return changes or NOTHING_KEPT


def over(values: KeptValues, changes: KeptValues) -> KeptValues:
    """Write changes over values, erasures included; the very same values when there are none."""
    return {**values, **changes} if changes else values


def present(values: KeptValues) -> dict[str, JsonValue]:
    """Give the values that are there, without what was erased."""
    return {name: kept.value for name, kept in values.items() if kept.value is not None}
