"""What a policy decides at each point, what is written, and what follows."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from loom_ia import Approved
from loom_ia.access import Loom
from loom_ia.agents import PolicyReference, PythonTool
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import Message
from loom_ia.core.model.policy import ALLOWED, DecisionKind, PolicyPoint
from loom_ia.policies import (
    CONTINUE,
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    Decision,
    Deny,
    Fail,
    OnOutput,
    Pause,
    PolicyContext,
    Replace,
    Retry,
    Stop,
    policy,
)
from loom_ia.tools import tool
from tests.policies.shop import Shop, call, scripted


@tool
async def prix(montant: float, taux: float = 20) -> dict[str, float]:
    """Compute a price."""
    return {"ttc": round(montant * (1 + taux / 100), 2)}


@policy(points=["before_tool"], decisions=["deny"])
def rates(subject: BeforeTool, context: PolicyContext) -> Decision:
    """Deny a rate that is not in the list."""
    rate = subject.arguments.get("taux", 20)
    known = context.params["rates"]
    return CONTINUE if isinstance(known, list) and rate in known else Deny(f"no rate {rate}")


def shop(*replies: dict[str, Any], hook: Any = None, **more: Any) -> Shop:
    """Open a shop whose agent has `prix`, and `hook` for its policy."""
    reference = PolicyReference(hook="hook", **more.pop("reference", {}))
    return Shop(
        [scripted("M", *replies)],
        tools=(PythonTool(python="prix"),),
        policies=(reference,) if hook else (),
        named={"prix": prix, "hook": hook} if hook else {"prix": prix},
        **more,
    )


async def test_a_denied_call_is_not_made_and_the_model_reads_why() -> None:
    """The first call is refused with its reason, the second is made; one decision is written."""
    house = shop(
        call("prix", montant=100, taux=19),
        call("prix", montant=100, taux=20),
        {"text": "120"},
        hook=rates,
        reference={"params": {"rates": [20, 10]}},
    )
    result = await house.run()
    assert result.text == "120"
    (decided,) = house.of("policy.decided")
    assert (decided.policy, decided.decision, decided.reason) == ("rates", "deny", "no rate 19")
    first, second = house.of("tool.completed")
    assert first.output.is_error
    assert "no rate 19" in first.output.text
    assert second.output.data == {"ttc": 120.0}
    assert len(house.of("tool.called")) == 1


@pytest.mark.parametrize(("on_error", "status"), [("block", "failed"), ("allow", "completed")])
async def test_a_policy_that_raises(on_error: str, status: str) -> None:
    """It fails the run under its name, or goes on and says so, as its entry asks."""

    @policy(points=["before_tool"])
    def broken(subject: BeforeTool) -> Decision:
        raise RuntimeError("out of order")

    house = shop(
        call("prix", montant=1), {"text": "ok"}, hook=broken, reference={"on_error": on_error}
    )
    result = await house.run()
    assert result.status == status
    (decided,) = house.of("policy.decided")
    assert decided.error
    assert "out of order" in decided.reason
    assert result.error_type == ("policy.broken" if status == "failed" else None)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_policy_that_is_too_slow_is_an_error(is_async: bool) -> None:
    """Its time is bounded, in a thread too."""

    @policy(points=["before_tool"])
    async def slow(subject: BeforeTool) -> Decision:
        await asyncio.sleep(30)
        return CONTINUE

    @policy(points=["before_tool"])
    def sleepy(subject: BeforeTool) -> Decision:
        time.sleep(0.6)
        return CONTINUE

    house = shop(
        call("prix", montant=1),
        {"text": "ok"},
        hook=slow if is_async else sleepy,
        reference={"timeout": 0.05},
    )
    result = await house.run()
    assert result.error_type in ("policy.slow", "policy.sleepy")
    assert "0.05 s" in (result.error or "")


async def test_what_is_not_declared_is_an_error() -> None:
    """A decision that the policy does not declare fails the run, whatever the point allows."""

    @policy(points=["before_tool"])
    def sly(subject: BeforeTool) -> Decision:
        return Deny("no")

    result = await shop(call("prix", montant=1), {"text": "ok"}, hook=sly).run()
    assert result.error_type == "policy.sly"


@pytest.mark.parametrize("point", list(PolicyPoint))
@pytest.mark.parametrize("decision", [d for d in DecisionKind if d is not DecisionKind.CONTINUE])
def test_the_table_is_the_law(point: PolicyPoint, decision: DecisionKind) -> None:
    """A decision that its point does not allow is refused when the configuration is loaded."""

    @policy(points=[point], decisions=[decision])
    def any_policy(subject: Any) -> Decision:
        return CONTINUE

    house = shop({"text": "ok"}, hook=any_policy, profile="dev")
    if decision in ALLOWED[point]:
        asyncio.run(house.run())
        return
    with pytest.raises(ConfigError, match=f"{point} does not allow {decision}"):
        asyncio.run(house.run())


async def test_arguments_that_are_replaced_are_those_that_run_and_that_the_model_reads() -> None:
    """The call is made with them, checked again; the conversation shows them as the model's."""

    @policy(points=["before_tool"], decisions=["replace"])
    def cap(subject: BeforeTool) -> Decision:
        return Replace({**subject.arguments, "taux": 10})

    house = shop(call("prix", montant=100), {"text": "ok"}, hook=cap)
    await house.run()
    (called,) = house.of("tool.called")
    assert called.arguments == {"montant": 100, "taux": 10}

    @policy(points=["before_tool"], decisions=["replace"])
    def wrong(subject: BeforeTool) -> Decision:
        return Replace({"montant": "cent"})

    house = shop(call("prix", montant=100), {"text": "ok"}, hook=wrong)
    result = await house.run()
    assert result.error_type == "policy.wrong"
    assert house.of("tool.called") == []


async def test_a_pause_asks_and_a_yes_lets_the_call_go_once() -> None:
    """The request names the policy and its reason; once granted the policy does not ask again."""

    @policy(points=["before_tool"], decisions=["pause"])
    def dear(subject: BeforeTool) -> Decision:
        return Pause("more than 1000") if subject.arguments["montant"] == 2000 else CONTINUE

    house = shop(call("prix", montant=2000), {"text": "ok"}, hook=dear, profile="dev")
    result = await house.run(approver=_yes)
    assert result.ok
    (asked,) = house.of("approval.requested")
    assert (asked.policy, asked.reason) == ("dear", "more than 1000")
    assert len(house.of("tool.called")) == 1


def _yes(_: object) -> object:
    from loom_ia.access import Approved

    return Approved(by="ana")


async def test_a_request_is_changed_for_one_call() -> None:
    """What before_model changes holds for the coming call alone, and is written."""

    @policy(points=["before_model"], decisions=["replace"])
    def french(subject: BeforeModel) -> Decision:
        return Replace(replace(subject.request, system="Réponds en français.", tools=()))

    house = shop({"text": "ok"}, hook=french)
    await house.run()
    (decided,) = house.of("policy.decided")
    assert decided.request.system == "Réponds en français."
    assert decided.request.tools == ()


async def test_a_fixed_part_of_a_request_cannot_be_changed() -> None:
    """The conversation is the journal's: replacing it is an error."""

    @policy(points=["before_model"], decisions=["replace"])
    def forger(subject: BeforeModel) -> Decision:
        return Replace(replace(subject.request, messages=()))

    assert (await shop({"text": "ok"}, hook=forger).run()).error_type == "policy.forger"


async def test_a_stop_before_the_model_asks_for_a_last_answer() -> None:
    """The run concludes without tools, and says why."""

    @policy(points=["before_model"], decisions=["stop"])
    def enough(subject: BeforeModel, context: PolicyContext) -> Decision:
        return Stop("seen enough") if context.results else CONTINUE

    house = shop(call("prix", montant=1), {"text": "fin"}, hook=enough)
    result = await house.run()
    assert (result.text, result.finalizing) == ("fin", "policy")


async def test_a_retry_after_the_model_settles_its_calls_and_asks_again() -> None:
    """No call of the refused answer is made; the new one is; the refused one leaves the history."""

    @policy(points=["after_model"], decisions=["retry"])
    def no_call_first(subject: AfterModel, context: PolicyContext) -> Decision:
        return (
            Retry("think first") if subject.message.calls and not context.attempt > 1 else CONTINUE
        )

    house = shop(call("prix", montant=1), {"text": "pensé"}, hook=no_call_first)
    result = await house.run()
    assert result.text == "pensé"
    assert house.of("tool.called") == []
    (refused,) = house.of("tool.completed")
    assert refused.output.is_error
    repairs = [p for p in house.of("message.user") if p.kind == "repair"]
    assert [p.policy for p in repairs] == ["no_call_first"]


async def test_a_retry_that_is_used_up_fails_the_run() -> None:
    """`max_attempts` bounds it for the whole run."""

    @policy(points=["on_output"], decisions=["retry"])
    def never(subject: OnOutput) -> Decision:
        return Retry("not yet")

    house = shop({"text": "a"}, {"text": "b"}, {"text": "c"}, hook=never)
    result = await house.run()
    assert result.error_type == "policy.never"
    assert house.calls_of_main == 2


async def test_a_result_is_replaced_or_refused_before_the_model_reads_it() -> None:
    """`Replace` shows another result; `Retry` an error that carries the diagnostic alone."""

    @policy(points=["after_tool"], decisions=["replace", "retry"])
    def filtered(subject: AfterTool, context: PolicyContext) -> Decision:
        return Replace("masked") if context.params.get("mask") else Retry("too precise")

    for params, expected in (({"mask": True}, "masked"), ({}, "too precise")):
        house = shop(
            call("prix", montant=1),
            {"text": "ok"},
            hook=filtered,
            reference={"params": params},
        )
        await house.run()
        (decided,) = house.of("policy.decided")
        assert expected in decided.result.text
        assert decided.result.is_error is not bool(params)


async def test_an_answer_is_replaced_for_everybody() -> None:
    """The result and the history of the session have the retained form."""

    @policy(points=["on_output"], decisions=["replace"])
    def polite(subject: OnOutput) -> Decision:
        return Replace(f"{subject.text} Bonne journée.")

    result = await shop({"text": "Oui."}, hook=polite).run()
    assert result.text == "Oui. Bonne journée."


@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
async def test_a_policy_can_fail_the_run(point: str) -> None:
    """The run fails under the name of the policy, wherever it is asked."""

    @policy(points=[point], decisions=["fail"])
    def strict(subject: Any) -> Decision:
        return Fail("forbidden")

    result = await shop(call("prix", montant=1), {"text": "ok"}, hook=strict).run()
    assert (result.error_type, result.error) == ("policy.strict", "forbidden")


async def test_require_tool_forces_the_first_call() -> None:
    """The first request asks for a call, those after it do not."""
    house = Shop(
        [scripted("M", call("prix", montant=1), {"text": "ok"})],
        tools=(PythonTool(python="prix"),),
        policies=(PolicyReference(hook="loom.require_tool"),),
        named={"prix": prix},
    )
    assert (await house.run()).ok
    (decided,) = house.of("policy.decided")
    assert decided.request.tool_choice == "required"


@pytest.mark.parametrize(
    ("params", "made"),
    [
        ({"deny": ["prix"]}, False),
        ({"allow": []}, False),
        ({"allow": ["pri*"]}, True),
        ({"allow": ["prix(montant=1*)"]}, True),
        ({"allow": ["prix(montant=2*)"]}, False),
        ({"allow": ["*"], "deny": ["prix(montant=1?0)"]}, False),
    ],
)
async def test_the_permission_policy(params: dict[str, Any], made: bool) -> None:
    """Deny wins over allow, an empty allow allows nothing, globs are whole and see arguments."""
    house = Shop(
        [scripted("M", call("prix", montant=100), {"text": "ok"})],
        tools=(PythonTool(python="prix"),),
        policies=(PolicyReference(hook="loom.permission", params=params),),
        named={"prix": prix},
    )
    assert (await house.run()).ok
    assert len(house.of("tool.called")) == made


def test_a_policy_that_may_pause_needs_a_journal_that_lasts() -> None:
    """On a journal in memory, only the profile dev takes it."""

    @policy(points=["before_tool"], decisions=["pause"])
    def careful(subject: BeforeTool) -> Decision:
        return Pause()

    with pytest.raises(ConfigError, match="hook may wait for a human"):
        asyncio.run(shop({"text": "ok"}, hook=careful).run())
    assert asyncio.run(shop({"text": "ok"}, hook=careful, profile="dev").run()).ok


# -- what a human saw, and what runs --------------------------------------------------------------


def sender(sent: list[int]) -> Any:
    """Make a tool that notes what it sends."""

    @tool(side_effects="irreversible", on_unknown="pause")
    async def act(n: int) -> str:
        """Send n."""
        sent.append(n)
        return "sent"

    return act


def guarded(hook: Any, act: Any) -> Loom:
    """Open an agent that sends 1 under a policy."""
    house = Shop(
        [scripted("M", call("act", n=1), {"text": "fini"})],
        tools=(PythonTool(python="act"),),
        policies=(PolicyReference(hook="hook"),),
        profile="dev",
    )
    loom = Loom(house.config)
    loom.register("act", act)
    loom.register("hook", hook)
    return loom


async def test_a_policy_changes_nothing_of_what_a_human_edited_without_his_seeing_it() -> None:
    """Arguments that a policy writes over an edit are shown, and nothing is sent before a yes."""

    @policy(points=["before_tool"], decisions=["pause", "replace"])
    def hook(subject: BeforeTool) -> Decision:
        return Replace({"n": 666}) if subject.arguments["n"] == 7 else Pause("look")

    sent: list[int] = []
    async with guarded(hook, sender(sent)) as loom:
        (asked,) = (await loom.run("clerk", "x", run_id="r1")).pending_approvals
        await loom.approve("r1", call_id=asked.call_id, arguments={"n": 7})
        paused = await loom.resume("r1")
        assert (paused.status, sent) == ("paused", [])
        (again,) = paused.pending_approvals
        assert again.arguments == {"n": 666}
        await loom.approve("r1", call_id=again.call_id)
        assert (await loom.resume("r1")).status == "completed"
    assert sent == [666]


async def test_a_policy_that_never_leaves_alone_what_was_let_go_fails_the_run() -> None:
    """A function that always says yes is not asked for ever."""
    numbers = iter(range(2, 1000))
    asked: list[object] = []

    @policy(points=["before_tool"], decisions=["pause", "replace"])
    def hook(subject: BeforeTool) -> Decision:
        return Replace({"n": next(numbers)}) if asked else Pause("look")

    def yes(pending: object) -> Approved:
        asked.append(pending)
        return Approved()

    sent: list[int] = []
    async with guarded(hook, sender(sent)) as loom:
        result = await loom.run("clerk", "x", run_id="r1", approver=yes)
    assert (result.status, len(asked), sent) == ("failed", 8, [])
    assert "each of the 8 times" in str(result.error)


async def test_a_policy_that_writes_in_what_it_is_shown_changes_nothing() -> None:
    """Arguments are changed by a decision, which is a fact, and by nothing else."""

    @policy(points=["before_tool", "after_tool"])
    def hook(subject: BeforeTool | AfterTool) -> Decision:
        subject.arguments["n"] = 99
        return CONTINUE

    sent: list[int] = []
    async with guarded(hook, sender(sent)) as loom:
        await loom.run("clerk", "x", run_id="r1")
        called = [e.payload for e in await loom.events("r1") if e.type == "tool.called"]
    assert [getattr(fact, "arguments", None) for fact in called] == [{"n": 1}]
    assert sent == [1]


async def test_a_replacement_made_in_place_is_a_replacement() -> None:
    """What is written in the arguments and given back is a decision like any other."""

    @policy(points=["before_tool"], decisions=["replace"])
    def hook(subject: BeforeTool) -> Decision:
        subject.arguments["n"] = 99
        return Replace(subject.arguments)

    sent: list[int] = []
    async with guarded(hook, sender(sent)) as loom:
        await loom.run("clerk", "x", run_id="r1")
        decided = [e for e in await loom.events("r1") if e.type == "policy.decided"]
    assert (sent, len(decided)) == ([99], 1)


@pytest.mark.parametrize("limit", ["soon", float("nan"), True])
async def test_a_pause_of_no_time_at_all_is_an_error_of_the_policy(limit: Any) -> None:
    """The run fails by a fact that names the value; nothing is sent."""

    @policy(points=["before_tool"], decisions=["pause"])
    def hook(subject: BeforeTool) -> Decision:
        return Pause("look", expires_in=limit)

    sent: list[int] = []
    async with guarded(hook, sender(sent)) as loom:
        result = await loom.run("clerk", "x", run_id="r1")
    assert (result.status, sent) == ("failed", [])
    assert f"expires_in={limit!r}" in str(result.error)


async def test_a_denial_does_not_make_the_first_launch_undone() -> None:
    """A call whose end nobody saw, and that may not be made again, may have taken effect."""
    launches: list[int] = []

    @tool(side_effects="irreversible", on_unknown="pause", timeout=0.05)
    async def act(n: int) -> str:
        """Send n, and never come back."""
        launches.append(n)
        await asyncio.Event().wait()
        return "sent"

    @policy(points=["before_tool"], decisions=["deny"])
    def hook(subject: BeforeTool) -> Decision:
        return Deny("not twice") if launches else CONTINUE

    async with guarded(hook, act) as loom:
        (asked,) = (await loom.run("clerk", "x", run_id="r1")).pending_approvals
        assert asked.kind == "unknown_effect"
        await loom.approve("r1", call_id=asked.call_id)
        assert (await loom.resume("r1")).status == "completed"
        told = [e.payload for e in await loom.events("r1") if e.type == "tool.completed"][-1]
    text = getattr(told, "output", None)
    assert launches == [1]
    assert "not known whether it took effect" in str(text)
    assert "not twice" in str(text)
    assert "was not made" not in str(text)


@pytest.mark.parametrize(
    ("point", "value"),
    [
        ("after_tool", lambda s: s.output.model_copy(update={"data": {"n": object()}})),
        ("after_tool", lambda s: s.output.model_copy(update={"data": {"n": float("nan")}})),
        ("before_model", lambda s: replace(s.request, max_tokens="many")),
        ("before_model", lambda s: replace(s.request, system=None)),
        ("on_output", lambda _: Message.model_construct(role="assistant", blocks=())),
    ],
    ids=["object", "nan", "max_tokens", "system", "empty"],
)
@pytest.mark.parametrize(("on_error", "status"), [("block", "failed"), ("allow", "completed")])
async def test_a_replacement_that_no_fact_can_hold_is_an_error_of_the_policy(
    point: str, value: Any, on_error: Any, status: str
) -> None:
    """It is written as such, and the run ends as `on_error` says."""

    @policy(points=[point], decisions=["replace"])
    def hook(subject: Any) -> Decision:
        return Replace(value(subject))

    house = shop(
        call("prix", montant=100),
        {"text": "fini"},
        hook=hook,
        reference={"on_error": on_error},
    )
    result = await house.run()
    assert result.status == status
    assert all(decided.error for decided in house.of("policy.decided"))
    assert house.of("policy.decided")
