"""Webhooks: what a service posts begins a run, once for each delivery.

Law. Whoever posts is let in before what he posts is read as anything: by his key, or, for a trigger
that has a secret, by the signature of the bytes, which stands for the key.
"""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from loom_ia.access.http.access import Doorkeeper, doorkeeper
from loom_ia.access.http.bodies import media_type, parsed
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.replies import located, said
from loom_ia.access.portal import Portal
from loom_ia.app.triggers import Triggered
from loom_ia.config.server import TriggerSpec
from loom_ia.core.errors import DeliveryMissing, SignatureRefused
from loom_ia.tenancy.visitor import Visitor

MOST_BYTES: Final = 26_214_400
"""Bytes that may be posted, if `server.http.max_body_bytes` allows as many: 25 MiB."""

_ANY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": False,
        "description": "Any JSON; what is empty counts as an empty object.",
        "content": {"application/json": {"schema": {}}},
    }
}

router = APIRouter(tags=["hooks"])


@router.post(
    "/hooks/{name}",
    operation_id="callTrigger",
    summary="Begin what a webhook asks for",
    status_code=202,
    response_model=Triggered,
    responses={
        200: {"model": Triggered, "description": "The delivery was taken before: its run."},
        **refusals(404, 409, 413, 415),
    },
    openapi_extra=_ANY,
)
async def call_trigger(name: str, request: Request) -> Response:
    """Begin a run in the background: 202, or 200 with the same run for a delivery seen before.

    Scope: `run`; a trigger with a secret takes the signature of the body instead of a key. A
    trigger that identifies deliveries answers 400 to a request without the header for it.
    """
    keeper = doorkeeper(request)
    spec = keeper.loom.triggers.spec(name)
    if spec is not None and spec.secret_env is not None:
        data = await _read(request)
        visit = _signed(keeper, spec, data, request)
    else:
        visit = keeper.portal(request)
        visit.may_trigger(name)
        data = await _read(request)
    delivery = _delivery(spec, request)
    payload = await parsed(data) if data.strip() else None
    done = await visit.trigger(name, payload, delivery_id=delivery)
    status = 200 if done.repeated else 202
    return said(done, status, located(request, done.run_id))


def _signed(keeper: Doorkeeper, spec: TriggerSpec, data: bytes, request: Request) -> Portal:
    """Let in who signed what he posts: he may call this trigger, and do nothing else."""
    found = request.headers.getlist(spec.signature_header)
    signature = found[0] if len(found) == 1 else None
    if not keeper.loom.triggers.is_signed(spec.name, data, signature):
        raise SignatureRefused(
            "the header {header} does not hold the signature of this body",
            header=spec.signature_header,
        )
    visitor = Visitor(f"trigger:{spec.name}", frozenset({"run"}), frozenset({spec.agent}))
    return Portal(keeper.loom, visitor, "rest")


def _delivery(spec: TriggerSpec | None, request: Request) -> str | None:
    if spec is None or spec.delivery_header is None:
        return None
    found = request.headers.getlist(spec.delivery_header)
    if len(found) != 1 or not found[0].strip():
        raise DeliveryMissing(
            "the header {header} must say, once, which delivery this is",
            header=spec.delivery_header,
        )
    return found[0]


async def _read(request: Request) -> bytes:
    """Read the bytes that were posted, within bounds, as they came."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise HTTPException(413, "the body is too large for a webhook")
    kind = media_type(request)
    if data.strip() and not (kind == "application/json" or kind.endswith("+json")):
        raise HTTPException(415, "the body must be application/json")
    return bytes(data)
