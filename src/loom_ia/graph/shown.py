"""The events of a journal as users of graphs read them, and the fold that they can do."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from loom_ia.core.events.codec import from_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import begin, gone_back
from loom_ia.core.events.run import RunResumed, SessionSnapshot
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import Change
from loom_ia.core.state.flow import path_of
from loom_ia.core.state.run import GRAPH_FAILURE
from loom_ia.graph.codec import Codec
from loom_ia.graph.results import STOPS
from loom_ia.graph.types import DELETE, GraphEvent, StopReason

_VALUES: Final = ("payload", "answer", "result")


def shown_event(event: Event, codec: Codec) -> GraphEvent:
    """Show an event, the values of the state as Python objects."""
    payload = event.payload.model_dump(mode="json")
    if isinstance(event.payload, SessionSnapshot):
        payload = _snapshot(event, event.payload, codec)
    if "changes" in payload:
        payload["changes"] = [_shown(change, codec) for change in payload["changes"]]
    if "input" in payload:
        payload["input"] = _read(payload["input"], codec)
    for name in _VALUES:
        if name in payload and event.category in ("graph", "approval"):
            payload[name] = codec.from_json(payload[name])
    if event.type == "graph.routed":
        payload["from"] = payload.pop("source", [])
        payload.setdefault("to", [])
        payload["inputs"] = [_read(item, codec) for item in payload.get("inputs", [])]
    if event.type == "approval.requested":
        payload["question"] = event.event_id
    if isinstance(event.payload, RunResumed):
        payload["input"] = given_by(event.payload.changes, codec)
        payload["answers"] = _read(event.payload.answers, codec)
    payload.update(_named(event, payload))
    call_id = payload.get("call_id") or payload.get("subject")
    step = payload.get("tool_name")
    if event.type in _STEPS and isinstance(call_id, str) and "/" in call_id:
        step = call_id.split("/")[-2]
        payload["step"], payload["occurrence"] = step, int(call_id.rpartition("/")[2])
        if event.type in ("tool.called", "tool.completed"):
            payload["kind"] = payload.get("tool_kind", "step")
            payload["attempt"] = payload.get("attempt") or 1
    elif payload.get("step"):
        step = payload["step"]
    return GraphEvent(event.seq, event.type, event.run_id, step, payload)


_STEPS: Final = frozenset(
    {
        "tool.called",
        "tool.completed",
        "effect.recorded",
        "policy.reviewed",
        "approval.requested",
        "approval.granted",
        "approval.rejected",
        "approval.expired",
    }
)


def _named(event: Event, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Give, under the names of the graph library, what the engine names for agents too."""
    match event.type:
        case "tool.completed" if isinstance(event.payload, ToolCompleted):
            return {"error": event.payload.output.text if event.payload.output.is_error else None}
        case "run.started":
            names = {"graph": event.agent, "fingerprint": payload.get("plan", "")}
            return {**names, "parent": payload.get("origin")}
        case "run.claimed":
            return {"driver": payload.get("worker_id")}
        case "run.completed":
            return {"stop": "completed"}
        case "run.cancelled":
            return {"stop": "cancelled"}
        case "run.failed":
            name = str(payload.get("error_type", "")).removeprefix(GRAPH_FAILURE)
            return {"stop": STOPS.get(name, StopReason.ERROR).value}
        case "approval.requested":
            return {"id": event.event_id, "schema": payload.get("answer_schema")}
        case "approval.granted" | "approval.rejected":
            return {"id": payload.get("question", ""), "author": payload.get("by", "")}
        case _:
            return {}


def given_by(changes: Iterable[Change], codec: Codec) -> dict[str, Any]:
    """Give the delta that made these changes; where a merge kept it not, what the merge gave."""
    return {
        change.key: DELETE
        if change.op == "remove"
        else codec.from_json(change.incoming[0] if change.incoming else change.value)
        for change in changes
    }


def _snapshot(event: Event, snapshot: SessionSnapshot, codec: Codec) -> dict[str, Any]:
    first = from_line(snapshot.facts[0], tenant_id=event.tenant_id, session_id=event.session_id)
    source = gone_back(begin(first).header, snapshot)
    flow = source.flow if source else None
    return {"state": _read(flow.main.values if flow else {}, codec)}


def _read(values: Mapping[str, JsonValue], codec: Codec) -> dict[str, Any]:
    return {key: codec.from_json(value) for key, value in values.items()}


def _shown(change: dict[str, Any], codec: Codec) -> dict[str, Any]:
    shown = {"op": change["op"], "key": change["key"]}
    if change["op"] != "remove":
        shown["value"] = codec.from_json(change.get("value"))
    if change.get("incoming"):
        shown["incoming"] = [codec.from_json(item) for item in change["incoming"]]
    return shown


def fold(events: Iterable[GraphEvent]) -> dict[str, Any]:
    """Give the state, after these events, of the run that the first one starts. It is pure.

    Raises `ValueError` when the first event starts no run of a graph.
    """
    folding: _Folding | None = None
    for event in events:
        if folding is None:
            if event.type != "run.started" or event.payload.get("program") != "graph":
                raise ValueError(f"the first event is {event.type}: a fold begins with run.started")
            folding = _Folding(event)
        elif event.run_id == folding.run_id:
            folding.take(event)
    if folding is None:
        raise ValueError("there are no events to fold")
    return folding.state()


class _Folding:
    """The values of each line of one run; only those of the main line are the state."""

    def __init__(self, started: GraphEvent) -> None:
        self.run_id = started.run_id
        self._values: dict[str, dict[str, Any]] = {"": dict(started.payload.get("input") or {})}
        self._into: dict[str, tuple[str, str]] = {}

    def state(self) -> dict[str, Any]:
        """Give the values of the main line."""
        return dict(self._values[""])

    def take(self, event: GraphEvent) -> None:
        """Apply one event."""
        payload = event.payload
        changes = cast("list[dict[str, Any]]", payload.get("changes") or [])
        match event.type:
            case "session.snapshot":
                self._values[""] = dict(payload["state"])
            case "run.resumed":
                for values in self._values.values():
                    _apply(values, changes)
            case "graph.routed" | "policy.reviewed":
                self._apply_to(str(payload.get("line") or ""), changes)
                if event.type == "graph.routed":
                    self._route(payload)
            case "tool.completed" | "approval.requested":
                self._apply_to(path_of(str(payload["call_id"])), changes)
                if payload.get("into"):
                    self._into[str(payload["question"])] = (
                        path_of(str(payload["call_id"])),
                        str(payload["into"]),
                    )
            case "approval.granted" if self._is_put(payload):
                path, key = self._into[str(payload["question"])]
                change = {"op": "set", "key": key, "value": payload.get("answer")}
                self._apply_to(path, [change])
            case _:
                pass

    def _is_put(self, payload: Mapping[str, Any]) -> bool:
        return payload.get("question") in self._into and not payload.get("merged")

    def _apply_to(self, path: str, changes: list[dict[str, Any]]) -> None:
        _apply(self._values.setdefault(path, {}), changes)

    def _route(self, payload: Mapping[str, Any]) -> None:
        path = str(payload.get("line") or "")
        targets = cast("list[str]", payload.get("to") or [])
        source = cast("list[str]", payload.get("from") or [])
        if len(targets) < 2 and not payload.get("inputs") and not payload.get("over"):
            return
        base = self._values.get(path, {})
        for index in range(len(targets)):
            name = f"{source[0]}.{index}" if source else str(index)
            self._values[f"{path}/{name}" if path else name] = dict(base)


def _apply(values: dict[str, Any], changes: list[dict[str, Any]]) -> None:
    for change in changes:
        key, value = str(change["key"]), cast("Any", change.get("value"))
        match change["op"]:
            case "set":
                values[key] = value
            case "append":
                before = values.get(key)
                values[key] = [*before, *value] if isinstance(before, list) else list(value)
            case "add":
                values[key] = values[key] + value if key in values else value
            case _:
                values.pop(key, None)
