"""What the state of a run may hold, and how it looks to steps, callers and the journal."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from loom_ia.graph import (
    DEFAULT_MERGE,
    DELETE,
    END,
    Ask,
    DuplicateKey,
    Goto,
    Graph,
    LoomError,
    MemoryStore,
    MergeError,
    Message,
    NonDeterministicStep,
    NotSerializable,
    StepContext,
    StepFailed,
    StopReason,
    ToolCall,
    UnknownKey,
    Usage,
    add,
    append,
    branch,
    by_id,
    condition,
    maximum,
    merge_dict,
    minimum,
    union,
)

State = Mapping[str, Any]


async def last(g: Graph[Any], store: Any) -> int:
    """Give the place of the last event of the run."""
    return (await g.events("r", store=store))[-1].seq


class Colour(Enum):
    """Declared in `types`."""

    RED = "red"


@dataclass(frozen=True)
class Point:
    """Declared in `types`."""

    x: int
    y: tuple[int, ...] = ()


class Order(BaseModel):
    """Declared in `types`."""

    ref: str
    total: Decimal


async def through_a_pause(g: Graph[Any], given: Any, more: Any = None) -> Any:
    """Run a graph that asks once, go on, and give the final state."""
    store = MemoryStore()
    paused = await g.run(given, store=store, run_id="r")
    assert paused.yielded
    return (await g.resume("r", {} if more is None else more, store=store)).state


def pauses(**options: Any) -> Graph[Any]:
    """Make a graph that only asks."""
    return Graph("g", **options).add_step("ask", lambda s: Ask("?", phase="after"))


# -- values -------------------------------------------------------------------------------------


VALUES: dict[str, Any] = {
    "none": None,
    "bool": True,
    "int": 9007199254740993,
    "huge": 10**60,
    "float": 0.1,
    "text": "é\n\"'",
    "list": [1, [2, {"x": None}]],
    "dict": {"a": {"b": [1]}, "$tuple": "no tag"},
    "tuple": (1, (2, "x")),
    "set": {1, 2},
    "frozenset": frozenset({"a"}),
    "bytes": b"\x00\xff",
    "decimal": Decimal("1.10"),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "naive": datetime(2026, 1, 2),  # noqa: DTZ001 -- a value like another
    "date": date(2026, 1, 2),
    "time": time(1, 2, 3),
    "delta": timedelta(days=1, microseconds=3),
    "uuid": UUID(int=7),
    "enum": Colour.RED,
    "dataclass": Point(1, (2, 3)),
    "pydantic": Order(ref="a", total=Decimal("9.90")),
    "usage": Usage(input_tokens=3, cost_usd=0.5),
    "message": Message("user", "hello"),
}


@pytest.mark.parametrize("name", VALUES)
async def test_st10_w15_every_value_comes_back_as_it_was(name: str) -> None:
    """From an input and from a delta, through a pause, with its type."""
    value = VALUES[name]
    g: Graph[Any] = Graph("g", types=[Colour, Point, Order])
    g.add_step("write", lambda s: {"written": s["given"]}, "ask")
    g.add_step("ask", lambda s: Ask("?", phase="after"), "read")
    g.add_step("read", lambda s: {"read": [s["written"]]})
    state = await through_a_pause(g, {"given": value})
    for back in (state["given"], state["written"], state["read"][0]):
        assert back == value
        assert type(back) is type(value)


async def test_w14_whole_numbers_stay_whole() -> None:
    """A sum goes on after a pause where it was."""
    state = await through_a_pause(pauses(merge={"n": add}), {"n": 10}, {"n": 5})
    assert state == {"n": 15}
    assert type(state["n"]) is int


async def test_w16_w17_messages_with_calls_come_back() -> None:
    """Typed messages are appended, and what they called is still there after a pause."""
    call = ToolCall("c1", "look", {"topic": "loom", "deep": {"n": [1, 2]}})
    messages = [
        Message("user", "look it up"),
        Message("assistant", "", tool_calls=[call]),
        Message("tool", "found", tool_call_id="c1", is_error=True),
    ]
    g = pauses(merge=DEFAULT_MERGE)
    more = [Message("user", "thanks")]
    state = await through_a_pause(g, {"messages": messages}, {"messages": more})
    assert state["messages"] == [*messages, *more]
    (back,) = state["messages"][1].calls
    assert (back.call_id, back.name, back.arguments) == ("c1", "look", call.arguments)
    assert state["messages"][2].role == "tool"


async def test_w15_a_value_that_cannot_be_kept_is_named() -> None:
    """The step that wrote it fails, with the place and the type; nothing is imported by a name."""

    class Stranger:
        pass

    for value, place in (
        ({"a": [Stranger()]}, "x.a[0]"),
        ({1: "key"}, "x"),
        (Point(1), "x"),
        (float("inf"), "x"),
        (lambda: None, "x"),
    ):
        g: Graph[Any] = Graph("g").add_step("s", lambda s, value=value: {"x": value})
        with pytest.raises(NotSerializable) as caught:
            await g.run()
        assert caught.value.key_path.startswith(place)
        assert caught.value.step == "s"
        assert caught.value.result.stop is StopReason.ERROR


async def test_merges_of_every_kind_in_a_run() -> None:
    """Each does what it says, on what is there and on what is not."""
    merge = {
        "l": append,
        "n": add,
        "d": add,
        "s": union,
        "u": union,
        "hi": maximum,
        "lo": minimum,
        "m": merge_dict,
        "rows": by_id,
    }
    g: Graph[Any] = Graph("g", merge=merge)
    delta: dict[str, Any] = {
        "l": (3,),
        "n": 1,
        "d": Decimal("0.1"),
        "s": {2, 3},
        "u": ["b", "c", "c"],
        "hi": 5,
        "lo": 5,
        "m": {"b": {"new": 1}},
        "rows": [{"id": 2, "v": "new"}, {"id": 3, "v": "c"}],
    }
    g.add_step("s1", lambda s: delta)
    begun = {
        "l": [1, 2],
        "n": 1,
        "d": Decimal("0.2"),
        "s": {1, 2},
        "u": ["a", "b"],
        "hi": 9,
        "lo": 9,
        "m": {"a": 1, "b": {"old": 1}},
        "rows": [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}],
    }
    assert (await g.run(begun)).state == {
        "l": [1, 2, 3],
        "n": 2,
        "d": Decimal("0.3"),
        "s": {1, 2, 3},
        "u": ["a", "b", "c"],
        "hi": 9,
        "lo": 5,
        "m": {"a": 1, "b": {"new": 1}},
        "rows": [{"id": 1, "v": "a"}, {"id": 2, "v": "new"}, {"id": 3, "v": "c"}],
    }
    empty = (await g.run()).state
    assert (empty["n"], empty["hi"], list(empty["l"])) == (1, 5, [3])


async def test_a_merge_of_the_user_is_not_called_again() -> None:
    """What it returned is journalled: a pause, a failure or a read does not ask it again."""
    calls: list[tuple[Any, Any]] = []

    def double(existing: Any, incoming: Any) -> Any:
        from loom_ia.graph import MISSING

        calls.append((existing is MISSING, incoming))
        return incoming * 2

    g: Graph[Any] = Graph("g", merge={"n": double}).add_step("a", lambda s: {"n": 2}, "ask")
    g.add_step("ask", lambda s: Ask("?", phase="after"))
    store = MemoryStore()
    await g.run(store=store, run_id="r")
    assert calls == [(True, 2)]
    assert (await g.resume("r", {}, store=store)).state == {"n": 4}
    assert await g.state_at("r", await last(g, store), store=store) == {"n": 4}
    assert calls == [(True, 2)]


# -- typed states -------------------------------------------------------------------------------


class Chat(TypedDict, total=False):
    """Its merges stand in the annotations."""

    log: Annotated[list[str], append]
    cost: Annotated[float, add]
    output: str


async def test_a_typed_dict() -> None:
    """Its merges apply, its steps see a mapping, and the caller gets a plain dict."""
    g = Graph("chat", state=Chat)
    g.add_step("a", lambda s: {"log": ["a"], "cost": 0.25}, "b")
    g.add_step("b", lambda s: {"log": ["b"], "cost": 0.5, "output": ",".join(s["log"])})
    result = await g.run({"log": ["in"]})
    assert result.state == {"log": ["in", "a", "b"], "cost": 0.75, "output": "in,a"}
    assert type(result.state) is dict


async def test_a_typed_dict_has_no_other_keys() -> None:
    """In an input nothing is written; in a delta the step fails; on a resume nothing is written."""
    store = MemoryStore()
    g = Graph("chat", state=Chat).add_step("a", lambda s: {"typo": 1})
    with pytest.raises(UnknownKey) as before:
        await g.run({"typo": 1}, store=store, run_id="r")
    assert (before.value.key, before.value.result) == ("typo", None)
    with pytest.raises(UnknownKey) as inside:
        await g.run(store=store, run_id="r")
    assert (inside.value.key, inside.value.step) == ("typo", "a")
    assert inside.value.result.failed_step == "a"
    asks = Graph("asks", state=Chat).add_step("a", lambda s: Ask("?", phase="after"))
    await asks.run(store=store, run_id="p")
    with pytest.raises(UnknownKey):
        await asks.resume("p", {"typo": 1}, store=store)
    assert (await asks.resume("p", {"log": ["x"]}, store=store)).state == {"log": ["x"]}


@dataclass(frozen=True)
class Plan:
    """A state of its own class."""

    goal: str
    steps: Annotated[list[str], append] = field(default_factory=list[str])
    n: Annotated[int, add] = 0
    note: str | None = None


class Basket(BaseModel):
    """A state of a Pydantic model."""

    model_config = ConfigDict(frozen=True)

    goal: str
    steps: Annotated[list[str], append] = []
    n: Annotated[int, add] = 0
    note: str | None = None


@pytest.mark.parametrize("kind", [Plan, Basket])
@pytest.mark.parametrize("given", ["instance", "mapping"])
async def test_a_state_of_a_class(kind: Any, given: str) -> None:
    """Steps, routers and hooks get an instance, give a delta or a changed copy; so does the end."""
    seen: list[Any] = []

    def changed(s: Any) -> Any:
        change = {"steps": [*s.steps, "copy"], "n": s.n + 1}
        return replace(s, **change) if kind is Plan else s.model_copy(update=change)

    async def delta(s: Any, ctx: StepContext) -> dict[str, Any]:
        return {"steps": ["delta"], "n": 10}

    g: Graph[Any] = Graph("typed", state=kind)
    g.add_step("copy", changed, condition(lambda s: s.n > 0, "delta", END))
    g.add_step("delta", delta, branch("goal", {"win": "last"}, default=END))
    g.add_step("last", lambda s: {"note": s.goal})
    g.before(lambda step, s: seen.append(s))
    begin = kind(goal="win") if given == "instance" else {"goal": "win"}
    result = await g.run(begin)
    assert result.state == kind(goal="win", steps=["copy", "delta"], n=11, note="win")
    assert isinstance(result.state, kind)
    assert all(isinstance(s, kind) for s in seen)
    seen[0].steps.append("leaked")
    assert result.state.steps == ["copy", "delta"]


@pytest.mark.parametrize("kind", [Plan, Basket])
async def test_a_state_of_a_class_through_a_pause(kind: Any) -> None:
    """It comes back as an instance, with its input merged by its merges; required keys too."""
    g: Graph[Any] = Graph("typed", state=kind)
    g.add_step("ask", lambda s: Ask("?", phase="after", update={"n": 1}, into="note"), "end")
    g.add_step("end", lambda s: {"steps": [s.note]})
    store = MemoryStore()
    paused = await g.run(kind(goal="win", n=1), store=store, run_id="r")
    assert paused.state == kind(goal="win", n=2)
    (ask,) = paused.interrupts
    done = await g.resume("r", {"n": 5, "goal": "draw"}, store=store, answers={ask.id: "said"})
    assert done.state == kind(goal="draw", n=7, note="said", steps=["said"])


@pytest.mark.parametrize("kind", [Plan, Basket])
async def test_a_state_of_a_class_is_checked(kind: Any) -> None:
    """A missing key, one too many, one deleted, or another thing than a state."""
    g: Graph[Any] = Graph("typed", state=kind).add_step("s", lambda s: {"goal": DELETE})
    for wrong in ({}, {"goal": "x", "typo": 1}, 3):
        with pytest.raises(LoomError):
            await g.run(wrong)
    with pytest.raises(LoomError) as caught:
        await g.run({"goal": "x"})
    assert getattr(caught.value, "step", None) == "s"
    g.add_step("s", lambda s: {"steps": "text"}, replace=True)
    with pytest.raises(MergeError) as merge:
        await g.run({"goal": "x"})
    assert merge.value.key == "steps"


@pytest.mark.parametrize("kind", [Plan, Basket])
async def test_a_state_of_a_class_cannot_be_changed(kind: Any) -> None:
    """An instance is frozen for a step; what it holds is the step's own copy."""

    def spoil(s: Any) -> None:
        s.steps.append("leaked")
        s.n = 9

    g: Graph[Any] = Graph("typed", state=kind).add_step("s", spoil)
    with pytest.raises(StepFailed) as caught:
        await g.run({"goal": "x"})
    assert caught.value.result.state == kind(goal="x")


async def test_goto_and_ask_in_a_typed_state() -> None:
    """Their updates are checked as a delta is."""
    for given in (Goto(END, update={"typo": 1}), Ask("?", update={"typo": 1})):
        g = Graph("chat", state=Chat).add_step("a", lambda s, given=given: given)
        with pytest.raises(UnknownKey) as caught:
            await g.run(store=MemoryStore())
        assert caught.value.step == "a"


# -- inside a step ------------------------------------------------------------------------------


async def test_w23_effects_before_a_question_are_not_repeated() -> None:
    """What is recorded is given back; appended items are not doubled."""
    store, made = MemoryStore(), list[str]()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        keys.append(ctx.idempotency_key)
        draft = await ctx.effect("draft", lambda: made.append("draft") or {"t": (1, 2)})
        now, draw, name = await ctx.now(), await ctx.random(), await ctx.uuid()
        lots.append((now, draw, name, await ctx.now()))
        answer = await ctx.interrupt({"draft": draft}, key="ok")
        await ctx.effect("send", made.append, side_effects="irreversible")
        return {"log": ["asked", answer], "draft": draft}

    keys: list[str] = []
    lots: list[Any] = []
    g: Graph[Any] = Graph("g", merge={"log": append}).add_step("s", step)
    paused = await g.run({"log": []}, store=store, run_id="r")
    assert paused.interrupts[0].payload == {"draft": {"t": (1, 2)}}
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: "yes"})
    assert done.state == {"log": ["asked", "yes"], "draft": {"t": (1, 2)}}
    assert made[0] == "draft"
    assert len(made) == 2
    assert keys[0] == keys[1]
    assert made[1] not in ("", keys[0])
    assert lots[0] == lots[1]
    assert isinstance(lots[0][0], datetime)
    assert lots[0][0].tzinfo is not None
    assert 0 <= lots[0][1] < 1
    UUID(lots[0][2])


async def test_effects_of_every_form() -> None:
    """Sync, async, with or without its key; what it gives must be serialisable."""
    got: list[Any] = []

    async def later() -> int:
        await asyncio.sleep(0)
        return 2

    async def keyed(key: str) -> str:
        return key

    async def step(s: State, ctx: StepContext) -> None:
        got.append(await ctx.effect("sync", lambda: 1))
        got.append(await ctx.effect("async", later))
        got.append(await ctx.effect("keyed", keyed))
        got.append(await ctx.effect("keyed2", lambda key: key))

    g: Graph[Any] = Graph("g").add_step("s", step)
    await g.run()
    assert got[:2] == [1, 2]
    assert got[2] != got[3]

    async def bad(s: State, ctx: StepContext) -> None:
        await ctx.effect("bad", object)

    with pytest.raises(NotSerializable) as caught:
        await Graph("g").add_step("s", bad).run()
    assert caught.value.step == "s"


async def test_a_key_is_used_once() -> None:
    """Twice in one execution fails the step; effects and questions are apart."""

    async def twice(s: State, ctx: StepContext) -> None:
        await ctx.effect("k", lambda: 1)
        await ctx.effect("k", lambda: 2)

    with pytest.raises(StepFailed) as caught:
        await Graph("g").add_step("s", twice).run()
    assert isinstance(caught.value.__cause__, DuplicateKey)

    async def apart(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"a": [await ctx.effect("k", lambda: 1), await ctx.interrupt(key="k")]}

    g: Graph[Any] = Graph("g").add_step("s", apart)
    assert (await g.run(approver=lambda question: 2)).state == {"a": [1, 2]}


async def test_a_step_must_ask_for_the_same_again() -> None:
    """Recorded keys first, in their order, before any new one."""
    store, runs = MemoryStore(), list[int]()

    async def step(s: State, ctx: StepContext) -> None:
        runs.append(1)
        if len(runs) > 1:
            await ctx.effect("other", lambda: 0)
        await ctx.effect("first", lambda: 1)
        await ctx.interrupt("?")

    g: Graph[Any] = Graph("g").add_step("s", step)
    await g.run(store=store, run_id="r")
    with pytest.raises(NonDeterministicStep) as caught:
        await g.resume("r", {}, store=store)
    error = caught.value
    assert (error.step, error.graph, error.run_id) == ("s", "g", "r")
    assert error.result.stop is StopReason.ERROR
    assert error.result.failed_step == "s"
    assert "other" in str(error)
    assert "first" in str(error)


async def test_an_effect_that_raised_is_made_again() -> None:
    """It ended: nothing about it is unknown, whatever it does outside."""
    store, tries = MemoryStore(), list[str]()

    def send(key: str) -> str:
        tries.append(key)
        if len(tries) == 1:
            raise ConnectionError("later")
        return "sent"

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"done": await ctx.effect("send", send, side_effects="irreversible")}

    g: Graph[Any] = Graph("g").add_step("s", step)
    with pytest.raises(StepFailed) as caught:
        await g.run(store=store, run_id="r")
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert (await g.resume("r", store=store)).state == {"done": "sent"}
    assert tries[0] == tries[1]


async def test_catching_a_question_does_not_pass_it() -> None:
    """A step that catches everything still pauses."""
    store = MemoryStore()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        try:
            return {"got": await ctx.interrupt("?")}
        except BaseException:  # noqa: BLE001 -- what it tells not to do
            return {"got": "nothing"}

    g: Graph[Any] = Graph("g").add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    assert paused.yielded
    assert paused.state == {}
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: 1})
    assert done.state == {"got": 1}


# -- per step, for a step that is a graph -------------------------------------------------------


async def test_a_large_value_is_kept() -> None:
    """Hundreds of kilobytes come back as they were."""
    text = "é" * 300_000
    assert (await through_a_pause(pauses(), {"text": text}))["text"] == text


async def test_usage_is_summed() -> None:
    """What the steps wrote as usage, children included, in every result."""
    child: Graph[Any] = Graph("child")
    child.add_step("c", lambda s: {"usage": Usage(input_tokens=5, output_tokens=1, cost_usd=0.5)})
    g: Graph[Any] = Graph("g")
    g.add_step("a", lambda s: {"usage": Usage(input_tokens=10, cost_usd=0.25)}, "child")
    g.add_step("child", child.as_step(outputs=lambda s: {"done": 1}), "b")
    g.add_step("b", lambda s: {"usage": Usage(output_tokens=4)})
    usage = (await g.run()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (15, 5)
    assert usage.cost_usd == pytest.approx(0.75)
    assert (await Graph("none").add_step("a", lambda s: None).run()).usage is None
