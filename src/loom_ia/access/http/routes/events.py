"""What happens in a run, as it does: server-sent events."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import WithJsonSchema

from loom_ia.access.http import sse
from loom_ia.access.http.access import Visit
from loom_ia.access.http.openapi import refusals
from loom_ia.access.http.problems import language_of
from loom_ia.access.http.queries import Session

router = APIRouter(tags=["runs"])

_STREAM: Final[dict[str, Any]] = {
    "description": (
        "The events of the run: `event` is the type, `id` the place, `data` the event as JSON. "
        "`model.delta` gives text that is being said (`run_id`, `offset`, `text`) and "
        "`model.reset` says to forget it; neither has an `id`. `error` ends what can be shown. "
        "The stream ends after the event that closes the run."
    ),
    "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}}},
}
_AT_END: Final = {"description": "The run is over and all of it was read: do not come back."}

# read as text, so that whatever is no place is refused in the same way
Place = Annotated[str, WithJsonSchema({"type": "integer", "minimum": 0})]
After = Annotated[
    Place | None, Query(description="Give what follows this place; `Last-Event-ID` is stronger.")
]
LastEventId = Annotated[
    Place | None, Header(description="The `id` of the last event that was read.")
]


@router.get(
    "/runs/{run_id:run}/events",
    operation_id="followRun",
    summary="Follow what happens in a run",
    response_class=Response,
    responses={200: _STREAM, 204: _AT_END, **refusals(404)},
)
async def follow_run(
    request: Request,
    run_id: str,
    visit: Visit,
    session_id: Session = None,
    after_seq: After = None,
    subruns: Annotated[bool, Query(description="With what happens in the runs below.")] = True,
    deltas: Annotated[bool, Query(description="With the text that is being said.")] = True,
    last_event_id: LastEventId = None,
) -> Response:
    """Give what has happened and what happens. Scope: `read`, and `read_content` for what is said.

    A client that leaves changes nothing for the run.
    """
    after = last_event_id if last_event_id is not None else after_seq
    followed = await visit.following(
        run_id,
        session_id=session_id,
        after_seq=0 if after is None else after,
        subruns=subruns,
        deltas=deltas,
    )
    if request.method == "HEAD":
        followed.close()
        return Response(None, 200, sse.HEADERS, sse.MEDIA_TYPE)
    if followed.is_over and last_event_id is not None and _is_event_source(request):
        followed.close()  # it would come back for ever
        return Response(None, 204)
    state = request.app.state
    language = language_of(request.headers.get("accept-language", ""))
    return sse.EventStream(followed, state.frames, state.stopping, language=language)


router.add_api_route(
    "/runs/{run_id:run}/events", follow_run, methods=["HEAD"], include_in_schema=False
)


def _is_event_source(request: Request) -> bool:
    """Whether it is the EventSource of a browser that asks, or something that does as it does."""
    return request.headers.get("accept", "").strip().lower() == sse.MEDIA_TYPE
