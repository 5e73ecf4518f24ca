"""Runs as they are read."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from loom_ia.access.http.access import Visit
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.queries import Instant, Session
from loom_ia.access.http.replies import said
from loom_ia.core.state.run import Status
from loom_ia.core.views.result import RunResult
from loom_ia.core.views.sessions import RunPage

router = APIRouter(tags=["runs"])


@router.get(
    "/runs",
    operation_id="listRuns",
    summary="List runs",
    response_model=RunPage,
    responses=refusals(),
)
async def list_runs(
    visit: Visit,
    agent: Annotated[str | None, Query(description="Those of this agent or graph.")] = None,
    status: Annotated[
        list[Annotated[Status, Field(strict=False)]], Query(description="Those that stand so.")
    ] = [],  # noqa: B006 -- FastAPI copies it
    since: Annotated[Instant | None, Query(description="Begun then or later.")] = None,
    until: Annotated[Instant | None, Query(description="Begun before.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many runs.")] = 50,
    sessions: Annotated[
        int, Query(ge=1, le=200, description="At most so many sessions are read to find them.")
    ] = 50,
) -> Response:
    """List runs, the latest first; `truncated` tells that older ones may match. Scope: `read`."""
    page = await visit.runs(
        agent=agent, status=status, since=since, until=until, limit=limit, sessions=sessions
    )
    return said(page)


@router.get(
    "/runs/{run_id:run}",
    operation_id="readRun",
    summary="Read where a run stands and what it gave",
    response_model=RunResult,
    responses=refusals(404),
)
async def read_run(run_id: str, visit: Visit, session_id: Session = None) -> Response:
    """Read a run. Scope: `read`; without `read_content`, `redacted` is true."""
    return said(await visit.result(run_id, session_id=session_id))
