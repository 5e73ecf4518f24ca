"""One measurement in this process: prints its figures as the last line, in JSON.

python -m bench.cell SYSTEM WORKLOAD STORE TOOL FOLDER [SCALE]
"""

import asyncio
import json
import logging
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

from bench.script import Script
from bench.systems import Setup, open_graph, open_system
from bench.tokens import TOKENS, tokens_of_the_story
from bench.workloads import GRAPH_WORKLOADS, WORKLOADS, Bench, Figures

MARK = "RESULT "


async def measure(workload: str, system: str, setup: Setup, scale: float = 1.0) -> Figures:
    """Run one workload on one system; adds `bytes`, what its folder holds once it is closed."""
    async with AsyncExitStack() as stack:
        if workload == TOKENS:
            figures = await tokens_of_the_story(setup.folder)
        elif workload in GRAPH_WORKLOADS:
            graph = await open_graph(system, setup)
            stack.push_async_callback(graph.close)
            figures = await GRAPH_WORKLOADS[workload](graph, scale)
        else:
            opened = await open_system(system, setup)
            stack.push_async_callback(opened.close)
            figures = await WORKLOADS[workload](Bench(opened, setup.script, scale))
    figures["bytes"] = stored(setup.folder)
    return figures


def stored(folder: Path) -> int:
    """Add up the files of `folder`, after the logs of its databases are copied into them."""
    for log in folder.rglob("*-wal"):
        with closing(sqlite3.connect(str(log).removesuffix("-wal"))) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(arguments: Sequence[str]) -> None:
    """Measure what the command line says."""
    logging.disable(logging.WARNING)
    system, workload, store, tool, folder, *rest = arguments
    setup = Setup(Script(), store, tool, Path(folder))  # pyright: ignore[reportArgumentType]
    scale = float(rest[0]) if rest else 1.0
    figures = asyncio.run(measure(workload, system, setup, scale))
    print(MARK + json.dumps(figures), flush=True)
    os._exit(0)  # whatever threads a framework left behind


if __name__ == "__main__":
    main(sys.argv[1:])
