"""One client over a pair of streams: a message is a line of JSON.

Law. Reading and writing are in threads of their own that nothing waits for, so that a client that
neither writes nor reads any more cannot keep the server from stopping. A line is bounded, and the
next one is read when the last was taken.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass
from io import FileIO
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from loom_ia.access.mcp_server.channel import Channel

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server

_CHUNK: Final = 65_536

Seen: TypeAlias = Callable[[types.JSONRPCMessage], None]
"""Told each message of the client before the protocol is."""


async def serve_channel(
    server: "Server[Any]", channel: Channel, *, max_bytes: int, seen: Seen
) -> None:
    """Speak with the client until it ends its side, or until cancelled."""
    writer = _Writer(channel.outgoing)
    to_server: MemoryObjectSendStream[SessionMessage | Exception]
    from_client: MemoryObjectReceiveStream[SessionMessage | Exception]
    from_server: MemoryObjectSendStream[SessionMessage]
    to_client: MemoryObjectReceiveStream[SessionMessage]
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    reader = _Reader(channel.incoming, max_bytes, asyncio.get_running_loop())

    async def read() -> None:
        async with to_server:
            async for message in reader:
                if isinstance(message, _Fault):
                    await writer.write(message.told)
                    continue
                seen(message)
                await to_server.send(SessionMessage(message))

    async def write() -> None:
        async with to_client:
            async for message in to_client:
                await writer.write(message.message)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        await server.run(from_client, from_server, server.create_initialization_options())
        group.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _Fault:
    """A line that is no message, and what is said of it."""

    told: types.JSONRPCError


_Item: TypeAlias = types.JSONRPCMessage | _Fault


class _Reader:
    """Gives the messages of the client one by one, and an error for what is none."""

    def __init__(self, source: FileIO, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._loop = loop
        self._messages: asyncio.Queue[_Item | None] = asyncio.Queue(1)
        threading.Thread(target=self._read, name="loom-mcp-reader", daemon=True).start()

    def __aiter__(self) -> "_Reader":
        return self

    async def __anext__(self) -> _Item:
        message = await self._messages.get()
        if message is None:
            raise StopAsyncIteration
        return message

    def _read(self) -> None:
        line, excess = bytearray(), False
        while chunk := self._chunk():
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                line += part
                if not self._give(_refused(self._max_bytes) if excess else _parsed(line)):
                    return
                line, excess = bytearray(), False
            line += rest
            if len(line) > self._max_bytes:
                line, excess = bytearray(), True
        self._give(None, always=True)

    def _chunk(self) -> bytes:
        try:
            return self._source.read(_CHUNK) or b""
        except OSError:
            return b""

    def _give(self, message: _Item | None, *, always: bool = False) -> bool:
        """Hand a message over once the last one was taken; False when nobody takes them now."""
        if message is None and not always:
            return True
        try:
            taken = asyncio.run_coroutine_threadsafe(self._messages.put(message), self._loop)
            taken.result()
        except (RuntimeError, CancelledError):  # the loop is over
            return False
        return True


class _Writer:
    """Writes lines in the order in which they come."""

    def __init__(self, target: FileIO) -> None:
        self._target = target
        self._lines: SimpleQueue[tuple[bytes, ThreadFuture[None]]] = SimpleQueue()
        threading.Thread(target=self._write, name="loom-mcp-writer", daemon=True).start()

    async def write(self, message: types.JSONRPCMessage) -> None:
        """Write a message; returns once the client can read it, or has gone."""
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        written: ThreadFuture[None] = ThreadFuture()
        self._lines.put((text.encode("utf-8", "replace") + b"\n", written))
        await asyncio.wrap_future(written)

    def _write(self) -> None:
        while True:
            line, written = self._lines.get()
            view = memoryview(line)
            try:
                while view:
                    view = view[self._target.write(view) :]
            except OSError:  # the client reads no more: its end of the reading side is what counts
                pass
            if written.set_running_or_notify_cancel():
                written.set_result(None)


def _parsed(line: bytes | bytearray) -> _Item | None:
    if not line.strip():
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
    except ValueError:
        return _error(types.PARSE_ERROR, "this line is no message of JSON-RPC")


def _refused(max_bytes: int) -> _Fault:
    return _error(types.INVALID_REQUEST, f"a message has at most {max_bytes} bytes")


def _error(code: int, message: str) -> _Fault:
    fault = types.ErrorData(code=code, message=message)
    return _Fault(types.JSONRPCError(jsonrpc="2.0", id=None, error=fault))
