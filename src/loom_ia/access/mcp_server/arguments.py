"""What a client may give with a call, how it is told, and how it is checked.

Law. What is not named here is refused, and every size is bounded before anything is done with it.
"""

from functools import cache
from typing import Annotated, Final, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loom_ia.core.errors import CallerError
from loom_ia.core.json import JsonObject

LONGEST_MESSAGE: Final = 1_000_000
"""Characters."""
_LONGEST_ID: Final = 200
_LONGEST_NAME: Final = 500
_LONGEST_URI: Final = 4_096
_MOST_FILES: Final = 100
_TOLD: Final = 5


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GivenImage(_Arguments):
    """An image, its bytes in base64."""

    type: Literal["image"]
    data: str = Field(min_length=1, description="The bytes of the image, in base64.")
    mime_type: str = Field(
        default="",
        alias="mimeType",
        max_length=_LONGEST_NAME,
        description="Its type, such as `image/png`; the bytes tell it when it is left out.",
    )
    name: str = Field(default="", max_length=_LONGEST_NAME, description="The name of the file.")


class GivenLink(_Arguments):
    """A file that this server can reach: `artifact://`, or `file://` under an allowed folder."""

    type: Literal["resource_link"]
    uri: str = Field(
        min_length=1, max_length=_LONGEST_URI, description="`artifact://…` or `file://…`."
    )
    mime_type: str = Field(
        default="", alias="mimeType", max_length=_LONGEST_NAME, description="Its type."
    )
    name: str = Field(default="", max_length=_LONGEST_NAME, description="The name of the file.")


Given: TypeAlias = Annotated[GivenImage | GivenLink, Field(discriminator="type")]


class AgentArguments(_Arguments):
    """What an agent is asked."""

    message: str = Field(max_length=LONGEST_MESSAGE, description="The request, in plain words.")
    session_id: str | None = Field(
        default=None,
        max_length=_LONGEST_ID,
        description="Goes on with a conversation: the `session_id` of an earlier result.",
    )
    attachments: list[Given] = Field(
        default_factory=list[Given], max_length=_MOST_FILES, description="Images to look at."
    )


class GraphArguments(_Arguments):
    """What a graph begins with."""

    input: JsonObject = Field(default_factory=dict, description="The state in which it begins.")
    session_id: str | None = Field(
        default=None, max_length=_LONGEST_ID, description="The session to write the run in."
    )


class StatusArguments(_Arguments):
    """Which run is meant."""

    run_id: str = Field(min_length=1, max_length=_LONGEST_ID, description="The id of the run.")
    session_id: str | None = Field(
        default=None, max_length=_LONGEST_ID, description="Its session, if it is known."
    )


class ReportArguments(_Arguments):
    """A run, or a whole session."""

    run_id: str | None = Field(
        default=None, max_length=_LONGEST_ID, description="The id of the run."
    )
    session_id: str | None = Field(
        default=None,
        max_length=_LONGEST_ID,
        description="Its session; alone: the whole session is reported.",
    )


class CancelArguments(StatusArguments):
    """Which run is stopped, and who wants it."""

    by: str = Field(
        default="", max_length=_LONGEST_ID, description="Who asks for it; the journal keeps it."
    )


A = TypeVar("A", bound=_Arguments)


class ArgumentsRefused(CallerError):
    """Arguments that do not fit; the message has a line for each fault."""


def read_arguments(kind: type[A], given: object) -> A:
    """Check what was given; raises `ArgumentsRefused` with the first faults, without values."""
    try:
        return kind.model_validate({} if given is None else given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        told = "; ".join(f"{_place(fault['loc'])}: {fault['msg']}" for fault in faults[:_TOLD])
        raise ArgumentsRefused("the arguments do not fit: {faults}", faults=told) from None


@cache
def schema_of(kind: type[_Arguments]) -> JsonObject:
    """Give the JSON Schema of what is accepted, in what every generation of clients reads.

    It is made once: copy it to change it.
    """
    schema = cast("JsonObject", kind.model_json_schema(by_alias=True))
    return cast("JsonObject", _bare(schema))


def _bare(value: object) -> object:
    """Leave out the titles, and what few readers of schemas know."""
    if isinstance(value, list):
        return [_bare(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    kept = cast("dict[str, object]", value)
    return {
        key: {name: _bare(each) for name, each in cast("dict[str, object]", inner).items()}
        if key in {"properties", "$defs"}
        else _bare(inner)
        for key, inner in kept.items()
        if key not in {"title", "discriminator"}
    }


def _place(path: tuple[int | str, ...]) -> str:
    """Write where a fault is, without the tags of unions."""
    parts = [str(part) for part in path if part not in {"image", "resource_link"}]
    return ".".join(parts)[:_LONGEST_ID] or "arguments"
