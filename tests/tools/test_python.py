"""A tool is its function, with declarations around it and a way to be called by an engine."""

import asyncio
import contextvars
import inspect
import threading
from typing import Any

import pytest

from loom_ia.core.errors import OutsideError, UnstorableValue
from loom_ia.core.ports import Tool
from loom_ia.tools import PythonTool, ToolContext, ToolDefinitionError, ToolError, tool

CONTEXT = ToolContext("t", "s", "r", "c", "agent", idempotency_key="r:c")


@tool
def price(amount: float, rate: float = 20.0) -> dict[str, float]:
    """Work out a price with tax. The rate is a percentage."""
    return {"total": round(amount * (1 + rate / 100), 2)}


@tool(side_effects="irreversible", approval="always", on_unknown="pause", timeout=20)
async def send(recipient: str, ctx: ToolContext) -> str:
    """Send an email."""
    await asyncio.sleep(0)
    return f"{recipient} {ctx.idempotency_key}"


async def test_a_tool_called_as_a_function_is_the_function() -> None:
    """A user's unit test calls it as if it had not been decorated."""
    assert price(1250, 10) == {"total": 1375.0}
    assert await send("a@b", CONTEXT) == "a@b r:c"


def test_a_tool_keeps_what_python_knows_of_its_function() -> None:
    """Name, docstring, module and signature are those of the function."""
    assert price.__name__ == "price"
    assert price.__doc__ == "Work out a price with tax. The rate is a percentage."
    assert price.__module__ == __name__
    assert list(inspect.signature(price).parameters) == ["amount", "rate"]


def test_a_tool_is_described_by_its_function_and_its_declarations() -> None:
    """The spec has the name, the docstring and each declaration; the rest has its default."""
    spec = send.spec
    assert (spec.name, spec.description) == ("send", "Send an email.")
    assert (spec.side_effects, spec.approval, spec.on_unknown) == (
        "irreversible",
        "always",
        "pause",
    )
    assert (spec.timeout, spec.idempotent, price.spec.timeout) == (20, False, 30)


def test_what_was_not_declared_is_open_to_configuration() -> None:
    """A declared timeout and the default one are told apart, and so is no timeout at all."""
    assert dict(price.declared) == {}
    assert send.declared["timeout"] == 20
    assert dict(tool(timeout=None)(price).declared) == {"timeout": None}


def test_overriding_gives_another_tool() -> None:
    """`with_overrides` changes what it is given and leaves the first tool alone."""
    other = send.with_overrides(name="post", timeout=None, approval="never")
    assert (other.spec.name, other.spec.timeout, other.spec.approval) == ("post", None, "never")
    assert other.spec.side_effects == "irreversible"
    assert (send.spec.name, send.spec.timeout) == ("send", 20)
    with pytest.raises(AttributeError):
        send.declared = {}  # pyright: ignore[reportAttributeAccessIssue]


def test_a_tool_fulfils_the_port() -> None:
    """An engine that knows `Tool` alone can hold it."""
    port: Tool = price
    assert port.spec is price.spec


DECLARED = [
    ({"sideeffects": "none"}, "unknown declaration sideeffects; the known ones are name"),
    ({"side_effects": "maybe"}, "side_effects: Input should be 'none', 'reversible'"),
    ({"timeout": 0}, "timeout: Input should be greater than 0"),
    ({"name": "prix ttc"}, "letters, digits, _ or -: give name="),
    ({"name": "x" * 65}, "letters, digits, _ or -: give name="),
]


@pytest.mark.parametrize(("declarations", "message"), DECLARED, ids=range(len(DECLARED)))
def test_a_wrong_declaration_is_refused(declarations: Any, message: str) -> None:
    """A declaration that means nothing says which and what could stand there."""
    with pytest.raises(ToolDefinitionError) as caught:
        _ = price.with_overrides(**declarations).spec
    assert message in str(caught.value)


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_in_the_loop() -> None:
    """A function that blocks does not block the loop; context variables are seen from both."""
    user = contextvars.ContextVar("user", default="")

    @tool
    def where() -> str:
        """Tell the thread."""
        return f"{threading.current_thread() is threading.main_thread()} {user.get()}"

    @tool
    async def where_async() -> str:
        """Tell the thread."""
        return where()

    user.set("zoe")
    assert (await where.call({}, CONTEXT)).text == "False zoe"
    assert (await where_async.call({}, CONTEXT)).text == "True zoe"


async def test_a_sync_function_that_returns_a_coroutine_is_awaited() -> None:
    """What a decorator hid is found out when the function returns."""

    @tool
    def hidden() -> Any:
        """Return a coroutine."""
        return send("a", CONTEXT)

    assert (await hidden.call({}, CONTEXT)).text == "a r:c"


def failing(error: BaseException, *, later: bool) -> PythonTool[..., Any]:
    """Make a tool that raises `error`."""

    async def fail() -> None:
        raise error

    def fail_now() -> None:
        raise error

    return tool(fail if later else fail_now, description="Fail.")


@pytest.mark.parametrize("later", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("error", [ToolError("no such bill"), ValueError("x"), TimeoutError()])
async def test_what_a_tool_raises_comes_out(error: Exception, later: bool) -> None:
    """The engine sees the very error, and decides what the model reads of it."""
    with pytest.raises(type(error)) as caught:
        await failing(error, later=later).call({}, CONTEXT)
    assert caught.value is error


@pytest.mark.parametrize("later", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
async def test_a_tool_cannot_give_orders_to_the_process(
    kind: type[BaseException], later: bool
) -> None:
    """A cancellation, an exit or an interrupt that the tool raises is a failure of the tool."""
    with pytest.raises(OutsideError, match=f"the tool raised {kind.__name__}"):
        await failing(kind(), later=later).call({}, CONTEXT)


async def test_a_cancelled_caller_cancels_an_async_tool() -> None:
    """A cancellation of the call is passed to the coroutine and comes out as one."""
    begun, seen = asyncio.Event(), list[str]()

    @tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(wait.call({}, CONTEXT))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_cancelled_caller_still_learns_what_a_thread_did() -> None:
    """A function in a thread cannot be cut: the call ends when it does, with its result."""
    begun, release = threading.Event(), threading.Event()

    @tool
    def act() -> str:
        """Act."""
        begun.set()
        release.wait()
        return "acted"

    task = asyncio.ensure_future(act.call({}, CONTEXT))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    release.set()
    assert (await task).text == "acted"


async def test_a_coroutine_found_in_a_thread_does_not_start_once_the_call_is_cancelled() -> None:
    """What a cancelled call had not begun yet never begins."""
    begun, release, acted = threading.Event(), threading.Event(), list[str]()

    async def act() -> None:
        acted.append("acted")

    @tool
    def prepare() -> Any:
        """Prepare, then act."""
        begun.set()
        release.wait()
        return act()

    task = asyncio.ensure_future(prepare.call({}, CONTEXT))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert acted == []


async def test_a_result_that_cannot_be_kept_fails_the_call() -> None:
    """The port promises an output that the journal holds, or an error with the path."""

    @tool
    def broken() -> dict[str, object]:
        """Return what JSON has not."""
        return {"a": object()}

    with pytest.raises(UnstorableValue, match=r"result\.a is of type object"):
        await broken.call({}, CONTEXT)


async def test_a_result_with_half_a_character_is_mended() -> None:
    """Text that UTF-8 cannot hold never reaches the journal."""

    @tool
    async def half() -> str:
        """Return half a character."""
        return "a\ud83d"

    output = await half.call({}, CONTEXT)
    assert (output.text, output.mended) == ("a\ufffd", ("result",))
