"""One measurement of a request to the REST API: FastAPI alone, or a run behind it.

python -m bench.door bare|loom [CALLS]

The client is a process of its own, on one kept connection. For a run, what the same call needs in
the process of the server is measured first and taken off: what is left is what the door costs.
"""

import asyncio
import json
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import uvicorn

from bench.cell import MARK

_CALLS: Final = 600
_WARM_UP: Final = 100
_TEXT: Final = "Votre client paiera 1 375 € TTC."
_MESSAGE: Final = "Quel prix TTC pour 1 250 € HT à 10 % ?"


def _bare() -> tuple[Any, str]:
    """Give an application that answers as much as ours, and knows nothing of runs."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Asked(BaseModel):
        message: str
        session_id: str | None = None

    app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})

    @app.post("/runs", status_code=201)
    async def run(asked: Asked) -> dict[str, Any]:
        return {"text": _TEXT, "asked": asked.message, "usage": {"input_tokens": 1}}

    return app, "/runs"


@asynccontextmanager
async def _loom() -> AsyncIterator[Any]:
    from loom_ia.access import Loom
    from loom_ia.agents import AgentSpec, MainRole
    from loom_ia.config import LoomConfig
    from loom_ia.config.root import EventsStorage, Storage
    from loom_ia.core.model import ModelSpec

    model = ModelSpec(id="M", sdk="fake", model="fake-1", params={"script": [{"text": _TEXT}]})
    made = LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend="memory")),
        models=(model,),
        agents=(AgentSpec(name="a", main=MainRole(model="M", system="s")),),
    )
    async with Loom(made) as loom:
        yield loom


def _ask(port: int, path: str, calls: int) -> None:
    """Send requests one after the other, and read each answer to its end."""
    body = json.dumps({"message": _MESSAGE}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        stream = connection.makefile("rb")
        for _ in range(calls):
            connection.sendall(head.encode() + body)
            status = stream.readline()
            if b" 201 " not in status:
                raise SystemExit(f"the server answered {status!r}")
            length = 0
            while (line := stream.readline()) not in {b"\r\n", b""}:
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            stream.read(length)


async def _served(app: Any, path: str, calls: int) -> float:
    """Give the CPU seconds that a request needs in this process."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        port = listening.getsockname()[1]
        await _client(port, path, _WARM_UP)
        start = time.process_time()
        await _client(port, path, calls)
        spent = time.process_time() - start
        server.should_exit = True
        await serving
    return spent / calls


async def _client(port: int, path: str, calls: int) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_ask, args=(port, path, calls))
    child.start()
    await asyncio.to_thread(child.join)
    if child.exitcode:
        raise SystemExit("the client failed")


async def _in_process(call: Callable[[], Awaitable[object]], calls: int) -> float:
    for _ in range(_WARM_UP):
        await call()
    start = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - start) / calls


async def measure(system: str, calls: int) -> dict[str, float]:
    """Give `cpu`, the CPU seconds of a request beyond the work that it asks for."""
    if system == "bare":
        return {"cpu": await _served(*_bare(), calls)}
    from loom_ia.access.http import create_app

    async with _loom() as loom:
        alone = await _in_process(lambda: loom.run("a", _MESSAGE), calls)
        whole = await _served(create_app(loom), "/v1/agents/a/runs", calls)
    return {"cpu": whole - alone, "whole": whole, "in_process": alone}


def main(arguments: Sequence[str]) -> None:
    """Measure what the command line says."""
    system, *rest = arguments
    calls = int(rest[0]) if rest else _CALLS
    print(MARK + json.dumps(asyncio.run(measure(system, calls))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
