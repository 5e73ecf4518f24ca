"""An agent for the tests of durability: its script, its tools, and what they did outside."""

from collections import Counter
from typing import Any

from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config.root import LoomConfig
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.model import ModelSpec, Retry
from loom_ia.core.ports.tools import Tool
from loom_ia.testing import Host
from loom_ia.tools import tool

MODEL = "FAKE"


class World:
    """The outside: what happened there is never undone, whoever dies."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def effects(self) -> Counter[str]:
        """Count what happened until now."""
        return self.done

    def act(self, effect: str) -> str:
        """Let something happen."""
        self.done[effect] += 1
        return f"{effect} done"

    def tool(self, name: str, **declarations: Any) -> Tool:
        """Make a tool that acts, under its own name and on what it is given."""

        async def function(what: str = "") -> str:
            return self.act(f"{name}:{what}" if what else name)

        return tool(name=name, description=f"Do {name}.", **declarations)(function)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Write a call of a script."""
    return {"name": name, "arguments": arguments}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    """Write a reply that asks for calls."""
    return {"tool_calls": list(calls)}


def saying(text: str) -> dict[str, Any]:
    """Write a reply that ends the run."""
    return {"text": text}


def clerk(*script: dict[str, Any], tools: tuple[Tool, ...] = (), **agent: Any) -> LoomConfig:
    """Describe the agent `clerk`, with tools that are registered under their own names."""
    return LoomConfig(
        version=1,
        models=(
            ModelSpec(
                id=MODEL,
                sdk="fake",
                model="fake",
                params={"script": list(script)},
                retry=Retry(max_attempts=1),
            ),
        ),
        agents=(
            AgentSpec(
                name="clerk",
                main=MainRole(model=MODEL, system="You are a clerk."),
                tools=tuple(PythonTool(python=t.spec.name) for t in tools),
                **agent,
            ),
        ),
    )


async def unknown_calls(host: Host, session_id: str) -> list[str]:
    """List the calls whose effect the journal calls unknown."""
    events = await host.journal.read("default", session_id)
    return [
        event.payload.call_id
        for event in events
        if isinstance(event.payload, ToolCompleted) and event.payload.outcome == "unknown"
    ]
