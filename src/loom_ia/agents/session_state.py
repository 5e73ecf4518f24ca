"""The keys of the state of a session, as an agent declares them."""

from typing import Final, Self

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.session_state import OnMissing

_ONE_VALUE: Final[JsonObject] = {"oneOf": [{"required": ["path"]}, {"required": ["value"]}]}


class _Spec(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StateSourceSpec(_Spec):
    """A tool whose success writes the key, with a part of its data or with a fixed value."""

    model_config = ConfigDict(json_schema_extra=_ONE_VALUE)

    tool: str = Field(min_length=1, description="The name of the tool, as the model calls it.")
    path: str | None = Field(
        default=None,
        description=(
            "Where the value stands in the data of the result: a JSON Pointer, such as "
            "`/patient/name`. Give this or `value`."
        ),
    )
    value: JsonValue = Field(
        default=None, description="The value, whatever the result; `null` erases the key."
    )
    on_missing: OnMissing = Field(
        default="refuse",
        description=(
            "When nothing stands at `path`: `refuse` tells the model, `ignore` says nothing. The "
            "key keeps its value."
        ),
    )

    @model_serializer(mode="wrap")
    def _as_written(self, write: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Leave out what was not given: null is a value."""
        written: dict[str, JsonValue] = write(self)
        written.pop("path" if self.path is None else "value")
        return written

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if (self.path is None) == ("value" not in self.model_fields_set):
            raise PydanticCustomError("one_value", "give either path or value")
        return self


class StateKeySpec(_Spec):
    """A value that is kept for the session: the caller and the tools write it, the model reads it.

    In Python: `StateKeySpec(schema={…}, sources=(StateSourceSpec(tool="look", path="/id"),))`.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    # `schema` is the name of a method of Pydantic's, and `from` a word of Python's.
    json_schema: JsonObject | None = Field(
        default=None, alias="schema", description="The JSON Schema of its values; any without it."
    )
    description: str = Field(default="", description="What it is, for the model and for people.")
    sources: tuple[StateSourceSpec, ...] = Field(
        default=(),
        strict=False,
        validation_alias=AliasChoices("from", "sources"),
        serialization_alias="from",
        description="The tools whose results write it, each once.",
    )
    required: bool = Field(
        default=False, description="Whether a run is refused while it has no value."
    )
    default: JsonValue = Field(
        default=None, description="What is read while it has no value; not with `required`."
    )

    @model_validator(mode="after")
    def _required_or_default(self) -> Self:
        if self.required and self.default is not None:
            raise PydanticCustomError("required_default", "give either required or default")
        return self
