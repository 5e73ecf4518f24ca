"""A process that uses the library on a project, stops in a model call, and says where it is.

    python -m tests.acceptance.driver CONFIG HANG_AT RUN…

Each run is one of the agent `devis`. Each marks its model calls on standard output, `model 1` and
so on; the one of rank HANG_AT never ends (0: all do). `over` is said at the end.
"""

import asyncio
import os
import sys

from loom_ia.access import Loom
from loom_ia.adapters.models.fake import FakeModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.request import ModelRequest


class Hanging(FakeModel):
    """A model that never answers at some rank."""

    def __init__(self, spec: ModelSpec, hang_at: int) -> None:
        super().__init__(spec)
        self.hang_at = hang_at

    async def stream(self, request: ModelRequest):
        """Say the rank of the call, then play, or not."""
        rank = 1 + sum(message.role == "assistant" for message in request.messages)
        os.write(1, f"model {rank}\n".encode())
        if rank == self.hang_at:
            await asyncio.Event().wait()
        async for chunk in super().stream(request):
            yield chunk


async def main(config: str, hang_at: str, *runs: str) -> None:
    """Run the agent as often as there are ids; `id@session` names a session too."""
    spec = Loom.from_config(config).config.models[0]
    async with Loom.from_config(config, models={"SIMULE": Hanging(spec, int(hang_at))}) as loom:
        pairs = [run.partition("@") for run in runs]
        await asyncio.gather(
            *(
                loom.run("devis", f"Fais {run_id}", run_id=run_id, session_id=session or None)
                for run_id, _, session in pairs
            )
        )
    os.write(1, b"over\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
