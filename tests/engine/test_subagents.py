"""An agent that asks another one: one driver, one budget, one recovery for both."""

from typing import Any

from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.core.model.budget import Budget
from loom_ia.core.plan import agent_plan
from loom_ia.core.state import Completed, Status
from loom_ia.engine.program import Program
from loom_ia.tools.subagent import SubagentTool
from tests.engine.world import Ask, Hand, Model, World, results, run, text_of


def asked(model: Model, *tools: Hand, name: str = "writer", **settings: Any) -> Program:
    """Bind the agent that is asked."""
    plan = agent_plan(
        name=name, model="M", system="", tools=tuple(t.spec for t in tools), **settings
    )
    return Program(plan, {"M": model}, {tool.spec.name: tool for tool in tools})


def asking(model: Model, below: Program, **settings: Any) -> Program:
    """Bind the agent that asks."""
    tool = SubagentTool.of("writer", "writes", lambda: below)
    plan = agent_plan(name="clerk", model="M", system="", tools=(tool.spec,), **settings)
    return Program(plan, {"M": model}, {"writer": tool})


ASK = Ask("writer", {"message": "write to Mrs Durand"})
CHILD = "run-1/c0.0"


async def test_the_answer_of_the_agent_below_is_the_result() -> None:
    """The agent above reads it, and the run below has its own id, parent and turn."""
    world, above, below = World(), Model(ASK), Model("Dear Mrs Durand")
    state = await run(world.instance(asking(above, asked(below))))
    assert text_of(state) == "done"
    assert results(above.requests[1]) == [("c0.0", "Dear Mrs Durand")]
    child = next(e for e in await world.events("session-1") if e.run_id == CHILD)
    assert (child.type, child.root_run_id, child.agent) == ("run.started", "run-1", "writer")


async def test_opening_the_run_below_is_one_batch() -> None:
    """The call is followed at once by the first facts of the run that it opens."""
    world = World()
    await run(world.instance(asking(Model(ASK), asked(Model()))))
    types = [(e.run_id, e.type) for e in await world.events("session-1")]
    at = types.index(("run-1", "tool.called"))
    assert types[at + 1 : at + 3] == [(CHILD, "run.started"), (CHILD, "message.user")]


async def test_arguments_that_ask_nothing_open_no_run() -> None:
    """The model is told, and no run begins."""
    world, above = World(), Model(Ask("writer", {"text": "hello"}))
    state = await run(world.instance(asking(above, asked(Model()))))
    assert state.status is Status.COMPLETED
    assert "message" in results(above.requests[1])[0][1]
    assert {e.run_id for e in await world.events("session-1")} == {"run-1"}


async def test_what_the_agent_below_consumes_counts_above() -> None:
    """A limit of tokens on the root holds although a run below spent them."""
    world, above = World(), Model(ASK, ASK, last="enough")
    budget = Budget(max_tokens=40)
    state = await run(world.instance(asking(above, asked(Model(), budget=None), budget=budget)))
    assert text_of(state) == "enough"
    assert state.finalizing == "budget"
    assert len(above.requests) == 3  # 12 and 12 tokens, twice, are over 40


async def test_the_agent_below_stops_at_the_limit_of_the_root() -> None:
    """It gives its last answer without tools, though it has no limit of its own."""
    world, hand = World(), Hand()
    below = Model(*[Ask() for _ in range(20)], last="I had to stop")
    program = asking(Model(ASK), asked(below, hand), budget=Budget(max_calls=4))
    state = await run(world.instance(program))
    assert isinstance(state.outcome, Completed)
    assert len(hand.runs) == 3


async def test_the_failure_of_the_agent_below_is_told_to_the_model() -> None:
    """The run above goes on with an error for a result."""
    world, above = World(), Model(ASK)
    state = await run(world.instance(asking(above, asked(Model(RuntimeError("broken"))))))
    assert state.status is Status.COMPLETED
    assert "broken" in results(above.requests[1])[0][1]


async def test_a_question_below_pauses_both_and_its_answer_goes_on_with_both() -> None:
    """The root waits for its child; a yes to the child's call, and the root is driven on."""
    world, hand = World(), Hand(approval="always")
    above, below = Model(ASK), Model(Ask())
    program = asking(above, asked(below, hand))
    instance = world.instance(program)
    state = await run(instance)
    assert (state.status, hand.runs) == (Status.WAITING_CHILD, [])
    from loom_ia.app import approvals

    await approvals.approve(instance, approvals.Ruling("run-1", "anna"))
    state = await runs.resume(instance, "run-1")
    assert (text_of(state), len(hand.runs), len(above.requests)) == ("done", 1, 2)


async def test_cancelling_the_root_closes_the_run_below() -> None:
    """Both are cancelled in one batch, and nothing can be answered any more."""
    world, hand = World(), Hand(approval="always")
    instance = world.instance(asking(Model(ASK), asked(Model(Ask()), hand)))
    await run(instance)
    assert await cancel(instance, "run-1", by="anna")
    log, child = await instance.find(CHILD)
    assert child.status is Status.CANCELLED
    closing = [e for e in await world.events("session-1") if e.type == "run.cancelled"]
    assert [e.run_id for e in closing] == ["run-1", CHILD]
    assert log.run("run-1") is not None
