"""What stands around the calls of tools: hooks, and the values that they see."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from loom_ia.graph.patterns import glob
from loom_ia.graph.tool_call import ToolCall, ToolResult

BeforeCall: TypeAlias = Callable[[ToolCall], ToolCall | Awaitable[ToolCall | None] | None]
AfterCall: TypeAlias = Callable[
    [ToolCall, ToolResult], ToolResult | Awaitable[ToolResult | None] | None
]


@dataclass(frozen=True, slots=True)
class ToolHook:
    """Code around the calls whose tool has a name that `match` matches; None: every call.

    `match` is a glob on the whole name (`PatternError` when malformed), or a function of the name.
    `pre(call)` may give another call, and blocks it by raising. `post(call, result)` may give
    another result, and turns it into an error by raising. Both may be async; neither can change
    the id of a call. In a tool loop what they gave is recorded: each is asked once for a call.
    """

    match: str | Callable[[str], bool] | None = None
    pre: BeforeCall | None = None
    post: AfterCall | None = None

    def __post_init__(self) -> None:
        if isinstance(self.match, str):
            glob(self.match)

    def matches(self, name: str) -> bool:
        """Tell whether the hook is about the tool `name`."""
        if self.match is None:
            return True
        if isinstance(self.match, str):
            return glob(self.match).match(name) is not None
        return bool(self.match(name))


__all__ = ["AfterCall", "BeforeCall", "ToolCall", "ToolHook", "ToolResult"]
