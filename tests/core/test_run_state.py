"""What a run is after its facts, and that a fact that no longer applies changes nothing."""

from datetime import timedelta

import pytest

from loom_ia.core.events import (
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    ToolCompleted,
)
from loom_ia.core.model import Message, ToolCallBlock, ToolOutput, Usage
from loom_ia.core.state import Conversation, Granted, RunState, Status
from loom_ia.core.state.conversation import chain
from loom_ia.core.state.rulings import result_replaced, to_repair
from tests.core.cases import (
    LEASE,
    Story,
    answer,
    ask,
    called,
    done,
    model_step,
    no,
    question,
    said,
    step_over,
    table,
    tool_step,
    yes,
)


def results(run: RunState) -> list[tuple[str, str]]:
    """Give the results that the model read last, by call."""
    message = run.conversation.messages[-1]
    return [(b.call_id, b.output.text) for b in message.blocks if b.type == "tool_result"]


def from_scratch(conversation: Conversation) -> tuple[str, ...]:
    """Compute the digests of a conversation again, from its messages alone."""
    digests: list[str] = []
    for message in conversation.messages:
        digests.append(chain(digests[-1] if digests else "", message))
    return tuple(digests)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_a8_results_are_read_in_call_order(order: tuple[str, ...]) -> None:
    """Whichever call ends first, the model reads the results as it asked for them."""
    story = Story().open().tell(*table(ask("a"), ask("b"), ask("c")), tool_step())
    story.tell(*(called(i) for i in "abc"), *(done(i, f"result {i}") for i in order))
    story.tell(step_over(2), model_step(3))
    assert results(story.run) == [(i, f"result {i}") for i in "abc"]
    assert story.run.table == ()


def test_the_model_reads_a_marker_in_place_of_nothing() -> None:
    """A result without content is told, so that no request has an empty block."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"))
    story.tell(done("a", ""), step_over(2), model_step(3))
    assert results(story.run) == [("a", "(no result)")]


def test_edits_rewrite_what_the_model_reads_of_its_own_call() -> None:
    """The conversation has the arguments that ran, a note says so, and digests follow."""
    story = Story().open().tell(*table(ask("a"), ask("b")))
    before = story.run.conversation
    story.tell(question(story, "a"), yes("a", edited={"n": 7, "to": "ada"}), tool_step())
    after = story.run.conversation
    assert [(c.call_id, c.arguments) for c in after.messages[-1].calls] == [
        ("a", {"n": 7, "to": "ada"}),
        ("b", {"n": 1}),
    ]
    assert after.digests[:-1] == before.digests[:-1]
    assert after.digest != before.digest
    assert after.digests == from_scratch(after)
    story.tell(called("a"), called("b"), done("a"), done("b"), step_over(2), model_step(3))
    note = "Note: a human changed n, to before this call was made."
    assert results(story.run) == [("a", f"ok\n{note}"), ("b", "ok")]
    assert story.run.conversation.digests == from_scratch(story.run.conversation)


def test_edits_in_the_middle_of_a_conversation_recompute_what_follows() -> None:
    """The digests after a rewritten message are those of a conversation that was always so."""
    calls = [ToolCallBlock(call_id="a", name="act", arguments={"n": 1})]
    said_so = Conversation().add(Message.text("user", "go"))
    said_so = said_so.add(Message(role="assistant", blocks=tuple(calls)))
    longer = said_so.add(Message.text("user", "well?")).with_arguments("a", {"n": 2})
    assert longer.digests == from_scratch(longer)
    assert longer.messages[1].calls[0].arguments == {"n": 2}
    assert said_so.with_arguments("nobody", {}) is said_so


def test_the_latest_call_of_an_id_is_the_one_that_is_edited() -> None:
    """A model that uses an id twice has its last call rewritten, not its first."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"), done("a"), step_over(2))
    story.tell(model_step(3), answer(ask("a", arguments={"n": 2})), step_over(3))
    story.tell(question(story, "a", arguments={"n": 2}), yes("a", shown={"n": 2}, edited={"n": 3}))
    read = [m.calls[0].arguments for m in story.run.conversation.messages if m.calls]
    assert read == [{"n": 1}, {"n": 3}]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("a result of a call that is not there", [done("z")]),
        ("a second result", [done("a", "again")]),
        ("a launch of a call that is not there", [called("z")]),
        ("a yes without a question", [yes("b")]),
        ("a no without a question", [no("b")]),
        ("a yes to other bytes", [yes("c", shown={"n": 2})]),
        ("the beginning, again", [RunStarted()]),
        ("reopening an open run", [RunResumed()]),
    ],
)
def test_a_fact_that_does_not_apply_changes_nothing(name: str, facts: list[Payload]) -> None:
    """Folding is total: what makes no sense any more is passed over."""
    story = Story().open().tell(*table(ask("a"), ask("b"), ask("c")), tool_step(), called("a"))
    story.tell(done("a"), question(story, "c"))
    before = story.run
    story.tell(*facts)
    assert story.run.but(lease=None) == before.but(lease=None), name


@pytest.mark.parametrize("second", [yes("a", edited={"n": 9}), no("a", "late")])
def test_a_second_decision_is_ignored(second: Payload) -> None:
    """The first answer stands, whatever comes after it."""
    story = Story().open().tell(*table(ask("a")))
    story.tell(question(story, "a"), yes("a"))
    before = story.run
    story.tell(second)
    assert story.run == before


def test_a_late_fact_is_kept_and_the_status_stays() -> None:
    """What a call did, learned after the run was closed, is known and changes no outcome."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"))
    story.tell(RunCancelled(by="ada", iterations=1), done("a", "it was sent"))
    assert story.run.status is Status.CANCELLED
    assert story.run.table[0].output == ToolOutput.of_text("it was sent")


def test_the_true_end_replaces_an_unknown_one_and_nothing_else() -> None:
    """A call whose end was unknown takes its late result; a known result stays."""
    story = Story().open().tell(*table(ask("a"), ask("b")), tool_step(), called("a"), called("b"))
    story.tell(done("a", "?", unknown=True), done("a", "sent"), done("a", "sent twice"))
    call = story.run.table[0]
    assert call.output == ToolOutput.of_text("sent")
    assert not call.unknown


def test_the_first_end_of_a_run_stands() -> None:
    """A run that is over does not end again."""
    story = Story().open().tell(RunCancelled(by="ada", iterations=0))
    story.tell(RunCompleted(output=Message.text("assistant", "done"), iterations=1))
    assert story.run.status is Status.CANCELLED


@pytest.mark.parametrize(
    ("error_type", "reopens"),
    [
        ("timeout", True),
        ("model.transient", True),
        ("model.auth", True),
        ("tool.source_unavailable", True),
        ("Interrupted", True),
        ("approval.expired", False),
        ("RuntimeError", False),
    ],
)
def test_a_run_that_failed_outside_itself_can_be_reopened(
    error_type: str, *, reopens: bool
) -> None:
    """Only a cause that may be gone reopens, with a fresh allowance and no driver."""
    story = Story().open().tell(model_step(), step_over(1, seconds=9.0))
    story.tell(RunFailed(error_type=error_type, error="", iterations=0), RunResumed())
    run = story.run
    assert run.is_open is reopens
    assert (run.lease is None, run.driven(story.clock.now()) == timedelta()) == (reopens, reopens)


def test_what_was_spent_adds_up_over_a_resumption() -> None:
    """Tokens, dollars and calls are sums of facts, so that no crash forgets them."""
    story = (
        Story()
        .open()
        .tell(*table(ask("a")), RunFailed(error_type="timeout", error="", iterations=1))
    )
    story.tell(RunResumed(), story.claimed(), tool_step(), called("a"), done("a"), step_over(2))
    story.tell(model_step(3), answer("done"))
    spent = story.run.spent
    assert (spent.usage, spent.cost, spent.calls) == (
        Usage(input_tokens=20, output_tokens=4),
        1.0,
        2,
    )
    assert story.run.iterations == 2


def test_a_claim_gives_the_wheel_and_starts_afresh_what_was_under_way() -> None:
    """The step of a driver who is gone is no one's, and its calls were interrupted."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"))
    assert [c.call_id for c in story.run.running()] == ["a"]
    story.tell(story.claimed("worker-2"))
    run = story.run
    assert run.lease is not None
    assert (run.lease.worker_id, run.step, run.running()) == ("worker-2", None, ())


def test_a_renewal_changes_nothing_but_the_lease() -> None:
    """Keeping the wheel interrupts no step."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"))
    before = story.run
    story.clock.advance(30)
    story.tell(story.claimed(renewal=True))
    assert story.run.but(lease=None) == before.but(lease=None)
    assert story.run.lease is not None
    assert story.run.lease.until == story.clock.now() + LEASE


@pytest.mark.parametrize(
    ("fact", "extends"),
    [
        (model_step(), True),
        (done("a"), True),
        (no("a"), False),
        (yes("a"), False),
        (RunCancelled(iterations=0), False),
    ],
)
def test_only_what_the_driver_writes_proves_it_alive(fact: Payload, *, extends: bool) -> None:
    """A human's decision is not the driver's, and extends no lease."""
    story = Story().open()
    before = story.run.lease
    assert before is not None
    story.tell(fact, after=10)
    after = story.run.lease
    assert after is not None
    assert (after.until > before.until) is extends
    assert after.is_live(before.until) is extends


def test_handing_back_ends_the_lease_and_stops_the_time_of_the_driver() -> None:
    """From then on anybody may take the run, and waiting costs nothing."""
    story = Story().open()
    story.clock.advance(3)
    story.tell(story.handed_back())
    run = story.run
    assert run.lease is not None
    assert not run.lease.is_live(story.clock.now())
    assert run.driven(story.clock.advance(1000)) == timedelta(seconds=3)
    story.tell(story.claimed("worker-2"))
    assert story.run.driven(story.clock.advance(2)) == timedelta(seconds=5)


def test_driven_time_is_closed_steps_and_the_open_drive() -> None:
    """Time between a driver's death and the next claim is nobody's."""
    story = Story().open().tell(model_step())
    story.clock.advance(4)
    story.tell(answer(ask("a")), step_over(1, seconds=4.0))
    story.clock.advance(1000)
    story.tell(story.claimed("worker-2"))
    assert story.run.driven(story.clock.advance(1)) == timedelta(seconds=5)


def test_a_question_that_was_answered_does_not_cover_the_next_launch() -> None:
    """An answer is for one launch: afterwards nothing bears on the call."""
    story = Story().open().tell(*table(ask("a")))
    story.tell(question(story, "a"), yes("a"))
    assert isinstance(story.run.table[0].answer, Granted)
    story.tell(tool_step(), called("a"))
    assert story.run.table[0].answer is None


def test_pending_questions_fall_with_the_run() -> None:
    """A run that is over asks nothing of anybody."""
    story = Story().open().tell(*table(ask("a")))
    story.tell(question(story, "a"))
    assert [c.call_id for c in story.run.pending] == ["a"]
    story.tell(RunCancelled(iterations=1))
    assert story.run.pending == ()


def test_one_granted_call_of_two_leaves_the_run_to_a_driver() -> None:
    """A run is paused only while nothing but humans can make it advance."""
    story = Story().open().tell(*table(ask("a"), ask("b")))
    story.tell(question(story, "a"), question(story, "b"))
    assert story.run.status is Status.PAUSED
    story.tell(yes("a"))
    assert story.run.status is Status.AWAITING_TOOLS
    story.tell(tool_step(), called("a"), done("a"), step_over(2))
    assert story.run.status is Status.PAUSED


def test_a_value_has_no_other_fields_than_its_own() -> None:
    """A copy with a field that does not exist is a bug, and says so."""
    with pytest.raises(TypeError, match="RunState has no"):
        Story().open().run.but(nothing=1)


def test_digests_tell_two_conversations_apart() -> None:
    """The same messages give the same chain; another order gives another."""
    one = Story().open(text="a").tell(said("b")).run.conversation
    same = Story().open(text="a").tell(said("b")).run.conversation
    other = Story().open(text="b").tell(said("a")).run.conversation
    assert one.digests == same.digests
    assert one.digest != other.digest


def wrote(key: str) -> Story:
    """Tell a run whose one call wrote under `key`."""
    story = Story().open().tell(*table(ask("a")), tool_step(), called("a"))
    output = ToolOutput(data=1, state={key: 1})
    return story.tell(ToolCompleted(call_id="a", tool_name="act", output=output))


def test_what_a_refused_answer_wrote_does_not_count() -> None:
    """When an answer is to be made again, the writes of its calls go, and earlier ones stay."""
    run = wrote("early").tell(step_over(2), model_step(3)).run
    assert [*run.writes] == ["early"]
    run = wrote("late").run
    assert [*run.writes] == ["late"]
    repaired = to_repair(run, Message.text("user", "Again."), tools=True)
    assert [*repaired.writes] == []
    assert repaired.table == ()


def test_a_result_that_is_replaced_keeps_what_the_call_wrote() -> None:
    """What was checked and kept stays, and what nobody checked does not enter."""
    other = ToolOutput(data=2, state={"unchecked": 1})
    run = result_replaced(wrote("key").run, "a", other)
    assert [*run.writes] == ["key"]
    assert run.table[0].output is not None
    assert run.table[0].output.data == 2
