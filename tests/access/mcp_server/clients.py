"""The client of the SDK, on the two transports and in the two generations of the protocol."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from loom_ia.access.http.app import create_app
from tests.acceptance.project import LOOM, Project

GENERATIONS = ("legacy", "auto")
KEY = "lk_" + "k" * 43
OTHER_KEY = "lk_" + "o" * 43


def digest(secret: str) -> str:
    """Write a key as the configuration does."""
    return f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"


@asynccontextmanager
async def over_stdio(
    project: Project, mode: str, *words: str, **more: Any
) -> AsyncGenerator[Client]:
    """Speak with `loom mcp`; what it says on standard error is in the file `stderr`."""
    command = StdioServerParameters(
        command=str(LOOM), args=[*words, "mcp"], cwd=project.folder, env={"LC_ALL": "C.UTF-8"}
    )
    with (project.folder / "stderr").open("w") as errors:
        async with Client(stdio_client(command, errlog=errors), mode=mode, **more) as client:
            yield client


def stderr(project: Project) -> str:
    """Give what the server said on standard error."""
    return (project.folder / "stderr").read_text()


class Stopping(uvicorn.Server):
    """Says that it stops before it waits for the responses that last, as `loom serve` does."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say it, then wait."""
        self.config.app.state.stopping.set()  # type: ignore[union-attr]
        await super().shutdown(sockets)


@asynccontextmanager
async def served(
    project: Project, *, seen: list[uvicorn.Server] | None = None, **server: Any
) -> AsyncGenerator[str]:
    """Serve a project over HTTP in this process; gives the address of MCP."""
    project.root = {
        **project.root,
        "server": {"mcp": {"http": True, **server}},
        "security": project.root.get(
            "security", {"api_keys": [{"id": "claude", "hash": digest(KEY)}]}
        ),
    }
    project.save()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(project.loom(), own=True)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        serving = Stopping(settings)
        if seen is not None:
            seen.append(serving)
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        while not serving.started:  # noqa: ASYNC110 -- the server tells in no other way
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            serving.should_exit = True
            await task


@asynccontextmanager
async def over_http(url: str, mode: str, *, key: str = KEY, **more: Any) -> AsyncGenerator[Client]:
    """Speak with a server over HTTP."""
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=60)) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **more) as client,
    ):
        yield client


def text_of(result: types.CallToolResult) -> str:
    """Give all the text of a result."""
    return "\n".join(c.text for c in result.content if isinstance(c, types.TextContent))


def content_of(read: types.ReadResourceResult) -> str:
    """Give what a resource holds: its text, or its bytes in base64."""
    (one,) = read.contents
    return one.text if isinstance(one, types.TextResourceContents) else one.blob
