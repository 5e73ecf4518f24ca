"""What a request asks in its address: known parameters alone, each of its own form."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias, cast

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, AwareDatetime, BeforeValidator

from loom_ia.access.http.bodies import ID
from loom_ia.access.http.problems import OURS

Session: TypeAlias = Annotated[
    str | None,
    Query(pattern=ID, description="The session of the run, if you know it: it is found faster."),
]
"""A shortcut to a run."""

_LONGEST: Final = 40
_UNKNOWN: Final = "there is no such parameter; those of this route: {known}"


def _instant(given: object) -> object:
    """Refuse numbers: an instant is written as RFC 3339 has it."""
    if isinstance(given, str) and ("T" not in given.upper()[:_LONGEST] or len(given) > _LONGEST):
        raise ValueError("an instant is written as 2026-12-01T08:00:00Z")
    return given


def _in_utc(given: datetime) -> datetime:
    """Refuse what is no instant in UTC, at the two ends of the calendar."""
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise ValueError("an instant is between the years 1 and 9999 in UTC") from None


Instant: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_instant), AfterValidator(_in_utc)]
"""An instant with its time zone."""


async def refuse_unknown(request: Request) -> None:
    """Refuse a request with a parameter that its route does not know, rather than ignore it."""
    if not request.scope["query_string"]:
        return
    known = _known(request.scope["route"])
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise RequestValidationError(
            [_fault(name, _UNKNOWN, known=", ".join(known) or "–") for name in unknown]
        )


def _fault(name: str, template: str, **params: object) -> dict[str, Any]:
    return {"loc": ("query", name), "msg": template, "type": OURS, "ctx": params}


def _known(route: Any) -> tuple[str, ...]:
    return tuple(cast("str", each.alias) for each in route.dependant.query_params)
