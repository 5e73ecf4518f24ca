"""What people decide about runs: yes, no, stop."""

from fastapi import APIRouter, Request, Response

from loom_ia.access.http.access import Visit
from loom_ia.access.http.bodies import ApproveRequest, CancelRequest, RejectRequest, read_json
from loom_ia.access.http.openapi import body_of, refusals
from loom_ia.access.http.queries import Session
from loom_ia.access.http.replies import said
from loom_ia.access.portal import CancelledRun, Decided
from loom_ia.app.approvals import NO_ANSWER

router = APIRouter(tags=["runs"])


@router.post(
    "/runs/{run_id:run}/approve",
    operation_id="approve",
    summary="Grant what waits",
    response_model=Decided,
    responses=refusals(404, 409, 413, 415),
    openapi_extra=body_of(ApproveRequest),
)
async def approve(
    run_id: str, visit: Visit, request: Request, session_id: Session = None
) -> Response:
    """Grant a call that waits, or answer what a step asks; the run goes on in the background.

    Only a JSON object is a decision: `{}` grants the one call that waits. Anything else is 422,
    and the request still waits. A second decision is 409 with who decided and when; a call that
    does not wait is 404 with those that do; where the run is over, nothing is decided: 409. Scope:
    `approve`.
    """
    visit.require("approve")
    given = await read_json(request, ApproveRequest)
    decided = await visit.approve(
        run_id,
        call_id=given.call_id,
        by=given.by,
        reason=given.reason,
        arguments=given.arguments,
        answer=given.answer if "answer" in given.model_fields_set else NO_ANSWER,
        session_id=session_id,
    )
    return said(decided)


@router.post(
    "/runs/{run_id:run}/reject",
    operation_id="reject",
    summary="Refuse what waits",
    response_model=Decided,
    responses=refusals(404, 409, 413, 415),
    openapi_extra=body_of(RejectRequest),
)
async def reject(
    run_id: str, visit: Visit, request: Request, session_id: Session = None
) -> Response:
    """Refuse a call that waits: the model reads the reason. Otherwise as `approve`."""
    visit.require("approve")
    given = await read_json(request, RejectRequest)
    decided = await visit.reject(
        run_id, call_id=given.call_id, by=given.by, reason=given.reason, session_id=session_id
    )
    return said(decided)


@router.post(
    "/runs/{run_id:run}/cancel",
    operation_id="cancelRun",
    summary="Stop a run",
    response_model=CancelledRun,
    responses=refusals(404, 409, 413, 415),
    openapi_extra=body_of(CancelRequest, required=False),
)
async def cancel(
    run_id: str, visit: Visit, request: Request, session_id: Session = None
) -> Response:
    """Stop a run for good; `cancelled` is false when it was over already. Scope: `run`.

    The body may be left out.
    """
    visit.require("run")
    empty = not await request.body()
    given = CancelRequest() if empty else await read_json(request, CancelRequest)
    return said(await visit.cancel(run_id, by=given.by, session_id=session_id))
