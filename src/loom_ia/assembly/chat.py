"""A model for whoever has no configuration: one call gives what a step can call.

Law. Nothing here speaks HTTP: the adapters do, as they do for a host. A key that is given, or read
in the environment, is handed to them and stands nowhere else.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from loom_ia.assembly.backends import BACKENDS, factory
from loom_ia.assembly.keys import is_key
from loom_ia.core.errors import CallerError, ModelError
from loom_ia.core.json import JsonObject
from loom_ia.core.model.chunks import ModelChunk
from loom_ia.core.model.models import Capabilities, ModelSpec, Retry, Sdk, Timeouts
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.ports.models import ModelAccess, WireModelClient
from loom_ia.graph.models import ClientChat

ChatSdk: TypeAlias = Literal["openai", "anthropic", "deepseek"]

CHAT_PATH: Final = "/v1/chat/completions"
_JSON_OBJECT: Final[JsonObject] = {"response_format": {"type": "json_object"}}


@dataclass(frozen=True, slots=True)
class _Preset:
    """What is known of a provider: who speaks to it, where it is, which variable has its key.

    `path` is where its format has requests, for one that is not a chat of OpenAI's.
    """

    sdk: Sdk
    base_url: str
    key_env: str
    path: str = CHAT_PATH
    native_json: bool = False
    json_object: bool = False


_PRESETS: Final[Mapping[str, _Preset]] = MappingProxyType(
    {
        "openai": _Preset("openai", "https://api.openai.com", "OPENAI_API_KEY", native_json=True),
        "anthropic": _Preset(
            "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", path="/v1/messages"
        ),
        "deepseek": _Preset(
            "openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY", json_object=True
        ),
    }
)


def chat_model(  # noqa: PLR0913 -- each is an option of its own, given by its name
    model: str,
    *,
    sdk: ChatSdk = "openai",
    base_url: str | None = None,
    api_key: str | None = None,
    chat_path: str = CHAT_PATH,
    json_object: bool = False,
    max_attempts: int = 3,
    first_token: float | None = 30.0,
    idle: float | None = 30.0,
    total: float | None = 600.0,
) -> ClientChat:
    """Give a model that steps can call, with the retries and the clocks of the engine.

    `sdk` is "openai", for OpenAI and what is compatible with it, "anthropic" or "deepseek".
    Requests go to `base_url`, without its trailing slash, followed by `chat_path`; None is the
    official address. Without an `api_key` it is read, at the first call, in the variable of the
    provider, such as `OPENAI_API_KEY`; a call of the official address without any raises
    `ModelError` of the kind `auth`. With `json_object`, and always with "deepseek", the model is
    told to write JSON, and reads its schema in the prompt. `max_attempts` counts the first one;
    `first_token`, `idle` and `total` bound an answer, in seconds, None for no limit.

    Raises `ValueError` for a wrong value, `CallerError` when what speaks to it is not installed.
    """
    preset = _PRESETS.get(sdk)
    if preset is None:
        known = ", ".join(map(repr, _PRESETS))
        raise ValueError(f"chat_model(sdk={sdk!r}): it is one of {known}")
    if not chat_path.startswith("/"):
        raise ValueError(f"chat_model(chat_path={chat_path!r}): a path begins with /")
    backend = BACKENDS["model", preset.sdk]
    if not backend.is_installed:
        raise CallerError(
            'sdk: {sdk} needs the extra {extra} (pip install "loom-ia[{extra}]")',
            sdk=sdk,
            extra=backend.extra,
        )
    spec = ModelSpec(
        id=model,
        sdk=preset.sdk,
        model=model,
        base_url=(preset.base_url if base_url is None else base_url).rstrip("/"),
        api_key_env=preset.key_env,
        timeouts=Timeouts(first_token=first_token, idle=idle, total=total),
        retry=Retry(max_attempts=max_attempts),
        capabilities=Capabilities(native_json=preset.native_json),
    )
    if BACKENDS["prices", "genai"].is_installed:
        spec = spec.model_copy(update={"pricing": factory("prices", "genai")(spec)})
    client = _OnItsOwn(
        spec,
        key=api_key or "",
        path=preset.path if chat_path == CHAT_PATH else chat_path,
        is_official=base_url is None,
    )
    wants_json = json_object or preset.json_object
    return ClientChat(client, schema_params=_JSON_OBJECT if wants_json else None)


class _OnItsOwn:
    """A client that no host looks after: made when it is first called, once for each event loop.

    Connections belong to a loop. They are closed with it, so that a script may just end.
    """

    def __init__(self, spec: ModelSpec, *, key: str, path: str, is_official: bool) -> None:
        self.spec = spec
        self._key = key
        self._path = path
        self._is_official = is_official
        self._client: WireModelClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: AsyncGenerator[None, None] | None = None

    async def prepare(self) -> None:
        """Make the client and set it up."""
        await (await self._made()).prepare()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Call the model once; raises `ModelError`."""
        async with aclosing((await self._made()).stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
        end, self._end, self._client = self._end, None, None
        if end is not None:
            await end.aclose()

    async def _made(self) -> WireModelClient:
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return self._client
        access = ModelAccess(self._found_key(), path=self._path)
        client = cast("WireModelClient", factory("model", self.spec.sdk)(self.spec, access))
        self._client, self._loop = client, loop
        # A loop that ends closes the generators that were begun in it, this one with its client.
        self._end = _closing(client)
        await anext(self._end)
        return client

    def _found_key(self) -> str | None:
        """Give the key, None for a server that may ask for none."""
        variable = self.spec.api_key_env or ""
        key = self._key or os.environ.get(variable, "")
        if not key and self._is_official:
            raise ModelError(
                "auth",
                "{model}: no api_key was given, and the variable {name} is not defined, or is"
                " empty (give it the key of the provider)",
                model=self.spec.id,
                name=variable,
            )
        if key and not is_key(key):
            raise ModelError(
                "auth",
                "{model}: {name} holds what is no key: there is a blank at an end, an end of line"
                " or a letter with an accent in it",
                model=self.spec.id,
                name="api_key" if self._key else variable,
            )
        return key or None


async def _closing(client: Any) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.close()
