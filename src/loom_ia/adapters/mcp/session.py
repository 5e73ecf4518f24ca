"""What is said to a server: how both agree on a protocol, what it offers, and what a call gives.

The results of `tools/list` and `tools/call` are taken as they come on the wire, before the SDK
reads them: it would refuse all of a list for one tool, and all of a result for one block.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    methods,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from loom_ia.adapters.mcp.bounds import TOOLS
from loom_ia.adapters.mcp.definitions import is_too_large

__all__ = ["CONNECTION_CLOSED", "METHOD_NOT_FOUND", "MCPError", "Session", "make_session"]

_RAW: Final = "loom-ia/raw"
_WIRE: Final = frozenset({"tools/list", "tools/call"})


class Raw(Dispatcher[Any]):
    """A dispatcher that hands over what came on the wire, inside of a result that the SDK reads."""

    def __init__(self, inner: JSONRPCDispatcher[Any], gone: Callable[[], None]) -> None:
        self._inner = inner
        self._gone = gone
        self.version = ""
        self._kept: dict[int, Any] = {}
        self._last = 0

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request; what a list or a call gives stands in its `_meta`."""
        raw: Any = await self._inner.send_raw_request(method, params, opts)
        if method not in _WIRE:
            return raw
        self._last += 1
        self._kept[self._last] = raw  # kept beside the result, which the SDK walks through
        kept: dict[str, Any] = {"_meta": {_RAW: self._last}}
        if self.version in MODERN_PROTOCOL_VERSIONS:
            kept["resultType"] = "complete"
        if method == "tools/call":
            return {**kept, "content": [], "isError": True}
        if self.version in MODERN_PROTOCOL_VERSIONS:
            kept |= {"ttlMs": 0, "cacheScope": "private"}
        return {**kept, "tools": await self._readable(kept, raw)}

    def came(self, result: types.Result) -> Any:
        """Give what came for a result, once."""
        return self._kept.pop(cast("int", (result.meta or {}).get(_RAW)), None)

    async def _readable(self, kept: dict[str, Any], raw: Any) -> list[Any]:
        tools: Any = cast("dict[str, Any]", raw).get("tools") if isinstance(raw, dict) else None
        readable: list[Any] = []
        for tool in cast("list[Any]", tools) if isinstance(tools, list) else ():
            if len(readable) >= TOOLS:
                break
            await asyncio.sleep(0)  # a long list holds nobody up
            if is_too_large(tool):
                continue
            with contextlib.suppress(ValidationError, KeyError, RecursionError):
                methods.validate_server_result(
                    "tools/list", self.version, {**kept, "tools": [tool]}
                )
                types.Tool.model_validate(tool, by_name=False)
                readable.append(tool)
        return readable

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send what wants no answer."""
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Read until the other side is gone, and tell so."""
        try:
            await self._inner.run(
                on_request, on_notify, on_notify_intercept, task_status=task_status
            )
        finally:
            self._gone()


class Session(ClientSession):
    """One session. Requests of the server's are refused: elicitation, sampling and roots."""

    raw: Raw
    kept_quiet = False

    @property
    def is_modern(self) -> bool:
        """Whether the protocol has neither pings nor messages of the server's own."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Leave results to whoever asked: a schema of the server's binds nobody here."""

    async def negotiate(self, patience: float, *, legacy: bool) -> None:
        """Agree on a protocol: the newer one when the server speaks it, unless `legacy`.

        A server has `patience` seconds to say that it does; `kept_quiet` tells that none was said.
        """
        if not legacy:
            await self._discover(patience)
        if self.protocol_version is None:
            try:
                await self.initialize()
            except MCPError as error:
                if error.code != UNSUPPORTED_PROTOCOL_VERSION or legacy:
                    raise
                await self._discover(patience)  # it began to speak the newer one in the meantime
                if self.protocol_version is None:
                    raise
        self.raw.version = self.protocol_version or ""

    async def _discover(self, patience: float) -> None:
        version = LATEST_MODERN_VERSION
        for _ in range(2):
            try:
                async with asyncio.timeout(patience):
                    raw = await self.send_discover(version)
                result = types.DiscoverResult.model_validate(raw)
            except TimeoutError:
                self.kept_quiet = True
                return
            except ValidationError:
                return
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    raise
                self.kept_quiet |= error.code == REQUEST_TIMEOUT
                offered = _supported(error)
                mutual = [known for known in MODERN_PROTOCOL_VERSIONS if known in offered]
                if error.code != UNSUPPORTED_PROTOCOL_VERSION or not mutual:
                    if offered and not offered & set(HANDSHAKE_PROTOCOL_VERSIONS):
                        raise
                    return
                version = mutual[-1]
                continue
            if any(known in result.supported_versions for known in MODERN_PROTOCOL_VERSIONS):
                self.adopt(result)
            return

    async def alive(self) -> None:
        """Find out whether the server answers, in the older protocol; raises what the SDK does."""
        try:
            await self.send_request(types.PingRequest(), types.EmptyResult)
        except MCPError as error:  # it answered, and that is what was asked
            if error.code != METHOD_NOT_FOUND:
                raise

    async def page(self, cursor: str | None) -> Any:
        """Give one page of `tools/list`, as it came."""
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        result = await self.list_tools(params=params)
        return self.raw.came(result)

    async def call(self, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
        """Give the result of a call, as it came."""
        result = await self.call_tool(name, arguments, meta=cast("Any", meta))
        return self.raw.came(result)


def _supported(error: MCPError) -> set[str]:
    with contextlib.suppress(ValidationError):
        data = types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data)
        return set(data.supported)
    return set()


def make_session(
    streams: tuple[Any, Any], version: str, gone: Callable[[], None], changed: Callable[[], None]
) -> Session:
    """Make a session over two streams, to be entered.

    `gone` is called once the other side left, `changed` when it says that its tools did.
    """

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    raw = Raw(JSONRPCDispatcher(*streams), gone)
    session = Session(
        dispatcher=raw,
        message_handler=heard,
        client_info=types.Implementation(name="loom-ia", version=version),
    )
    session.raw = raw
    return session
