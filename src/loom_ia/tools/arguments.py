"""The arguments of a tool: the schema that a model reads, the check, the typed values.

Arguments are read as JSON. What is not of the declared type is converted when nothing is lost:
`"12"` passes for a number, `12.0` for an integer, `"true"` for a boolean. A boolean never passes
for a number, nor a number for a text. Most calls need no conversion, so a strict reading comes
first, and alone when it succeeds.
"""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json

from loom_ia.core.errors import ToolError, UnstorableValue
from loom_ia.core.json import JsonObject, storable
from loom_ia.tools.signature import Faults

_MOST_PROBLEMS: Final = 20
_NUMBERS: Final = frozenset({"int_type", "float_type", "decimal_type"})
_UNKNOWN: Final = "unexpected_keyword_argument"
_MISSING: Final = "missing_keyword_only_argument"


class Arguments:
    """The arguments of one function. Raises `ToolDefinitionError` when one cannot be.

    `schema` is of type object and closed. `runs_user_code` tells that reading them calls code of
    the user, such as the validators of a model, which may be slow.
    """

    def __init__(self, parameters: Sequence[inspect.Parameter], faults: Faults) -> None:
        adapter, self.schema = _build(parameters, faults)
        self._validate = adapter.validator.validate_json
        self._known = tuple(cast("JsonObject", self.schema["properties"]))
        core: Any = adapter.core_schema
        self.runs_user_code = _runs_user_code(
            [core.get("arguments_schema"), core.get("definitions")]
        )

    def read(self, arguments: JsonObject) -> dict[str, Any]:
        """Give the typed values, defaults included. Raises `ToolError` with every problem."""
        try:
            text = to_json(arguments)
        except ValueError as error:
            raise ToolError(f"the arguments cannot be written as JSON: {error}") from None
        try:
            return self._validate(text, strict=True)
        except ValidationError as error:
            refused = error
        try:
            values = self._validate(text, strict=False)
        except ValidationError as error:
            raise ToolError(self._explain(arguments, _details(error))) from None
        if booleans := [
            e for e in _details(refused) if e["type"] in _NUMBERS and isinstance(e["input"], bool)
        ]:
            raise ToolError(self._explain(arguments, booleans))
        return values

    def _explain(self, arguments: JsonObject, errors: Iterable[ErrorDetails]) -> str:
        found: dict[str, list[str]] = {}
        for error in errors:
            reasons = found.setdefault(_path(arguments, error), [])
            if (reason := self._reason(error)) not in reasons:
                reasons.append(reason)
        lines = [f"{path}: {'; or '.join(reasons)}" for path, reasons in found.items()]
        if len(lines) > _MOST_PROBLEMS:
            lines[_MOST_PROBLEMS:] = [f"and {len(lines) - _MOST_PROBLEMS} more problems"]
        return "\n".join(lines)

    def _reason(self, error: ErrorDetails) -> str:
        if error["type"] == _MISSING:
            return "it is required and missing"
        if error["type"] != _UNKNOWN:
            return error["msg"]
        if not self._known:
            return "unknown argument; the tool takes none"
        return f"unknown argument; the known ones are {', '.join(self._known)}"


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False)


def _path(arguments: JsonObject, error: ErrorDetails) -> str:
    """Write where `error` is, by the keys that the arguments really have.

    Pydantic puts the member of a union that it tried among the keys; a reader knows none of it.
    """
    path = ""
    value: Any = arguments
    keys = error["loc"]
    for rank, key in enumerate(keys):
        match value:
            case dict() if key in value:
                value = cast("dict[Any, Any]", value)[key]
            case list() if isinstance(key, int) and key < len(cast("list[Any]", value)):
                value = cast("list[Any]", value)[key]
            case _ if rank == len(keys) - 1 and "missing" in error["type"]:
                pass
            case _:
                continue
        path += f"[{key}]" if isinstance(key, int) else f".{key}"
    return path.removeprefix(".") or "arguments"


class _Schema(GenerateJsonSchema):
    """JSON Schema without the titles that only repeat a name, and without silent losses."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind == "skipped-choice":
            raise PydanticUserError(detail, code=None)

    def encode_default(self, dft: Any) -> Any:
        try:
            return storable(super().encode_default(dft))[0]
        except UnstorableValue as error:
            raise PydanticSerializationError(str(error)) from error


def _build(
    parameters: Sequence[inspect.Parameter], faults: Faults
) -> tuple[TypeAdapter[Any], JsonObject]:
    try:
        built = _adapt(parameters)
    except Exception as error:  # noqa: BLE001 (types of the user run their own code here)
        built = _adapt(())
        refused = [(p, reason) for p in parameters if (reason := _refusal(p))]
        for parameter, reason in refused:
            faults.add(
                parameter.name,
                "its type {type} cannot be filled from JSON ({reason}): take text, numbers, a list,"
                " a dict, a dataclass or a Pydantic model",
                type=inspect.formatannotation(parameter.annotation),
                reason=reason,
            )
        if not refused:
            faults.add("", "its parameters have no schema together: {reason}", reason=error)
    faults.check()
    return built


def _refusal(parameter: inspect.Parameter) -> str:
    try:
        _adapt((parameter,))
    except Exception as error:  # noqa: BLE001 (as above)
        # What follows the first sentence is advice for those who configure Pydantic.
        return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
    return ""


def _adapt(parameters: Sequence[inspect.Parameter]) -> tuple[TypeAdapter[Any], JsonObject]:
    """Let Pydantic read a function that has these parameters and gives them back."""

    def arguments(**values: Any) -> dict[str, Any]:
        return values

    told = cast("Any", arguments)
    told.__signature__ = inspect.Signature(parameters)
    told.__annotations__ = {p.name: p.annotation for p in parameters}
    adapter = TypeAdapter[Any](told)
    schema, _ = storable(adapter.json_schema(schema_generator=_Schema), "schema")
    return adapter, cast("JsonObject", schema)


def _runs_user_code(part: Any) -> bool:
    """Whether a core schema holds a function that is not Pydantic's own."""
    match part:
        case dict():
            items = cast("dict[str, Any]", part).items()
            return any(
                bool(value) if key in _HOOKS else _runs_user_code(value)
                for key, value in items
                if key not in _HARMLESS
            )
        case list() | tuple():
            return any(_runs_user_code(item) for item in cast("list[Any]", part))
        case type():
            return False
        case _:
            module = str(getattr(part, "__module__", None) or "pydantic")
            return callable(part) and module.partition(".")[0] not in _TRUSTED


_HOOKS: Final = frozenset({"post_init", "custom_init"})
_HARMLESS: Final = frozenset({"metadata", "serialization", "config", "default"})
_TRUSTED: Final = frozenset({"pydantic", "pydantic_core", "builtins"})
