"""Whatever policies decide, at any point, runs end, and what they refused does not happen."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from loom_ia.access import Loom
from loom_ia.agents import Contract, PolicyReference, PythonTool
from loom_ia.core.events import Event
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.json import JsonObject
from loom_ia.core.model import Message
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.policy import ALLOWED, DecisionKind, PolicyPoint
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.result import RunResult
from loom_ia.policies import (
    CONTINUE,
    Decision,
    Deny,
    Fail,
    Pause,
    PolicyFunction,
    Replace,
    Retry,
    Stop,
    policy,
)
from loom_ia.tools import tool
from tests.policies.shop import Shop, call, scripted

_RARE = frozenset({DecisionKind.FAIL, DecisionKind.STOP})


@tool(side_effects="irreversible")
async def act(n: int) -> str:
    """Act."""
    return f"done {n}"


def any_policy(rng: random.Random, name: str) -> PolicyFunction:
    """Make a policy that decides anything that its point allows."""

    @policy(points=list(PolicyPoint), name=name)
    async def decides(subject: Any) -> Decision:
        return any_decision(rng, subject)

    return replace(decides, decisions=frozenset(DecisionKind))


def any_decision(rng: random.Random, subject: Any) -> Decision:
    """Decide by lot; what ends a run is rare."""
    point: PolicyPoint = subject.context.point
    kinds = [kind for kind in sorted(ALLOWED[point]) if kind not in _RARE or rng.random() < 0.08]
    match rng.choice([DecisionKind.CONTINUE, DecisionKind.CONTINUE, *kinds]):
        case DecisionKind.CONTINUE:
            return CONTINUE
        case DecisionKind.REPLACE:
            return Replace(other(rng, point, subject))
        case DecisionKind.RETRY:
            return Retry("again")
        case DecisionKind.DENY:
            return Deny("no")
        case DecisionKind.PAUSE:
            return Pause("ask")
        case DecisionKind.STOP:
            return Stop("enough")
        case DecisionKind.FAIL:
            return Fail("never")


def other(rng: random.Random, point: PolicyPoint, subject: Any) -> object:
    """Give something to put in the place of a subject."""
    match point:
        case PolicyPoint.BEFORE_MODEL:
            return replace(subject.request, system=f"Be brief. {rng.randrange(3)}")
        case PolicyPoint.BEFORE_TOOL:
            return {"n": rng.randrange(5)}
        case PolicyPoint.AFTER_TOOL:
            return ToolOutput.of_text("something else")
        case _:
            return "another answer"


def shop(rng: random.Random) -> Shop:
    """Open a shop with two such policies, a script of some turns, and maybe a contract."""
    turns = [
        {"tool_calls": [call("act", n=n)["tool_calls"][0] for n in range(rng.randrange(1, 4))]}
        for _ in range(rng.randrange(1, 4))
    ]
    script = [*turns, *({"text": "done"} for _ in range(8))]
    contract = Contract(must_not_match="done", on_failure="unverified")
    hooks = {name: any_policy(rng, name) for name in ("p0", "p1")}
    return Shop(
        [scripted("M", *script)],
        tools=(PythonTool(python="act"),),
        policies=tuple(PolicyReference(hook=h, max_attempts=rng.randrange(3)) for h in hooks),
        output=contract if rng.random() < 0.3 else None,
        named={"act": act, **hooks},
        profile="dev",
    )


async def to_its_end(loom: Loom, rng: random.Random, run_id: str) -> RunResult:
    """Run once, decide whatever is asked, by lot, and go on."""
    result = await loom.run("clerk", f"Hello {run_id}", run_id=run_id, session_id="s")
    for _ in range(12):
        if result.status != "paused":
            break
        for asked in result.pending_approvals:
            edited: JsonObject | None = {"n": 9} if rng.random() < 0.3 else None
            if rng.random() < 0.7:
                await loom.approve(run_id, call_id=asked.call_id, arguments=edited)
            else:
                await loom.reject(run_id, call_id=asked.call_id)
        result = await loom.resume(run_id)
    return result


def refuse_what_was_denied(events: Sequence[Event]) -> None:
    """Check that a call is made once at most, and not once it was denied."""
    facts: list[tuple[str, Any]] = [(event.type, event.payload) for event in events]
    denied: set[str] = set()
    made: set[str] = set()
    for kind, payload in facts:
        if kind == "policy.decided" and payload.decision is DecisionKind.DENY:
            denied.add(payload.call_id)
        if kind == "tool.called":
            assert payload.call_id not in denied | made
            made.add(payload.call_id)


def refuse_what_no_provider_takes(history: Sequence[Message]) -> None:
    """Check that turns alternate, each call has its result, and no diagnostic is left."""
    before, open_calls = "", list[str]()
    for message in history:
        if open_calls:
            assert message.role == "tool"
            assert sorted(r.call_id for r in message.results) == sorted(open_calls)
        allowed = {"user": ("", "assistant"), "assistant": ("user", "tool"), "tool": ("assistant",)}
        assert before in allowed[message.role]
        assert "refused by a check" not in message.as_text()
        open_calls = [one.call_id for one in message.calls]
        before = message.role
    assert open_calls == []


@pytest.mark.parametrize("seed", range(60))
async def test_runs_end_whatever_policies_decide(seed: int) -> None:
    """Three runs of a session end; what is denied is not made; the next run reads sound turns."""
    rng = random.Random(seed)
    house = shop(rng)
    loom = Loom(house.config)
    for name, value in house.named.items():
        loom.register(name, value)
    async with loom:
        for number in range(3):
            result = await to_its_end(loom, rng, f"r{number}")
            assert result.status in ("completed", "failed", "paused")
            refuse_what_was_denied(await loom.events(result.run_id))
        events = await loom.store.read("default", "s")
    session = SessionState()
    for event in events:
        known = session.runs.get(event.run_id)
        session.put(begin(event) if known is None else apply(known, event))
    refuse_what_no_provider_takes(session.view(session.runs["r2"]).history)
