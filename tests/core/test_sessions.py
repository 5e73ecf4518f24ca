"""What a run reads of those before it: frozen when it begins, always a valid conversation."""

import pytest

from loom_ia.core.decide import CallModel
from loom_ia.core.events import Payload, RunCancelled, RunCompleted, RunFailed
from loom_ia.core.model import Message, ReasoningBlock
from loom_ia.core.state import SessionState
from tests.core.cases import (
    Story,
    answer,
    ask,
    called,
    done,
    fold,
    model_step,
    plan,
    question,
    reread,
    step_over,
    table,
    thought,
    tool,
    tool_step,
)
from tests.core.validity import faults


def over(text: str) -> RunCompleted:
    """Give the end of a run."""
    return RunCompleted(output=Message.text("assistant", text), iterations=1)


def answered(text: str) -> tuple[Payload, ...]:
    """Answer at once, and end the run."""
    return (model_step(), answer(text), step_over(), over(text))


def heard(story: Story) -> list[str]:
    """Give the history of the run that is told, as roles and texts."""
    view = story.session.view(story.run)
    return [f"{message.role}: {message.as_text()}" for message in view.history]


def test_g1_a_run_reads_the_earlier_ones_with_their_calls() -> None:
    """The history has the question, the calls, their results and the answer, in order."""
    story = Story().open("run-1", "how much?")
    story.tell(*table(ask("c1")), tool_step(), called("c1"), done("c1", "42"), step_over(2))
    story.tell(model_step(3), answer(thought("easy"), "42 euros"), step_over(3), over("42 euros"))
    story.open("run-2", "and in dollars?")
    history = story.session.view(story.run).history
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]
    assert history[2].blocks[0].output.text == "42"  # pyright: ignore[reportAttributeAccessIssue]
    assert not [b for m in history for b in m.blocks if isinstance(b, ReasoningBlock)]
    assert faults(history) == []


@pytest.mark.parametrize(
    ("name", "told", "expected"),
    [
        ("completed", answered("hello"), ["user: hi", "assistant: hello"]),
        ("failed", (RunFailed(error_type="timeout", error="", iterations=0),), []),
        ("open", (), []),
        (
            "cancelled at once",
            (RunCancelled(iterations=0),),
            ["user: hi", "assistant: (This run was cancelled.)"],
        ),
        (
            "cancelled after its answer",
            (model_step(), answer("hello"), RunCancelled(iterations=1)),
            ["user: hi", "assistant: hello"],
        ),
        (
            "cancelled before its calls ran",
            (*table(ask("c1")), RunCancelled(iterations=1)),
            ["user: hi", "assistant: ", "tool: ", "assistant: (This run was cancelled.)"],
        ),
        (
            "only reasoning",
            (model_step(), answer(thought("hm")), step_over(), over("")),
            ["user: hi", "assistant: (empty message)"],
        ),
        (
            "only blanks",
            (model_step(), answer("  \n"), step_over(), over("")),
            ["user: hi", "assistant: (empty message)"],
        ),
    ],
)
def test_what_each_end_leaves_to_later_runs(
    name: str, told: tuple[Payload, ...], expected: list[str]
) -> None:
    """Completed and cancelled runs are turns; failed and open ones are not."""
    story = Story().open("run-1", "hi").tell(*told).open("run-2", "next")
    assert heard(story) == expected, name
    assert faults(story.session.view(story.run).history) == []


def test_an_empty_request_leaves_a_valid_turn() -> None:
    """A history begins with the user even when he said nothing."""
    story = Story().open("run-1", " ").tell(*answered("well?")).open("run-2", "hi")
    assert heard(story) == ["user: (empty message)", "assistant: well?"]


def test_pub_22_a_cancelled_run_keeps_the_results_that_are_known() -> None:
    """One call ended, one ran, one never began: a real result and two cancellations."""
    story = Story().open("run-1").tell(*table(ask("a"), ask("b"), ask("c")), tool_step())
    story.tell(called("a"), called("b"), done("a", "sent"), RunCancelled(iterations=1))
    story.open("run-2", "next")
    history = story.session.view(story.run).history
    texts = [b.output.text for b in history[2].blocks if b.type == "tool_result"]
    assert texts == ["sent", *["The run was cancelled before this call ended."] * 2]
    assert faults(history) == []


def test_a_late_fact_changes_the_turn_of_later_runs_only() -> None:
    """Who began before it reads what was known then; the digests tell the two apart."""
    story = Story().open("run-1").tell(*table(ask("a")), tool_step(), called("a"))
    story.tell(RunCancelled(iterations=1)).open("run-2", "next")
    before = story.session.view(story.run)
    story.about("run-1").tell(done("a", "sent")).open("run-3", "then")
    after = story.session.view(story.run)
    again = story.about("run-2").session.view(story.run)
    assert again.history == before.history
    assert after.history[2].blocks[0].output.text == "sent"  # pyright: ignore[reportAttributeAccessIssue]
    assert before.history_digest != after.history_digest
    assert again.history_digest == before.history_digest


def test_a_late_fact_does_not_move_a_turn() -> None:
    """Turns stand in the order in which their runs ended."""
    story = Story().open("run-1", "one").tell(*table(ask("a")), tool_step(), called("a"))
    story.tell(RunCancelled(iterations=1)).open("run-2", "two").tell(*answered("2"))
    story.about("run-1").tell(done("a", "sent")).open("run-3", "three")
    assert [text for text in heard(story) if text.startswith("user")] == ["user: one", "user: two"]


def test_turns_are_frozen_when_a_run_begins() -> None:
    """A run that ends while another is open never enters its conversation."""
    story = Story().open("run-1", "one").open("run-2", "two")
    story.about("run-1").tell(*answered("1"))
    assert heard(story.about("run-2")) == []
    assert heard(story.open("run-3", "three")) == ["user: one", "assistant: 1"]


def test_pub_15_runs_that_overlap_never_mix() -> None:
    """The results of one run stand in its own turn, whatever was written in between."""
    story = Story().open("run-1", "one").open("run-2", "two")
    for run_id in ("run-1", "run-2"):
        story.about(run_id).tell(*table(ask(f"{run_id}-call")), tool_step())
    for run_id in ("run-2", "run-1"):
        story.about(run_id).tell(called(f"{run_id}-call"), done(f"{run_id}-call", run_id))
    for run_id in ("run-1", "run-2"):
        story.about(run_id).tell(step_over(2), model_step(3), answer(run_id), over(run_id))
    history = story.open("run-3").session.view(story.run).history
    assert faults(history) == []
    assert [m.as_text() for m in history if m.role != "tool"] == [
        "one", "", "run-1", "two", "", "run-2"
    ]  # fmt: skip


def test_a_run_below_another_reads_no_history_and_leaves_no_turn() -> None:
    """Only root runs are turns of a conversation."""
    story = Story().open("run-1", "one").tell(*answered("1"))
    story.open("child", "sub", parent_run_id="run-0").tell(*answered("below"))
    assert heard(story) == []
    assert heard(story.open("run-2", "two")) == ["user: one", "assistant: 1"]


def test_pub_07_what_waits_elsewhere_is_told_until_it_is_cancelled() -> None:
    """The model knows of actions that wait in other runs, and of nothing once they fell."""
    agent = plan(tool(approval="always"))
    story = Story().open("run-1").tell(*table(ask("c1")))
    story.tell(question(story, "c1")).open("run-2", "next").tell(model_step())
    move = story.move(agent)
    assert isinstance(move, CallModel)
    assert 'await a human decision: act (c1) {"n": 1}' in move.request.system
    assert move.parts["system"] != agent.part_digests["system"]
    story.about("run-1").tell(RunCancelled(iterations=1))
    story.about("run-2")
    move = story.move(agent)
    assert isinstance(move, CallModel)
    assert move.request.system == agent.system
    assert move.parts["system"] == agent.part_digests["system"]


def test_a_session_read_again_is_the_session_that_was_folded() -> None:
    """Written down and read back, the facts give the same runs and the same histories."""
    story = Story().open("run-1", "one").tell(*table(ask("a")), tool_step(), called("a"))
    story.tell(done("a"), RunCancelled(iterations=1)).open("run-2", "two").tell(*answered("2"))
    story.open("run-3", "three")
    again = fold(SessionState(), reread(story.events))
    assert again.runs == story.session.runs
    assert again.view(again.runs["run-3"]) == story.session.view(story.run)
