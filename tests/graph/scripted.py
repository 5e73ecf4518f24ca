"""Models that follow a script, and tools that remember what they did."""

from collections.abc import Sequence
from typing import Any

import pytest

from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.tools import ToolContext
from loom_ia.graph.appended import Appended
from loom_ia.graph.models import ChatRequest, Reply
from loom_ia.graph.tools import ToolCall
from loom_ia.tools import tool
from tests.graph.fake_context import FakeContext, Journal, Paused


class Model:
    """A model that answers from a script, whose last answer it repeats; an error is raised."""

    def __init__(self, *script: Reply | str | Exception) -> None:
        self.script = list(script)
        self.requests: list[ChatRequest] = []
        self.read: list[list[Message]] = []

    async def __call__(self, request: ChatRequest) -> Reply | str:
        self.requests.append(request)
        self.read.append([m for m in request.messages if isinstance(m, Message)])
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def asks(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> Reply:
    """Answer by calls."""
    return Reply(text=text, tool_calls=calls, usage=usage)


def look(call_id: str | None = "c1", topic: str = "loom") -> ToolCall:
    """Ask for a look-up."""
    return ToolCall(call_id, "look", {"topic": topic})


class Desk:
    """Tools that remember how often they acted, by what."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.sent: list[str] = []
        self.keys: list[str] = []

    def tools(self, *, approval: bool = True) -> list[Any]:
        """Give the tools."""

        @tool
        async def look(topic: str) -> str:
            """Look a topic up."""
            self.looked.append(topic)
            return f"about {topic}"

        @tool(side_effects="irreversible", approval="always" if approval else "never")
        async def send(to: str, ctx: ToolContext) -> str:
            """Send a letter."""
            self.sent.append(to)
            self.keys.append(ctx.idempotency_key)
            return f"sent to {to}"

        return [look, send]


def send(call_id: str | None = "s1", to: str = "Ada") -> ToolCall:
    """Ask for a letter."""
    return ToolCall(call_id, "send", {"to": to})


def said(delta: dict[str, Any]) -> Sequence[Message]:
    """Give the new messages of a delta."""
    appended = delta["messages"]
    assert isinstance(appended, Appended)
    return appended.items


async def pause(step: Any, journal: Journal, state: Any = None) -> None:
    """Run a step that pauses."""
    with pytest.raises(Paused):
        await step(state or {}, FakeContext(journal))


def talk(count: int) -> list[Message]:
    """Make a long conversation."""
    return [Message("user" if n % 2 == 0 else "assistant", f"line {n}") for n in range(count)]
