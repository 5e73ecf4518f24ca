"""The same tools over HTTP, at one address of the REST application.

Law. Before a byte of the protocol is read, the `Host`, the `Origin` and the key are checked, in
that order; the key alone says who asks. Requests know nothing of each other, so that any process
can serve any of them. Nobody is shown a form here: people decide over REST or in a terminal.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from loom_ia.access.api import Loom
from loom_ia.access.mcp_server.server import AgentServer, Context
from loom_ia.config.server import Server as ServerSettings
from loom_ia.core.errors import LoomError
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.i18n import translate as _
from loom_ia.tenancy.visitor import Visitor

LetIn: TypeAlias = Callable[[Headers], Visitor]
"""Says who comes with these headers; raises what refuses him."""
Refuse: TypeAlias = Callable[[LoomError, Headers], Response]
"""Says over HTTP why somebody is not let in."""

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

_VISITOR: Final = "loom_visitor"
_MISDIRECTED: Final = 421


class McpOverHttp:
    """An ASGI application, which begins to serve with its first request: `close` it at the end.

    `let_in` knows the keys, and `refuse` says what it raised. Once `stopping` is set, calls under
    way are answered that their runs can be resumed.
    """

    def __init__(self, loom: Loom, let_in: LetIn, refuse: Refuse, stopping: asyncio.Event) -> None:
        self._loom = loom
        self._let_in = let_in
        self._not_let_in = refuse
        self._doors = Doors.of(loom.config.server)
        self._stopping = stopping
        self._serving: _Serving | None = None

    async def close(self) -> None:
        """Stop serving, and hand back what is driven for those who asked; a request begins anew."""
        if self._serving is not None:
            await self._serving.stop()
            self._serving = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        headers = Headers(scope=scope)
        refused: Response | None = self._doors.refusal(headers)
        if refused is None:
            try:
                scope.setdefault("state", {})[_VISITOR] = self._let_in(headers)
            except LoomError as error:
                refused = self._not_let_in(error, headers)
        if refused is None and scope["method"] != "POST":  # nothing is sent but as an answer
            refused = _answer(405, "this address takes POST alone", {"Allow": "POST"})
        if refused is not None:
            await refused(scope, receive, send)
            return
        if self._serving is None:
            self._serving = _Serving(self._agents(), self._stopping)
        manager = await self._serving.started()
        await manager.handle_request(scope, receive, send)

    def _agents(self) -> AgentServer:
        language = self._loom.config.language
        return AgentServer(self._loom, _visitor, self._remedy, asks=False, language=language)

    def _remedy(self, result: RunResult, pending: PendingApproval) -> str:
        base = f"{self._loom.config.server.http.base_path}/v1/runs/{result.run_id}"
        return _(
            "A person decides over REST (POST {base}/approve, or /reject, with call_id {call_id}) "
            "or in a terminal (loom approve, or loom reject).",
            base=base,
            call_id=pending.call_id,
        )


class _Serving:
    """Keeps what serves requests in a task of its own: it must end where it began.

    So an application that is mounted in another one, whose lifespan nobody runs, serves as well.
    """

    def __init__(self, agents: AgentServer, stopping: asyncio.Event) -> None:
        self._agents = agents
        self._stopping = stopping
        self._manager = StreamableHTTPSessionManager(
            app=agents.protocol,
            stateless=True,
            max_request_body_size=agents.loom.config.server.http.max_body_bytes,
        )
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._serve(), name="loom-mcp-http")

    async def started(self) -> StreamableHTTPSessionManager:
        """Give what serves, once it does."""
        await self._ready.wait()
        return self._manager

    async def stop(self) -> None:
        """End it, and what it drives."""
        self._over.set()
        await self._task

    async def _serve(self) -> None:
        ending = asyncio.create_task(self._end_calls())
        try:
            async with self._manager.run():
                self._ready.set()
                await self._over.wait()
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            await self._agents.close()

    async def _end_calls(self) -> None:
        await self._stopping.wait()
        await self._agents.close()


class Doors:
    """The hosts and the origins that are accepted: what keeps pages of strangers outside."""

    def __init__(self, hosts: frozenset[str], origins: frozenset[str]) -> None:
        self._hosts = hosts
        self._origins = origins

    @classmethod
    def of(cls, settings: ServerSettings) -> "Doors":
        """Read what the configuration accepts."""
        host = settings.http.host
        own = f"[{host}]" if ":" in host and not host.startswith("[") else host
        hosts = {*LOOPBACK, own, *settings.mcp.allowed_hosts}
        origins = (origin.rstrip("/") for origin in settings.mcp.allowed_origins)
        return cls(frozenset(map(str.lower, hosts)), frozenset(map(str.lower, origins)))

    def refusal(self, headers: Headers) -> JSONResponse | None:
        """Give what a request is answered that comes from, or to, somewhere else."""
        if not self.accepts_host(headers.getlist("host")):
            return _answer(
                _MISDIRECTED,
                "this Host is not served here (see server.mcp.allowed_hosts)",
            )
        if not self.accepts_origin(headers.getlist("origin")):
            return _answer(403, "this Origin is not accepted (see server.mcp.allowed_origins)")
        return None

    def accepts_host(self, given: list[str]) -> bool:
        """Whether a request may be for that host: one that is named without a port, or as it is."""
        if len(given) != 1:
            return False
        host = given[0].lower()
        name = _without_port(host)
        return name is not None and bool({host, name, f"{name}:*"} & self._hosts)

    def accepts_origin(self, given: list[str]) -> bool:
        """Whether a page of that origin may ask; programs send none."""
        if not given:
            return True
        if len(given) != 1:
            return False
        origin = given[0].lower()
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        name = _without_port(parts.netloc)
        if name is None or parts.scheme not in {"http", "https"}:
            return origin in self._origins
        if f"{parts.scheme}://{parts.netloc}" != origin:
            return False
        if not self._origins:
            return name in LOOPBACK
        return bool({origin, f"{parts.scheme}://{name}:*"} & self._origins)


def _without_port(host: str) -> str | None:
    """Give the name of a host; None for what is none."""
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        name += bracket
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    port = rest.removeprefix(":")
    sound = name and (not rest or (rest.startswith(":") and port.isascii() and port.isdigit()))
    return name if sound and not set(name) & set("/@?#\\ ") else None


def _visitor(ctx: Context) -> Visitor:
    """Give who was let in with the request."""
    request: Any = ctx.request
    return cast("Visitor", request.scope["state"][_VISITOR])


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": text}, status, headers)
