"""What stands in the body of an answer: the events of a stream, or one document."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias, cast

import httpx2

from loom_ia.adapters.models.bodies import MOST_REFUSAL, whole

DONE: Final[Mapping[str, Any]] = {"done": True}
"""What readers are given for the mark that ends a stream of OpenAI."""

Documents: TypeAlias = AsyncGenerator[tuple[Mapping[str, Any], bool], None]
"""Objects, each with whether it is the whole answer."""

_LARGEST_EVENT: Final = 32 * 1024 * 1024
_LARGEST_BODY: Final = 64 * 1024 * 1024
_DRAIN_S: Final = 0.2


async def documents(response: httpx2.Response) -> Documents:
    """Give the JSON objects of an answer: each event of a stream, or the whole document.

    Raises `ValueError` or `RecursionError` for what cannot be read, and what reading a body does.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        body = await whole(response, _LARGEST_BODY)
        if len(body) > _LARGEST_BODY:
            raise json.JSONDecodeError("too long", "", 0)
        data = json.loads(body)
        yield (cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}), True
        return
    if kind not in {"", "text/event-stream", "text/plain", "application/octet-stream"}:
        await whole(response, MOST_REFUSAL)  # for whoever watches the exchange
        raise json.JSONDecodeError(f"{kind} is no answer", "", 0)
    response.headers["content-type"] = "text/event-stream"
    response.encoding = "utf-8-sig"
    source = aiter(httpx2.EventSource(response, _LARGEST_EVENT))
    async with aclosing(cast("AsyncGenerator[httpx2.ServerSentEvent, None]", source)) as events:
        async for event in events:
            if event.data.strip() == "[DONE]":
                yield DONE, False
                continue
            if not event.data.strip():
                continue
            data = _data(event)
            if not isinstance(data, dict):
                raise json.JSONDecodeError("no object", event.data, 0)
            yield cast("Mapping[str, Any]", data), False


async def drain(left: Documents) -> None:
    """Read what is left of an answer that is over, so that its connection serves again."""
    with suppress(Exception):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in left:
                pass


def _data(event: httpx2.ServerSentEvent) -> object:
    """Read an event; one that is named an error is one, whatever its words."""
    try:
        data: object = json.loads(event.data)
    except json.JSONDecodeError:
        if event.event != "error":
            raise
        return {"error": {"message": event.data}}
    return data if event.event != "error" or _names_error(data) else {"error": data}


def _names_error(data: object) -> bool:
    return isinstance(data, dict) and "error" in data
