"""Servers that are addresses: real sockets, both protocols, and gateways that get in between."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from loom_ia.adapters.mcp.pool import load
from loom_ia.adapters.mcp.source import McpSource
from loom_ia.core.errors import SourceUnavailable, ToolError, UnknownEffect
from loom_ia.core.model.mcp import McpServer
from loom_ia.core.ports.sources import McpAccess
from tests.adapters.mcp.conftest import SERVERS, called, context, definition, names, tool, until

KEY = "Bearer secret-of-ours"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody does."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False


def source(url: str, **members: Any) -> McpSource:
    """A source at an address, with our key."""
    given = {
        "name": "web",
        "transport": "http",
        "url": url,
        "headers_env": {"Authorization": "KEY"},
    }
    secrets = {"KEY": KEY}
    return McpSource(
        McpServer(**{**given, **members}), McpAccess(lambda name: secrets.get(name, ""), Path())
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A server written with the SDK, in a process of its own."""
    port, log = free_port(), tmp_path_factory.mktemp("honest") / "log"
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "honest.py"), str(port), KEY, str(log)]
    )
    try:
        for _ in range(600):
            if listens(port):
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        yield port, log
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Where sources are closed."""
    await load()
    async with AsyncExitStack() as closing:
        yield closing


def kept(stack: AsyncExitStack, one: McpSource) -> McpSource:
    """Close a source at the end."""
    stack.push_async_callback(one.aclose)
    return one


async def test_an_address_is_called_with_our_key(
    honest: tuple[int, Path], stack: AsyncExitStack
) -> None:
    """Its tools are listed and called, and what they ask back is refused."""
    opened = await kept(stack, source(f"http://127.0.0.1:{honest[0]}/mcp")).open(context())
    assert names(opened) == ["double", "ask", "wait"]
    double = tool(opened, "double")
    assert double.spec.side_effects == "none"
    assert (await double.check({"a": "1"}) or "").startswith("a: ")
    output = await double.call({"a": 21}, called(idempotency_key="k"))
    assert (output.text, output.data) == ("42", {"value": 42, "key": "k"})
    with pytest.raises(ToolError, match="asks for more"):
        await tool(opened, "ask").call({}, called())
    assert (await double.call({"a": 1}, called())).text == "2"


async def test_a_call_that_is_given_up_is_told(
    honest: tuple[int, Path], stack: AsyncExitStack
) -> None:
    """The server learns it, and the connection is used again."""
    opened = await kept(stack, source(f"http://127.0.0.1:{honest[0]}/mcp")).open(context())
    call = asyncio.create_task(tool(opened, "wait").call({}, called()))
    done, _ = await asyncio.wait((call,), timeout=0.3)
    assert not done
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(honest[1].exists)
    assert (await tool(opened, "double").call({"a": 1}, called())).text == "2"


@pytest.mark.parametrize("legacy", [False, True])
async def test_programs_speak_both_protocols(stack: AsyncExitStack, legacy: bool) -> None:
    """The newer one where the server knows it, the older one where it does not."""
    server = McpServer(
        name="sdk",
        transport="stdio",
        command=sys.executable,
        args=(str(SERVERS / "honest.py"),),
        connect_timeout=60,
    )
    one = kept(stack, McpSource(server, McpAccess(lambda _: "", Path())))
    line = one._line(context())
    line._legacy = legacy
    opened = await one.open(context())
    again = await one.open(context(run="r2"))
    assert (await tool(again, "double").call({"a": 4}, called())).text == "8"
    connection = line._connection
    session: Any = connection._session  # pyright: ignore[reportOptionalMemberAccess]
    assert session.is_modern is not legacy
    assert names(opened) == names(again)


async def test_a_refused_key_is_said_and_never_shown(
    honest: tuple[int, Path], stack: AsyncExitStack
) -> None:
    """The error names what happened, not the key."""
    url = f"http://127.0.0.1:{honest[0]}/mcp"
    one = McpSource(
        McpServer(name="web", transport="http", url=url, headers_env={"Authorization": "KEY"}),
        McpAccess(lambda _: "Bearer wrong", Path()),
    )
    with pytest.raises(
        SourceUnavailable, match=r"HTTP 401 \(the server refuses the key\)"
    ) as error:
        await kept(stack, one).open(context())
    assert "wrong" not in str(error.value)
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        await kept(stack, source(f"http://127.0.0.1:{free_port()}/mcp")).open(context())


Answer = Callable[[dict[str, Any], dict[str, str]], bytes | None]


def said(document: Any, *, status: str = "200 OK", **headers: str) -> bytes:
    """One answer on the wire."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


@asynccontextmanager
async def wire(answer: Answer) -> AsyncIterator[tuple[int, list[dict[str, str]]]]:
    """A server by hand: what answers a request is given by `answer`, None to hang up."""
    heard: list[dict[str, str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = {
                    k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)
                }
                heard.append({**headers, ":": lines[0]})
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                reply = answer(json.loads(body or b"{}"), headers)
                if reply is None:
                    break
                writer.write(reply)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


def good(message: dict[str, Any], _headers: dict[str, str]) -> bytes:
    """What a server of the older protocol answers, in the best of cases."""
    method, result = message.get("method"), dict[str, Any]()
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "wire", "version": "0"},
        }
    elif method == "tools/list":
        result = {"tools": [definition("echo"), "no tool"]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "done"}]}
    elif method == "server/discover" or "id" not in message:
        code = {"code": -32601, "message": "Method not found"}
        return said({"jsonrpc": "2.0", "id": message.get("id"), "error": code})
    reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    extra = {"mcp_session_id": "s1"} if method == "initialize" else {}
    return said(reply, **extra)


def on_call(reply: bytes | None) -> Answer:
    """A server that answers well, but for the first call."""
    bad = [reply]

    def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") != "tools/call" or not bad:
            return good(message, headers)
        if bad.pop() != HUGE:
            return reply
        blocks = [{"type": "text", "text": "x" * 11 * 1024 * 1024}]
        return said({"jsonrpc": "2.0", "id": message["id"], "result": {"content": blocks}})

    return answer


GATEWAY = said(b"<html>bad gateway</html>", status="502 Bad Gateway", content_type="text/html")
FORGOTTEN = said(b"", status="404 Not Found")
HUGE = b"huge"
ELSEWHERE = said(b"", status="307 Temporary Redirect", location="http://127.0.0.1:9/other")
PACKED = said(b"\x1f\x8b", content_encoding="gzip")


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (None, UnknownEffect, "^$"),
        (GATEWAY, UnknownEffect, "^$"),
        (HUGE, ToolError, "cannot be read|answered with an error"),
        (ELSEWHERE, ToolError, "not followed"),
        (PACKED, ToolError, "compresses"),
        (said(b"", status="403 Forbidden"), ToolError, "HTTP 403"),
        (said(b"nonsense"), ToolError, "cannot be read|answered with an error"),
    ],
)
async def test_what_becomes_of_a_call(
    stack: AsyncExitStack, reply: bytes | None, error: type[Exception], words: str
) -> None:
    """What may have been done is unknown; what was not is said; the next call goes on."""
    async with wire(on_call(reply)) as (port, heard), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        with pytest.raises(error, match=words):
            await tool(opened, "echo").call({}, called())
        assert (await tool(opened, "echo").call({}, called())).text == "done"
        assert {request["authorization"] for request in heard} == {KEY}


async def test_a_session_that_was_forgotten_is_made_again(stack: AsyncExitStack) -> None:
    """A server that started again did nothing: the call is made, whatever its effect."""
    async with wire(on_call(FORGOTTEN)) as (port, _), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        assert (await tool(opened, "echo").call({}, called())).text == "done"


async def test_a_harmless_call_goes_through_a_gateway(stack: AsyncExitStack) -> None:
    """One that may run again is made once more."""
    async with wire(on_call(GATEWAY)) as (port, _), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        output = await tool(opened, "echo").call({}, called(may_act_again=True))
        assert output.text == "done"


async def test_a_server_that_does_not_let_us_go(stack: AsyncExitStack) -> None:
    """Closing waits for no answer."""

    def silent(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        return good(message, headers) if message else b""

    async with wire(silent) as (port, heard):
        one = source(f"http://127.0.0.1:{port}/mcp")
        await one.open(context())
        async with asyncio.timeout(8):
            await one.aclose()
    assert any(request[":"].startswith("DELETE") for request in heard)


async def test_our_headers_do_not_follow_a_redirection(stack: AsyncExitStack) -> None:
    """Whoever sends us elsewhere does not learn our key there."""
    async with wire(good) as (other, heard):
        away = said(b"", status="307 Temporary Redirect", location=f"http://127.0.0.1:{other}/mcp")
        async with wire(lambda *_: away) as (port, _):
            with pytest.raises(SourceUnavailable, match="not followed"):
                await kept(stack, source(f"http://127.0.0.1:{port}/mcp")).open(context())
    assert heard == []
