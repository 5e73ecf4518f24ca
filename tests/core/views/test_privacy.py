"""What is hidden from a reader who may know what happened, and not what was said."""

import typing
from collections.abc import Iterator

import pytest

from loom_ia.core.events import CATALOGUE, Event, RunStarted, UserMessage
from loom_ia.core.events.policy import JudgeEvaluated
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMark
from loom_ia.core.state.run import Status
from loom_ia.core.views.privacy import CONTENT, masked, shown
from loom_ia.core.views.report import UsageReport
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.core.views.sessions import RunPage, SessionFile, SessionInfo, StateValue
from loom_ia.core.views.trace import Trace
from tests.builders import placed

VIEWS = (RunResult, SessionInfo, SessionFile, RunPage, StateValue, Trace, UsageReport)
HARMLESS = {
    "agent",
    "by",
    "call_id",
    "cancelled_by",
    "changed",
    "child_run_id",
    "digest",
    "error_type",
    "file",
    "from_model",
    "judge",
    "key",
    "label",
    "limit",
    "media_type",
    "model",
    "model_id",
    "name",
    "parent_run_id",
    "policy",
    "role",
    "run_id",
    "session_id",
    "slot",
    "source",
    "target",
    "to",
    "to_model",
    "tool",
    "tool_name",
    "uri",
}
"""Names, ids, kinds and digests: what the configuration or the engine says."""


def fields(kind: type[Value], known: set[type[Value]]) -> Iterator[tuple[type[Value], str]]:
    """Find the fields that are text or any JSON, and not hidden, in a view and those inside it."""
    if kind in known:
        return
    known.add(kind)
    kind.model_rebuild()
    for name, field in kind.model_fields.items():
        if name in CONTENT.get(kind, ()):
            continue
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, Value):
                yield from fields(part, known)
            elif part in {str, dict} or "Json" in repr(part):
                yield kind, name


def _parts(annotation: object) -> Iterator[object]:
    yield typing.get_origin(annotation) or annotation
    for argument in typing.get_args(annotation):
        yield from _parts(argument)


def payload_of(event: Event, *, content: bool = False) -> JsonObject:
    """Give the payload of an event as it is shown."""
    payload = shown(event, content=content)["payload"]
    assert isinstance(payload, dict)
    return payload


@pytest.mark.parametrize("view", VIEWS)
def test_every_text_of_a_view_is_hidden_or_known_to_be_harmless(view: type[Value]) -> None:
    """A field that is added must be named in one of the two lists."""
    for kind, name in fields(view, set()):
        assert name in HARMLESS, f"{kind.__name__}.{name}"


def test_what_is_named_is_a_field() -> None:
    """No table names what is not there, so that a field that is renamed is still hidden."""
    for kind, names in CONTENT.items():
        assert set(names) <= set(kind.model_fields), kind
    for payload in CATALOGUE.values():
        for path in payload.CONTENT:
            assert path.partition(".")[0] in payload.model_fields, payload


def test_a_view_is_masked_all_the_way_down() -> None:
    """What waits inside a result loses its content, and the result says that it did."""
    result = RunResult(
        run_id="r",
        session_id="s",
        agent="a",
        status=Status.PAUSED,
        text="mot",
        output=Message.text("assistant", "mot"),
        error="mot",
        data={"mot": 1},
        state={"mot": 1},
        pending_approvals=(
            PendingApproval(
                run_id="r", call_id="c", tool_name="t", arguments={"a": "mot"}, reason="mot"
            ),
        ),
    )
    hidden = masked(result)
    assert hidden.redacted
    assert "mot" not in hidden.model_dump_json()
    assert hidden.pending_approvals[0].tool_name == "t"
    assert result.text == "mot"
    assert not result.redacted


def test_an_event_loses_its_content_and_tells_which() -> None:
    """Only what carried something is listed, inside lists and objects too."""
    mark = JudgeMark(name="ton", score=0.9, min_score=0.5, reason="mot")
    said, started, judged = placed(
        [
            UserMessage(message=Message.text("user", "mot")),
            RunStarted(plan="p", context=CallerContext(user_id="ana", metadata={"k": "mot"})),
            JudgeEvaluated(
                judge="j",
                policy="p",
                model="M",
                model_id="m",
                criteria=(mark,),
                passed=True,
                blocked=False,
            ),
        ]
    )
    for event, removed in [
        (said, ["message"]),
        (started, ["context.metadata"]),
        (judged, ["criteria.reason"]),
    ]:
        full = shown(event, content=False)
        assert "mot" not in str(full)
        assert payload_of(event)["redacted"] == removed
        assert "redacted" not in payload_of(event, content=True)
    assert payload_of(started)["context"] == {"user_id": "ana"}
    (bare,) = placed([RunStarted(plan="p")])
    assert payload_of(bare)["redacted"] == []
