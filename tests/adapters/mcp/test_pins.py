"""Tools are pinned: what changes after it was accepted is withheld, and nothing else is."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from loom_ia.adapters.mcp.pins import Accepted, FilePins, Pin
from loom_ia.core.errors import SourceUnavailable
from tests.adapters.mcp.conftest import Hand, context, definition, names
from tests.adapters.mcp.test_programs import kept


async def test_what_is_seen_first_is_accepted(hand: Hand, stack: AsyncExitStack) -> None:
    """A tool that changed, in whatever matters, is withheld from the next process on."""
    file = hand.folder / "mcp-pins.json"
    before = [definition(name) for name in ("same", "text", "schema", "hint", "gone")]
    hand.define(*before)
    async with AsyncExitStack() as first:
        opened = await kept(first, hand.source(pins_file=file)).open(context())
        assert names(opened) == ["same", "text", "schema", "hint", "gone"]
    hand.define(
        before[0],
        definition("text", description="Does text.\u200b"),
        definition("schema", inputSchema={"type": "object", "properties": {"to": {}}}),
        definition("hint", annotations={"readOnlyHint": True}),
        definition("new"),
    )
    opened = await kept(stack, hand.source(pins_file=file)).open(context())
    assert names(opened) == ["same"]
    assert dict(opened.withheld) == {
        "text": "it changed since it was accepted (to accept it: loom mcp accept hand)",
        "schema": "it changed since it was accepted (to accept it: loom mcp accept hand)",
        "hint": "it changed since it was accepted (to accept it: loom mcp accept hand)",
        "new": "it was not there when the server was accepted (to accept it: loom mcp accept hand)",
    }
    hand.define(*before)
    opened = await kept(stack, hand.source(pins_file=file)).open(context())
    assert len(names(opened)) == 5


async def test_another_server_of_the_same_name_is_another_one(
    hand: Hand, stack: AsyncExitStack
) -> None:
    """Who changes the entry in the configuration accepts what is there."""
    file = hand.folder / "mcp-pins.json"
    await kept(stack, hand.source(pins_file=file)).open(context())
    hand.define(definition("echo", description="Other."))
    args = (*hand.server().args, "-v2")
    opened = await kept(stack, hand.source(pins_file=file, args=args)).open(context())
    assert names(opened) == ["echo"]


async def test_the_configuration_pins(hand: Hand, stack: AsyncExitStack) -> None:
    """Where it gives digests, it alone decides, and what it does not name is not offered."""
    hand.define(definition("a"), definition("b"), definition("c"))
    opened = await kept(stack, hand.source()).open(context())
    digests = {one.name: one.tool.definition.digest for one in opened.tools}  # pyright: ignore[reportAttributeAccessIssue]
    pins = {"a": f"sha256:{digests['a']}", "b": digests["a"]}
    opened = await kept(stack, hand.source(pins=pins)).open(context())
    assert names(opened) == ["a"]
    assert sorted(opened.withheld) == ["b", "c"]


async def test_a_file_that_cannot_be_read_offers_nothing(hand: Hand, stack: AsyncExitStack) -> None:
    """Damage is not taken for a server that was never seen."""
    file = hand.folder / "mcp-pins.json"
    for damage in ("{", "[]", '{"servers": {"hand": {}}}', ""):
        file.write_text(damage)
        with pytest.raises(SourceUnavailable, match=r"mcp-pins\.json"):
            await kept(stack, hand.source(pins_file=file)).open(context())
        assert file.read_text() == damage


async def test_tenants_are_pinned_apart(hand: Hand, stack: AsyncExitStack) -> None:
    """Where each tenant has a connection, what one sees says nothing of the other."""
    source = kept(stack, hand.source(scope="tenant"))
    await source.open(context("acme"))
    hand.define(definition("echo"), definition("more"))
    opened = await source.open(context("zenith"))
    assert names(opened) == ["echo", "more"]


async def test_the_first_one_is_kept_for_all(tmp_path: Path) -> None:
    """Whoever comes first at the same time as others decides for them."""
    file = tmp_path / "mcp-pins.json"
    seen = [Accepted("i", {"t": Pin(str(n), {})}) for n in range(20)]
    kept = await asyncio.gather(*(FilePins(file).first("s", one) for one in seen))
    assert len({one.pins["t"].digest for one in kept}) == 1
    assert await FilePins(file).read("s") == kept[0]


async def test_processes_share_the_file(tmp_path: Path) -> None:
    """Many that write at once lose nothing of each other's."""
    file = tmp_path / "deep" / "mcp-pins.json"
    code = (
        "import asyncio,sys;from pathlib import Path;"
        "from loom_ia.adapters.mcp.pins import *;p=FilePins(Path(sys.argv[1]));"
        "[asyncio.run(p.first(f'{sys.argv[2]}-{n}',Accepted('i',{}))) for n in range(20)]"
    )
    commands = ([sys.executable, "-c", code, str(file), name] for name in ("a", "b", "c"))
    processes = [subprocess.Popen(command) for command in commands]  # noqa: ASYNC220
    assert [await asyncio.to_thread(process.wait) for process in processes] == [0, 0, 0]
    assert len(json.loads(file.read_text())["servers"]) == 60
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "mcp-pins.json",
        "mcp-pins.json.lock",
    ]
    assert await FilePins(file).read("a-3") == Accepted("i", {})
