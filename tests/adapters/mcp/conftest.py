"""Servers in real processes, and the sources that reach them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loom_ia.adapters.mcp.pool import load
from loom_ia.adapters.mcp.source import McpSource
from loom_ia.core.model.mcp import McpServer
from loom_ia.core.ports.sources import McpAccess, OpenTools, SourceContext
from loom_ia.core.ports.tools import Tool, ToolContext

SERVERS = Path(__file__).parent / "servers"
OBJECT = {"type": "object", "properties": {"do": {"type": "string"}}}


def definition(name: str, **members: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "description": f"Does {name}.", "inputSchema": OBJECT, **members}


def context(tenant: str = "acme", run: str = "r1", **members: Any) -> SourceContext:
    """A run that asks for tools."""
    return SourceContext(tenant, "s1", run, **members)


def called(**members: Any) -> ToolContext:
    """What a tool knows of its call."""
    given = {"tenant_id": "acme", "session_id": "s1", "run_id": "r1", "call_id": "c1", "agent": "a"}
    return ToolContext(**{**given, **members})


def tool(opened: OpenTools, name: str) -> Tool:
    """One of the tools that were opened."""
    return next(offered.tool for offered in opened.tools if offered.name == name)


def names(opened: OpenTools) -> list[str]:
    """The names of the tools that were opened."""
    return [offered.name for offered in opened.tools]


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (of another process)
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@dataclass
class Hand:
    """A server written by hand, and the folder that tells it what to do."""

    folder: Path
    secrets: dict[str, str] = field(default_factory=dict[str, str])

    def define(self, *definitions: Any) -> None:
        """Say what the server offers from now on."""
        (self.folder / "tools.json").write_text(json.dumps(definitions))

    def notes(self, name: str) -> list[Any]:
        """What the server noted."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def mark(self, name: str) -> None:
        """Turn a behaviour on."""
        (self.folder / name).touch()

    @property
    def pids(self) -> list[int]:
        """Every process that was started."""
        return [start["pid"] for start in self.notes("starts")]

    def server(self, **members: Any) -> McpServer:
        """The entry of the configuration."""
        given: dict[str, Any] = {
            "name": "hand",
            "transport": "stdio",
            "command": sys.executable,
            "args": ("-I", str(SERVERS / "by_hand.py"), str(self.folder)),
        }
        return McpServer(**{**given, **members})

    def source(
        self, *, pins_file: Path | None = None, clock: Any = None, **members: Any
    ) -> McpSource:
        """A source of its tools."""
        access = McpAccess(lambda name: self.secrets.get(name, ""), self.folder, pins_file)
        clocked = {"clock": clock} if clock is not None else {}
        return McpSource(self.server(**members), access, **clocked)


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """A server written by hand."""
    made = Hand(tmp_path)
    made.define(definition("echo"))
    return made


@pytest.fixture
async def stack(hand: Hand) -> AsyncIterator[AsyncExitStack]:
    """Where sources are closed at the end, after which no process of theirs is left."""
    await load()
    async with AsyncExitStack() as closing:
        yield closing
    assert [pid for pid in hand.pids if is_alive(pid)] == []
    assert os.getpid()
