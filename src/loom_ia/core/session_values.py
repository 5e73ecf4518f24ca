"""Which values may enter the state of a session, whoever gives them.

Law. Sizes are looked at before schemas, so that a schema only ever reads a short value. What comes
out shares nothing with what came in: nobody can change a fact after it was written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from loom_ia.core.errors import UnstorableValue, text_of
from loom_ia.core.json import JsonValue, canonical, storable, storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.session_state import StateRefusal, StateRules
from loom_ia.core.pointer import NOTHING, Nothing, at
from loom_ia.core.schema import misfit

MOST_REFUSALS: Final = 20
_LONGEST_KEY: Final = 64


@dataclass(frozen=True, slots=True)
class Admitted:
    """What may be written, null for what is erased, and what was refused."""

    values: dict[str, JsonValue]
    refused: tuple[StateRefusal, ...] = ()


def admitted(
    given: Mapping[str, object], rules: StateRules, present: Mapping[str, JsonValue]
) -> Admitted:
    """Sort values by whether they may be written over those that are `present`.

    Each is judged with those that were taken before it, once what is erased has left its place.
    At most 20 refusals are given.
    """
    erased = {name for name, value in given.items() if value is None}
    present = {name: value for name, value in present.items() if name not in erased}
    taken: dict[str, JsonValue] = {}
    refused: list[StateRefusal] = []
    for name, value in given.items():
        judged = _judged(name, value, rules, {**present, **taken})
        if isinstance(judged, StateRefusal):
            if len(refused) < MOST_REFUSALS:
                refused.append(judged)
        else:
            taken[name] = judged[0]
    return Admitted(taken, tuple(refused))


def _judged(
    name: str, value: object, rules: StateRules, present: Mapping[str, JsonValue]
) -> StateRefusal | tuple[JsonValue]:
    key = rules.keys.get(name)
    if key is None:
        return StateRefusal(
            key=_short(name), kind="undeclared", detail=", ".join([*rules.keys][:MOST_REFUSALS])
        )
    if value is None:
        return (None,)
    stored = stored_value(name, value)
    if isinstance(stored, StateRefusal):
        return stored
    size, limit = size_of(stored[0]), rules.max_value_bytes
    if size > limit:
        return StateRefusal(key=name, kind="too_large", detail=f"{size} > {limit}")
    total, limit = size_of({**rules_values(rules, present), name: stored[0]}), rules.max_total_bytes
    if total > limit:
        return StateRefusal(key=name, kind="no_room", detail=f"{total} > {limit}")
    if problem := misfit(stored[0], key.schema):
        return StateRefusal(key=name, kind="misfit", detail=storable_text(problem))
    return stored


def stored_value(name: str, value: object) -> StateRefusal | tuple[JsonValue]:
    """Give a copy of a value as a journal holds it, or why it holds none."""
    try:
        return (storable(value, _short(name))[0],)
    except UnstorableValue as error:
        detail = storable_text(text_of(error))
        return StateRefusal(key=_short(name), kind="unstorable", detail=detail)


def rules_values(rules: StateRules, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Give the values of the declared keys, with the defaults of those that have none."""
    return seen(rules.declared, values)


def seen(
    declared: Mapping[str, JsonValue], values: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Give what is read under declared keys: their values, or else their defaults."""
    read: dict[str, JsonValue] = {}
    for name, default in declared.items():
        value = values.get(name)
        value = default if value is None else value
        if value is not None:
            read[name] = value
    return read


def missing(rules: StateRules, values: Mapping[str, JsonValue]) -> Iterator[StateRefusal]:
    """Tell each required key that has no value, or one that does not fit its schema any more."""
    for name, key in rules.keys.items():
        if not key.required:
            continue
        value = values.get(name)
        if value is None:
            yield StateRefusal(key=name, kind="missing")
        elif problem := misfit(value, key.schema):
            yield StateRefusal(key=name, kind="misfit", detail=storable_text(problem))


def extracted(output: ToolOutput, tool: str, rules: StateRules) -> Admitted:
    """Give what the keys of `rules` take from a result of `tool`; an error gives nothing."""
    values: dict[str, JsonValue] = {}
    refused: list[StateRefusal] = []
    if output.is_error:
        return Admitted(values)
    for name, key in rules.keys.items():
        for source in key.sources:
            if source.tool != tool:
                continue
            if source.path is None:
                values[name] = source.value
                continue
            found = at(output.data, source.path)
            if found is NOTHING or isinstance(found, Nothing):
                if source.on_missing == "refuse":
                    refused.append(StateRefusal(key=name, kind="missing", detail=source.path))
            else:
                values[name] = found
    return Admitted(values, tuple(refused))


def size_of(value: object) -> int:
    """Count the bytes of a value as JSON, as short as JSON can be."""
    return len(canonical(value).encode())


def _short(name: str) -> str:
    short = storable_text(name)
    return short if len(short) <= _LONGEST_KEY else f"{short[:_LONGEST_KEY]}…"
