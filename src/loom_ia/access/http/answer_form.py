"""The fields by which a person answers a question, from the schema that the answer must fit.

Law. A schema that is an object of plain fields, or one plain value, is a form; any other one is a
text in JSON. What is typed becomes a value of the type that is asked for, or a fault of its field:
nothing is guessed, and the schema itself is checked where the decision is taken.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from loom_ia.core.json import JsonObject, JsonValue

FieldKind: TypeAlias = Literal["text", "long", "integer", "number", "boolean", "choice", "json"]

MOST_FIELDS: Final = 20
PREFIX: Final = "answer."
_KINDS: Final[Mapping[str, FieldKind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_LONG: Final = 200
_LONGEST_NUMBER: Final = 40


class FieldFault(ValueError):
    """What was typed is not what the field takes: its name in the form, and its label."""

    def __init__(self, field: "AnswerField") -> None:
        super().__init__(field.name)
        self.field, self.label = field.name, field.label or field.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A field: `name` in the form, `key` in the answer, None when it is the whole answer."""

    name: str
    key: str | None
    label: str
    kind: FieldKind
    required: bool = True
    hint: str = ""
    choices: tuple[JsonValue, ...] = ()
    default: JsonValue = None


def fields_of(schema: JsonValue) -> tuple[AnswerField, ...]:
    """Give the fields of an answer; one of the kind `json` when it takes more than plain ones."""
    if schema is None or schema is True or schema == {}:
        return (AnswerField(f"{PREFIX}value", None, "", "long"),)
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if schema.get("type") == "object" and isinstance(properties, dict):
            fields = [_plain(key, sub, schema) for key, sub in properties.items()]
            sound = [field for field in fields if field is not None]
            if fields and len(sound) == len(fields) <= MOST_FIELDS:
                return tuple(sound)
        elif (alone := _of(f"{PREFIX}value", None, schema)) is not None:
            return (alone,)
    return (AnswerField(f"{PREFIX}value", None, "", "json"),)


def read(fields: Sequence[AnswerField], given: Mapping[str, str]) -> JsonValue:
    """Make an answer of what was typed. Raises `FieldFault`."""
    if len(fields) == 1 and fields[0].key is None:
        return _value(fields[0], given.get(fields[0].name, ""))
    answer: JsonObject = {}
    for field in fields:
        typed = given.get(field.name, "")
        if not field.required and not typed.strip() and field.kind != "boolean":
            continue
        answer[field.key or ""] = _value(field, typed)
    return answer


def _plain(key: str, sub: JsonValue, schema: JsonObject) -> AnswerField | None:
    if not isinstance(sub, dict):
        return None
    required = schema.get("required")
    return _of(f"{PREFIX}{key}", key, sub, isinstance(required, list) and key in required)


def _of(name: str, key: str | None, sub: JsonObject, required: bool = True) -> AnswerField | None:
    kind, hint = sub.get("type"), sub.get("description")
    label = sub.get("title")
    if not isinstance(label, str):
        label = key or ""
    said = hint if isinstance(hint, str) else ""
    choices, default = sub.get("enum"), sub.get("default")
    if isinstance(choices, list) and choices and all(map(_is_plain, choices)):
        return AnswerField(name, key, label, "choice", required, said, tuple(choices), default)
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    longest = sub.get("maxLength")
    is_long = kind == "string" and (not isinstance(longest, int) or longest > _LONG)
    shown: FieldKind = "long" if is_long else _KINDS[kind]
    return AnswerField(name, key, label, shown, required, said, (), default)


def _is_plain(value: JsonValue) -> bool:
    return isinstance(value, str | int | float | bool)


def _value(field: AnswerField, typed: str) -> JsonValue:
    text = typed.replace("\r\n", "\n")
    match field.kind:
        case "text" | "long":
            if field.required and not text.strip():
                raise FieldFault(field)
            return text
        case "boolean":
            if typed not in ("", "true", "false"):
                raise FieldFault(field)
            return typed == "true"
        case "choice":
            if not typed.isdecimal() or len(typed) > 4 or int(typed) >= len(field.choices):
                raise FieldFault(field)
            return field.choices[int(typed)]
        case "integer" | "number":
            return _number(field, text.strip().replace(",", ".").replace("\u202f", ""))
        case "json":
            try:
                return cast("JsonValue", json.loads(text, parse_constant=_refuse))
            except (ValueError, RecursionError) as error:
                raise FieldFault(field) from error


def _number(field: AnswerField, text: str) -> JsonValue:
    try:
        if len(text) > _LONGEST_NUMBER:
            raise FieldFault(field)
        value: int | float = int(text) if field.kind == "integer" else float(text)
    except ValueError as error:
        raise FieldFault(field) from error
    if value != value or abs(value) == float("inf"):  # noqa: PLR0124 -- NaN is what it is not
        raise FieldFault(field)
    return int(value) if field.kind == "number" and value == int(value) else value


def _refuse(constant: str) -> JsonValue:
    raise ValueError(constant)
