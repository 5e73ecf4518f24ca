"""A server on a real socket, in this process or in one of its own, and a client of its streams."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import uvicorn
from fastapi import FastAPI

from loom_ia.access import Loom
from loom_ia.access.http import create_app
from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.agents.spec import SubagentRef
from loom_ia.config import LoomConfig
from loom_ia.config.root import EventsStorage, Storage
from loom_ia.config.server import ApiKeySpec, Security
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.scopes import Scope
from loom_ia.core.ports.models import ModelClient
from loom_ia.tenancy.keys import digest_of
from loom_ia.tools import tool

ROOT: Final = Path(__file__).parents[3]


@tool
async def count(upto: int = 3) -> str:
    """Count, without any effect."""
    return " ".join(map(str, range(upto)))


@tool(side_effects="irreversible", approval="always")
async def send(text: str = "") -> str:
    """Send."""
    return f"sent: {text}"


@tool(side_effects="irreversible")
def act() -> str:
    """Act outside, for some time."""
    if marks := os.environ.get("MARKS"):
        Path(marks, "begun").touch()
        while not Path(marks, "go").exists():
            time.sleep(0.01)
        Path(marks, "done").touch()
    return "acted"


def asks(name: str, **arguments: object) -> dict[str, Any]:
    """Script one call."""
    return {"name": name, "arguments": arguments}


SCRIPT: Final[Sequence[Mapping[str, Any]]] = (
    {"with_text": "count", "without_text": "twice", "tool_calls": [asks("count")]},
    {
        "with_text": "twice",
        "text": "I count.",
        "tool_calls": [asks("count", upto=2), asks("count", upto=4)],
    },
    {"with_text": "send", "tool_calls": [asks("send", text="hello")]},
    {"with_text": "act", "tool_calls": [asks("act")]},
    {"with_text": "delegate", "tool_calls": [asks("helper", message="count")]},
    {"text": "It is done, and well done."},
)


def config(
    folder: Path, backend: str = "sqlite", *, keys: Sequence[ApiKeySpec] = (), delay: float = 0.0
) -> LoomConfig:
    """Two agents, one of which calls the other."""
    path = folder / ("j.db" if backend == "sqlite" else "journal")
    names = ("count", "send", "act")
    tools = tuple(PythonTool(python=name) for name in names)
    main = MainRole(model="M", system="s")
    return LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend=backend, path=str(path))),  # type: ignore[arg-type]
        models=(
            ModelSpec(id="M", sdk="fake", model="f", params={"script": [*SCRIPT], "delay": delay}),
        ),
        agents=(
            AgentSpec(name="a", main=main, tools=tools, subagents=(SubagentRef(agent="helper"),)),
            AgentSpec(name="helper", description="Helps.", main=main, tools=tools),
        ),
        security=Security(api_keys=tuple(keys)),
    )


def key(name: str, *scopes: Scope, agents: Sequence[str] = ()) -> ApiKeySpec:
    """Declare a key whose secret is its name."""
    return ApiKeySpec(
        id=name, hash=digest_of(f"lk_{name}"), scopes=tuple(scopes), agents=tuple(agents)
    )


def bearing(name: str) -> dict[str, str]:
    """Give the header that presents a key."""
    return {"Authorization": f"Bearer lk_{name}"}


def opened(config: LoomConfig, models: Mapping[str, ModelClient] | None = None) -> Loom:
    """Make the library of a configuration."""
    loom = Loom(config, models=models)
    for name, function in (("count", count), ("send", send), ("act", act)):
        loom.register(name, function)
    return loom


@dataclass
class Frame:
    """One frame of a stream, or a comment."""

    event: str = ""
    id: int | None = None
    data: Any = None
    comment: str = ""
    retry: int | None = None


@dataclass
class Reader:
    """Reads the frames of a response."""

    response: httpx2.Response
    frames: list[Frame] = field(default_factory=list[Frame])

    def __post_init__(self) -> None:
        self._coming = self._read()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self._coming

    async def _read(self) -> AsyncGenerator[Frame]:
        frame = Frame()
        async for line in self.response.aiter_lines():
            if not line:
                self.frames.append(frame)
                yield frame
                frame = Frame()
            elif line.startswith(":"):
                frame.comment = line[1:].strip()
            else:
                name, _, value = line.partition(": ")
                frame.event = value if name == "event" else frame.event
                frame.id = int(value) if name == "id" else frame.id
                frame.data = json.loads(value) if name == "data" else frame.data
                frame.retry = int(value) if name == "retry" else frame.retry


class Client(httpx2.AsyncClient):
    """A client of one server."""

    async def begin(self, message: str, **more: object) -> str:
        """Begin a run in the background."""
        asked = {"message": message, "background": True, **more}
        answer = await self.post("/v1/agents/a/runs", json=asked)
        assert answer.status_code == 202, answer.text
        run_id: str = answer.json()["run_id"]
        return run_id

    @asynccontextmanager
    async def follow(
        self, run_id: str, last: int | str | None = None, **query: str | int
    ) -> AsyncGenerator[Reader]:
        """Open the stream of a run."""
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        url = f"/v1/runs/{run_id}/events"
        async with self.stream("GET", url, headers=headers, params=query) as response:
            if response.status_code != 200:
                await response.aread()
            assert response.status_code == 200, response.text
            yield Reader(response)

    async def all(self, run_id: str, last: int | None = None, **query: str | int) -> list[Frame]:
        """Read the stream of a run to its end."""
        async with self.follow(run_id, last, **query) as reader:
            return [frame async for frame in reader]


def client(base: str, **more: Any) -> Client:
    """Make a client; anything that takes a minute is a failure."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=4)
    return Client(base_url=base, timeout=60, limits=limits, **more)


def ids(frames: Sequence[Frame]) -> list[int]:
    """Give the places of the facts."""
    return [frame.id for frame in frames if frame.id is not None]


def events(frames: Sequence[Frame]) -> list[str]:
    """Give the names of the frames that have one."""
    return [frame.event for frame in frames if frame.event]


def text(frames: Sequence[Frame]) -> str:
    """Give the text that a client shows that does as it is told."""
    done: list[str] = []
    now = ""
    for frame in frames:
        if frame.event == "model.reset":
            now = ""
        elif frame.event == "model.delta":
            if frame.data["offset"] == 0:
                done.append(now)
                now = ""
            assert frame.data["offset"] == len(now)
            now += frame.data["text"]
    return "".join([*done, now])


@dataclass
class Here:
    """A server in this process."""

    base: str
    loom: Loom
    app: FastAPI
    server: uvicorn.Server
    serving: "asyncio.Task[None]"

    def client(self, **more: Any) -> Client:
        """Make a client of it."""
        return client(self.base, **more)

    async def stop(self) -> None:
        """Stop as `loom serve` does: streams first."""
        self.app.state.stopping.set()
        self.server.should_exit = True
        await self.serving


@asynccontextmanager
async def serving(loom: Loom) -> AsyncGenerator[Here]:
    """Serve a library on a free port of the loopback address."""
    async with loom:
        app = create_app(loom)
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            base = f"http://127.0.0.1:{listening.getsockname()[1]}"
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
            server.config.load()
            task = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started:  # noqa: ASYNC110 -- it tells in no other way
                await asyncio.sleep(0.005)
            here = Here(base, loom, app, server, task)
            try:
                yield here
            finally:
                await here.stop()


@asynccontextmanager
async def process(
    folder: Path, backend: str, **environ: str
) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """Serve in a process of its own; it is killed at the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.access.http.serving",
        str(folder),
        backend,
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
    )
    assert started.stdout is not None
    try:
        async with asyncio.timeout(60):
            base = (await started.stdout.readline()).decode().strip()
        assert base.startswith("http://"), base
        yield base, started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def _main(folder: str, backend: str) -> None:
    """Serve until killed; what dead servers left is gone on with."""
    async with serving(opened(config(Path(folder), backend))) as here:
        print(here.base, flush=True)  # noqa: T201 -- this is how the parent knows
        await here.loom.watch(interval=0.2)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
