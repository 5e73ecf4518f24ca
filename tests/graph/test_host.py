"""Graphs on a host: run, listed, decided upon, recovered like agents, and mixed with them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loom_ia import AgentSpec, Approved, Loom, LoomConfig, MainRole, ModelSpec, PythonTool, Rejected
from loom_ia.access import PendingApproval
from loom_ia.agents import Budgets, GraphTool
from loom_ia.core.errors import ApprovalStale, ConfigError, RunBelow, UnknownGraph
from loom_ia.core.model import Retry
from loom_ia.core.model.budget import Budget
from loom_ia.core.state import Status
from loom_ia.graph import (
    END,
    BudgetExhausted,
    Graph,
    Hooks,
    Interrupt,
    InvalidAnswer,
    StopReason,
    agent_step,
    ask_human,
    subgraph,
)
from loom_ia.graph.spec import AgentStep, GraphSpec, HumanSpec, HumanStep, SetStep
from loom_ia.testing import Host, crash_everywhere
from loom_ia.tools import tool

SENT: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


@tool(side_effects="irreversible", approval="always")
async def send(to: str) -> str:
    """Send a letter.

    to: who it is for.
    """
    SENT.append(to)
    return f"sent to {to}"


def model(name: str, *script: dict[str, Any]) -> ModelSpec:
    """Write a model that says what a script says."""
    return ModelSpec(
        id=name,
        sdk="fake",
        model="fake",
        params={"script": list(script)},
        retry=Retry(max_attempts=1),
    )


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """Write a reply that asks for one call."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def agent(name: str, *tools: Any, **more: Any) -> AgentSpec:
    """Describe an agent whose model bears its name."""
    return AgentSpec(name=name, main=MainRole(model=name.upper(), system=name), tools=tools, **more)


def config(*models: ModelSpec, **more: Any) -> LoomConfig:
    """Describe an instance in the profile dev, so that its journal may be in memory."""
    return LoomConfig(version=1, profile="dev", models=models, **more)


def quote() -> GraphSpec:
    """A graph that asks an agent, then a human, then concludes."""
    return GraphSpec(
        name="quote",
        description="Prices something.",
        steps={
            "price": AgentStep(agent="pricer", ask="Price {{ what }}", into="price", then="check"),
            "check": HumanStep(
                ask_human=HumanSpec(prompt="Is {{ price }} right?", response="ok", into="checked"),
                then="conclude",
            ),
            "conclude": SetStep(set={"output": "price + ', checked: ' + checked"}),
        },
    )


def mixed(*, on_root: Budgets | None = None) -> LoomConfig:
    """An agent that calls a graph, whose step runs an agent that sends a letter, then asks."""
    return config(
        model("BOSS", calling("quote", what="a roof"), {"text": "It is done."}),
        model("PRICER", calling("send", to="Durand"), {"text": "900"}),
        agents=(
            agent("boss", GraphTool(graph="quote"), budget=on_root or Budgets()),
            agent("pricer", PythonTool(python="send")),
        ),
        graphs=(quote(),),
    )


@pytest.fixture
async def loom() -> AsyncIterator[Loom]:
    """The mixed instance, mounted."""
    made = Loom(mixed())
    made.register("send", send)
    async with made:
        yield made


async def test_a_graph_runs_on_the_journal_of_the_host(loom: Loom) -> None:
    """It is listed, read and reported with its children, under its own name."""
    result = await loom.run_graph("quote", {"what": "a roof"}, run_id="r1", session_id="s1")
    assert result.stop is StopReason.YIELDED
    assert result.interrupts[0].path == ("price",)
    listed = [(run.run_id, run.agent) for run in (await loom.runs()).runs]
    assert listed == [("r1/price/1", "pricer"), ("r1", "quote")]
    report = await loom.report("r1")
    assert [run.run_id for run in report.runs] == ["r1", "r1/price/1"]


async def test_what_a_child_asks_is_decided_on_the_root(loom: Loom) -> None:
    """D13: the root lists the question of an agent below, a yes on its id goes on to the next."""
    await loom.run_graph("quote", {"what": "a roof"}, run_id="r1")
    (pending,) = (await loom.result("r1")).pending_approvals
    assert (pending.run_id, pending.tool_name, pending.kind) == ("r1/price/1", "send", "approve")
    assert await loom.approve("r1", call_id=pending.call_id) == (pending.call_id,)
    await loom.drain()
    assert SENT == ["Durand"]
    (asked,) = (await loom.result("r1")).pending_approvals
    assert (asked.kind, asked.payload, asked.run_id) == ("input", "Is 900 right?", "r1")
    assert await loom.approve("r1", call_id=asked.call_id, answer="yes")
    await loom.drain()
    result = await loom.result("r1")
    assert (result.status, result.text) == (Status.COMPLETED, "900, checked: yes")


async def test_an_agent_that_calls_a_graph_waits_with_it(loom: Loom) -> None:
    """Three floors: the questions of the lowest come up to the root, in their order."""
    result = await loom.run("boss", "Price a roof", run_id="r1")
    assert result.status is Status.WAITING_CHILD
    (pending,) = result.pending_approvals
    assert pending.run_id.endswith("/price/1")
    await loom.approve("r1")
    await loom.drain()
    (asked,) = (await loom.result("r1")).pending_approvals
    assert asked.kind == "input"
    await loom.approve("r1", call_id=asked.call_id, answer="yes")
    await loom.drain()
    result = await loom.result("r1")
    assert (result.status, result.text) == (Status.COMPLETED, "It is done.")
    assert SENT == ["Durand"]


async def test_a_second_decision_is_told_who_took_the_first(loom: Loom) -> None:
    """The same answer, sent again, is refused and decides nothing else."""
    await loom.run_graph("quote", {"what": "a roof"}, run_id="r1")
    (pending,) = (await loom.result("r1")).pending_approvals
    await loom.approve("r1", call_id=pending.call_id, by="ann", resume=False)
    with pytest.raises(ApprovalStale, match="decided by ann"):
        await loom.approve("r1", call_id=pending.call_id)
    await loom.resume("r1")
    (asked,) = (await loom.result("r1")).pending_approvals
    await loom.approve("r1", call_id=asked.call_id, answer="yes", by="bob", resume=False)
    with pytest.raises(ApprovalStale, match="decided by bob"):
        await loom.approve("r1", call_id=asked.call_id, answer="no")


async def test_a_refusal_reaches_the_agent_below(loom: Loom) -> None:
    """A no on the root is read by the model of the grandchild, and nothing is sent."""
    await loom.run("boss", "Price a roof", run_id="r1")
    await loom.reject("r1", reason="too dear")
    await loom.drain()
    assert SENT == []
    (asked,) = (await loom.result("r1")).pending_approvals
    assert asked.kind == "input"


async def test_an_answer_is_the_same_event_as_a_resume(loom: Loom) -> None:
    """`approve` and `graphs.resume` both write `approval.granted` about the same question."""
    loom.register("ask", single())
    for run_id in ("r1", "r2"):
        await loom.run_graph("ask", run_id=run_id)
    (first,) = (await loom.result("r1")).pending_approvals
    await loom.approve("r1", call_id=first.call_id, answer=3)
    await loom.drain()
    (second,) = (await loom.result("r2")).pending_approvals
    result = await loom.graphs.resume("r2", answers={second.call_id: 3})
    assert result.state == {"n": 3}
    facts = [
        [e.payload.model_dump()["answer"] for e in await loom.events(r) if e.type == GRANTED]
        for r in ("r1", "r2")
    ]
    assert facts == [[3], [3]]


GRANTED = "approval.granted"


def single() -> Graph[Any]:
    """A graph that asks for a number."""
    graph = Graph[Any]("ask")
    graph.add_step("ask", ask_human(response="r", into="n", schema={"type": "integer"}))
    return graph


async def test_an_answer_must_fit_what_is_asked(loom: Loom) -> None:
    """A wrong answer, or a bare yes, is refused and the question stays open."""
    loom.register("ask", single())
    await loom.run_graph("ask", run_id="r1")
    with pytest.raises(InvalidAnswer):
        await loom.approve("r1", answer="three")
    with pytest.raises(Exception, match="wants an answer, not a yes"):
        await loom.approve("r1")
    with pytest.raises(InvalidAnswer):
        await loom.reject("r1")
    assert len((await loom.result("r1")).pending_approvals) == 1


async def test_an_inline_approver_reaches_every_floor(loom: Loom) -> None:
    """The function given to `Loom.run` decides for the graph and for the agent below it."""
    seen: list[tuple[str, str]] = []

    def decide(pending: PendingApproval) -> Approved | Rejected:
        seen.append((pending.kind, pending.run_id.partition("/")[0]))
        return Approved(answer="certainly")

    result = await loom.run("boss", "Price a roof", run_id="r1", approver=decide)
    assert (result.status, result.text) == (Status.COMPLETED, "It is done.")
    assert seen == [("approve", "r1"), ("input", "r1")]
    assert SENT == ["Durand"]


async def test_the_approver_of_a_graph_decides_for_its_agents(loom: Loom) -> None:
    """It is shown interrupts, those of the agent below among them, and the run never pauses."""
    seen: list[str] = []

    def answer(interrupt: Interrupt) -> Any:
        seen.append(interrupt.kind)
        return {"approved": True} if interrupt.kind == "approve" else "indeed"

    result = await loom.run_graph("quote", {"what": "a roof"}, approver=answer)
    assert result.state["output"] == "900, checked: indeed"
    assert seen == ["approve", "input"]


async def test_a_limit_on_the_root_holds_although_a_grandchild_spent_it() -> None:
    """The calls of models of the whole tree are counted against the agent at the top."""
    made = Loom(mixed(on_root=Budgets(run=Budget(max_calls=2))))
    made.register("send", send)
    async with made as loom:
        result = await loom.run(
            "boss", "Price a roof", run_id="r1", approver=lambda _: Approved(answer="yes")
        )
        assert result.finalizing == "budget"
        graph = next(r for r in (await loom.runs()).runs if r.agent == "quote")
        assert (graph.status, graph.error_type) == (Status.FAILED, "graph.BudgetExhausted")


async def test_the_step_budget_of_the_host_binds_graphs() -> None:
    """`budgets.run.max_steps` is the step budget, whoever started the steps."""
    graph = Graph[Any]("loop")
    graph.add_step("turn", lambda s: {"n": s.get("n", 0) + 1}, then="turn")
    made = Loom(config(budgets=Budgets(run=Budget(max_steps=4))))
    made.register("loop", graph)
    async with made as loom:
        with pytest.raises(BudgetExhausted) as caught:
            await loom.run_graph("loop")
        assert caught.value.result.state == {"n": 4}


async def test_a_graph_is_resumed_and_recovered_with_the_others(loom: Loom) -> None:
    """`resume` and `recover` go on with a run whose graph failed, or that nobody drives."""
    fails = [True]

    def work(state: Any) -> dict[str, Any]:
        if fails.pop() if fails else False:
            raise ConnectionError("not now")
        return {"output": "there"}

    graph = Graph[Any]("frail")
    graph.add_step("work", work)
    loom.register("frail", graph)
    result = await loom.run_graph("frail", run_id="r1", raise_on_error=False)
    assert result.stop is StopReason.ERROR
    again = await loom.resume("r1")
    assert (again.status, again.text) == (Status.COMPLETED, "there")
    report = await loom.recover()
    assert len(report) == 0


async def test_a_run_below_is_acted_on_by_its_root(loom: Loom) -> None:
    """Resuming or cancelling it alone is refused, naming the run at the top."""
    await loom.run_graph("quote", {"what": "a roof"}, run_id="r1")
    for act in (loom.resume, loom.cancel):
        with pytest.raises(RunBelow, match="act on the one at the top, r1"):
            await act("r1/price/1")
    assert await loom.cancel("r1")
    statuses = {run.run_id: run.status for run in (await loom.runs()).runs}
    assert statuses == {"r1": Status.CANCELLED, "r1/price/1": Status.CANCELLED}


async def test_an_unknown_graph_is_named(loom: Loom) -> None:
    """The error lists those that there are."""
    with pytest.raises(UnknownGraph, match="graphs: quote"):
        await loom.run_graph("quotes")


async def test_hooks_are_told_on_a_host_too(loom: Loom) -> None:
    """The beginning once, the end of each call that drives."""
    told: list[str] = []
    hooks = Hooks(
        run_started=(lambda info: told.append(f"began {info.run_id}"),),
        run_finished=(lambda result: told.append(str(result.stop)),),
    )
    graph = Graph[Any]("hooked", hooks=hooks)
    graph.add_step("ask", ask_human(response="r", into="n"))
    loom.register("hooked", graph)
    await loom.run_graph("hooked", run_id="r1")
    await loom.approve("r1", answer=1)
    await loom.drain()
    assert told == ["began r1", "yielded", "completed"]


def calls_built() -> LoomConfig:
    """An agent that calls the graph `built` once and ends."""
    boss = model("BOSS", calling("built"), {"text": "Done."})
    tools = GraphTool(graph="built", description="Builds.")
    return config(boss, agents=(agent("boss", tools),))


async def test_hooks_are_told_of_a_graph_that_an_agent_calls() -> None:
    """The beginning once, its context around each drive, each end: as for any other run of it."""
    told: list[str] = []

    @asynccontextmanager
    async def around(info: Any) -> AsyncGenerator[str]:
        told.append(f"in, resumed: {info.resumed}")
        yield "in"
        told.append("out")

    hooks = Hooks(
        run_started=(lambda info: told.append(f"began {info.run_id.partition('/')[0]}"),),
        run_context=around,
        run_finished=(lambda result: told.append(str(result.stop)),),
    )
    graph = Graph[Any]("built", hooks=hooks)
    graph.add_step("ask", ask_human(response="r", into="n"))
    made = Loom(calls_built())
    made.register("built", graph)
    async with made as loom:
        await loom.run("boss", "Go.", run_id="r1")
        assert told == ["began r1", "in, resumed: False", "out", "yielded"]
        told.clear()
        await loom.approve("r1", answer=1)
        await loom.drain()
        (run, _) = (await loom.runs()).runs
        assert run.status is Status.COMPLETED
    assert told == ["in, resumed: True", "out", "completed"]


@pytest.mark.parametrize("at", ["run_started", "run_finished"])
async def test_a_hook_that_refuses_a_graph_is_an_error_for_the_model(at: str) -> None:
    """The agent goes on: what it called did not do what it asked."""

    def refuse(told: Any) -> None:
        raise RuntimeError("no room")

    refusing: dict[str, Any] = {at: (refuse,)}
    graph = Graph[Any]("built", hooks=Hooks(**refusing))
    graph.add_step("one", lambda state: {"n": 1})
    made = Loom(calls_built())
    made.register("built", graph)
    async with made as loom:
        result = await loom.run("boss", "Go.", run_id="r1")
        assert result.status is Status.COMPLETED
        events = await loom.events("r1")
    (ended,) = [e for e in events if e.type == "tool.completed" and e.agent == "boss"]
    payload: Any = ended.payload
    assert payload.output.is_error
    assert "no room" in payload.output.text
    assert payload.error_type == ""


async def test_steps_find_agents_models_and_a_store() -> None:
    """A step is given the store of the host; a child graph keeps it."""
    graph, inner = Graph[Any]("outer"), Graph[Any]("inner")

    async def keep(state: Any, ctx: Any) -> dict[str, Any]:
        await ctx.store.put("notes", "a", b"1")
        return {"kept": await ctx.store.get("notes", "a")}

    inner.add_step("keep", keep)
    graph.add_step("in", subgraph(inner), then="who")
    graph.add_step("who", agent_step("pricer", ask=lambda s: "who?", into="who"), then=END)
    made = Loom(config(model("PRICER", {"text": "me"}), agents=(agent("pricer"),)))
    made.register("outer", graph)
    async with made as loom:
        result = await loom.run_graph("outer")
        assert result.state == {"kept": b"1", "who": "me"}


async def test_a_cycle_is_refused_and_named() -> None:
    """An agent that calls a graph whose step runs the agent would never end."""
    built = Graph[Any]("built")
    built.add_step("back", agent_step("boss", ask="again", into="x"))
    made = Loom(
        config(
            model("BOSS"),
            agents=(agent("boss", GraphTool(graph="built", description="Builds.")),),
        )
    )
    made.register("built", built)
    with pytest.raises(ConfigError, match="boss → boss"):
        made.mount()


async def test_forks_and_history_on_a_host(loom: Loom) -> None:
    """A fork is a run of its own; the history has the steps of the source."""
    graph = Graph[Any]("count")
    graph.add_step("one", lambda s: {"n": 1}, then="two")
    graph.add_step("two", lambda s: {"m": s["n"] + 1})
    loom.register("count", graph)
    await loom.run_graph("count", run_id="r1")
    first, _ = await loom.graphs.history("r1")
    assert first.step == "one"
    forked = await loom.graphs.fork("r1", at=first.seq, input={"n": 5}, new_run_id="r2")
    assert forked.state == {"n": 5, "m": 6}
    assert forked.parent == ("r1", first.seq)
    assert (await loom.graphs.state_at("r1", first.seq)) == {"n": 1}


async def test_kill_it_everywhere() -> None:
    """An agent, a graph, an agent, a letter and a human, with a crash at every write."""

    async def scenario(host: Host) -> None:
        made = host.loom(mixed(), tools=[send])
        async with made as loom:
            result = await loom.run("boss", "Price a roof", run_id="r1")
            while result.pending_approvals:
                (pending,) = result.pending_approvals
                if pending.kind == "input":
                    await loom.approve("r1", call_id=pending.call_id, answer="yes", resume=False)
                else:
                    await loom.approve("r1", call_id=pending.call_id, resume=False)
                result = await loom.resume("r1")
            assert result.text == "It is done."

    report = await crash_everywhere(scenario, effects=lambda: {"send": len(SENT)})
    assert report.ok, str(report)
