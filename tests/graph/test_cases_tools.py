"""Tools inside runs: tool loops that crash, ask and are limited, tool steps, graphs as tools."""

import subprocess
import sys
from typing import Any

import pytest

from loom_ia.core.errors import ToolError
from loom_ia.core.ports.tools import ToolContext
from loom_ia.graph import (
    DEFAULT_MERGE,
    END,
    BudgetExhausted,
    Graph,
    Hooks,
    InvalidAnswer,
    MaxIterationsExceeded,
    MemoryStore,
    Message,
    Reply,
    StepFailed,
    StopReason,
    ToolCall,
    ToolHook,
    UnknownEffect,
    Usage,
    append,
    cost_budget,
    permissions,
    token_budget,
    tool_loop,
    tool_step,
)
from loom_ia.testing import Crash
from loom_ia.tools import tool
from tests.graph.mortal import Mortal
from tests.graph.scripted import Desk, Model, asks, look, send

SHARED = ("dispatch", "permissions", "tool_loop", "tool_step")
State = Any
HI = Message("user", "hi")


def agent(model: Any, tools: Any = (), *, merge: Any = DEFAULT_MERGE, **options: Any) -> Graph[Any]:
    """Make a graph of one tool loop."""
    hooks = options.pop("graph_hooks", None)
    g: Graph[Any] = Graph("agent", merge=merge, hooks=hooks)
    g.add_step("chat", tool_loop(model, tools, **options), then=END)
    return g


@pytest.mark.parametrize("name", SHARED)
def test_a_public_name_is_never_the_module_of_that_name(name: str) -> None:
    """Whatever was imported before, the package gives the function."""
    code = (
        f"import loom_ia.graph.{name}\n"
        f"from loom_ia.graph import {name}\n"
        f"import loom_ia.graph as package\n"
        f"assert callable({name}) and package.{name} is {name}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_tl12_a_single_agent() -> None:
    """With the default merge and typed messages, the output is the final answer."""
    desk = Desk()
    model = Model(asks(look()), "all about loom")
    result = await agent(model, desk.tools()).run({"messages": [HI]})
    assert result.state["output"] == "all about loom"
    assert desk.looked == ["loom"]


async def test_w40_the_conversation_comes_back() -> None:
    """The new messages are appended: question, call, result, answer."""
    model = Model(asks(look()), "done")
    result = await agent(model, Desk().tools()).run({"messages": [HI]})
    roles = [message.role for message in result.state["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    _, call, given, said = result.state["messages"]
    assert call.tool_calls[0].name == "look"
    assert given.tool_call_id == call.tool_calls[0].id
    assert given.text == "about loom"
    assert said.text == "done"


async def test_w40_messages_are_appended_whatever_their_merge() -> None:
    """Without a policy for `messages`, nothing that was there is lost."""
    result = await agent(Model("hello"), merge=None).run({"messages": [HI]})
    assert [message.role for message in result.state["messages"]] == ["user", "assistant"]


async def test_w40_opting_out() -> None:
    """With `transcript=False` the messages stay as they were."""
    result = await agent(Model("hello"), transcript=False).run({"messages": [HI]})
    assert result.state["messages"] == [HI]
    assert result.state["output"] == "hello"


async def test_w36_usage_is_the_sum_of_the_loop() -> None:
    """In the delta and in the result, once."""
    model = Model(
        asks(look("c1"), usage=Usage(input_tokens=100, output_tokens=10, cost_usd=1.0)),
        asks(look("c2", "b"), usage=Usage(input_tokens=150, output_tokens=40, cost_usd=2.0)),
        Reply("done", usage=Usage(input_tokens=5, output_tokens=2, cost_usd=0.1)),
    )
    result = await agent(model, Desk().tools()).run({"messages": [HI]})
    for usage in (result.state["usage"], result.usage):
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (255, 52)
        assert usage.cost_usd == pytest.approx(3.1)


async def test_w04_a_letter_is_sent_once_though_the_model_fails_after() -> None:
    """503 from the model, then a resume: one letter, and the first answer is not asked again."""
    desk = Desk()
    model = Model(asks(send()), ConnectionError("503"), "Sent")
    g = agent(model, desk.tools(approval=False))
    store = MemoryStore()
    with pytest.raises(StepFailed) as caught:
        await g.run({"messages": [HI]}, store=store, run_id="r")
    assert isinstance(caught.value.__cause__, ConnectionError)
    result = await g.resume("r", store=store)
    assert result.state["output"] == "Sent"
    assert desk.sent == ["Ada"]
    assert len(model.requests) == 3
    assert result.total_steps == 1
    roles = [message.role for message in result.state["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]


async def test_w04_a_crash_after_the_letter() -> None:
    """Killed when the result of the letter was written: it is not sent again."""
    mortal = Mortal()
    desk = Desk()
    model = Model(asks(send()), "Sent")
    g = agent(model, desk.tools(approval=False))

    def letter_is_sent(event: Any) -> bool:
        payload = event.payload
        key = str(getattr(payload, "key", ""))
        return key.startswith("tool:") and getattr(payload, "phase", "") == "done"

    dying = mortal.store(letter_is_sent, lands=True)
    with pytest.raises(Crash):
        await g.run({"messages": [HI]}, store=dying, run_id="r")
    result = await g.resume("r", store=mortal.store(), take_over=True)
    assert result.state["output"] == "Sent"
    assert desk.sent == ["Ada"]
    assert len(model.requests) == 2


@pytest.mark.parametrize("policy", ["error", "pause"])
async def test_a_crash_while_the_letter_is_sent(policy: str) -> None:
    """Nobody saw its end: the run stops, or a human says whether it is sent again."""
    mortal = Mortal()
    desk = Desk()
    model = Model(asks(send()), "Sent")
    g: Graph[Any] = Graph("agent", merge=DEFAULT_MERGE)
    step = tool_loop(model, desk.tools(approval=False))
    g.add_step("chat", step, then=END, on_unknown=policy)

    def letter_is_sent(event: Any) -> bool:
        payload = event.payload
        key = str(getattr(payload, "key", ""))
        return key.startswith("tool:") and getattr(payload, "phase", "") == "done"

    with pytest.raises(Crash):
        await g.run({"messages": [HI]}, store=mortal.store(letter_is_sent), run_id="r")
    assert desk.sent == ["Ada"]
    store = mortal.store()
    if policy == "error":
        for _ in range(2):
            with pytest.raises(UnknownEffect) as caught:
                await g.resume("r", store=store, take_over=True)
            assert caught.value.key == "tool:1:s1"
        assert desk.sent == ["Ada"]
        return
    asked = await g.resume("r", store=store, take_over=True)
    assert [one.kind for one in asked.interrupts] == ["unknown_effect"]
    answers = {asked.interrupts[0].id: {"approved": True}}
    result = await g.resume("r", answers=answers, store=store)
    assert result.state["output"] == "Sent"
    assert desk.sent == ["Ada", "Ada"]
    assert desk.keys[0] == desk.keys[1]


# -- approvals inside a batch ---------------------------------------------------------------------


async def paused(desk: Desk, model: Any, **options: Any) -> tuple[Graph[Any], MemoryStore, Any]:
    """Run an agent that writes to somebody until it asks."""
    g = agent(model, desk.tools(), **options)
    store = MemoryStore()
    result = await g.run({"messages": [HI]}, store=store, run_id="r")
    return g, store, result


async def test_lp01_a_call_that_needs_a_human_parks() -> None:
    """It is not made; the others of its batch are; the model is not asked again."""
    desk, model = Desk(), Model(asks(send(), look()), "done")
    _, _, result = await paused(desk, model)
    assert result.stop is StopReason.YIELDED
    (ask,) = result.interrupts
    assert (ask.kind, ask.key, ask.tool, ask.call_id) == ("approve", "s1", "send", "s1")
    assert ask.payload == {"tool": "send", "arguments": {"to": "Ada"}}
    assert ask.step == "chat"
    assert desk.sent == []
    assert desk.looked == ["loom"]
    assert len(model.requests) == 1
    assert result.state == {"messages": [HI]}


async def test_lp03_an_approval_makes_the_call_once() -> None:
    """The model is not asked again for the same turn, and reads one result for each call."""
    desk, model = Desk(), Model(asks(send(), look()), "done")
    g, store, first = await paused(desk, model)
    answers = {first.interrupts[0].id: {"approved": True}}
    result = await g.resume("r", answers=answers, store=store)
    assert result.state["output"] == "done"
    assert desk.sent == ["Ada"]
    assert desk.looked == ["loom"]
    assert len(model.requests) == 2
    given = [m.tool_call_id for m in result.state["messages"] if m.role == "tool"]
    assert given == ["s1", "c1"]
    assert not [key for key in result.state if key.startswith("__")]


async def test_lp04_a_refusal_is_a_result_that_the_model_reads() -> None:
    """An error with the reason; the call is never made."""
    desk, model = Desk(), Model(asks(send()), "I did not send it")
    g, store, first = await paused(desk, model)
    answers = {first.interrupts[0].id: {"approved": False, "reason": "not now"}}
    result = await g.resume("r", answers=answers, store=store)
    assert desk.sent == []
    assert result.state["output"] == "I did not send it"
    (given,) = [m for m in result.state["messages"] if m.role == "tool"]
    assert given.is_error
    assert "not now" in given.text


async def test_lp06_a_loop_that_parks_nothing() -> None:
    """No question, no key of a protocol."""
    result = await agent(Model(asks(look()), "done"), Desk().tools()).run({"messages": [HI]})
    assert result.interrupts == ()
    assert sorted(result.state) == ["messages", "output", "usage"]


async def test_an_approval_may_change_the_arguments() -> None:
    """The call is made with them, and the conversation has them."""
    desk, model = Desk(), Model(asks(send()), "done")
    g, store, first = await paused(desk, model)
    answers = {first.interrupts[0].id: {"approved": True, "arguments": {"to": "Bob"}}}
    result = await g.resume("r", answers=answers, store=store)
    assert desk.sent == ["Bob"]
    call = result.state["messages"][1].tool_calls[0]
    assert dict(call.arguments) == {"to": "Bob"}


async def test_two_calls_that_need_a_human() -> None:
    """Both are asked about at once, and answered apart."""
    desk, model = Desk(), Model(asks(send("s1"), send("s2", "Bob")), "done")
    g, store, first = await paused(desk, model)
    assert [ask.key for ask in first.interrupts] == ["s1", "s2"]
    one, two = first.interrupts
    second = await g.resume("r", answers={two.id: {"approved": True}}, store=store)
    assert [ask.id for ask in second.interrupts] == [one.id]
    assert desk.sent == []
    result = await g.resume("r", answers={one.id: {"approved": False}}, store=store)
    assert desk.sent == ["Bob"]
    given = [(m.tool_call_id, m.is_error) for m in result.state["messages"] if m.role == "tool"]
    assert given == [("s1", True), ("s2", False)]
    assert len(model.requests) == 2


@pytest.mark.parametrize("answer", [True, "yes", {"ok": True}, {"approved": "yes"}, None])
async def test_an_answer_that_is_no_decision(answer: Any) -> None:
    """Nothing is written, and the question is still open."""
    desk = Desk()
    g, store, first = await paused(desk, Model(asks(send()), "done"))
    count = len(await g.events("r", store=store))
    with pytest.raises(InvalidAnswer):
        await g.resume("r", answers={first.interrupts[0].id: answer}, store=store)
    assert len(await g.events("r", store=store)) == count
    assert desk.sent == []


async def test_a_permission_that_asks() -> None:
    """A tool under `ask` is a question of the loop."""
    desk = Desk()
    tools = permissions(desk.tools(approval=False), ask=["send"])
    g: Graph[Any] = Graph("agent", merge=DEFAULT_MERGE)
    g.add_step("chat", tool_loop(Model(asks(send()), "done"), tools), then=END)
    store = MemoryStore()
    first = await g.run({"messages": [HI]}, store=store, run_id="r")
    assert [ask.tool for ask in first.interrupts] == ["send"]
    assert desk.sent == []
    answers = {first.interrupts[0].id: {"approved": True}}
    await g.resume("r", answers=answers, store=store)
    assert desk.sent == ["Ada"]


async def test_an_approver_decides_calls_in_line() -> None:
    """No store is needed, and nothing pauses."""
    desk, model = Desk(), Model(asks(send()), "done")
    g = agent(model, desk.tools())
    result = await g.run({"messages": [HI]}, approver=lambda ask: {"approved": ask.tool == "send"})
    assert result.state["output"] == "done"
    assert desk.sent == ["Ada"]


async def test_hooks_of_tools_are_asked_once_across_a_pause() -> None:
    """What a hook said before the pause holds after it."""
    seen: list[str] = []

    def pre(call: ToolCall) -> None:
        seen.append(f"pre {call.id}")

    def post(call: ToolCall, result: Any) -> None:
        seen.append(f"post {call.id}")

    desk, model = Desk(), Model(asks(send(), look()), "done")
    g, store, first = await paused(desk, model, hooks=[ToolHook(pre=pre, post=post)])
    assert seen == ["pre s1", "pre c1"]
    answers = {first.interrupts[0].id: {"approved": True}}
    await g.resume("r", answers=answers, store=store)
    assert seen == ["pre s1", "pre c1", "post s1", "post c1"]


# -- limits ---------------------------------------------------------------------------------------


async def test_tl03_a_model_that_never_concludes() -> None:
    """Asked a last time without tools and calling all the same: the step fails, with its cause."""
    n = 0

    async def model(request: Any) -> Reply:
        nonlocal n
        n += 1
        return asks(look(f"c{n}", f"t{n}"))

    with pytest.raises(StepFailed) as caught:
        await agent(model, Desk().tools(), max_iterations=3).run({"messages": [HI]})
    assert isinstance(caught.value.__cause__, MaxIterationsExceeded)
    assert caught.value.result.stop is StopReason.ERROR
    assert n == 4


async def test_w39_budgets_are_checked_before_each_call_of_the_model() -> None:
    """The loop stops at the first call that would go over, not after twenty."""
    usage = Usage(input_tokens=60, output_tokens=0)
    model = Model(*(asks(look(f"c{n}", f"t{n}"), usage=usage) for n in range(20)), "done")
    g = agent(model, Desk().tools(), graph_hooks=Hooks(after=[token_budget(100)]))
    with pytest.raises(BudgetExhausted, match="token") as caught:
        await g.run({"messages": [HI]}, store=MemoryStore())
    assert caught.value.result.stop is StopReason.BUDGET
    assert len(model.requests) == 2
    assert caught.value.graph == "agent"
    assert caught.value.step == "chat"


async def test_w39_a_budget_of_the_root_binds_the_loops_below() -> None:
    """A loop in a child counts for the hooks of the graph above."""
    usage = Usage(input_tokens=1, output_tokens=0, cost_usd=0.6)
    model = Model(*(asks(look(f"c{n}", f"t{n}"), usage=usage) for n in range(20)), "done")
    child = agent(model, Desk().tools())
    g: Graph[Any] = Graph("top", hooks=Hooks(after=[cost_budget(1.0)]))
    g.add_step("run", child.as_step(), then=END)
    with pytest.raises(BudgetExhausted) as caught:
        await g.run({"messages": [HI]}, store=MemoryStore())
    assert caught.value.graph == "top"
    assert caught.value.result.stop is StopReason.BUDGET


async def test_w35_each_usage_counts_once() -> None:
    """A dollar, then steps that cost nothing: 2.5 dollars are enough."""
    model = Model(Reply("done", usage=Usage(input_tokens=1, output_tokens=1, cost_usd=1.0)))
    g: Graph[Any] = Graph("g", "chat", hooks=Hooks(after=[cost_budget(2.5)]))
    g.add_step("chat", tool_loop(model), then="b")
    g.add_step("b", lambda state: {"b": 1}, then="c")
    g.add_step("c", lambda state: {"c": 1}, then=END)
    result = await g.run({"messages": [HI]})
    assert result.stop is StopReason.COMPLETED
    assert result.usage is not None
    assert result.usage.cost_usd == pytest.approx(1.0)


async def test_w37_one_hook_serves_several_runs() -> None:
    """Counts are those of a run; a resume goes on with the rest."""
    hook = token_budget(100)
    for _ in range(3):
        model = Model(Reply("done", usage=Usage(input_tokens=80, output_tokens=0)))
        g = agent(model, graph_hooks=Hooks(after=[hook]))
        assert (await g.run({"messages": [HI]})).stop is StopReason.COMPLETED


async def test_a_loop_that_fails_pays_for_what_it_spent() -> None:
    """A loop that was cut and goes on counts each answer once."""
    usage = Usage(input_tokens=60, output_tokens=0)
    model = Model(asks(look(), usage=usage), ConnectionError("503"), Reply("done", usage=usage))
    g = agent(model, Desk().tools())
    store = MemoryStore()
    await g.run({"messages": [HI]}, store=store, run_id="r", raise_on_error=False)
    result = await g.resume("r", store=store)
    assert result.usage is not None
    assert result.usage.input_tokens == 120


# -- tools as steps, graphs as tools --------------------------------------------------------------


@tool
def gross(net: float) -> float:
    """Add the tax."""
    return net * 1.2


async def test_a_tool_as_a_step() -> None:
    """What it gave goes under a key; the tool is called once, even across a resume."""
    g: Graph[Any] = Graph("g", "price")
    step = tool_step(gross, args=lambda state: {"net": state["net"]}, into="gross")
    g.add_step("price", step, then=END)
    result = await g.run({"net": 10.0})
    assert result.state["gross"] == pytest.approx(12.0)


async def test_a_tool_step_whose_result_is_an_error_fails() -> None:
    """Wrong arguments, or a tool that raises: the step fails."""

    @tool
    def broken(x: int) -> int:
        """Break."""
        raise ToolError("no paper")

    for args, text in (({"x": 1}, "no paper"), ({"x": "one"}, "x")):
        g: Graph[Any] = Graph("g")
        g.add_step("t", tool_step(broken, args=lambda state, args=args: args, into="y"), then=END)
        with pytest.raises(StepFailed, match=text):
            await g.run({})


async def test_a_tool_step_that_needs_a_human() -> None:
    """It asks about the very arguments, and is called once."""
    desk = Desk()
    _, letter = desk.tools()
    g: Graph[Any] = Graph("g")
    g.add_step("t", tool_step(letter, args=lambda state: {"to": state["to"]}, into="y"), then=END)
    store = MemoryStore()
    first = await g.run({"to": "Ada"}, store=store, run_id="r")
    (ask,) = first.interrupts
    assert ask.payload == {"tool": "send", "arguments": {"to": "Ada"}}
    result = await g.resume("r", answers={ask.id: {"approved": True}}, store=store)
    assert result.state["y"] == "sent to Ada"
    assert desk.sent == ["Ada"]


async def test_a_crash_after_a_tool_step_acted() -> None:
    """What the tool gave was recorded: it is not called again."""
    mortal = Mortal()
    desk = Desk()
    _, letter = desk.tools(approval=False)
    g: Graph[Any] = Graph("g")
    g.add_step("t", tool_step(letter, args=lambda state: {"to": "Ada"}, into="y"), then=END)
    dying = mortal.store(lambda event: event.type == "tool.completed")
    with pytest.raises(Crash):
        await g.run({}, store=dying, run_id="r")
    result = await g.resume("r", store=mortal.store(), take_over=True)
    assert result.state["y"] == "sent to Ada"
    assert desk.sent == ["Ada"]


def research(runs: list[str]) -> Graph[Any]:
    """Make a graph that looks a topic up."""
    g: Graph[Any] = Graph("research")

    def find(state: State) -> dict[str, Any]:
        runs.append(state["topic"])
        return {"output": f"all about {state['topic']}"}

    g.add_step("find", find, then=END)
    return g


async def test_a_graph_as_a_tool_of_a_loop() -> None:
    """The model calls it by its name, and reads its output."""
    runs: list[str] = []
    as_tool = research(runs).as_tool(name="research", description="Look a topic up")
    call = ToolCall("c1", "research", {"topic": "looms"})
    model = Model(asks(call), "done")
    result = await agent(model, [as_tool, gross]).run({"messages": [HI]})
    assert result.state["output"] == "done"
    assert runs == ["looms"]
    (given,) = [m for m in result.state["messages"] if m.role == "tool"]
    assert given.text == "all about looms"
    assert [one.name for one in model.requests[0].tools] == ["research", "gross"]
    assert model.requests[0].tools[0].description == "Look a topic up"


async def test_a_graph_as_a_tool_that_fails_is_an_error_for_the_model() -> None:
    """The loop goes on."""
    g: Graph[Any] = Graph("broken")

    def broken(state: State) -> None:
        raise RuntimeError("no")

    g.add_step("a", broken)
    as_tool = g.as_tool(name="broken", description="Break")
    model = Model(asks(ToolCall("c1", "broken", {})), "sorry")
    result = await agent(model, [as_tool]).run({"messages": [HI]})
    (given,) = [m for m in result.state["messages"] if m.role == "tool"]
    assert given.is_error
    assert result.state["output"] == "sorry"


async def test_a_graph_as_a_tool_with_side_effects_is_called_once() -> None:
    """Declared irreversible, its call is an effect that is never repeated unseen."""
    mortal = Mortal()
    runs: list[str] = []
    as_tool = research(runs).as_tool(name="research", description="d", side_effects="irreversible")
    model = Model(asks(ToolCall("c1", "research", {"topic": "x"})), "done")
    g = agent(model, [as_tool])

    def given(event: Any) -> bool:
        payload = event.payload
        key = str(getattr(payload, "key", ""))
        return key.startswith("tool:") and getattr(payload, "phase", "") == "done"

    with pytest.raises(Crash):
        await g.run({"messages": [HI]}, store=mortal.store(given), run_id="r")
    with pytest.raises(UnknownEffect):
        await g.resume("r", store=mortal.store(), take_over=True)
    assert runs == ["x"]


@pytest.mark.parametrize("name", ["", "two words", "é"])
def test_a_name_that_no_model_can_call(name: str) -> None:
    """A tool is named as the engine names tools."""
    with pytest.raises(ValueError):  # noqa: PT011 -- the words are those of the tools of the engine
        research([]).as_tool(name=name, description="d")


async def test_a_tool_context_in_a_loop() -> None:
    """A tool knows its run, and has a key of its own per call."""
    keys: list[str] = []

    @tool(side_effects="reversible")
    def note(text: str, ctx: ToolContext) -> str:
        """Note something."""
        keys.append(ctx.idempotency_key)
        return "noted"

    calls = [ToolCall(f"c{n}", "note", {"text": str(n)}) for n in range(2)]
    await agent(Model(asks(*calls), "done"), [note]).run({"messages": [HI]})
    assert len(set(keys)) == 2


async def test_a_loop_in_two_branches() -> None:
    """Two agents at once: each has its own conversation, and both are merged in order."""

    def agents(name: str) -> Any:
        async def model(request: Any) -> str:
            return f"{name} saw {len(request.messages)}"

        return model

    g: Graph[Any] = Graph("g", "split", merge={"messages": append, "output": append})
    g.add_step("split", lambda state: None, then=["a", "b"])
    for name in ("a", "b"):
        child: Graph[Any] = Graph(f"agent-{name}", merge=DEFAULT_MERGE)
        child.add_step("chat", tool_loop(agents(name)), then=END)
        outputs = lambda state: {"output": [state["output"]]}  # noqa: E731
        g.add_step(name, child.as_step(outputs=outputs), then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({"messages": [HI]})
    assert result.state["output"] == ["a saw 1", "b saw 1"]


async def test_loops_as_branches_append_their_conversations_in_order() -> None:
    """Appended messages of two loops meet in the order of declaration, whatever the policy."""

    def model(name: str) -> Any:
        async def answer(request: Any) -> str:
            return name

        return answer

    g: Graph[Any] = Graph("g", "split", merge=DEFAULT_MERGE)
    g.add_step("split", lambda state: None, then=["a", "b"])

    def only_messages(name: str) -> Any:
        loop = tool_loop(model(name))

        async def step(state: State, ctx: Any) -> dict[str, Any]:
            delta = dict(await loop(state, ctx))
            return {"messages": delta["messages"]}

        return step

    g.add_step("a", only_messages("a"), then="meet")
    g.add_step("b", only_messages("b"), then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({"messages": [HI]})
    assert [m.text for m in result.state["messages"]] == ["hi", "a", "b"]
