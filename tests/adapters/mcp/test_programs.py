"""Servers that are programs: what they offer, what they give, and how badly they may behave."""

import asyncio
import logging
import resource
from contextlib import AsyncExitStack
from typing import Any

import pytest

from loom_ia.adapters.mcp.pool import ServerFailed
from loom_ia.adapters.mcp.source import McpSource
from loom_ia.core.errors import SourceUnavailable, ToolError, UnknownEffect, UnstorableValue
from loom_ia.core.model.content import TextBlock
from tests.adapters.mcp.conftest import (
    Hand,
    called,
    context,
    definition,
    is_alive,
    names,
    tool,
    until,
)


def kept(stack: AsyncExitStack, source: McpSource) -> McpSource:
    """Close a source at the end."""
    stack.push_async_callback(source.aclose)
    return source


async def test_a_tool_is_listed_and_called(hand: Hand, stack: AsyncExitStack) -> None:
    """Its name, its schema and its defaults are those of the server; the call has its key."""
    source = kept(stack, hand.source())
    opened = await source.open(context())
    [offered] = opened.tools
    spec = offered.tool.spec
    assert (offered.name, spec.description, spec.kind) == ("echo", "Does echo.", "mcp")
    assert (spec.side_effects, spec.idempotent) == ("irreversible", False)
    output = await offered.tool.call({"do": "x"}, called(idempotency_key="k1"))
    assert output.text == "x done"
    [call] = hand.notes("calls")
    assert call["arguments"] == {"do": "x"}
    assert call["meta"]["loom-ia/idempotency_key"] == "k1"
    await opened.close()
    await opened.close()


async def test_every_page_is_read(hand: Hand, stack: AsyncExitStack) -> None:
    """The pages of a list are followed to the last."""
    hand.define(*(definition(f"t{rank}") for rank in range(8)))
    opened = await kept(stack, hand.source()).open(context())
    assert names(opened) == [f"t{rank}" for rank in range(8)]


@pytest.mark.parametrize(
    ("annotations", "side_effects", "idempotent"),
    [
        ({"readOnlyHint": True}, "none", False),
        ({"destructiveHint": False, "idempotentHint": True}, "reversible", True),
        ({"destructiveHint": True}, "irreversible", False),
        ({"readOnlyHint": "yes", "idempotentHint": 1}, "irreversible", False),
        (None, "irreversible", False),
        ("nothing", "irreversible", False),
    ],
)
async def test_annotations_give_the_defaults(
    hand: Hand, stack: AsyncExitStack, annotations: Any, side_effects: str, idempotent: bool
) -> None:
    """A hint counts when it is one; without, the gravest is assumed."""
    hand.define(definition("t", annotations=annotations))
    opened = await kept(stack, hand.source()).open(context())
    spec = tool(opened, "t").spec
    assert (spec.side_effects, spec.idempotent) == (side_effects, idempotent)


async def test_a_program_sees_only_what_it_is_given(
    hand: Hand, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of our variables it sees the harmless ones, and those of its entry."""
    monkeypatch.setenv("OUR_KEY", "private")
    hand.secrets["ITS_KEY"] = "its own"
    await kept(stack, hand.source(env={"A": "1"}, env_from={"SECRET": "ITS_KEY"})).open(context())
    [start] = hand.notes("starts")
    assert start["secret"] == "its own"
    assert {"A", "PATH"} <= set(start["env"])
    assert "OUR_KEY" not in start["env"]


async def test_an_undefined_variable_is_named(hand: Hand, stack: AsyncExitStack) -> None:
    """Nothing is started without a secret, and its name is told."""
    source = kept(stack, hand.source(env_from={"SECRET": "ITS_KEY"}))
    with pytest.raises(SourceUnavailable, match="ITS_KEY is not defined"):
        await source.open(context())
    assert hand.pids == []


@pytest.mark.parametrize("do", ["noise", "flood"])
async def test_noise_disturbs_nothing(
    hand: Hand, stack: AsyncExitStack, do: str, caplog: pytest.LogCaptureFixture
) -> None:
    """30 MB of errors and lines that are no message are read and forgotten, in bounded memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with caplog.at_level(logging.INFO):
        opened = await kept(stack, hand.source()).open(context())
        async with asyncio.timeout(60):
            assert (await tool(opened, "echo").call({"do": do}, called())).text == f"{do} done"
            assert (await tool(opened, "echo").call({"do": "x"}, called())).text == "x done"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024
    assert [record for record in caplog.records if record.name.startswith("loom_ia")] == []


async def test_the_errors_of_a_program_are_logged_by_line(
    hand: Hand, stack: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """What it writes is seen by whoever asks for it, cut, under its name, without orders."""
    with caplog.at_level(logging.DEBUG, logger="loom_ia.mcp"):
        source = hand.source()
        opened = await source.open(context())
        await tool(opened, "echo").call({"do": "flood"}, called())
        await source.aclose()
    lines = [record.getMessage() for record in caplog.records]
    assert "[hand] last\\x1b[31m words" in lines
    assert max(map(len, lines)) < 2_100


async def test_an_answer_that_is_too_large_fails_alone(hand: Hand, stack: AsyncExitStack) -> None:
    """200 MB do not enter our memory; the call fails, the connection and the others go on."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    opened = await kept(stack, hand.source()).open(context())
    with pytest.raises(UnknownEffect):
        await tool(opened, "echo").call({"do": "huge"}, called())
    with pytest.raises(ToolError, match="larger than 10 MiB"):
        await tool(opened, "echo").call({"do": "huge"}, called(may_act_again=True))
    assert (await tool(opened, "echo").call({"do": "x"}, called())).text == "x done"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 * 1024
    assert len(hand.pids) == 1


async def test_what_json_cannot_hold_is_mended_or_refused(
    hand: Hand, stack: AsyncExitStack
) -> None:
    """A lone surrogate is replaced; what is no number or has no end fails the call."""
    opened = await kept(stack, hand.source()).open(context())
    echo = tool(opened, "echo")
    assert (await echo.call({"do": "surrogate"}, called())).text == "a�"
    for do in ("nan", "deep"):
        with pytest.raises((UnknownEffect, UnstorableValue)):
            await echo.call({"do": do}, called())
    assert (await echo.call({"do": "x"}, called())).text == "x done"
    assert len(hand.pids) == 1


async def test_results_are_read_block_by_block(hand: Hand, stack: AsyncExitStack) -> None:
    """PUB-26: files leave the text; one bad block hides no other; nothing linked is fetched."""
    opened = await kept(stack, hand.source()).open(context())
    echo = tool(opened, "echo")
    image = await echo.call({"do": "image"}, called())
    assert [file.media_type for file in image.files] == ["image/png", "image/png"]
    assert [file.name for file in image.files] == ["", "a.bin"]
    assert image.text == "a picture\na link http://127.0.0.1:9/never"
    assert "iVBOR" not in image.model_dump_json()
    wrong = await echo.call({"do": "wrong"}, called())
    assert wrong.text.splitlines()[-1] == "and this"
    assert len(wrong.blocks) == 3
    structured = await echo.call({"do": "structured"}, called())
    assert (structured.blocks, structured.data) == ((), {"sum": 4})
    failed = await echo.call({"do": "failed"}, called())
    assert (failed.is_error, failed.blocks) == (True, (TextBlock(text="it cannot be done"),))
    with pytest.raises(ToolError, match="no such thing"):
        await echo.call({"do": "refused"}, called())
    assert (await echo.call({"do": "no_result"}, called())).text == ""


async def test_a_question_of_the_server_is_refused(hand: Hand, stack: AsyncExitStack) -> None:
    """Whoever asks us for something is told no, and his call goes on."""
    opened = await kept(stack, hand.source()).open(context())
    output = await tool(opened, "echo").call({"do": "asks"}, called())
    assert '"error"' in output.text


async def test_a_server_that_asks_and_does_not_listen(hand: Hand, stack: AsyncExitStack) -> None:
    """Its questions do not pile up in our memory: those too many are not heard."""
    opened = await kept(stack, hand.source()).open(context())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = await tool(opened, "echo").call({"do": "nags"}, called())
    assert output.text == "nags done"
    assert (await tool(opened, "echo").call({"do": "x"}, called())).text == "x done"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


async def test_an_older_program_that_says_nothing(hand: Hand, stack: AsyncExitStack) -> None:
    """One that ignores a question that it does not know is waited for once."""
    hand.mark("quiet")
    source = kept(stack, hand.source(connect_timeout=3, idle_timeout=0.05))
    opened = await source.open(context())
    assert names(opened) == ["echo"]
    await opened.close()
    await until(lambda: not is_alive(hand.pids[0]))
    async with asyncio.timeout(1.5):
        await source.open(context(run="r2"))
    assert len(hand.pids) == 2


async def test_a_late_answer_is_dropped(hand: Hand, stack: AsyncExitStack) -> None:
    """A call that is given up is told to the server; its answer goes nowhere."""
    opened = await kept(stack, hand.source()).open(context())
    echo = tool(opened, "echo")
    call = asyncio.create_task(echo.call({"do": "wait"}, called()))
    await until(lambda: len(hand.notes("calls")) == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: len(hand.notes("cancelled")) == 1)
    hand.mark("go")
    outputs = await asyncio.gather(*(echo.call({"do": f"x{n}"}, called()) for n in range(5)))
    assert [output.text for output in outputs] == [f"x{n} done" for n in range(5)]
    assert len(hand.pids) == 1


async def test_a_call_lost_in_flight_is_unknown(hand: Hand, stack: AsyncExitStack) -> None:
    """A server that dies in mid-call leaves an effect that nobody knows, called once."""
    opened = await kept(stack, hand.source()).open(context())
    with pytest.raises(UnknownEffect):
        await tool(opened, "echo").call({"do": "die"}, called())
    assert len(hand.notes("calls")) == 1


@pytest.mark.parametrize("do", ["cut", "no_object", "strange"])
async def test_an_answer_that_is_none_is_unknown(
    hand: Hand, stack: AsyncExitStack, do: str
) -> None:
    """Whoever acted and answers what cannot be read did not say that nothing was done."""
    opened = await kept(stack, hand.source()).open(context())
    with pytest.raises(UnknownEffect):
        await tool(opened, "echo").call({"do": do}, called())
    assert len(hand.notes("calls")) == 1


async def test_no_code_of_a_server_repeats_a_call(hand: Hand, stack: AsyncExitStack) -> None:
    """An error is the server's word that it failed, and never a reason to send it again."""
    opened = await kept(stack, hand.source()).open(context())
    for count, code in enumerate((-32098, -32097, -32603, 7), 1):
        with pytest.raises(ServerFailed, match="its own words"):
            await tool(opened, "echo").call({"do": f"code{code}"}, called())
        assert len(hand.notes("calls")) == count


@pytest.mark.parametrize("kind", ["nodes", "many"])
async def test_a_huge_schema_hides_no_other(hand: Hand, stack: AsyncExitStack, kind: str) -> None:
    """A huge schema is withheld by itself, and a long list is read to its end."""
    huge: Any = {"type": "integer"}
    for _ in range(16):
        huge = {"anyOf": [huge, huge]}
    if kind == "nodes":
        hand.define(definition("echo"), definition("huge", outputSchema=huge))
    else:
        hand.mark("one_page")
        hand.define(*(definition(f"t{n}", description="d" * 1_500) for n in range(500)))
    opened = await kept(stack, hand.source(connect_timeout=60)).open(context())
    assert len(names(opened)) == (1 if kind == "nodes" else 500)
    assert ("huge" in opened.withheld) == (kind == "nodes")


async def test_a_harmless_call_is_made_once_more(hand: Hand, stack: AsyncExitStack) -> None:
    """A tool that may run again does, once, on a new connection."""
    opened = await kept(stack, hand.source()).open(context())
    output = await tool(opened, "echo").call({"do": "die_once"}, called(may_act_again=True))
    assert output.text == "die_once done"
    assert len(hand.pids) == 2
    with pytest.raises(ToolError, match="cannot be reached now"):
        await tool(opened, "echo").call({"do": "die"}, called(may_act_again=True))
    assert len(hand.notes("calls")) == 4


async def test_a_start_that_fails_tells_the_last_words(hand: Hand, stack: AsyncExitStack) -> None:
    """The last lines of the program are in the error; so is a program that is not there."""
    hand.mark("dies")
    with pytest.raises(SourceUnavailable, match="cannot find the moon"):
        await kept(stack, hand.source()).open(context())
    with pytest.raises(SourceUnavailable, match=r"cannot be reached.*No such file"):
        await kept(stack, hand.source(command="/no/such/program")).open(context())


async def test_connecting_is_bounded(hand: Hand, stack: AsyncExitStack) -> None:
    """A program that says nothing is given up and ended."""
    hand.mark("silent")
    with pytest.raises(SourceUnavailable, match=r"no answer in 0\.5 s"):
        await kept(stack, hand.source(connect_timeout=0.5)).open(context())
    await until(lambda: not any(map(is_alive, hand.pids)))


async def test_an_older_program_that_ends_at_a_question(hand: Hand, stack: AsyncExitStack) -> None:
    """One that dies when it is asked for the newer protocol is spoken to in the older one."""
    hand.mark("fragile")
    opened = await kept(stack, hand.source()).open(context())
    assert names(opened) == ["echo"]
    assert len(hand.pids) == 2


async def test_nothing_of_a_deaf_program_is_left(hand: Hand, stack: AsyncExitStack) -> None:
    """One that ignores what it is told is killed, with what it started."""
    hand.mark("deaf")
    source = hand.source()
    await source.open(context())
    [child] = hand.notes("children")
    assert is_alive(child)
    await source.aclose()
    assert not is_alive(child)


async def test_what_a_program_leaves_behind_is_ended(hand: Hand, stack: AsyncExitStack) -> None:
    """One that ends when it is told to may have started others, which do not."""
    hand.mark("parent")
    source = hand.source()
    await source.open(context())
    [child] = hand.notes("children")
    await source.aclose()
    await until(lambda: not is_alive(child))


async def test_giving_up_on_a_connection_leaves_nothing(hand: Hand, stack: AsyncExitStack) -> None:
    """Whoever stops waiting stops nobody else, and the end closes all."""
    hand.mark("silent")
    source = kept(stack, hand.source(connect_timeout=60))
    waiting = [asyncio.create_task(source.open(context())) for _ in range(2)]
    await until(lambda: len(hand.pids) == 1)
    for task in waiting:
        task.cancel()
    assert [type(e) for e in await asyncio.gather(*waiting, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 2
    await source.aclose()
    assert not any(map(is_alive, hand.pids))
