"""The tree of a run, from nothing but its events."""

import re
from datetime import timedelta

import pytest

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Event,
    ModelResponded,
    Payload,
    RunCancelled,
    RunFailed,
    RunStarted,
    SourceOpened,
    SourceUnavailable,
    StepCompleted,
    StepStarted,
    ToolCalled,
    ToolCompleted,
    ToolWithheld,
)
from loom_ia.core.model import Message, Usage
from loom_ia.core.model.content import TextBlock, ToolCallBlock, ToolOutput
from loom_ia.core.model.tooling import arguments_digest
from loom_ia.core.views.trace import Trace, TraceReader, trace_of
from loom_ia.core.views.trace_items import ModelItem, SourceItem, ToolItem
from loom_ia.core.views.trace_text import trace_lines
from tests.builders import DAWN, placed, said

DIGEST = arguments_digest("send", {"to": "x"})
ASKED = ApprovalRequested(call_id="c1", tool_name="send", arguments={"to": "x"}, digest=DIGEST)
CALLED = ToolCalled(call_id="c1", tool_name="send", arguments={"to": "x"})
DONE = ToolCompleted(
    call_id="c1", tool_name="send", output=ToolOutput.of_text("sent"), latency_ms=7
)


def _answer(text: str = "", *calls: str) -> ModelResponded:
    blocks = [ToolCallBlock(call_id=c, name="send", arguments={"to": "x"}) for c in calls]
    first = [TextBlock(text=text)] if text or not calls else []
    return ModelResponded(
        model="M",
        model_id="fake-1",
        message=Message(role="assistant", blocks=(*first, *blocks)),
        usage=Usage(input_tokens=10, output_tokens=3),
        cost_usd=0.5,
        stop_reason="tool_use" if calls else "end",
        latency_ms=4,
        request_hash="h",
        request_parts={},
    )


ASKING: tuple[Payload, ...] = (
    RunStarted(),
    said("please"),
    StepStarted(step_no=1, effect="model_call"),
    _answer("I send it.", "c1"),
    StepCompleted(step_no=1, duration_ms=5),
)


def _tree(*more: Payload) -> Trace:
    return trace_of(placed([*ASKING, *more], role="main"))


def _tool(tree: Trace, step: int) -> ToolItem:
    (item,) = tree.steps[step].items
    assert isinstance(item, ToolItem)
    return item


def test_steps_hold_what_happened_in_them() -> None:
    """A model's answer and a call stand in their steps, with figures, texts and totals."""
    tree = _tree(StepStarted(step_no=2, effect="tool_batch"), CALLED, DONE)
    (model,) = tree.steps[0].items
    assert isinstance(model, ModelItem)
    assert (model.model_id, model.role, model.latency_ms, model.text) == (
        "fake-1",
        "main",
        4,
        "I send it.",
    )
    assert [(call.name, call.arguments) for call in model.calls] == [("send", {"to": "x"})]
    tool = _tool(tree, 1)
    assert (tool.latency_ms, tool.outcome, tool.result, tool.launched) == (7, "ok", "sent", True)
    assert (tree.request, tree.cost_usd, tree.usage.total_tokens) == ("please", 0.5, 13)
    assert tree.duration_ms == timedelta(seconds=7) / timedelta(milliseconds=1)
    assert [step.duration_ms for step in tree.steps] == [5, None]


def test_a_call_whose_end_is_not_known_has_no_outcome() -> None:
    """A call that was launched and never came back is shown as such."""
    tree = _tree(StepStarted(step_no=2, effect="tool_batch"), CALLED)
    assert (_tool(tree, 1).outcome, _tool(tree, 1).latency_ms) == (None, None)


def test_a_call_launched_again_is_two_items() -> None:
    """The first launch keeps its place without an end; the second is marked and has the result."""
    tree = _tree(
        StepStarted(step_no=2, effect="tool_batch"),
        CALLED,
        StepStarted(step_no=3, effect="tool_batch"),
        CALLED.model_copy(update={"resumed": True}),
        DONE,
    )
    assert (_tool(tree, 1).outcome, _tool(tree, 1).resumed) == (None, False)
    assert (_tool(tree, 2).outcome, _tool(tree, 2).resumed) == ("ok", True)


def test_each_approval_stands_under_the_launch_that_it_led_to() -> None:
    """A call that was asked about again shows the first answer first and the second one second."""
    again = ASKED.model_copy(update={"kind": "unknown_effect"})
    first = ApprovalGranted(
        call_id="c1", tool_name="send", digest=DIGEST, by="cli:a", arguments=None
    )
    second = first.model_copy(update={"by": "cli:b"})
    before: tuple[Payload, ...] = (ASKED, first, StepStarted(step_no=2, effect="tool_batch"))
    waiting = _tree(*before, CALLED, again)
    assert [a.verdict for a in _tool(waiting, 1).approvals] == ["granted", None]
    step = StepStarted(step_no=3, effect="tool_batch")
    tree = _tree(*before, CALLED, again, second, step, CALLED, DONE)
    assert [[a.by for a in _tool(tree, place).approvals] for place in (1, 2)] == [
        ["cli:a"],
        ["cli:b"],
    ]


def test_the_faults_of_a_call_are_told_apart() -> None:
    """Lines of an error that are put on one are parted by semicolons; `full` keeps them."""
    output = ToolOutput.of_error("Wrong:\nht — missing\ntva — not a number")
    tree = _tree(ToolCompleted(call_id="c1", tool_name="send", output=output))
    assert "Wrong: ht — missing; tva — not a number" in str(tree)
    full = "\n".join(line.text for line in trace_lines(tree, full=True))
    assert re.search(r"Wrong:\n +ht — missing\n +tva", full)


def test_a_pause_shows_what_waits() -> None:
    """An open request is pending, with what the human is shown of it."""
    tree = _tree(ASKED)
    assert tree.status == "paused"
    assert [(p.call_id, p.arguments) for p in tree.pending] == [("c1", {"to": "x"})]


def test_a_granted_call_tells_who_granted_it() -> None:
    """The approval stands on the call, with its author and whether arguments were edited."""
    granted = ApprovalGranted(
        call_id="c1", tool_name="send", digest=DIGEST, by="cli:z", arguments={"to": "y"}
    )
    tree = _tree(ASKED, granted, StepStarted(step_no=2, effect="tool_batch"), CALLED, DONE)
    (approval,) = _tool(tree, 1).approvals
    assert (approval.verdict, approval.by, approval.edited) == ("granted", "cli:z", True)
    assert approval.requested_at < (approval.decided_at or DAWN)
    assert tree.pending == ()


@pytest.mark.parametrize(
    ("decision", "verdict"),
    [
        (ApprovalRejected(call_id="c1", tool_name="send", by="cli:z", reason="no"), "rejected"),
        (
            ApprovalExpired(call_id="c1", tool_name="send", action="deny", expire_at=DAWN),
            "expired",
        ),
    ],
)
def test_a_call_that_was_never_launched_is_an_orphan(decision: Payload, verdict: str) -> None:
    """A refused or expired call has a result, no launch and no latency."""
    refused = ToolCompleted(call_id="c1", tool_name="send", output=ToolOutput.of_error("refused"))
    tree = _tree(ASKED, decision, refused)
    (orphan,) = tree.orphans
    assert (orphan.launched, orphan.latency_ms, orphan.outcome) == (False, None, "error")
    assert [approval.verdict for approval in orphan.approvals] == [verdict]


def test_an_unknown_effect_is_told() -> None:
    """A call whose effect nobody saw is neither a success nor an error."""
    unknown = DONE.model_copy(update={"outcome": "unknown"})
    tree = _tree(StepStarted(step_no=2, effect="tool_batch"), CALLED, unknown)
    assert _tool(tree, 1).outcome == "unknown"


def test_how_the_run_ended_is_told() -> None:
    """A failure has its kind and text, a cancellation its author."""
    failed = _tree(RunFailed(error_type="timeout", error="too long", iterations=1))
    assert (failed.status, failed.error_type, failed.error) == ("failed", "timeout", "too long")
    assert _tree(RunCancelled(by="cli:z", iterations=1)).cancelled_by == "cli:z"


def test_other_runs_are_left_out() -> None:
    """Events of another run of the session change nothing; without a run there is no tree."""
    events: list[Event] = placed(list(ASKING), role="main")
    other = placed([RunStarted(), said("other")], after=len(events), run_id="run-2")
    assert trace_of([*events, *other]) == trace_of(events)
    with pytest.raises(ValueError, match="no run begins"):
        trace_of(events[1:])


def test_the_tree_is_plain_json() -> None:
    """The tree survives its JSON form."""
    tree = _tree(StepStarted(step_no=2, effect="tool_batch"), CALLED, DONE)
    assert Trace.model_validate_json(tree.model_dump_json()) == tree


def test_a_trace_is_text_in_english() -> None:
    """`str` writes the tree: what waits is told without a command, long texts are cut."""
    text = " " * 5000 + "first  line\nsecond " + "word " * 100
    said = str(trace_of(placed([*ASKING[:3], _answer(text, "c1"), ASKED], role="main")))
    lines = said.splitlines()
    assert lines[0] == "run clerk — paused, 4.0 s, $0.500000"
    assert lines[2] == "    model fake-1 (main) — 4 ms, 10 → 3 tokens, $0.500000"
    assert lines[3].startswith("      · answers   : first line second word word")
    assert len(lines[3]) < 230
    assert lines[3].endswith("…")
    assert lines[4] == '      · calls     : send({"to": "x"})'
    assert lines[-1] == "  waits for a human: send (c1)"


def test_a_tree_that_grows_is_the_tree_at_each_moment() -> None:
    """Reading one event after the other gives, each time, the tree of those read so far."""
    events = placed([*ASKING, StepStarted(step_no=2, effect="tool_batch"), CALLED, DONE])
    reader = TraceReader()
    for count, event in enumerate(events, 1):
        reader.read(event)
        assert reader.trace() == trace_of(events[:count])


def test_what_a_source_could_not_give_is_told() -> None:
    """Before the first step, or in the one where it is found; a source that opens needs no line."""
    trace = trace_of(
        placed(
            [
                RunStarted(),
                said("please"),
                SourceOpened(source="math", digest="d", tools=("math__add",)),
                SourceUnavailable(source="crm", error="no route\nto host"),
                ToolWithheld(source="math", tool="mul", reason="no schema"),
                StepStarted(step_no=1, effect="model_call"),
                _answer("Done."),
            ]
        )
    )
    lines = [line.text.strip() for line in trace_lines(trace)]
    assert "the source crm cannot be reached: no route" in "\n".join(lines)
    assert "the tool mul of math is not offered: no schema" in lines
    assert not any("math__add" in line for line in lines)
    items = [item for step in trace.steps for item in step.items if isinstance(item, SourceItem)]
    assert [(item.source, item.tool) for item in items] == [("crm", ""), ("math", "mul")]
