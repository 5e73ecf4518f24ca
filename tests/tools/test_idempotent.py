"""`@idempotent`: how it is written, and what it makes of a tool."""

import asyncio
import math
from datetime import date
from typing import Any

import pytest

from loom_ia.core.errors import OutsideError
from loom_ia.core.model import ToolOutput
from loom_ia.core.ports.idempotency import Claim, Reserved
from loom_ia.core.ports.tools import ToolContext
from loom_ia.tools import IdempotentTool, PythonTool, ToolDefinitionError, idempotent, tool


class Memory:
    """A memory in which nothing was done; `keys` has those that were asked for."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.done: list[tuple[str, ToolOutput, float]] = []
        self.released: list[str] = []

    async def claim(self, key: str, *, seconds: float | None = None, again: bool = False) -> Claim:
        self.keys.append(key)
        return Reserved()

    async def complete(self, key: str, result: ToolOutput, *, keep: float) -> None:
        self.done.append((key, result, keep))

    async def release(self, key: str) -> None:
        self.released.append(key)


def context(memory: Memory) -> ToolContext:
    """Make the context of a call."""
    return ToolContext("t", "s", "r", "c", "clerk", idempotency_key="r:1:c", memory=memory)


async def keys(made: Any, *arguments: dict[str, Any]) -> list[str]:
    """Give the keys under which calls of a tool are remembered."""
    memory = Memory()
    for given in arguments:
        await made.call(given, context(memory))
    return memory.keys


def _by_number(args: dict[str, Any]) -> str:
    return f"reminder:{args['number']}"


def _over() -> Any:
    @idempotent(key=_by_number)
    @tool(side_effects="irreversible", approval="always")
    async def send(number: str, body: str = "") -> str:
        """Send a reminder."""
        return f"sent {number}"

    return send


def _under() -> Any:
    @tool(side_effects="irreversible", approval="always")
    @idempotent(key=_by_number)
    async def send(number: str, body: str = "") -> str:
        """Send a reminder."""
        return f"sent {number}"

    return send


@pytest.mark.parametrize("make", [_over, _under])
async def test_above_or_below_the_tool(make: Any) -> None:
    """Whichever decorator comes first, the tool is the same, and it is a tool of ours."""
    send = make()
    assert isinstance(send, IdempotentTool)
    spec = send.spec
    assert (spec.name, spec.side_effects, spec.approval) == ("send", "irreversible", "always")
    assert spec.remembers == "key"
    assert not spec.idempotent
    assert spec.may_be_asked_again
    assert not spec.may_run_again
    assert await keys(send, {"number": "D-042"}) == ["t:send:reminder:D-042"]
    assert await send("D-042") == "sent D-042"


def test_bare() -> None:
    """Without a key each call is remembered; an effect is presumed where none is declared."""

    @idempotent
    @tool
    def send() -> str:
        """Send."""
        return "sent"

    @idempotent()
    @tool(side_effects="none")
    def look() -> str:
        """Look."""
        return "seen"

    assert (send.spec.remembers, send.spec.side_effects) == ("call", "irreversible")
    assert (look.spec.remembers, look.spec.side_effects) == ("call", "none")
    assert tool(lambda: 1, name="plain", description="d").spec.remembers == "nothing"


async def test_the_key_of_a_call() -> None:
    """A technical key is that of the call, in its tenant and for its tool."""

    @idempotent
    @tool
    def send(ctx: ToolContext) -> str:
        """Send."""
        return ctx.idempotency_key

    memory = Memory()
    output = await send.call({}, context(memory))
    assert memory.keys == ["t:send:r:1:c"]
    assert output.text == "r:1:c"


async def test_a_list_of_parameters() -> None:
    """Values that mean the same give the same key, defaults included, others another."""

    @idempotent(key=["number", "day"])
    @tool
    def send(number: int, body: str = "", day: date = date(2026, 1, 1)) -> str:
        """Send."""
        return body

    one, same, also, other = await keys(
        send,
        {"number": 12, "body": "a"},
        {"number": "12", "body": "b"},
        {"day": "2026-01-01", "number": 12.0},
        {"number": 12, "day": "2026-01-02"},
    )
    assert one == same == also == 't:send:{"day":"2026-01-01","number":12}'
    assert other != one


async def test_the_function_reads_its_key() -> None:
    """What the function gives to a service is the key under which it is remembered."""

    @idempotent(key=["number"], ttl=60)
    @tool
    def send(number: str, ctx: ToolContext) -> str:
        """Send."""
        return ctx.idempotency_key

    memory = Memory()
    output = await send.call({"number": "1"}, context(memory))
    assert [output.text] == memory.keys
    assert memory.done == [(memory.keys[0], output, 60)]


async def test_a_long_key_is_shortened() -> None:
    """A key of any length fits in a store, and two that differ stay apart."""

    @idempotent(key=["text"])
    @tool
    def send(text: str) -> str:
        """Send."""
        return text

    one, other = await keys(send, {"text": "a" * 5000}, {"text": "a" * 5001})
    assert len(one) < 100
    assert one != other


@pytest.mark.parametrize("word", ["", 12, None])
async def test_a_key_that_is_no_text(word: Any) -> None:
    """A key that is empty or no text makes the call fail before anything happens."""

    @idempotent(key=lambda args: word)
    @tool
    def send() -> str:
        """Send."""
        raise AssertionError

    memory = Memory()
    with pytest.raises(OutsideError, match="the key of send"):
        await send.call({}, context(memory))
    assert not memory.keys


@pytest.mark.parametrize("order", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_key_that_gives_an_order_makes_the_call_fail(order: BaseException) -> None:
    """What would pass for an order to the process is a failure of the tool, as in its function."""

    def key(args: dict[str, Any]) -> str:
        raise order

    @idempotent(key=key)
    @tool
    def send() -> str:
        """Send."""
        raise AssertionError

    with pytest.raises(OutsideError, match=type(order).__name__):
        await send.call({}, context(Memory()))


@pytest.mark.parametrize(
    ("memo", "fault"),
    [
        ({"key": ["nummer"]}, "names nummer, which is none of its parameters (number)"),
        ({"key": []}, "names no parameter"),
        ({"key": "number"}, "give a list of parameters"),
        ({"ttl": 0}, "ttl is in seconds"),
        ({"ttl": math.nan}, "ttl is in seconds"),
        ({"reservation": -1}, "reservation is in seconds"),
    ],
)
def test_declarations_that_cannot_be(memo: dict[str, Any], fault: str) -> None:
    """What cannot be remembered by is told when the tool is read, with its place."""

    @idempotent(**memo)
    @tool
    def send(number: str) -> str:
        """Send."""
        return number

    with pytest.raises(ToolDefinitionError) as caught:
        _ = send.spec
    assert fault in str(caught.value)
    assert "test_idempotent.py" in str(caught.value)


def test_not_on_a_class() -> None:
    """What is neither a tool nor a function is refused at once."""
    with pytest.raises(ToolDefinitionError, match="goes above or below @tool"):
        idempotent(dict)


async def test_copies_remember_too() -> None:
    """Overriding a tool, or binding it to an object, leaves what it remembers by."""

    class Office:
        @idempotent(key=["number"])
        @tool
        def send(self, number: str) -> str:
            """Send."""
            return number

    bound = Office().send
    again = bound.with_overrides(timeout=5)
    made_again = tool(bound, approval="always")
    for made in (bound, again, made_again):
        assert isinstance(made, PythonTool)
        assert made.spec.remembers == "key"
        assert await keys(made, {"number": "1"}) == ['t:send:{"number":"1"}']
    assert again.spec.timeout == 5
    assert made_again.spec.approval == "always"


async def test_by_hand_it_is_the_function() -> None:
    """Called without an engine it remembers nothing."""
    send = _over()
    nowhere = ToolContext("t", "s", "r", "c", "clerk")
    assert (await send.call({"number": "1"}, nowhere)).text == "sent 1"


async def test_what_is_remembered_is_not_too_large() -> None:
    """A result is remembered whole up to 50,000 characters; beyond, its beginning and a note."""

    @idempotent
    @tool
    def read(size: int) -> str:
        """Read."""
        return "x" * size

    memory = Memory()
    for size in (40_000, 60_000):
        assert len((await read.call({"size": size}, context(memory))).text) == size
    (_, whole, _), (_, note, _) = memory.done
    assert len(whole.text) == 40_000
    assert note.text.startswith("x" * 2_000 + "…")
    assert "60000 characters" in note.text
    assert len(note.text) < 2_200


async def test_files_are_not_remembered() -> None:
    """The bytes of files are not kept twice: their names are."""

    @idempotent
    @tool
    def draw() -> bytes:
        """Draw."""
        return b"\x89PNG\r\n\x1a\n" + b"0" * 100

    memory = Memory()
    output = await draw.call({}, context(memory))
    assert output.files
    (_, kept, _) = memory.done[0]
    assert not kept.files
    assert "image/png" in kept.text


async def test_an_error_that_is_returned_releases() -> None:
    """A tool that gives an error says that it did not act, as one that raises does."""

    @idempotent
    @tool
    def send() -> ToolOutput:
        """Send."""
        return ToolOutput.of_error("no network")

    memory = Memory()
    assert (await send.call({}, context(memory))).is_error
    assert memory.released == memory.keys
    assert not memory.done


async def test_a_result_that_cannot_be_kept_was_still_an_effect() -> None:
    """A function that returned has acted, whatever it returned."""

    @idempotent
    @tool
    def send() -> object:
        """Send."""
        return object()

    memory = Memory()
    with pytest.raises(ValueError, match="no JSON form"):
        await send.call({}, context(memory))
    assert not memory.released
    assert "already done" in memory.done[0][1].text
