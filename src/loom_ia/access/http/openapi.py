"""What the API says of itself: an OpenAPI document that is whole, and a page that shows it.

Law. Every status that a route may answer is in its description, problems included. Nothing here is
fetched from anywhere else, so that the page works on a machine without a network.
"""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from loom_ia.access.http.bodies import (
    ApproveRequest,
    Body,
    CancelRequest,
    NewGraphRun,
    NewRun,
    RejectRequest,
)
from loom_ia.access.http.examples import ACCEPTED, ANSWERS
from loom_ia.access.http.problems import MEDIA_TYPE, ProblemDetails

_BODIES: Final[tuple[type[Body], ...]] = (
    NewRun,
    NewGraphRun,
    ApproveRequest,
    RejectRequest,
    CancelRequest,
)
_TEMPLATE: Final = "#/components/schemas/{model}"

TAGS: Final = (
    {"name": "agents", "description": "Agents, and their runs begun."},
    {"name": "runs", "description": "Runs: read, followed, decided upon, stopped."},
    {"name": "sessions", "description": "Conversations and what they keep."},
    {"name": "hooks", "description": "Doors for services that know nothing of this API."},
    {"name": "journal", "description": "What happened, searched or read as a tree."},
    {"name": "graphs", "description": "Graphs, and their runs begun."},
    {"name": "health", "description": "Whether the server lives and is ready, and its numbers."},
)

_ALWAYS: Final = (400, 401, 403, 422, 429, 500, 503)
"""What any route may answer: it could not be read, it was not let in, it is wrong, it broke."""

_SAID: Final[Mapping[int, str]] = {
    400: "The request cannot be read, or the place to go on from is not in the journal.",
    401: "No key, or one that is unknown or expired.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    409: "Somebody else acts on it, it was decided, or its id is taken.",
    413: "The body is too large.",
    415: "The type of the body is not accepted.",
    422: "The request is invalid, or refused; nothing was written.",
    429: "Too many requests.",
    500: "The journal cannot be read, or something broke here.",
    503: "The journal, or something else that is needed, does not answer now.",
}
_WAITING: Final = {
    "Retry-After": {
        "description": "Seconds to wait.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_HEADERS: Final[Mapping[int, Any]] = {
    401: {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}},
    409: _WAITING,
    429: _WAITING,
    503: _WAITING,
}
_REQUIRED_HEADERS: Final = frozenset({401, 429, 503})


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route may answer, beyond those that every one may."""
    return {status: _refusal(status) for status in sorted({*_ALWAYS, *statuses})}


def _refusal(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": _SAID[status],
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/ProblemDetails"},
                "example": {
                    "type": f"urn:loom-ia:problem:{_EXAMPLES.get(status, 'refused')}",
                    "title": HTTPStatus(status).phrase,
                    "status": status,
                    "detail": _SAID[status],
                    "remedy": "What to do about it.",
                },
            }
        },
    }
    if headers := _HEADERS.get(status):
        described["headers"] = headers
    return described


_EXAMPLES: Final[Mapping[int, str]] = {
    401: "key-refused",
    403: "forbidden",
    404: "unknown-run",
    409: "approval-stale",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "invalid-request",
    429: "rate-limited",
    500: "internal-error",
    503: "journal-busy",
}


def body_of(kind: type[Body], *, form: bool = False, required: bool = True) -> dict[str, Any]:
    """Describe the body of a route: JSON, and a form with files if `form`."""
    content: dict[str, Any] = {
        "application/json": {"schema": {"$ref": _TEMPLATE.format(model=kind.__name__)}}
    }
    if form:
        content["multipart/form-data"] = {
            "schema": {"$ref": _TEMPLATE.format(model=f"{kind.__name__}Form")},
            "encoding": {"attachments": {"contentType": "image/*"}},
        }
    return {"requestBody": {"required": required, "content": content}}


def describe(app: FastAPI, *, has_keys: bool) -> None:
    """Let `app` describe itself."""

    @cache
    def document() -> dict[str, Any]:
        made = get_openapi(
            title=app.title,
            version=app.version,
            summary="Agents over REST: run them, follow them, decide, and read what happened.",
            routes=app.routes,
            tags=list(TAGS),
        )
        components: dict[str, Any] = made.setdefault("components", {})
        schemas: dict[str, Any] = components.setdefault("schemas", {})
        _, own = models_json_schema(
            [(kind, "validation") for kind in (*_BODIES, ProblemDetails)], ref_template=_TEMPLATE
        )
        schemas.update(own["$defs"])
        schemas["NewRunForm"] = _form_of(schemas["NewRun"])
        _exemplify(made["paths"])
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        if has_keys:
            components["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            }
            made["security"] = [{"bearer": []}, {"apiKey": []}]
            _open(made["paths"])
        return made

    app.openapi = document


def _open(paths: Mapping[str, Any]) -> None:
    """Say which routes need no key."""
    for methods in paths.values():
        for operation in methods.values():
            if operation["operationId"] in {"alive", "ready"}:
                operation["security"] = []


def _exemplify(paths: Mapping[str, Any]) -> None:
    """Put an example beside each answer in JSON."""
    for methods in paths.values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                content = response.get("content", {}).get("application/json")
                if content is None:
                    continue
                accepted = operation["operationId"] in _BACKGROUND and status == "202"
                example = dict(ACCEPTED) if accepted else ANSWERS.get(operation["operationId"])
                if example is not None:
                    content["example"] = example


_BACKGROUND: Final = frozenset({"runAgent", "runGraph"})


def _form_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the form that says what `schema` says in JSON; objects are written as JSON."""
    fields = dict(schema["properties"])
    for name in ("metadata", "state"):
        fields[name] = {
            "type": "string",
            "contentMediaType": "application/json",
            "description": f"{fields[name]['description']} As JSON.",
        }
    fields["background"] = {**fields["background"], "type": "string", "enum": ["true", "false"]}
    fields["background"].pop("default", None)
    fields["attachments"] = {
        "type": "array",
        "items": {"type": "string", "contentMediaType": "application/octet-stream"},
        "description": "Images that come with the message.",
    }
    return {
        "title": "NewRunForm",
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
    }


def pages(base: str) -> APIRouter:
    """Give the pages that show the document to people."""
    router = APIRouter(include_in_schema=False)
    page = files("loom_ia.access.http").joinpath("docs.html").read_text("utf-8")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; frame-ancestors 'none'"
    )

    async def show() -> Response:
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return Response(page, 200, headers, "text/html")

    for name in ("/docs", "/redoc"):
        router.add_api_route(f"{base}{name}", show, methods=["GET"])
    return router
