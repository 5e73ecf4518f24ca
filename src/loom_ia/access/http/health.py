"""Whether the server lives, whether it is ready, and what it counts: for who runs it.

Law. `/healthz` touches nothing: a journal that hangs must not have the process killed. `/readyz`
asks the journal, within a bound, and says no as soon as the server was told to stop. Neither tells
anything to whoever has no key; `/metrics` needs one.
"""

import asyncio
from typing import Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from loom_ia.access.api import Loom
from loom_ia.access.http.access import Visit
from loom_ia.access.http.metrics import CONTENT_TYPE, Metrics
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.problems import answer, body, language_of
from loom_ia.access.http.rows import NOT_READY
from loom_ia.core.errors import LoomError
from loom_ia.i18n import Language, lookup

PATIENCE_S: Final = 2.0

_PROBE: Final = "loom-readiness"


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = Field(default="ok", description="Always `ok`.")


class Ready(BaseModel):
    """Requests can be answered."""

    status: Literal["ready"] = Field(default="ready", description="Always `ready`.")


def router_of(loom: Loom, metrics: Metrics, base_path: str) -> APIRouter:
    """Give the routes by which a server is watched."""
    router = APIRouter(prefix=base_path, tags=["health"])

    @router.get(
        "/healthz", operation_id="alive", summary="Whether the process lives", response_model=Alive
    )
    async def alive() -> Alive:
        """Answer, without touching anything. Needs no key."""
        return Alive()

    @router.get(
        "/readyz",
        operation_id="ready",
        summary="Whether requests can be answered",
        response_model=Ready,
        responses={503: refusals()[503]},
    )
    async def ready(request: Request) -> Response:
        """Ask the journal. 503 when it does not answer, or when the server stops. No key."""
        language = language_of(request.headers.get("accept-language", ""))
        reason = await _unready(loom, request, language)
        if reason:
            document = body(NOT_READY, reason, language)
            return answer(document, {"Retry-After": "1"})
        return Response(Ready().model_dump_json(), media_type="application/json")

    @router.get(
        "/metrics",
        operation_id="metrics",
        summary="What the server counts",
        response_class=Response,
        responses={
            200: {
                "description": "The text format 0.0.4 of Prometheus.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            **refusals(),
        },
    )
    async def told(visit: Visit) -> Response:
        """Give numbers about this process since it began, for Prometheus. Scope: `read`.

        They are about every agent: a key that is limited to some is refused.
        """
        visit.require("read")
        visit.require_every_agent()
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    del alive, ready, told
    return router


async def _unready(loom: Loom, request: Request, language: Language) -> str:
    if request.app.state.stopping.is_set():
        return lookup("The server stops.", language)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await loom.store.locate("default", _PROBE)
    except TimeoutError:
        return lookup("The journal does not answer in time.", language)
    except (LoomError, OSError):
        return lookup("The journal cannot be read.", language)
    return ""
