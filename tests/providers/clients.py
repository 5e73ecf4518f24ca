"""Clients of a provider: the two SDKs as they are, and one that reads the events itself."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import anthropic
import httpx2
import openai

SOON = 0.02  # seconds: long enough to be told apart from nothing
ASKED: list[Any] = [{"role": "user", "content": "Bonjour"}]
SEALED: Any = ["reasoning.encrypted_content"]


@dataclass
class Read:
    """An answer as a client read it; `kinds` has the types of the events of a stream."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    stop: str | None = None
    usage: Any = None
    raw: Any = None


class Client:
    """The two SDKs, each made when it is first used."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._url = url
        self._settings: dict[str, Any] = {"api_key": "k", "max_retries": 0, **settings}
        self._made: list[anthropic.AsyncAnthropic | openai.AsyncOpenAI] = []

    @cached_property
    def messages(self) -> anthropic.AsyncAnthropic:
        """The SDK of Anthropic."""
        made = anthropic.AsyncAnthropic(base_url=self._url, **self._settings)
        self._made.append(made)
        return made

    @cached_property
    def openai(self) -> openai.AsyncOpenAI:
        """The SDK of OpenAI."""
        made = openai.AsyncOpenAI(base_url=f"{self._url}/v1", **self._settings)
        self._made.append(made)
        return made

    async def close(self) -> None:
        """Let go of the connections."""
        for made in self._made:
            await made.close()


@asynccontextmanager
async def client(url: str, **settings: Any) -> AsyncIterator[Client]:
    """Use both SDKs for a while."""
    used = Client(url, **settings)
    try:
        yield used
    finally:
        await used.close()


async def messages(sdk: Client, *, stream: bool, model: str = "m1") -> Read:
    """Ask in the format of Anthropic."""
    asked: Any = {"model": model, "max_tokens": 100, "messages": ASKED}
    message: Any
    if stream:
        async with sdk.messages.messages.stream(**asked) as streaming:
            message = await streaming.get_final_message()
    else:
        message = await sdk.messages.messages.create(**asked)
    read = Read(stop=message.stop_reason, usage=message.usage, raw=message)
    for block in message.content:
        match block.type:
            case "text":
                read.text += block.text
            case "thinking":
                read.reasoning += block.thinking
            case "tool_use":
                read.calls.append((block.name, json.dumps(block.input)))
            case _:
                pass
    return read


async def chat(sdk: Client, *, stream: bool, model: str = "m1") -> Read:
    """Ask for a chat completion."""
    asked: Any = {"model": model, "messages": ASKED}
    if stream:
        options: Any = {"include_usage": True}
        async with sdk.openai.chat.completions.stream(**asked, stream_options=options) as streaming:
            whole = await streaming.get_final_completion()
    else:
        whole = await sdk.openai.chat.completions.create(**asked)
    choice = whole.choices[0]
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return Read(
        message.content or "",
        getattr(message, "reasoning_content", ""),
        calls,
        choice.finish_reason,
        whole.usage,
        whole,
    )


async def responses(sdk: Client, *, stream: bool, model: str = "m1") -> Read:
    """Ask for a response."""
    asked: Any = {"model": model, "input": "Bonjour", "include": SEALED}
    if stream:
        response: Any = None
        # What manages a stream in the SDK gives no response that is incomplete.
        event: Any
        async for event in await sdk.openai.responses.create(**asked, stream=True):
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
    else:
        response = await sdk.openai.responses.create(**asked)
    read = Read(stop=response.status, usage=response.usage, raw=response)
    for item in response.output:
        match item.type:
            case "message":
                read.text += "".join(getattr(part, "text", "") for part in item.content)
            case "reasoning":
                read.reasoning += "".join(part.text for part in item.summary)
            case "function_call":
                read.calls.append((item.name, item.arguments))
            case _:
                pass
    return read


Ask = Callable[..., Awaitable[Read]]
ASKS: list[Ask] = [messages, chat, responses]
PATHS: dict[Ask, str] = {
    messages: "/v1/messages",
    chat: "/v1/chat/completions",
    responses: "/v1/responses",
}


async def events_of(url: str, path: str, **body: Any) -> list[tuple[str, Any]]:
    """Read a stream without an SDK: the names of the events and their data."""
    async with httpx2.AsyncClient() as http:
        got = await http.post(f"{url}{path}", json={"model": "m1", "stream": True, **body})
    found = []
    for block in got.text.split("\n\n")[:-1]:
        *named, data = block.split("\n")
        text = data.removeprefix("data: ")
        event = named[0].removeprefix("event: ") if named else ""
        found.append((event, text if text == "[DONE]" else json.loads(text)))
    return found
