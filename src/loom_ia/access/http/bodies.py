"""What a request says in its body: read within bounds, and held to a strict shape.

Law. A body is bounded while it is read, in bytes and in depth, and no field is guessed: what is not
known is refused, with its place. Text is handed on as it came; the engine mends what a journal
cannot hold.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile

from loom_ia.access.http.problems import OURS
from loom_ia.access.http.rows import WrongType
from loom_ia.core.errors import UnstorableValue
from loom_ia.core.json import JsonObject, JsonValue, count_values, storable
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.policy import JudgeMode
from loom_ia.engine.attachments import Attachment

ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
MOST_FILES: Final = 100
_MOST_FIELDS: Final = 32
_LARGE: Final = 1_048_576
MOST_VALUES: Final = 100_000
_MOST_METADATA: Final = 65_536
_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class Body(BaseModel):
    """A body in JSON: every field known, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _short(metadata: JsonObject) -> JsonObject:
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > _MOST_METADATA:
        raise ValueError(f"metadata have at most {_MOST_METADATA} bytes of JSON")
    return metadata


class NewRun(Body):
    """What begins a run of an agent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"message": "What is 1,250 € before tax, with 10 % of tax?"},
                {"message": "And with 20 %?", "session_id": "client-42", "background": True},
            ]
        }
    )

    message: str = Field(description="The request.")
    session_id: str | None = Field(
        default=None, pattern=ID, description="The conversation that it goes on with."
    )
    run_id: str | None = Field(
        default=None, pattern=ID, description="The id of the run, which must be new."
    )
    user_id: str = Field(default="", max_length=256, description="Who asks, in your own words.")
    metadata: Annotated[JsonObject, AfterValidator(_short)] = Field(
        default_factory=dict,
        description="What you want to be kept with the run: at most 65,536 bytes of JSON.",
    )
    state: JsonObject = Field(
        default_factory=dict,
        description="Values for the state of the session, by key; `null` erases one.",
    )
    judges: JudgeMode = Field(
        default="auto",
        description="Whether judges look: `skip` needs the scope admin, and is refused in prod.",
    )
    background: bool = Field(
        default=False, description="Answer at once with the id of the run, which goes on."
    )

    @property
    def context(self) -> CallerContext:
        """Who asks, for the engine."""
        return CallerContext(user_id=self.user_id, metadata=self.metadata)


class NewGraphRun(Body):
    """What begins a run of a graph."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": {"topic": "tea"}}]})

    input: JsonObject = Field(default_factory=dict, description="What its state begins with.")
    session_id: str | None = Field(default=None, pattern=ID, description="The session to be in.")
    run_id: str | None = Field(
        default=None, pattern=ID, description="The id of the run, which must be new."
    )
    background: bool = Field(
        default=False, description="Answer at once with the id of the run, which goes on."
    )


class RejectRequest(Body):
    """A no to what waits. `{}` is enough while one thing waits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"call_id": "c1", "by": "Ana", "reason": "too much"}]}
    )

    call_id: str | None = Field(
        default=None, max_length=512, description="What is decided on; needed if several wait."
    )
    by: str = Field(
        default="",
        max_length=200,
        description="Who decides, in your own words; the id of the key is kept beside it.",
    )
    reason: str = Field(default="", max_length=10_000, description="Why; the model reads it.")


class ApproveRequest(RejectRequest):
    """A yes to what waits. `{}` is enough while one call waits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"call_id": "c1", "by": "Ana", "reason": "agreed"}]}
    )

    arguments: JsonObject | None = Field(
        default=None, description="Those to be used instead of what was shown; needs `call_id`."
    )
    answer: JsonValue = Field(
        default=None, description="What a step of a graph wants to know, if it asks."
    )


class CancelRequest(Body):
    """Who stops a run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"by": "Ana"}]})

    by: str = Field(
        default="",
        max_length=200,
        description="Who stops it, in your own words; the id of the key is kept beside it.",
    )


B = TypeVar("B", bound=Body)


async def read_json(request: Request, kind: type[B]) -> B:
    """Read a body in JSON.

    Raises 415 for another type, 413 for a body that is too large, and `RequestValidationError`.
    """
    if media_type(request) != "application/json":
        raise WrongType("the body must be application/json")
    return _checked(kind, await parsed(await request.body()))


async def read_run(request: Request) -> tuple[NewRun, tuple[Attachment, ...]]:
    """Read what begins a run: JSON, or a form with files in `attachments`."""
    kind = media_type(request)
    if kind == "multipart/form-data":
        return await _read_form(request)
    if kind != "application/json":
        raise WrongType("the body must be application/json or multipart/form-data")
    asked = await read_json(request, NewRun)
    if not asked.message.strip():
        raise _fault(("message",), "a message is needed")
    return asked, ()


async def parsed(data: bytes) -> object:
    """Read JSON of any kind; raises `RequestValidationError`."""
    # what is large would keep every other request waiting
    return await asyncio.to_thread(_parsed, data) if len(data) > _LARGE else _parsed(data)


def media_type(request: Request) -> str:
    """Give the type of the body of a request, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _charset(request: Request) -> str:
    """Give the encoding that a request says its texts are in, as the reader of forms takes it."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    return options.get(b"charset", b"utf-8").decode("latin-1").lower()


async def _read_form(request: Request) -> tuple[NewRun, tuple[Attachment, ...]]:
    given: dict[str, Any] = {}
    files: list[Attachment] = []
    if _charset(request) not in _CHARSETS:
        raise WrongType("the texts of a form must be UTF-8")
    form = await request.form(max_files=MOST_FILES, max_fields=_MOST_FIELDS)
    try:
        for name, value in form.multi_items():
            if name == "attachments":
                files.append(await _file(value))
            elif isinstance(value, UploadFile):
                raise _fault((name,), "files are given in attachments")
            elif name in given:
                raise _fault((name,), "it is given twice")
            else:
                given[name] = _field(name, value)
    finally:
        await form.close()
    asked = _checked(NewRun, {"message": "", **given})
    if not asked.message.strip() and not files:
        raise _fault(("message",), "a message is needed, or files")
    return asked, tuple(files)


async def _file(value: UploadFile | str) -> Attachment:
    if isinstance(value, str):
        raise _fault(("attachments",), "a file is needed, with its filename")
    return Attachment(
        data=await value.read(), name=value.filename or "", media_type=value.content_type
    )


def _field(name: str, text: str) -> object:
    """Read a field of a form, where everything is text."""
    if name in {"metadata", "state"}:
        return _parsed(text.encode("utf-8", "surrogatepass"), name)
    if name == "background":
        return {"true": True, "false": False}.get(text, text)
    return text


def _parsed(data: bytes, place: str = "") -> object:
    """Read JSON; raises `RequestValidationError` for what is none, twice a key, or too deep."""
    at = (place,) if place else ()
    if not data:
        raise _fault(at, "a JSON object is needed: send {} to say nothing")
    if len(data) > MOST_VALUES and count_values(data) > MOST_VALUES:
        raise _fault(at, "it has more than {most} values", most=MOST_VALUES)
    try:
        return json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise _fault(at, "it is nested too deep") from None
    except ValueError as error:
        raise _fault(at, "it is no JSON: {reason}", reason=_told(error)) from None


def _told(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at {error.lineno}:{error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error)[:200]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _checked(kind: type[B], given: object) -> B:
    if not isinstance(given, dict):
        raise _fault((), "a JSON object is needed")
    document = cast("Mapping[str, Any]", given)
    try:
        safe, mended = storable(document, "body")
    except UnstorableValue as error:
        raise RequestValidationError(
            [{"loc": ("body",), "msg": error.template, "type": OURS, "ctx": error.params}]
        ) from None
    try:
        body = kind.model_validate(safe)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in found]
        ) from None
    if "body.message" in mended:  # the engine mends it again, and keeps that it did
        return body.model_copy(update={"message": document["message"]})
    return body


def _fault(place: tuple[str, ...], template: str, **params: object) -> RequestValidationError:
    return RequestValidationError(
        [{"loc": ("body", *place), "msg": template, "type": OURS, "ctx": params}]
    )
