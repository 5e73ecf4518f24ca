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

from loom_ia.adapters.mcp.pool import ServerFailed, load
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


CUT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n{"
Answer = Callable[[dict[str, Any], dict[str, str]], bytes | None]


def said(document: Any, *, status: str = "200 OK", **headers: str) -> bytes:
    """One answer on the wire."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = {"content_type": "application/json", "content_length": str(len(body)), **headers}
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
                if reply == CUT:
                    break
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


TIMEOUT = {"error": {"code": 504, "message": "Gateway Timeout"}}


@pytest.mark.parametrize(
    "reply",
    [
        None,
        GATEWAY,
        HUGE,
        ELSEWHERE,
        PACKED,
        FORGOTTEN,
        said(b"", status="307 Temporary Redirect", location="/other"),
        said(b"", status="302 Found", location="/other"),
        said(TIMEOUT, status="504 Gateway Timeout"),
        said(TIMEOUT, status="400 Bad Request"),
        said(b"\x1f\x8b", status="504 Gateway Timeout", content_encoding="gzip"),
        said(b"", status="408 Request Timeout"),
        said(b"", status="403 Forbidden"),
        said(b"", status="202 Accepted"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        said(b"<html>", content_type="text/html"),
        said(b"nonsense"),
        said(b"{oops"),
        said({"jsonrpc": "2.0", "id": 10_000, "result": {}}),
        said({"jsonrpc": "2.0", "id": 10_000, "error": {"code": -32601, "message": "no"}}),
        said(b"data: {oops\n\n", content_type="text/event-stream"),
        CUT,
    ],
)
async def test_what_is_no_answer_leaves_an_unknown_effect(
    stack: AsyncExitStack, reply: bytes | None
) -> None:
    """A call that may have reached the server is sent once, and nobody says that it did nothing."""
    calls = list[dict[str, Any]]()
    inner_answer = on_call(reply)

    def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") == "tools/call":
            calls.append(message)
        return inner_answer(message, headers)

    async with wire(answer) as (port, heard), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        with pytest.raises(UnknownEffect, match=r"^$"):
            await tool(opened, "echo").call({}, called())
        assert len(calls) == 1
        assert (await tool(opened, "echo").call({}, called())).text == "done"
        assert len(calls) == 2
        assert {request["authorization"] for request in heard} == {KEY}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-32602, ToolError),
        (-32601, ToolError),
        (-32603, ServerFailed),
        (-32098, ServerFailed),
        (-32097, ServerFailed),
        (7, ServerFailed),
    ],
)
async def test_an_error_of_the_server_is_its_own_word(
    stack: AsyncExitStack, kind: str, code: int, error: type[Exception]
) -> None:
    """No code makes a call be sent again; only the protocol's own say that nothing was begun."""
    calls = list[dict[str, Any]]()

    def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes:
        if message.get("method") != "tools/call":
            return good(message, headers)
        calls.append(message)
        told = {"code": code, "message": "its own words"}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": told}).encode()
        return said(b"data: " + body + b"\n\n" if "stream" in kind else body, content_type=kind)

    async with wire(answer) as (port, _), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        with pytest.raises(error, match="its own words"):
            await tool(opened, "echo").call({}, called())
        assert len(calls) == 1


async def test_a_session_that_was_forgotten_is_made_again(stack: AsyncExitStack) -> None:
    """A call that may be made again is, in a new session."""
    async with wire(on_call(FORGOTTEN)) as (port, _), AsyncExitStack() as inner:
        opened = await kept(inner, source(f"http://127.0.0.1:{port}/mcp")).open(context())
        output = await tool(opened, "echo").call({}, called(may_act_again=True))
        assert output.text == "done"


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
