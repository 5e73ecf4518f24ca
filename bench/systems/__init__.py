"""The systems that are always measured, and what any measured system must do."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, cast

from bench.script import Script

Store: TypeAlias = Literal["memory", "jsonl", "sqlite", "dbos"]
ToolStyle: TypeAlias = Literal["async", "sync", "checked"]
"""How the tool is written; `checked` is async, under two policies and a contract."""

MODULES: Final = {
    "bare": "bench.systems.bare",
    "loom": "bench.systems.loom",
    "pydantic_ai": "bench.peers.pydantic_ai",
    "langgraph": "bench.peers.langgraph",
    "openai_agents": "bench.peers.openai_agents",
    "dbos": "bench.peers.dbos",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a system is made for. Its files, if it has any, go to `folder`."""

    script: Script
    store: Store
    tool: ToolStyle
    folder: Path


class System(Protocol):
    """An agent with one tool, ready to run."""

    async def run(self, conversation: str | None) -> str:
        """Run the script once, in a new conversation or at the end of an earlier one."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class CountingGraph(Protocol):
    """A graph of one step, which adds 1 to `n` and is routed back to itself while `n < 0`."""

    async def run(self, steps: int) -> int:
        """Run it from `n = -steps`, and give the `n` that it ends with."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class _Module(Protocol):
    async def open_system(self, setup: Setup) -> System: ...

    async def open_graph(self, setup: Setup) -> CountingGraph: ...


async def open_system(name: str, setup: Setup) -> System:
    """Make the system called `name`, importing it only now."""
    return await _module(name).open_system(setup)


async def open_graph(name: str, setup: Setup) -> CountingGraph:
    """Make the graph of the system called `name`, importing it only now."""
    return await _module(name).open_graph(setup)


def _module(name: str) -> _Module:
    return cast("_Module", import_module(MODULES[name]))
