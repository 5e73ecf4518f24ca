"""Batches of calls: their order, their ids, their hooks, and what each kind of error says."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from loom_ia.core.errors import ToolError
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext
from loom_ia.graph.dispatch import dispatch, together
from loom_ia.graph.errors import InvalidGraph, PatternError
from loom_ia.graph.tools import ToolCall, ToolHook, ToolResult
from loom_ia.tools import tool


def call(name: str, call_id: str | None = "1", **arguments: Any) -> ToolCall:
    """Ask for a call."""
    return ToolCall(call_id, name, arguments)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(side_effects="irreversible", approval="always")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def raising(error: BaseException) -> Any:
    """Make a tool that raises."""

    @tool(name="bad")
    async def bad() -> str:
        """Go wrong."""
        raise error

    return bad


class Bare:
    """A tool that is no Python function, and gives whatever it is told to."""

    def __init__(self, output: Any = None) -> None:
        self.output = output
        self.spec = ToolSpec(name="bare", description="Bare.", input_schema={"type": "object"})

    async def check(self, arguments: JsonObject) -> str | None:
        return None

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        if isinstance(self.output, BaseException):
            raise self.output
        return self.output


async def test_a_result_has_the_id_the_name_the_text_and_the_value() -> None:
    """A success has no error."""

    @tool
    def price(cents: int) -> dict[str, int]:
        """Give a price."""
        return {"cents": cents}

    results = await dispatch([echo, price], [call("echo", "a", text="hi"), call("price", cents=3)])
    assert results == [
        ToolResult("a", "echo", "hi"),
        ToolResult("1", "price", '{"cents": 3}', data={"cents": 3}),
    ]


async def test_tl06_a_pre_hook_rewrites_the_arguments() -> None:
    """The tool sees the rewritten arguments only, and the result keeps the id."""
    hook = ToolHook(pre=lambda call: ToolCall("other", call.name, {"text": "rewritten"}))
    (result,) = await dispatch([echo], [call("echo", "a", text="original")], hooks=[hook])
    assert result == ToolResult("a", "echo", "rewritten")


async def test_tl07_a_post_hook_sees_every_result() -> None:
    """The results come to the hooks in the order of the calls, refused ones included."""
    log: list[str] = []

    async def audit(call: ToolCall, result: ToolResult) -> None:
        log.append(f"{call.name}: {result.content}")

    calls = [call("echo", text="a"), call("nope"), call("echo", text="b")]
    await dispatch([echo], calls, hooks=[ToolHook(post=audit)])
    assert [line.partition(":")[0] for line in log] == ["echo", "nope", "echo"]
    assert (log[0], log[2]) == ("echo: a", "echo: b")


async def test_tl09_tools_with_effects_run_in_the_order_of_the_calls() -> None:
    """No two of them are ever under way together."""
    log: list[str] = []

    def writer(name: str) -> Any:
        @tool(name=name, side_effects="reversible")
        async def write() -> None:
            """Write."""
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            log.append(f"{name} ends")

        return write

    await dispatch([writer("a"), writer("b")], [call("b"), call("a")])
    assert log == ["b begins", "b ends", "a begins", "a ends"]


async def test_tl08_consecutive_readings_overlap() -> None:
    """Each waits for the other to have begun, which never happens one after the other."""
    both = asyncio.Barrier(2)

    @tool
    async def read() -> str:
        """Read."""
        await both.wait()
        return "read"

    results = await asyncio.wait_for(dispatch([read], [call("read"), call("read")]), 10)
    assert [result.content for result in results] == ["read", "read"]


async def test_w29_a_reading_does_not_cross_a_writing() -> None:
    """A reading that follows a writing reads what was written, one before it what was there."""
    values = ["old"]

    @tool
    async def read() -> str:
        """Read."""
        return values[-1]

    @tool(side_effects="reversible")
    async def write(value: str) -> None:
        """Write."""
        await asyncio.sleep(0)
        values.append(value)

    calls = [call("read"), call("write", value="new"), call("read"), call("read")]
    results = await dispatch([read, write], calls)
    assert [result.content for result in results] == ["old", "", "new", "new"]


async def test_ids_are_generated_and_made_distinct() -> None:
    """What a model gave stays when it can; no two calls share an id."""
    ids = ["x", None, "x", "x_2", "", "call_2"]
    results = await dispatch([echo], [call("echo", i, text=str(i)) for i in ids])
    found = [result.call_id for result in results]
    assert (found[0], found[3], found[5]) == ("x", "x_2", "call_2")
    assert found[2] == "x_3"
    assert len(set(found)) == len(ids)
    assert all(found)


async def test_a_repeated_id_gets_a_suffix() -> None:
    """The second one is `_2`."""
    results = await dispatch([echo], [call("echo", "x", text="a"), call("echo", "x", text="b")])
    assert [(r.call_id, r.content) for r in results] == [("x", "a"), ("x_2", "b")]


@pytest.mark.parametrize("call_id", ["", None, "1"])
async def test_w28_a_blocked_call_is_never_executed(call_id: str | None) -> None:
    """A pre hook that raises blocks the call, whatever its id, and the later hooks are skipped."""
    done: list[str] = []

    @tool
    async def act() -> None:
        """Act."""
        done.append("act")

    def block(call: ToolCall) -> None:
        raise PermissionError("not on Sundays")

    def never(call: ToolCall) -> None:
        done.append("hook")

    hooks = [ToolHook(pre=block), ToolHook(pre=never)]
    (result,) = await dispatch([act], [call("act", call_id)], hooks=hooks)
    assert result.error == "blocked"
    assert result.is_error
    assert "not on Sundays" in result.content
    assert not done


async def test_all_pre_hooks_run_before_any_call() -> None:
    """And for each call the hooks are chained, each seeing what the one before gave."""
    log: list[str] = []

    @tool
    async def act(text: str) -> None:
        """Act."""
        log.append(f"act {text}")

    def more(call: ToolCall) -> ToolCall:
        log.append("pre")
        return ToolCall(call.id, call.name, {"text": call.arguments["text"] + "!"})

    calls = [call("act", text="a"), call("act", text="b")]
    await dispatch([act], calls, hooks=[ToolHook(pre=more), ToolHook(pre=more)])
    assert log[:4] == ["pre"] * 4
    assert sorted(log[4:]) == ["act a!!", "act b!!"]


async def test_a_hook_that_gives_nonsense_blocks() -> None:
    """A guard that is wrong must not let calls pass."""
    hook = ToolHook(pre=cast("Any", lambda call: "yes"))
    (result,) = await dispatch([echo], [call("echo", text="a")], hooks=[hook])
    assert result.error == "blocked"


async def test_w30_a_post_hook_that_raises_makes_an_error() -> None:
    """The result becomes one that failed, with what the hook said."""

    def refuse(call: ToolCall, result: ToolResult) -> None:
        raise ValueError("leaks a secret")

    (result,) = await dispatch([echo], [call("echo", text="a")], hooks=[ToolHook(post=refuse)])
    assert (result.call_id, result.error, result.is_error) == ("1", "failed", True)
    assert "leaks a secret" in result.content


async def test_a_post_hook_replaces_the_result_but_not_its_id() -> None:
    """It is told to whom it belongs."""
    hook = ToolHook(post=lambda call, result: ToolResult("other", "other", "better"))
    (result,) = await dispatch([echo], [call("echo", "a", text="a")], hooks=[hook])
    assert result == ToolResult("a", "echo", "better")


@pytest.mark.parametrize(
    ("match", "names"),
    [
        (None, ["echo", "bare"]),
        ("echo", ["echo"]),
        ("*e", ["bare"]),
        ("ECHO", []),
        (lambda name: name.startswith("e"), ["echo"]),
    ],
)
async def test_a_hook_is_about_the_tools_that_it_matches(
    match: str | Callable[[str], bool] | None, names: list[str]
) -> None:
    """A glob is on the whole name, case-sensitive; a predicate says for itself."""
    seen: list[str] = []
    hook = ToolHook(match, pre=lambda call: seen.append(call.name))
    bare = Bare(ToolOutput.of_text("ok"))
    await dispatch([echo, bare], [call("echo", text="a"), call("bare")], hooks=[hook])
    assert seen == names


@pytest.mark.parametrize("match", ["a[", "", "[z-a]"])
def test_a_hook_refuses_a_malformed_glob(match: str) -> None:
    """Where it is written, not at the first call."""
    with pytest.raises(PatternError):
        ToolHook(match)


@pytest.mark.parametrize("order", [asyncio.CancelledError(), SystemExit(1)], ids=type)
async def test_an_order_that_a_hook_gives_blocks_its_call_alone(order: BaseException) -> None:
    """It does not pass for one given to the caller."""

    def stop(call: ToolCall) -> None:
        if call.arguments["text"] == "a":
            raise order

    calls = [call("echo", text="a"), call("echo", text="b")]
    results = await dispatch([echo], calls, hooks=[ToolHook(pre=stop)])
    assert [result.error for result in results] == ["blocked", None]


async def test_a_fault_of_one_stops_the_others_and_is_raised() -> None:
    """Not the cancellation that it made."""
    left: list[str] = []

    async def wait() -> ToolResult:
        try:
            return await asyncio.Event().wait()  # pyright: ignore[reportReturnType] -- never
        finally:
            left.append("left")

    async def fault() -> ToolResult:
        raise LookupError

    with pytest.raises(LookupError):
        await together([wait(), fault()])
    assert left == ["left"]


@pytest.mark.parametrize(
    "error",
    [ValueError("boom"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("make", [raising, Bare])
async def test_w31_whatever_a_tool_raises_its_siblings_finish(
    error: BaseException, make: Callable[[BaseException], Any]
) -> None:
    """An order that a tool gives to the process is an error of that tool."""
    bad = make(error)
    calls = [call(bad.spec.name), call("echo", text="a"), call(bad.spec.name)]
    results = await dispatch([bad, echo], calls)
    assert [result.error for result in results] == ["failed", None, "failed"]
    assert type(error).__name__ in results[0].content


@pytest.mark.parametrize("output", [None, "text"])
async def test_w31_a_tool_that_gives_no_output_failed(output: Any) -> None:
    """A tool that breaks its contract does not break the batch."""
    results = await dispatch([Bare(output), echo], [call("bare"), call("echo", text="a")])
    assert [result.error for result in results] == ["failed", None]


async def test_a_tool_that_cancels_its_own_task_failed() -> None:
    """It stops nobody else."""

    class Suicidal(Bare):
        async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
            raise AssertionError

    results = await dispatch([Suicidal(), echo], [call("bare"), call("echo", text="a")])
    assert [result.error for result in results] == ["failed", None]


async def test_a_tool_error_is_told_in_its_own_words() -> None:
    """The model reads what the tool addressed to it."""
    (result,) = await dispatch([raising(ToolError("no such town"))], [call("bad")])
    assert (result.content, result.error) == ("no such town", "failed")


async def test_w34_an_unknown_tool_is_refused_with_the_names() -> None:
    """It is not sent anywhere."""
    (result,) = await dispatch([echo, send], [call("ekko")])
    assert result.error == "unknown_tool"
    assert "echo" in result.content
    assert "send" in result.content


@pytest.mark.parametrize("arguments", [None, ["text"], "text"])
async def test_arguments_that_are_no_object_are_an_error(arguments: Any) -> None:
    """A model may write anything."""
    (result,) = await dispatch([echo], [ToolCall("1", "echo", arguments)])
    assert result.error == "invalid_arguments"


@pytest.mark.parametrize("arguments", [{}, {"text": 3}, {"text": "a", "loud": True}, {"text": {1}}])
async def test_w34_arguments_are_checked_and_named(arguments: dict[str, Any]) -> None:
    """The error names the argument at fault, and the tool is not called."""
    (result,) = await dispatch([echo], [ToolCall("1", "echo", arguments)])
    assert result.error == "invalid_arguments"
    assert ("loud" if "loud" in arguments else "text") in result.content


async def test_a_call_that_needs_a_human_is_not_made() -> None:
    """Outside of a loop nobody can be asked; what is wrong with it comes first."""
    results = await dispatch([send, echo], [call("send", to="Ada"), call("send")])
    assert [result.error for result in results] == ["needs_approval", "invalid_arguments"]


async def test_a_tool_that_is_late_is_told_to_stop() -> None:
    """Its time is over: the result says so and the batch goes on."""
    cancelled = asyncio.Event()

    @tool(timeout=0.01)
    async def slow() -> None:
        """Never answer."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    results = await dispatch([slow, echo], [call("slow"), call("echo", text="a")])
    assert [result.error for result in results] == ["timeout", None]
    await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.parametrize("count", [1, 2])
async def test_cancelling_the_caller_cancels_the_tools(count: int) -> None:
    """The tools have left when the cancellation comes out."""
    begun = asyncio.Event()
    ended: list[str] = []

    @tool
    async def wait() -> None:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(9):  # a tool may have something to put away
                await asyncio.sleep(0)
            ended.append("ended")

    task = asyncio.create_task(dispatch([wait], [call("wait")] * count))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended"] * count


@pytest.mark.parametrize("wrong", [lambda text: text, Bare, "echo"])
async def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    """A plain function is told how to become a tool."""
    with pytest.raises(InvalidGraph, match=r"loom_ia\.tools\.tool"):
        await dispatch([wrong], [])


async def test_two_tools_of_one_name_are_refused() -> None:
    """A call could not say which one it means."""
    with pytest.raises(InvalidGraph, match="echo"):
        await dispatch([echo, echo], [])
