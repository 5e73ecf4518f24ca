"""The application: the routes of REST over one `Loom`, to be served or mounted.

Law. Nothing is decided here: routes hand what they are asked to the `Portal` of the visitor, and
say what it answers. What `create_app` does not own, it does not close.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from loom_ia.access.api import Loom
from loom_ia.access.http import health, openapi, problems
from loom_ia.access.http.access import Doorkeeper, Keys
from loom_ia.access.http.bounds import BodyBound
from loom_ia.access.http.confirm import confirm_router
from loom_ia.access.http.mcp import McpRoute
from loom_ia.access.http.metrics import Counting, Metrics
from loom_ia.access.http.queries import refuse_unknown
from loom_ia.access.http.routes import ROUTERS
from loom_ia.access.http.sse import Frames
from loom_ia.assembly.api_keys import key_ring

PREFIX: Final = "/v1"


def create_app(loom: Loom, *, own: bool = False, keys: Keys | None = None) -> FastAPI:
    """Make the REST API of `loom`, under `server.http.base_path` and `/v1`.

    It can be mounted in an application of yours: `app.mount("/agents", create_app(loom))`, where
    `loom` is yours to enter and to leave. With `own`, it is entered and left with the application.
    `keys` replaces what knows the keys of the configuration. Whoever serves it sets
    `app.state.stopping` before it waits for open responses, so that those that last are ended.
    Raises `ConfigError` in the profile prod when no key is declared, and for a trigger whose secret
    is not there.
    """
    loom.check_serving(is_keyed=keys is not None)
    http = loom.config.server.http
    docs = loom.profile.name != "prod" if http.docs is None else http.docs

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        if own:
            async with loom, mcp.serving():
                yield
        else:
            async with mcp.serving():
                yield

    app = FastAPI(
        title="Loom-IA",
        version=version("loom-ia"),
        openapi_url=f"{http.base_path}/openapi.json" if docs else None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    prefix = f"{http.base_path}{PREFIX}"
    doorkeeper = app.state.doorkeeper = Doorkeeper(loom, keys or _keys(loom), prefix)
    app.state.frames = Frames()
    app.state.stopping = asyncio.Event()
    mcp = McpRoute(doorkeeper, app.state.stopping)
    mcp.add_to(app)
    problems.add_handlers(app, _methods(prefix))
    app.add_middleware(BodyBound, limit=http.max_body_bytes)
    app.add_middleware(problems.LastResort)
    metrics = Metrics(loom)
    loom.observe(metrics)
    app.add_middleware(Counting, metrics=metrics)
    v1 = APIRouter(prefix=prefix, dependencies=[Depends(refuse_unknown)])
    for router in ROUTERS:
        v1.include_router(router)
    app.include_router(v1)
    app.include_router(confirm_router(loom, http.base_path))
    app.include_router(health.router_of(loom, metrics, http.base_path))
    openapi.describe(app, has_keys=doorkeeper.keys is not None)
    if docs:
        app.include_router(openapi.pages(http.base_path))
    return app


def _methods(prefix: str) -> Callable[[str], set[str]]:
    """Tell the methods of a path under `prefix`: all, where several routes share it."""
    routes = [r for each in ROUTERS for r in each.routes if isinstance(r, APIRoute)]

    def allowed(path: str) -> set[str]:
        if not path.startswith(prefix):
            return set()
        rest = path.removeprefix(prefix)
        return {m for r in routes if r.path_regex.match(rest) for m in r.methods or ()}

    return allowed


def _keys(loom: Loom) -> Keys | None:
    return key_ring(loom.config) if loom.config.security.api_keys else None
