"""The journal: searched, and read as a tree."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from loom_ia.access.http.access import Visit
from loom_ia.access.http.bodies import ID
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.queries import Instant, Session
from loom_ia.access.http.replies import documents, said
from loom_ia.core.events.envelope import EventStatus
from loom_ia.core.events.query import EventQuery
from loom_ia.core.views.trace import Trace
from loom_ia.tenancy.visitor import EVERYBODY

router = APIRouter(tags=["journal"])


@router.get(
    "/events",
    operation_id="searchEvents",
    summary="Search the journal",
    response_model=list[dict[str, Any]],
    responses=refusals(),
)
async def search(  # noqa: PLR0913, PLR0917 -- one parameter for each condition
    visit: Visit,
    session_id: Annotated[str | None, Query(pattern=ID)] = None,
    run_id: Annotated[str | None, Query()] = None,
    type: Annotated[list[str], Query(description="Such as `tool.called`.")] = [],  # noqa: B006
    category: Annotated[list[str], Query(description="Such as `tool`.")] = [],  # noqa: B006
    status: Annotated[list[EventStatus], Query()] = [],  # noqa: B006
    agent: Annotated[str | None, Query()] = None,
    role: Annotated[str | None, Query()] = None,
    tool_name: Annotated[str | None, Query()] = None,
    model_id: Annotated[str | None, Query()] = None,
    model: Annotated[str | None, Query()] = None,
    since: Annotated[Instant | None, Query(description="Written then or later.")] = None,
    until: Annotated[Instant | None, Query(description="Written before.")] = None,
    after: Annotated[
        str | None, Query(max_length=64, description="The last event_id of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many.")] = 100,
) -> Response:
    """Find events, in the order in which they were written. Scope: `read`."""
    found = await visit.query(
        EventQuery(
            tenant_id=EVERYBODY.tenant_id,
            session_id=session_id,
            run_id=run_id,
            types=tuple(type),
            categories=tuple(category),
            status=tuple(status),
            agent=agent,
            role=role,
            tool_name=tool_name,
            model_id=model_id,
            model=model,
            since=since,
            until=until,
            after=after,
            limit=limit,
        )
    )
    return documents(found)


@router.get(
    "/traces/{run_id:run}",
    operation_id="readTrace",
    summary="Read a run as a tree",
    response_model=Trace,
    responses=refusals(404),
)
async def read_trace(run_id: str, visit: Visit, session_id: Session = None) -> Response:
    """Read a run with its steps, its calls, and the runs below it. Scope: `read`."""
    return said(await visit.trace(run_id, session_id=session_id))
