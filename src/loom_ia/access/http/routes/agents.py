"""Agents, and their runs begun."""

from fastapi import APIRouter, Request, Response

from loom_ia.access.http.access import Visit, doorkeeper
from loom_ia.access.http.bodies import NewRun, read_run
from loom_ia.access.http.openapi import body_of, refusals
from loom_ia.access.http.replies import listed, located, said
from loom_ia.access.portal import Accepted, AgentShown, Wanted
from loom_ia.core.views.result import RunResult

router = APIRouter(tags=["agents"])


@router.get(
    "/agents",
    operation_id="listAgents",
    summary="List the agents",
    response_model=list[AgentShown],
    responses=refusals(),
)
async def list_agents(visit: Visit) -> Response:
    """List the agents that are offered over REST to the holder of the key. Scope: `read`."""
    return listed(visit.agents())


@router.post(
    "/agents/{name}/runs",
    operation_id="runAgent",
    summary="Run an agent",
    status_code=201,
    response_model=RunResult,
    responses={
        202: {"model": Accepted, "description": "The run goes on in the background."},
        **refusals(404, 409, 413, 415),
    },
    openapi_extra=body_of(NewRun, form=True),
)
async def run_agent(name: str, visit: Visit, request: Request) -> Response:
    """Run an agent until it answers, fails, or waits for a human; a run that failed is 201, too.

    A client that goes away does not stop it. With `background`, the answer is 202 at once. Images
    come as a form, in `attachments`.
    Scope: `run`, and `admin` for `judges: skip`.
    """
    visit.may_run(name)
    asked, files = await read_run(request)
    wanted = Wanted(
        name,
        asked.message,
        session_id=asked.session_id,
        run_id=asked.run_id,
        attachments=files,
        context=asked.context,
        state=asked.state or None,
        judges=asked.judges,
    )
    if asked.background:
        accepted = await visit.submit(wanted)
        return said(accepted, 202, located(request, accepted.run_id))
    result = await doorkeeper(request).loom.see_through(visit.run(wanted))
    return said(result, 201, located(request, result.run_id))
