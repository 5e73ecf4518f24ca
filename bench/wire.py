"""One measurement of a call of a model over HTTP: the bare SDK, or our adapter on that SDK.

python -m bench.wire bare|loom anthropic|chat|responses [CALLS]

The server is a process of its own on the loopback, which always gives the same streamed answer.
"""

import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final, TypeAlias

from bench.cell import MARK

_PIECES: Final = 20
_CALLS: Final = 200
_WARM_UP: Final = 20
_TEXT: Final = "Votre client paiera 1 375 € TTC. "

Event: TypeAlias = tuple[str, Mapping[str, Any]]
Call: TypeAlias = Callable[[], Awaitable[int]]
Close: TypeAlias = Callable[[], Awaitable[None]]


def _anthropic() -> Iterable[Event]:
    usage = {"input_tokens": 100, "output_tokens": 1}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    message = {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
    for _ in range(_PIECES):
        yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": _TEXT}}
    yield "content_block_stop", {"index": 0}
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    yield "message_delta", {"delta": delta, "usage": {"output_tokens": 60}}
    yield "message_stop", {}


def _chat() -> Iterable[Event]:
    head: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    for piece in range(_PIECES):
        reason = "stop" if piece == _PIECES - 1 else None
        choice = {"index": 0, "delta": {"content": _TEXT}, "finish_reason": reason}
        yield "", {**head, "choices": [choice]}
    usage = {"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160}
    yield "", {**head, "choices": [], "usage": usage}


def _responses() -> Iterable[Event]:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield "response.output_item.added", {"output_index": 0, "item": {**item, "content": []}}
    for _ in range(_PIECES):
        yield "response.output_text.delta", {**place, "delta": _TEXT, "logprobs": []}
    text = {"type": "output_text", "text": _TEXT * _PIECES, "annotations": []}
    done = {**item, "content": [text]}
    yield "response.output_item.done", {"output_index": 0, "item": done}
    usage = {
        "input_tokens": 100,
        "output_tokens": 60,
        "total_tokens": 160,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [done]}
    whole = {**response, "status": "completed", "usage": usage, "parallel_tool_calls": True}
    yield "response.completed", {"response": {**whole, "tool_choice": "auto", "tools": []}}


_FORMATS: Final = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}


def _stream(api: str) -> bytes:
    lines: list[str] = []
    for number, (name, data) in enumerate(_FORMATS[api]()):
        told = {"type": name, "sequence_number": number, **data} if name else dict(data)
        head = f"event: {name}\n" if name else ""
        lines.append(f"{head}data: {json.dumps(told)}\n\n")
    if api == "chat":
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode()


def _serve(api: str, told: Any) -> None:
    """Answer every request with the same stream, over connections that are kept."""
    body = _stream(api)
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    answer = head.encode() + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await _head_of(reader):
            await reader.readexactly(_length(request))
            writer.write(answer)
            await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _head_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _length(request: bytes) -> int:
    for line in request.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def _pieces(stream: AsyncIterator[object]) -> int:
    count = 0
    async for _ in stream:
        count += 1
    return count


def _bare(api: str, url: str) -> tuple[Call, Close]:
    """Give a call of the SDK, as its documentation shows it."""
    said: Any = [{"role": "user", "content": "Combien ?"}]
    if api == "anthropic":
        import anthropic

        claude = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)

        async def message() -> int:
            return await _pieces(
                await claude.messages.create(model="m", max_tokens=100, messages=said, stream=True)
            )

        return message, claude.close
    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
    if api == "responses":

        async def response() -> int:
            return await _pieces(
                await client.responses.create(model="m", input=said, stream=True, store=False)
            )

        return response, client.close

    async def completion() -> int:
        options: Any = {"include_usage": True}
        return await _pieces(
            await client.chat.completions.create(
                model="m", messages=said, stream=True, stream_options=options
            )
        )

    return completion, client.close


def _ours(api: str, url: str) -> tuple[Call, Close]:
    """Give the same call through our adapter."""
    from loom_ia.assembly.backends import factory
    from loom_ia.core.model import Message, ModelRequest, ModelSpec

    name = {"anthropic": "anthropic", "chat": "openai", "responses": "openai/responses"}[api]
    spec = ModelSpec(
        id="M",
        sdk="anthropic" if api == "anthropic" else "openai",
        model="m",
        base_url=url if api == "anthropic" else f"{url}/v1",
        max_tokens=100,
    )
    model = factory("model", name)(spec)
    request = ModelRequest("M", "", (), (Message.text("user", "Combien ?"),), max_tokens=100)

    async def call() -> int:
        return await _pieces(model.stream(request))

    return call, model.close


async def _measure(system: str, api: str, url: str, calls: int) -> dict[str, float]:
    call, close = (_bare if system == "bare" else _ours)(api, url)
    for _ in range(_WARM_UP):
        await call()
    times: list[float] = []
    cpu = time.process_time()
    for _ in range(calls):
        start = time.perf_counter()
        if await call() < _PIECES:
            raise RuntimeError("the answer was not read whole")
        times.append(time.perf_counter() - start)
    spent = time.process_time() - cpu
    await close()
    return {"per_call": median(times), "cpu_per_call": spent / calls}


def measure(system: str, api: str, calls: int = _CALLS) -> dict[str, float]:
    """Measure one side of one API; times are in seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(api, there), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{here.recv()}"
        return asyncio.run(_measure(system, api, url, calls))
    finally:
        server.kill()
        server.join()


def main(arguments: Sequence[str]) -> None:
    """Measure what the command line says."""
    system, api, *rest = arguments
    figures = measure(system, api, *map(int, rest))
    print(MARK + json.dumps(figures), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
