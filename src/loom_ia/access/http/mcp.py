"""MCP beside REST, where `server.mcp.http` asks for it: the same doorkeeper lets clients in."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from starlette.datastructures import Headers
from starlette.routing import Route

from loom_ia.access.api import Loom
from loom_ia.access.http import problems
from loom_ia.access.http.access import Doorkeeper
from loom_ia.core.errors import KeyRefused, LoomError
from loom_ia.tenancy.visitor import Visitor

if TYPE_CHECKING:  # the protocol is imported where it is served
    from loom_ia.access.mcp_server.http import LetIn, McpOverHttp


class McpRoute:
    """The address of MCP in an application; nothing at all unless the configuration asks for it."""

    def __init__(self, doorkeeper: Doorkeeper, stopping: asyncio.Event) -> None:
        self._doorkeeper = doorkeeper
        asked = doorkeeper.loom.config.server.mcp.http
        self._served = _served(doorkeeper.loom, self._let_in, stopping) if asked else None

    def add_to(self, app: FastAPI) -> None:
        """Serve under `/mcp`, with or without a slash at the end."""
        if self._served is None:
            return
        from loom_ia.access.mcp_server.http import PATH

        path = f"{self._doorkeeper.loom.config.server.http.base_path}{PATH}"
        for each in (path, f"{path}/"):
            app.router.routes.append(Route(each, self._served, include_in_schema=False))

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Stop serving at the end."""
        try:
            yield
        finally:
            if self._served is not None:
                await self._served.close()

    def _let_in(self, headers: Headers) -> Visitor:
        if self._doorkeeper.keys is None:
            raise KeyRefused("MCP over HTTP needs a key: declare one under security.api_keys")
        return self._doorkeeper.visitor(headers.get("authorization"), headers.get("x-api-key"))


def _served(loom: Loom, let_in: "LetIn", stopping: asyncio.Event) -> "McpOverHttp":
    from loom_ia.access.mcp_server.extra import require_mcp

    require_mcp()
    from loom_ia.access.mcp_server.http import McpOverHttp

    return McpOverHttp(loom, let_in, _refuse, stopping)


def _refuse(error: LoomError, headers: Headers) -> Response:
    return problems.response_to(error, problems.language_of(headers.get("accept-language", "")))
