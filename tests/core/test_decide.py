"""Given facts, when a run is decided upon, then this move: no loop, no model, no tool."""

from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as with_
from typing import Any

import pytest

from loom_ia.core.decide import CallModel, Emit
from loom_ia.core.events import (
    ApprovalRequested,
    Opaque,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunFinalizing,
    RunResumed,
    ToolCalled,
)
from loom_ia.core.model import INVALID_ARGUMENTS, Message
from loom_ia.core.plan import AgentPlan, ModelFacts, agent_plan
from loom_ia.core.state import Status
from tests.core.cases import (
    ARGUMENTS,
    Story,
    answer,
    ask,
    called,
    done,
    expired,
    model_step,
    no,
    plan,
    question,
    step_over,
    table,
    texts,
    tool,
    tool_step,
    words,
    yes,
)

Told = Callable[[Story], object]


@dataclass(frozen=True)
class Case:
    """What was told, what the agent is, and the move and status that follow."""

    name: str
    told: Told
    move: tuple[str, ...]
    status: Status
    tool: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    later: float = 0.0
    text: str = ""
    inline: bool = False

    @property
    def plan(self) -> AgentPlan:
        """The plan of the agent."""
        agent = plan(tool(**self.tool), **self.settings)
        return with_(agent, inline_approver=True) if self.inline else agent


def facts(*payloads: Payload) -> Told:
    """Tell these facts of a run that was opened."""
    return lambda story: story.open().tell(*payloads)


def launched(*, resumed: bool = True, **more: Any) -> Told:
    """Launch one call, and take the wheel again as after a crash."""

    def tell(story: Story) -> None:
        story.open().tell(*table(ask("c1")), tool_step(), called("c1"))
        if resumed:
            story.tell(story.claimed("worker-2"))
        for name in more.get("then", ()):
            story.tell(_answers(story)[name]())

    return tell


def asked(*then: str, call: Any = None, **options: Any) -> Told:
    """Ask a human about one call, and tell what he does."""

    def tell(story: Story) -> None:
        story.open().tell(*table(call or ask("c1"))).tell(question(story, "c1", **options))
        for name in then:
            story.tell(_answers(story)[name]())

    return tell


def then(*tellings: Told) -> Told:
    """Tell one thing after the other."""

    def tell(story: Story) -> None:
        for telling in tellings:
            telling(story)

    return tell


def out_of_time(story: Story) -> None:
    """The run fails by its time."""
    story.tell(RunFailed(error_type="timeout", error="", iterations=1))


def resumed(story: Story) -> None:
    """The run is reopened and driven."""
    story.tell(RunResumed(), story.claimed())


def _answers(story: Story) -> dict[str, Callable[[], Payload]]:
    return {
        "asked": lambda: question(story, "c1"),
        "asked about its end": lambda: question(story, "c1", kind="unknown_effect"),
        "yes": lambda: yes("c1"),
        "yes to something else": lambda: yes("c1", shown={"n": 2}),
        "yes with edits": lambda: yes("c1", edited={"n": 5}),
        "yes with null": lambda: yes("c1", edited={"n": 1, "note": None}),
        "yes with true": lambda: yes("c1", edited={"n": True}),
        "no": lambda: no("c1"),
        "no because": lambda: no("c1", "too dear"),
        "nobody": lambda: expired(story, "c1"),
        "nobody, so fail": lambda: expired(story, "c1", "fail"),
        "launched": lambda: called("c1"),
        "step": tool_step,
        "claimed": lambda: story.claimed("worker-2"),
        "unknown end": lambda: done("c1", "?", unknown=True),
    }


READY, TOOLS, PAUSED = Status.READY_FOR_MODEL, Status.AWAITING_TOOLS, Status.PAUSED
MODEL = ("step model_call",)

CRASHES = [
    Case("only the request was written", facts(), MODEL, READY),
    Case(
        "during a model call, by the driver that announced it",
        facts(model_step()),
        ("CallModel auto",),
        READY,
    ),
    Case(
        "during a model call, by the next driver",
        lambda s: s.open().tell(model_step(), s.claimed("worker-2")),
        MODEL,
        READY,
    ),
    Case(
        "after an answer with calls, before its step was closed",
        facts(model_step(), answer(ask("c1"))),
        ("step.completed",),
        TOOLS,
    ),
    Case(
        "after an answer with calls, by the next driver",
        lambda s: s.open().tell(model_step(), answer(ask("c1")), s.claimed("worker-2")),
        ("step tool_batch", "called c1"),
        TOOLS,
    ),
    Case(
        "after calls were put on the table",
        facts(*table(ask("c1"))),
        ("step tool_batch", "called c1"),
        TOOLS,
    ),
    Case(
        "after an answer without calls",
        facts(model_step(), answer("done"), step_over()),
        ("run.completed",),
        READY,
    ),
    Case(
        "after an answer without calls, by the next driver",
        lambda s: s.open().tell(model_step(), answer("done"), s.claimed("worker-2")),
        ("run.completed",),
        READY,
    ),
    Case(
        "while calls run, by their driver",
        launched(resumed=False),
        ("RunCalls c1",),
        TOOLS,
    ),
    Case(
        "while a call with effects runs, by its driver",
        launched(resumed=False),
        ("RunCalls c1 acts",),
        TOOLS,
        tool={"side_effects": "reversible"},
    ),
    Case(
        "during a call without effects",
        launched(),
        ("step tool_batch", "called c1 again"),
        TOOLS,
    ),
    Case(
        "during a reversible call",
        launched(),
        ("completed c1 unknown",),
        TOOLS,
        tool={"side_effects": "reversible"},
        text="not known whether it took effect",
    ),
    Case(
        "during an idempotent call",
        launched(),
        ("step tool_batch", "called c1 again"),
        TOOLS,
        tool={"side_effects": "irreversible", "idempotent": True},
    ),
    Case(
        "during an irreversible call, on_unknown error",
        launched(),
        ("completed c1 unknown",),
        TOOLS,
        tool={"side_effects": "irreversible"},
        text="not known whether it took effect",
    ),
    Case(
        "during an irreversible call, on_unknown pause",
        launched(),
        ("requested c1 unknown_effect",),
        TOOLS,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
    ),
    Case(
        "during an approved irreversible call: the yes covered one launch",
        asked("yes", "step", "launched", "claimed"),
        ("completed c1 unknown",),
        TOOLS,
        tool={"side_effects": "irreversible", "approval": "always"},
    ),
    Case(
        "during a call whose tool is gone since",
        launched(),
        ("completed c1 unknown",),
        TOOLS,
        tool={"name": "other"},
        text="not known whether it took effect",
    ),
    Case(
        "after a result, before the step was closed",
        facts(*table(ask("c1")), tool_step(), called("c1"), done("c1")),
        ("step.completed",),
        READY,
    ),
    Case(
        "after a result, by the next driver",
        lambda s: s.open().tell(
            *table(ask("c1")), tool_step(), called("c1"), done("c1"), s.claimed("worker-2")
        ),
        MODEL,
        READY,
        tool={"side_effects": "irreversible"},
    ),
    Case(
        "with one of two results",
        facts(*table(ask("c1"), ask("c2")), tool_step(), called("c1"), called("c2"), done("c2")),
        ("RunCalls c1",),
        TOOLS,
    ),
    Case(
        "after a yes that was not used",
        asked("yes"),
        ("step tool_batch", "called c1"),
        TOOLS,
        tool={"approval": "always", "side_effects": "irreversible"},
    ),
    Case("paused", asked(), ("Wait until 00:01:40",), PAUSED, tool={"approval": "always"}),
    Case("paused without end", asked(expires_in=None), ("Wait",), PAUSED),
    Case(
        "completed",
        facts(RunCompleted(output=Message.text("assistant", "done"), iterations=1)),
        ("Finished",),
        Status.COMPLETED,
    ),
    Case(
        "failed",
        facts(RunFailed(error_type="timeout", error="", iterations=1)),
        ("Finished",),
        Status.FAILED,
    ),
    Case("cancelled", facts(RunCancelled(iterations=0)), ("Finished",), Status.CANCELLED),
    Case(
        "failed by its time, then resumed: the call that nobody saw end",
        then(launched(resumed=False), out_of_time, resumed),
        ("completed c1 unknown",),
        TOOLS,
        tool={"side_effects": "irreversible"},
    ),
    Case(
        "after an event of a newer version",
        facts(Opaque(name="run.dreamt", data={})),
        ("Wait",),
        READY,
    ),
]

FATES = [
    Case(
        "an unknown tool",
        facts(*table(ask("c1", "abc"))),
        ("completed c1 error",),
        TOOLS,
        text="no tool 'abc'. Available tools: act.",
    ),
    Case(
        "unreadable arguments",
        facts(*table(ask("c1", arguments={INVALID_ARGUMENTS: '{"n": '}))),
        ("completed c1 error",),
        TOOLS,
        text='not a JSON object: {"n": ',
    ),
    Case(
        "invalid arguments",
        facts(*table(ask("c1"), problems={"c1": "n: must be text"})),
        ("completed c1 error",),
        TOOLS,
        text="n: must be text",
    ),
    Case(
        "invalid arguments of a call that a human would approve",
        facts(*table(ask("c1"), problems={"c1": "n: must be text"})),
        ("completed c1 error",),
        TOOLS,
        tool={"approval": "always"},
        text="n: must be text",
    ),
    Case("approval never", facts(*table(ask("c1"))), ("step tool_batch", "called c1"), TOOLS),
    Case(
        "approval always",
        facts(*table(ask("c1"))),
        ("requested c1 approve",),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "one refused, one to ask, one to launch: facts, then launches",
        facts(*table(ask("c1", "abc"), ask("c2"), ask("c3"))),
        ("completed c1 error", "step tool_batch", "called c2", "called c3"),
        TOOLS,
    ),
    Case(
        "granted",
        asked("yes"),
        ("step tool_batch", "called c1"),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "granted with edits",
        asked("yes with edits"),
        ("step tool_batch", "called c1"),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "granted with a null that was not there",
        asked("yes with null"),
        ("step tool_batch", "called c1"),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "granted with a truth in place of a one",
        asked("yes with true"),
        ("step tool_batch", "called c1"),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "a yes to other bytes is no yes",
        asked("yes to something else"),
        ("Wait until 00:01:40",),
        PAUSED,
        tool={"approval": "always"},
    ),
    Case(
        "a yes to bytes that the call does not have asks again",
        asked("yes to something else", arguments={"n": 2}),
        ("requested c1 approve",),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "rejected",
        asked("no"),
        ("completed c1 error",),
        TOOLS,
        tool={"approval": "always"},
        text="A human refused this call. Do not try it again.",
    ),
    Case(
        "rejected with a reason",
        asked("no because"),
        ("completed c1 error",),
        TOOLS,
        tool={"approval": "always"},
        text="too dear",
    ),
    Case(
        "expired, seen for the first time",
        asked(),
        ("expired c1 deny",),
        PAUSED,
        tool={"approval": "always"},
        later=100,
    ),
    Case(
        "expired, to fail, seen for the first time",
        asked(),
        ("expired c1 fail",),
        PAUSED,
        tool={"approval": "always"},
        settings={"on_expiry": "fail"},
        later=100,
    ),
    Case("one second before it expires", asked(), ("Wait until 00:01:40",), PAUSED, later=99),
    Case(
        "expired and denied",
        asked("nobody"),
        ("completed c1 error",),
        TOOLS,
        tool={"approval": "always"},
        text="it was not made",
    ),
    Case(
        "expired and failed",
        asked("nobody, so fail"),
        ("failed approval.expired",),
        TOOLS,
        tool={"approval": "always"},
    ),
    Case(
        "held, with a function that answers",
        asked(),
        ("AskApprover c1",),
        PAUSED,
        tool={"approval": "always"},
        inline=True,
    ),
    Case(
        "its end unknown: granted, it is launched once more",
        launched(then=("asked about its end", "yes")),
        ("step tool_batch", "called c1 again"),
        TOOLS,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
    ),
    Case(
        "its end unknown: rejected, the model is told of both",
        launched(then=("asked about its end", "no because")),
        ("completed c1 error",),
        TOOLS,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
        text="not known whether it took effect",
    ),
    Case(
        "its end unknown: nobody answers, and nothing says that it was not made",
        launched(then=("asked about its end", "nobody")),
        ("completed c1 error",),
        TOOLS,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
        text="not known whether it took effect",
    ),
    Case(
        "its end unknown: granted, launched and interrupted again",
        launched(then=("asked about its end", "yes", "step", "launched", "claimed")),
        ("requested c1 unknown_effect",),
        TOOLS,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
    ),
    Case(
        "cut by its time, on_unknown pause",
        launched(resumed=False, then=("unknown end",)),
        ("step.completed",),
        READY,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
    ),
    Case(
        "cut by its time, on_unknown pause, its step closed",
        launched(then=("unknown end",)),
        ("requested c1 unknown_effect",),
        READY,
        tool={"side_effects": "irreversible", "on_unknown": "pause"},
    ),
    Case(
        "cut by its time, on_unknown error",
        launched(then=("unknown end",)),
        MODEL,
        READY,
        tool={"side_effects": "irreversible"},
    ),
]

ENDS = [
    Case(
        "iterations left",
        facts(*table(ask("c1")), tool_step(), called("c1"), done("c1"), step_over(2)),
        MODEL,
        READY,
        settings={"max_iterations": 2},
    ),
    Case(
        "no iteration left",
        facts(*table(ask("c1")), tool_step(), called("c1"), done("c1"), step_over(2)),
        ("finalizing iterations", "step model_call"),
        READY,
        settings={"max_iterations": 1},
    ),
    Case(
        "an answer at the last iteration ends the run",
        facts(model_step(), answer("done"), step_over()),
        ("run.completed",),
        READY,
        settings={"max_iterations": 1},
    ),
    Case(
        "the forced answer may use no tool",
        facts(
            *table(ask("c1")),
            tool_step(),
            called("c1"),
            done("c1"),
            step_over(2),
            RunFinalizing(reason="iterations"),
            model_step(3),
        ),
        ("CallModel none",),
        Status.FINALIZING,
        settings={"max_iterations": 1},
    ),
    Case(
        "the forced answer is cut off from its calls",
        facts(
            *table(ask("c1")),
            tool_step(),
            called("c1"),
            done("c1"),
            step_over(2),
            RunFinalizing(reason="iterations"),
            model_step(3),
            answer(ask("c2")),
            step_over(3),
        ),
        ("run.completed",),
        Status.FINALIZING,
        settings={"max_iterations": 1},
    ),
    Case(
        "a forced answer that was interrupted is asked for again, still without tools",
        lambda s: s.open().tell(
            *table(ask("c1")),
            tool_step(),
            called("c1"),
            done("c1"),
            step_over(2),
            RunFinalizing(reason="iterations"),
            model_step(3),
            s.claimed("worker-2"),
        ),
        MODEL,
        Status.FINALIZING,
        settings={"max_iterations": 1},
    ),
    Case("in time", facts(), MODEL, READY, settings={"timeout": 5.0}, later=4.9),
    Case("out of time", facts(), ("failed timeout",), READY, settings={"timeout": 5.0}, later=5),
    Case(
        "out of time while a call runs",
        launched(resumed=False),
        ("failed timeout",),
        TOOLS,
        settings={"timeout": 5.0},
        later=5,
    ),
    Case(
        "time in the steps that are closed counts",
        facts(model_step(), answer(ask("c1")), step_over(1, seconds=5.0)),
        ("failed timeout",),
        TOOLS,
        settings={"timeout": 5.0},
    ),
    Case(
        "an answer that came in time is kept",
        facts(model_step(), answer("done"), step_over(1, seconds=9.0)),
        ("run.completed",),
        READY,
        settings={"timeout": 5.0},
    ),
    Case(
        "waiting for a human takes no time",
        then(asked(expires_in=None), lambda s: s.tell(s.handed_back())),
        ("Wait",),
        PAUSED,
        settings={"timeout": 5.0},
        later=1000,
    ),
    Case(
        "a run that was resumed has its whole time again",
        then(facts(step_over(1, seconds=5.0)), out_of_time, resumed),
        MODEL,
        READY,
        settings={"timeout": 5.0},
        later=4.9,
    ),
]


@pytest.mark.parametrize("case", [*CRASHES, *FATES, *ENDS], ids=lambda case: case.name)
def test_each_point_of_a_run_has_its_move_and_its_status(case: Case) -> None:
    """What was told gives the move, the status, and the words that the model reads."""
    story = Story()
    case.told(story)
    move = story.move(case.plan, later=case.later)
    assert words(move) == case.move
    assert story.run.status is case.status
    assert case.text in texts(move)


def test_the_same_call_that_was_refused_is_not_asked_again() -> None:
    """A model that repeats a refused call is told so, and no human is bothered."""
    story = Story().open().tell(*table(ask("c1")))
    story.tell(question(story, "c1"), no("c1"), done("c1", "refused"))
    story.tell(model_step(2), answer(ask("c2"), ask("c3", arguments={"n": 2})), step_over(2))
    move = story.move(plan(tool(approval="always")))
    assert words(move) == ("completed c2 error", "requested c3 approve")
    assert "already refused this call with the same arguments" in texts(move)


def test_a_launch_carries_the_edited_arguments() -> None:
    """What a human edited is what is launched, and the request that was shown stays as it was."""
    story = Story()
    asked("yes with edits")(story)
    move = story.move(plan(tool(approval="always")))
    assert isinstance(move, Emit)
    launch = move.facts[-1]
    assert isinstance(launch, ToolCalled)
    assert launch.arguments == {"n": 5}
    call = story.run.table[0]
    assert call.question is not None
    assert (call.question.arguments, call.edited) == (ARGUMENTS, ("n",))


def test_settings_may_be_longer_than_the_calendar() -> None:
    """A question and a run may last as long as somebody likes; neither ends soon for it."""
    story = Story().open().tell(*table(ask("c1")))
    move = story.move(plan(tool(approval="always"), expires_in=1e300, timeout=1e300))
    assert isinstance(move, Emit)
    (request,) = move.facts
    assert isinstance(request, ApprovalRequested)
    assert request.expire_at is not None
    assert request.expire_at.year > story.clock.now().year + 90


def test_a_yes_to_what_the_digest_does_not_say_asks_again() -> None:
    """What a person was shown is what runs, also when the journal shows one and names another."""
    story = Story().open().tell(*table(ask("c1")))
    shown = question(story, "c1").model_copy(update={"arguments": {"n": 2}})
    story.tell(shown, yes("c1"))
    assert words(story.move(plan(tool(approval="always")))) == ("requested c1 approve",)


def test_a_question_shows_the_bytes_and_the_instant_at_which_it_ends() -> None:
    """A request bears the exact arguments, their digest, and the end that the agent sets."""
    story = Story().open().tell(*table(ask("c1")))
    move = story.move(plan(tool(approval="always"), expires_in=60.0), later=1)
    assert isinstance(move, Emit)
    (request,) = move.facts
    assert isinstance(request, ApprovalRequested)
    assert request.arguments == ARGUMENTS
    assert (request.expire_at, request.kind) == (
        story.clock.advance(61),
        "approve",
    )


def test_the_results_that_were_settled_stay_when_the_run_fails_on_an_expiry() -> None:
    """The failure and what was found about the other calls are one move."""
    story = Story().open().tell(*table(ask("c0", "abc"), ask("c1")))
    story.tell(question(story, "c1"), expired(story, "c1", "fail"))
    move = story.move(plan(tool(approval="always")))
    assert words(move) == ("completed c0 error", "failed approval.expired")


@pytest.mark.parametrize(
    ("language", "text"), [("en", "There is no tool 'abc'"), ("fr", "L'outil 'abc' n'existe pas")]
)
def test_a_model_is_spoken_to_in_the_language_of_its_agent(language: Any, text: str) -> None:
    """The words of the engine follow the language of the plan."""
    story = Story().open(language=language).tell(*table(ask("c1", "abc")))
    assert text in texts(story.move(plan(tool(), language=language)))


def test_an_agent_without_tools_says_so() -> None:
    """A call that no agent could make is answered without a list of tools."""
    story = Story().open().tell(*table(ask("c1", "abc")))
    assert "no tool is available here" in texts(story.move(plan()))


def test_a_request_holds_what_was_said_before_it() -> None:
    """Earlier turns, this run and the last instruction stand in their own parts."""
    story = Story().open("run-1", "first").tell(model_step(), answer("one"), step_over())
    story.tell(RunCompleted(output=Message.text("assistant", "one"), iterations=1))
    story.open("run-2", "second").tell(
        *table(ask("c1")),
        tool_step(),
        called("c1"),
        done("c1"),
        step_over(2),
        RunFinalizing(reason="iterations"),
        model_step(3),
    )
    move = story.move(plan(tool(), max_iterations=1))
    assert isinstance(move, CallModel)
    request = move.request
    assert [m.as_text() for m in request.history] == ["first", "one"]
    assert [m.role for m in request.messages] == ["user", "assistant", "tool"]
    assert "Conclude now" in request.notes[0].as_text()
    assert story.run.conversation.messages == request.messages, "notes are never journalled"


def test_each_part_of_a_request_has_its_own_digest() -> None:
    """Changing one thing moves its own part and the whole, and nothing else."""

    def digests(**changed: Any) -> dict[str, str]:
        given = {"system": "Be brief.", "model": "M", "max_tokens": 9, "tool": "act", "text": "go"}
        given |= changed

        agent = agent_plan(
            name="clerk",
            model=ModelFacts(given["model"], given["max_tokens"]),
            system=given["system"],
            tools=(tool(given["tool"]),),
        )
        move = Story().open(text=given["text"]).tell(model_step()).move(agent)
        assert isinstance(move, CallModel)
        return {**move.parts, "whole": move.digest}

    first = digests()
    assert digests() == first
    for changed, part in [
        ({"system": "Be long."}, "system"),
        ({"model": "N"}, "model"),
        ({"max_tokens": 8}, "settings"),
        ({"tool": "do"}, "tools"),
        ({"text": "stop"}, "messages"),
    ]:
        other = digests(**changed)
        assert {name for name in first if first[name] != other[name]} == {part, "whole"}
