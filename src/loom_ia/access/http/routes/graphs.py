"""Graphs, and their runs begun; what follows is that of every run."""

from fastapi import APIRouter, Request, Response

from loom_ia.access.http.access import Visit, doorkeeper
from loom_ia.access.http.bodies import NewGraphRun, read_json
from loom_ia.access.http.openapi import body_of, refusals
from loom_ia.access.http.replies import listed, located, said
from loom_ia.access.portal import Accepted, GraphShown
from loom_ia.core.views.result import RunResult

router = APIRouter(tags=["graphs"])


@router.get(
    "/graphs",
    operation_id="listGraphs",
    summary="List the graphs",
    response_model=list[GraphShown],
    responses=refusals(),
)
async def list_graphs(visit: Visit) -> Response:
    """List the graphs that the holder of the key may use. Scope: `read`."""
    return listed(visit.graphs())


@router.post(
    "/graphs/{name}/runs",
    operation_id="runGraph",
    summary="Run a graph",
    status_code=201,
    response_model=RunResult,
    responses={
        202: {"model": Accepted, "description": "The run goes on in the background."},
        **refusals(404, 409, 413, 415),
    },
    openapi_extra=body_of(NewGraphRun),
)
async def run_graph(name: str, visit: Visit, request: Request) -> Response:
    """Run a graph until it is over or waits for a human; a run that failed is 201, too.

    `data` of the result is the output of the graph. Its questions are answered by
    `POST /runs/{run_id}/approve`, with `answer` where it asks for one. Scope: `run`.
    """
    visit.may_run_graph(name)
    asked = await read_json(request, NewGraphRun)
    given = asked.input or None
    home, run_id = asked.session_id, asked.run_id
    if asked.background:
        accepted = await visit.submit_graph(name, given, session_id=home, run_id=run_id)
        return said(accepted, 202, located(request, accepted.run_id))
    running = visit.run_graph(name, given, session_id=home, run_id=run_id)
    result = await doorkeeper(request).loom.see_through(running)
    return said(result, 201, located(request, result.run_id))
