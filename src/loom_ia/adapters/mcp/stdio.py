"""A server that is a program: started in its own group of processes, and ended with all of it.

Law. Whatever the program writes is read at once and kept only within bounds, so that it never waits
for us nor fills our memory; and once the transport is closed, no process of its group is left.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from loom_ia.adapters.mcp.bounds import (
    MESSAGE_BYTES,
    MESSAGE_VALUES,
    STDERR_CHARS,
    STDERR_LINES,
)
from loom_ia.adapters.mcp.words import marked
from loom_ia.core.json import MAX_DEPTH, count_values, storable_text

_log = logging.getLogger("loom_ia.mcp")

T = TypeVar("T")

_CHUNK: Final = 64 * 1024
_GRACE_S: Final = 1.0
"""How long the program may take to leave by itself, once its input is closed, and once told to."""
_QUESTIONS: Final = 100
"""How many questions of the program's may wait: one that does not listen asks no more."""
_ENDS: Final = 4_096
"""What is kept of both ends of a message that is too large, to find out whose answer it is."""
_KILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What a program sees of our variables; on Windows, also what nothing starts without."""
_INHERITED_ON_WINDOWS: Final = ("APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP")

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DEPTH: Final = 2 * MAX_DEPTH

_FIRST_ID: Final = re.compile(
    rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\b'
)
_LAST_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Program:
    """What is started: `env` beside the harmless variables, `name` for the log."""

    name: str
    command: str
    args: Sequence[str]
    env: Mapping[str, str]
    cwd: Path


@dataclass(slots=True)
class Errors:
    """The last lines of what a program wrote on its standard error."""

    name: str
    lines: deque[str] = field(default_factory=lambda: deque[str](maxlen=STDERR_LINES))

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read to the end, whatever comes: a line without an end is cut."""
        line, is_cut = b"", False
        while chunk := await stream.read(_CHUNK):
            first, *others = chunk.split(b"\n")
            line, is_cut = self._longer(line, first, is_cut)
            for following in others:
                self._add(line)
                line, is_cut = self._longer(b"", following, False)
        if line:
            self._add(line)

    @staticmethod
    def _longer(line: bytes, more: bytes, is_cut: bool) -> tuple[bytes, bool]:
        if is_cut:
            return line, True
        longer = line + more[: STDERR_CHARS + 1]
        return longer[:STDERR_CHARS], len(longer) > STDERR_CHARS

    def _add(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        self.lines.append(shown)
        _log.debug("[%s] %s", self.name, shown)


@dataclass(slots=True)
class _Asked:
    """How many questions of the program's wait for their answer to be written."""

    waiting: int = 0

    def takes(self, message: SessionMessage) -> bool:
        """Count a message in; a question too many is not listened to."""
        if isinstance(message.message, JSONRPCRequest):
            if self.waiting >= _QUESTIONS:
                return False
            self.waiting += 1
        return True

    def answered(self, message: SessionMessage) -> None:
        """Count an answer out."""
        if isinstance(message.message, JSONRPCResponse | JSONRPCError):
            self.waiting -= 1


@contextlib.asynccontextmanager
async def program_streams(
    program: Program, errors: Errors, gone: Callable[[], None]
) -> AsyncGenerator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]
]:
    """Start a program and give the streams that a session speaks through.

    `gone` is called once the program closed its output. Raises `OSError` or `ValueError` when it
    cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(program.env),
        cwd=program.cwd,
        start_new_session=True,
        limit=_CHUNK,
    )
    received, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    asked = _Asked()
    tasks = (
        asyncio.ensure_future(
            _reading(_piped(process.stdout), received, asked, gone, program.name)
        ),
        asyncio.ensure_future(_writing(_piped(process.stdin), to_send, asked)),
        asyncio.ensure_future(errors.read(_piped(process.stderr))),
    )
    try:
        yield read_stream, write_stream
    finally:
        await _ended(process, tasks)
        for stream in (received, read_stream, write_stream, to_send):
            stream.close()


def _piped(stream: T | None) -> T:
    if stream is None:
        raise OSError("it has no pipe")
    return stream


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    names = _INHERITED if os.name == "posix" else (*_INHERITED, *_INHERITED_ON_WINDOWS)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, **given}


async def _reading(
    stdout: asyncio.StreamReader,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    asked: _Asked,
    gone: Callable[[], None],
    name: str,
) -> None:
    try:
        async for line in _lines(stdout):
            if (message := _message(line, name)) and asked.takes(message):
                await received.send(message)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        pass
    finally:
        received.close()
        gone()
        with contextlib.suppress(ConnectionError):
            while await stdout.read(_CHUNK):  # a program that waits for us would not leave
                pass


async def _lines(stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Give the lines; of one that is too long, only its two ends, and nothing between them."""
    chunks, size, tail = list[bytes](), 0, b""
    while chunk := await stdout.read(_CHUNK):
        first, *others = chunk.split(b"\n")
        for rank, part in enumerate((first, *others)):
            if rank:
                yield b"".join(chunks) if not tail else b"".join(chunks)[:_ENDS] + b"\n" + tail
                chunks, size, tail = [], 0, b""
            size += len(part)
            if size <= MESSAGE_BYTES:
                chunks.append(part)
            else:
                chunks = [b"".join(chunks)[:_ENDS]] if len(chunks) > 1 else chunks
                tail = (tail + part)[-_ENDS:] or b" "


def _message(line: bytes, name: str) -> SessionMessage | None:
    """Read a line; an answer that cannot be read fails its call, and anything else is noise."""
    if not line.strip():
        return None
    if b"\n" in line:
        return _failed(line, f"the answer is larger than {MESSAGE_BYTES // 1024 // 1024} MiB")
    if len(line) > MESSAGE_VALUES and count_values(line) > MESSAGE_VALUES:
        return _failed(line, f"the answer holds more than {MESSAGE_VALUES} values")
    try:
        with contextlib.suppress(UnicodeDecodeError):
            # Read, then checked: the check by itself reads each value several times over.
            if (document := json.loads(line)) and _SURROGATE.search(line) is None:
                return SessionMessage(
                    jsonrpc_message_adapter.validate_python(document, by_name=False)
                )
        document = _mended(json.loads(line.decode("utf-8", "replace")), 0)
        return SessionMessage(jsonrpc_message_adapter.validate_python(document, by_name=False))
    except (ValueError, RecursionError):
        _log.debug("[%s] wrote %d bytes that are no message", name, len(line))
        return _failed(line, "the answer is no JSON that can be kept")


def _mended(value: Any, depth: int) -> Any:
    """Give a document that the other reader takes: what is too deep for us stays too deep."""
    if isinstance(value, str):
        return storable_text(value)
    if depth > _DEPTH:
        return None
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {storable_text(key): _mended(item, depth + 1) for key, item in items}
    if isinstance(value, list):
        return [_mended(item, depth + 1) for item in cast("list[Any]", value)]
    return value


def _failed(line: bytes, reason: str) -> SessionMessage | None:
    match = _FIRST_ID.search(line[:_ENDS]) or _LAST_ID.search(line[-_ENDS:])
    if match is None or b'"method"' in line[:_ENDS]:
        return None
    error = ErrorData(code=INTERNAL_ERROR, message=reason, data=marked("unreadable"))
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error))


async def _writing(
    stdin: asyncio.StreamWriter,
    to_send: MemoryObjectReceiveStream[SessionMessage],
    asked: _Asked,
) -> None:
    try:
        async for sent in to_send:
            line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(line.encode("utf-8", "replace") + b"\n")
            await stdin.drain()
            asked.answered(sent)
    except (anyio.ClosedResourceError, OSError):
        pass
    finally:
        to_send.close()


async def _ended(
    process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Future[None]]
) -> None:
    """End the program and all that it started; whoever cancels this waits for it."""
    ending = asyncio.ensure_future(_end(process, tasks))
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if ending.cancelled():
                break


async def _end(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Future[None]]) -> None:
    reading, writing, errors = tasks
    writing.cancel()
    _piped(process.stdin).close()
    for order in (None, signal.SIGTERM, _KILL):
        if order is not None:
            _tell_group(process, order)
        if await _left(process):
            break
    _tell_group(process, _KILL)  # what it started and left behind
    await asyncio.wait(tasks, timeout=_GRACE_S)  # they end with the pipes
    for task in (reading, errors):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:  # a process that left the group may still hold a pipe
        transport.close()


async def _left(process: asyncio.subprocess.Process) -> bool:
    try:
        async with asyncio.timeout(_GRACE_S):
            # Not `wait`, which also waits for the pipes: who inherited them may keep them open.
            while process.returncode is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        return False
    return True


def _tell_group(process: asyncio.subprocess.Process, order: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, order)
        elif process.returncode is None:
            process.kill()
