"""Sessions: listed, read, exported, deleted."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from loom_ia.access.http.access import Visit
from loom_ia.access.http.bodies import ID
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.replies import lines, listed, said
from loom_ia.core.views.report import UsageReport
from loom_ia.core.views.sessions import SessionDeletion, SessionFile, SessionInfo

router = APIRouter(tags=["sessions"])

_SHOWN_AS_IT_IS: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@router.get(
    "/sessions",
    operation_id="listSessions",
    summary="List sessions",
    response_model=list[SessionInfo],
    responses=refusals(),
)
async def list_sessions(
    visit: Visit,
    after: Annotated[
        str | None, Query(pattern=ID, description="The last id of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many.")] = 50,
) -> Response:
    """List sessions in the order of their ids. Scope: `read`.

    Refused to a key that is limited to some agents, for sessions are shared.
    """
    return listed(await visit.sessions(after=after, limit=limit))


@router.get(
    "/sessions/{session_id}",
    operation_id="readSession",
    summary="Describe a session",
    response_model=SessionInfo,
    responses=refusals(404),
)
async def read_session(session_id: str, visit: Visit) -> Response:
    """Describe a session: its runs, its files, what waits in it. Scope: `read`."""
    return said(await visit.session(session_id))


@router.get(
    "/sessions/{session_id}/events",
    operation_id="exportSession",
    summary="Export the journal of a session",
    response_class=Response,
    responses={
        200: {
            "description": "One event in JSON on each line.",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        },
        **refusals(404),
    },
)
async def export_session(session_id: str, visit: Visit) -> Response:
    """Export every event of a session, one on each line. Scope: `read`."""
    return lines(await visit.export(session_id))


@router.get(
    "/sessions/{session_id}/files",
    operation_id="listSessionFiles",
    summary="List the files of a session",
    response_model=list[SessionFile],
    responses=refusals(404),
)
async def list_files(session_id: str, visit: Visit) -> Response:
    """List the files that a session keeps, oldest first. Scope: `read`."""
    return listed(await visit.files(session_id))


@router.get(
    "/sessions/{session_id}/files/{file}",
    operation_id="readSessionFile",
    summary="Download a file of a session",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes of the file.",
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                **{
                    kind: {"schema": {"type": "string", "format": "binary"}}
                    for kind in sorted(_SHOWN_AS_IT_IS)
                },
            },
        },
        **refusals(404, 503),
    },
)
async def read_file(session_id: str, file: str, visit: Visit) -> Response:
    """Download a file; `file` is the end of its address, as it is listed. Scope: `read_content`."""
    described, data = await visit.file(session_id, file)
    kind = described.media_type.partition(";")[0].strip().lower()
    as_it_is = kind in _SHOWN_AS_IT_IS
    # What a tool made may be a page with a program in it: it is saved, never opened.
    headers = {
        "Content-Disposition": f'{"inline" if as_it_is else "attachment"}; filename="{file}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-store",
    }
    return Response(data, 200, headers, kind if as_it_is else "application/octet-stream")


@router.get(
    "/sessions/{session_id}/report",
    operation_id="reportSession",
    summary="Report what a session consumed",
    response_model=UsageReport,
    responses=refusals(404),
)
async def report_session(session_id: str, visit: Visit) -> Response:
    """Report what the runs of a session consumed. Scope: `read`."""
    return said(await visit.report(session_id=session_id))


@router.delete(
    "/sessions/{session_id}",
    operation_id="deleteSession",
    summary="Delete a session for good",
    response_model=SessionDeletion,
    responses=refusals(404, 409),
)
async def delete_session(session_id: str, visit: Visit) -> Response:
    """Delete a session whole: its events, its files, its keys. Scope: `admin`.

    It is 409 while one of its runs is being driven: cancel that first.
    """
    return said(await visit.delete(session_id))
