"""The model that every system is given: it reads one result and adds one to it.

It costs the same at each turn, however long the conversation, so that whatever grows is the
system's own doing. A user's message counts as turn 0, a tool's result "k" as turn k.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

QUESTION: Final = "go"
ANSWER: Final = "done"
INSTRUCTIONS: Final = "You add numbers."
TOOL: Final = "add"
TOOL_DESCRIPTION: Final = "Add two whole numbers."


@dataclass(slots=True)
class Script:
    """What the model does: `turns` calls of the tool, then an answer, after `sleep` s each time."""

    turns: int = 10
    sleep: float = 0.0
    marks: list[float] = field(default_factory=list[float])
    """The instants at which the model was called."""

    async def next(self, last_result: str | None) -> int | None:
        """Give the number to add one to, or None when it is time to answer."""
        self.marks.append(time.perf_counter())
        if self.sleep:
            await asyncio.sleep(self.sleep)
        turn = 0 if last_result is None else int(last_result)
        return turn if turn < self.turns else None
