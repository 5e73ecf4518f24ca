"""A process that runs a clerk until somebody kills it, and says where it is.

    python -m tests.durability.child run|recover BACKEND PLACE EFFECTS [RUN…]

Each line of its standard output is a mark: `write begins`, `write ends`, `tool begins`, `tool
acts`, `tool ends`, `model`, `ready`, `over`. Effects are lines of the file EFFECTS, on the disk
before the tool goes on.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from loom_ia.access import Loom
from loom_ia.adapters.models.fake import FakeModel
from loom_ia.config.root import LoomConfig
from loom_ia.core.events.envelope import Event
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.ports.journal import Journal, SequenceConflict
from loom_ia.core.ports.tools import Tool, ToolContext
from loom_ia.testing import JournalSpy
from loom_ia.tools import tool
from tests.durability.clerk import MODEL, call, calling, clerk, saying

LEASE_S = 60.0
SCRIPT = (
    calling(call("look"), call("send", what="a"), call("put", what="b")),
    calling(call("send", what="c"), call("mail", what="d")),
    saying("All done."),
)


def mark(text: str) -> None:
    """Say where this process is."""
    os.write(1, f"{text}\n".encode())


class Outside:
    """The outside world: a file that outlives every process."""

    def __init__(self, path: Path, *, marks: bool = False) -> None:
        self.path = path
        self._marks = marks

    def act(self, name: str, what: str, context: ToolContext) -> str:
        """Let something happen, for good."""
        self.mark("tool begins")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{context.run_id} {name}:{what}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.mark("tool acts")
        return f"{name} {what} done"

    def mark(self, text: str) -> None:
        """Say where this process is, if anybody listens."""
        if self._marks:
            mark(text)

    def effects(self) -> list[str]:
        """List what happened, as `RUN TOOL:WHAT`."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    def tools(self) -> tuple[Tool, ...]:
        """Make the tools: free of effects, irreversible in the loop or in a thread, idempotent."""

        @tool
        async def look(context: ToolContext) -> str:
            """Look."""
            said = self.act("look", "", context)
            await asyncio.sleep(0.001)
            return said

        @tool(side_effects="irreversible")
        async def send(what: str, context: ToolContext) -> str:
            """Send."""
            said = self.act("send", what, context)
            await asyncio.sleep(0.001)
            self.mark("tool ends")
            return said

        @tool(side_effects="irreversible")
        def mail(what: str, context: ToolContext) -> str:
            """Mail."""
            return self.act("mail", what, context)

        @tool(side_effects="reversible", idempotent=True)
        async def put(what: str, context: ToolContext) -> str:
            """Put."""
            return self.act("put", what, context)

        return (look, send, mail, put)


class MarkedJournal(JournalSpy):
    """A journal that says when it writes."""

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        mark("write begins")
        outcome = await super().append(batch, expected=expected, sync=sync)
        mark("write ends")
        return outcome


class MarkedModel(FakeModel):
    """A model that says when it is called."""

    async def stream(self, request: ModelRequest):
        """Play the script."""
        mark("model")
        async for chunk in super().stream(request):
            yield chunk


def open_journal(backend: str, place: Path) -> Journal:
    """Open the journal of a test."""
    if backend == "sqlite":
        from loom_ia.adapters.journals.sqlite import SqliteJournal

        return SqliteJournal(place)
    from loom_ia.adapters.journals.jsonl import JsonlJournal

    return JsonlJournal(place)


def config_of(outside: Outside) -> LoomConfig:
    """Describe the clerk."""
    config = clerk(*SCRIPT, tools=outside.tools())
    execution = config.execution.model_copy(update={"lease": LEASE_S})
    return config.model_copy(update={"execution": execution})


def make_loom(journal: Journal, outside: Outside, *, marks: bool = False) -> Loom:
    """Make the Loom that drives the clerk on a journal."""
    config = config_of(outside)
    models = {MODEL: MarkedModel(config.models[0])} if marks else None
    loom = Loom(config, store=journal, models=models)
    for made in outside.tools():
        loom.register(made.spec.name, made)
    return loom


async def main(what: str, backend: str, place: str, effects: str, *runs: str) -> None:
    """Run, or recover, until the end."""
    journal = MarkedJournal(open_journal(backend, Path(place)))
    async with make_loom(journal, Outside(Path(effects), marks=True), marks=True) as loom:
        mark("ready")
        if what == "run":
            await asyncio.gather(*(loom.run("clerk", "Do it", run_id=run_id) for run_id in runs))
        else:
            await loom.recover()
        mark("over")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
