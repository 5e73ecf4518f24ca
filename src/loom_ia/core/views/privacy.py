"""What somebody sees who may know what happened, and not what was said.

Law. Content is what users, models and tools said. Each payload names its own fields of that kind;
what is read from them in a view is named here, once. What is left out is told: `redacted`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from loom_ia.core.events.envelope import Event
from loom_ia.core.json import JsonObject
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.base import Value
from loom_ia.core.model.policy import JudgeMark
from loom_ia.core.views.effects import EffectRecord
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.core.views.sessions import SessionFile, StateValue
from loom_ia.core.views.trace import Trace
from loom_ia.core.views.trace_items import (
    Approval,
    AskedCall,
    AttemptItem,
    DecisionItem,
    FailureItem,
    FallbackItem,
    GuardItem,
    ModelItem,
    RepairItem,
    SourceItem,
    StepItem,
    ToolItem,
)

V = TypeVar("V", bound=Value)

CONTENT: Final[Mapping[type[Value], tuple[str, ...]]] = MappingProxyType(
    {
        RunResult: ("text", "output", "error", "data", "state"),
        PendingApproval: ("arguments", "reason", "payload", "answer_schema", "sentence"),
        EffectRecord: ("arguments", "digest"),
        StoredArtifact: ("name",),
        SessionFile: ("name",),
        StateValue: ("value",),
        JudgeMark: ("reason",),
        Trace: ("request", "error"),
        Approval: ("reason", "question"),
        AskedCall: ("arguments", "problem"),
        ModelItem: ("text",),
        AttemptItem: ("error",),
        FallbackItem: ("error",),
        FailureItem: ("error",),
        ToolItem: ("arguments", "result"),
        StepItem: ("error",),
        DecisionItem: ("reason",),
        GuardItem: ("reason",),
        RepairItem: ("text",),
        SourceItem: ("reason",),
    }
)
"""The fields of views that hold content."""


def masked(view: V) -> V:
    """Give a view without its content; `redacted` is set wherever the view has such a field."""
    return cast("V", _masked(view))


def shown(event: Event, *, content: bool = True) -> JsonObject:
    """Give the full form of an event.

    Without `content`, the payload loses those of its fields, and `redacted` in it names the paths
    that carried something.
    """
    full: JsonObject = event.model_dump(mode="json")
    if content:
        return full
    payload = cast("JsonObject", full["payload"])
    removed = [path for path in type(event.payload).CONTENT if _strip(payload, path.split("."))]
    payload["redacted"] = list(removed)
    return full


def _masked(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_masked(item) for item in cast("tuple[object, ...]", value))
    if not isinstance(value, Value):
        return value
    hidden = CONTENT.get(type(value), ())
    changed: dict[str, object] = {}
    for name, field in type(value).model_fields.items():
        held: object = getattr(value, name)
        if name == "redacted":
            changed[name] = True
        elif name in hidden:
            changed[name] = _emptied(field.is_required(), field.get_default, held)
        elif isinstance(held, Value | tuple):
            changed[name] = _masked(cast("object", held))
    return value.model_copy(update=changed) if changed else value


def _emptied(required: bool, default: Any, held: object) -> object:
    """Give what a field of this kind is when it says nothing."""
    if not required:
        return default(call_default_factory=True)
    match held:
        case str():
            return ""
        case dict():
            return {}
        case tuple():
            return ()
        case _:
            return None


def _strip(held: object, path: list[str]) -> bool:
    """Remove what is at `path`, in each item of a list; tells whether there was anything."""
    if isinstance(held, list):
        items = cast("list[object]", held)
        return sum(_strip(item, path) for item in items) > 0
    if not isinstance(held, dict) or path[0] not in held:
        return False
    document = cast("dict[str, object]", held)
    if len(path) > 1:
        return _strip(document[path[0]], path[1:])
    return document.pop(path[0]) not in (None, "", [], {})
