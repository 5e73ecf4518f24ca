"""From written values to the classes of the configuration, with every fault said in plain words.

Law. Each fault that Pydantic finds becomes one problem at its place; the words are in the tables
below. What is left once the faulty parts are set aside is still built, so that the checks which
follow can report on the rest in the same go.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, JsonValue, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from loom_ia.config.availability import (
    AGENT,
    EXPLAINED_KEYS,
    UNAVAILABLE_KEYS,
    UNAVAILABLE_VALUES,
    Pattern,
    pattern_of,
)
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.core.errors import Problem
from loom_ia.core.json import readable

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string_type": "must be text, not {value}",
        "int_type": "must be a whole number, not {value}",
        "float_type": "must be a number, not {value}",
        "bool_type": "must be true or false, not {value}",
        "dict_type": "must be a mapping, not {value}",
        "model_type": "must be a mapping, not {value}",
        "tuple_type": "must be a list, not {value}",
        "greater_than": "must be greater than {gt:g}, not {value}",
        "greater_than_equal": "must be at least {ge:g}, not {value}",
        "less_than_equal": "must be at most {le:g}, not {value}",
        "string_too_short": "must not be empty",
        "string_pattern_mismatch": "must match {pattern}, and {value} does not",
        "literal_error": "must be one of {expected}, not {value}",
        "missing": "this key is required",
        "no_kind_of_step": "a step has one of python, agent, graph, tool, ask_human, guard, set",
        "too_short": "must not be empty",
    }
)
# The value is not shown: what stands there by mistake may be a secret.
_PATTERNS_TOLD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "base_url": "must begin with http:// or https://, and hold neither a name nor a query",
        "api_key_env": "must be the name of a variable, such as PROVIDER_KEY, and not the key",
        "hash": "must be sha256: and 64 digits from 0 to f, as `loom keys create` prints it",
        "secret_env": "must be the name of a variable, such as HOOK_SECRET, and not the secret",
    }
)
_QUOTE: Final = "must be text, not {value} (put it in quotes)"
_BOOLEAN: Final = "must be true or false, not {value} (YAML 1.2 has no other booleans)"
_REQUIRED_VERSION: Final = "this key is required (write version: 1)"
_NOT_A_TOOL: Final = "must be a mapping, not {value} (write - python: {name})"
_NOT_AVAILABLE: Final = "not available in this version"
_NO_ROUTE: Final = (
    "must be a step, a list of steps, or a mapping with branch, condition or fan_out, not {value}"
)
_ONLY: Final = "must be {expected}, not {value}"
_VALUE_NOT_AVAILABLE: Final = "{value} is not available in this version (available: {expected})"
_UNKNOWN_NEAR: Final = "unknown key (did you mean {suggestion}?)"
_UNKNOWN: Final = "unknown key (known keys: {known})"
_LONGEST_VALUE: Final = 60
_TOOL: Final[Pattern] = (*AGENT, "tools", "*")


@dataclass(frozen=True, slots=True)
class Validated(Generic[Model]):
    """What became of a written value.

    `spec` lacks the parts named in `broken`, which have their default instead; it is None when
    a part that has no default is among them. Without problems, `spec` is the whole.
    """

    spec: Model | None
    problems: tuple[Problem, ...] = ()
    broken: frozenset[str] = frozenset()


def validate(
    model: type[Model], value: dict[str, JsonValue], source: Source, base: Pattern = ()
) -> Validated[Model]:
    """Build `model` from `value`; `base` is where its keys stand in the tables of availability."""
    try:
        return Validated(_build(model, value))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = tuple(_problems(model, errors, source, base))
    kept = deepcopy(value)
    for error in errors:
        if error["type"] == "extra_forbidden":
            _remove(kept, _untagged(error["loc"]))
    wrong = {str(e["loc"][0]) for e in errors if e["loc"] and e["type"] != "extra_forbidden"}
    broken = frozenset(name for name in wrong if name in model.model_fields)
    for name in broken:
        kept.pop(name, None)
    for _ in range(2):
        try:
            return Validated(_build(model, kept), problems, broken)
        except ValidationError as error:
            # `version` has one value only, so that its absence hides nothing.
            missing = {e["loc"] for e in error.errors()}
            if missing != {("version",)}:
                break
            kept["version"] = 1
    return Validated(None, problems, broken)


def not_a_mapping(value: JsonValue, source: Source) -> Problem:
    """Say that a mapping is expected at the place of `source`."""
    return source.problem((), _EXPECTED["model_type"], value=_shown(value))


def _build(model: type[Model], value: dict[str, JsonValue]) -> Model:
    # Through JSON, where a strict model takes a list for a tuple.
    return model.model_validate_json(json.dumps(value))


def _remove(value: JsonValue, loc: tuple[str | int, ...]) -> None:
    parent = _at(value, loc[:-1])
    if isinstance(parent, dict):
        parent.pop(str(loc[-1]), None)


def _at(value: JsonValue, path: Sequence[str | int]) -> JsonValue:
    for part in path:
        if isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    return value


def _problems(
    model: type[BaseModel],
    errors: Sequence[ErrorDetails],
    source: Source,
    base: Pattern,
) -> Iterator[Problem]:
    for error in errors:
        path = _untagged(error["loc"])
        pattern = (*base, *pattern_of(path))
        if error["type"] == "extra_forbidden":
            template, params = _extra_key(model, error["loc"], pattern)
        else:
            template, params = _wrong_value(error, pattern)
        yield source.problem(path, template, **params)


def _extra_key(
    model: type[BaseModel], path: KeyPath, pattern: Pattern
) -> tuple[str, dict[str, object]]:
    section, key = pattern[:-1], str(path[-1])
    if explained := EXPLAINED_KEYS.get(section, {}).get(key):
        return explained, {}
    unavailable = UNAVAILABLE_KEYS.get(section, frozenset())
    if key in unavailable:
        return _NOT_AVAILABLE, {}
    known = keys_at(model, path[:-1])
    written = key.lower().replace("-", "_")
    near = difflib.get_close_matches(written, [*known, *sorted(unavailable)], n=1)
    if near:
        return _UNKNOWN_NEAR, {"suggestion": near[0]}
    return _UNKNOWN, {"known": ", ".join(known)}


def keys_at(model: type[BaseModel], path: KeyPath) -> tuple[str, ...]:
    """Give the keys that may stand in what is at `path` of `model`.

    A name in parentheses in `path` tells the member of a union.
    """
    here: Any = model
    for part in path:
        here = _below(here, part)
    found = next(iter(_models_in(here)), model)
    return tuple(_fields(found))


def _below(annotation: Any, part: str | int) -> Any:
    """Give the annotation of what is under one key, or is one item, of something."""
    if _is_tag(part):
        return next(
            (m for m in _models_in(annotation) if getattr(m, "TAG", "") == part), annotation
        )
    model = next(iter(_models_in(annotation)), None)
    if isinstance(part, str) and model is not None and not _has_free_keys(annotation):
        return _fields(model)[part].annotation if part in _fields(model) else annotation
    return annotation


def _has_free_keys(annotation: Any) -> bool:
    """Whether it is a mapping whose keys are anybody's, or may be one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return False
    return get_origin(annotation) in (dict, Mapping)


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {_written(name, field): field for name, field in model.model_fields.items()}


def _written(name: str, field: FieldInfo) -> str:
    """Give the key of a field as it is written."""
    other = field.validation_alias
    first = other.choices[0] if isinstance(other, AliasChoices) else other
    return first if isinstance(first, str) else name


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _is_tag(part: str | int) -> bool:
    """Whether a part of a place names the member of a union, and is not in what was written."""
    return isinstance(part, str) and part.startswith("(") and part.endswith(")")


def _untagged(loc: KeyPath) -> KeyPath:
    return tuple(part for part in loc if not _is_tag(part))


def _wrong_value(error: ErrorDetails, pattern: Pattern) -> tuple[str, dict[str, object]]:
    kind, value = error["type"], error["input"]
    params: dict[str, object] = {**error.get("ctx", {}), "value": _shown(value)}
    if kind == "literal_error":
        expected = str(params["expected"]).replace(" or ", ", ")
        params["expected"] = expected
        if isinstance(value, str) and value in UNAVAILABLE_VALUES.get(pattern, frozenset()):
            return _VALUE_NOT_AVAILABLE, params
        if ", " not in expected:
            return _ONLY, params
    elif kind == "missing" and pattern == ("version",):
        return _REQUIRED_VERSION, params
    elif kind == "model_type" and pattern == _TOOL and isinstance(value, str):
        return _NOT_A_TOOL, {**params, "name": value}
    elif kind == "string_pattern_mismatch" and pattern[-1] in _PATTERNS_TOLD:
        return _PATTERNS_TOLD[pattern[-1]], {}
    elif kind == "string_type" and pattern[-1:] == ("then",):
        return _NO_ROUTE, params
    elif kind == "string_type" and isinstance(value, int | float):
        return _QUOTE, params
    elif kind == "bool_type" and isinstance(value, str):
        return _BOOLEAN, params
    if kind in _EXPECTED:
        return _EXPECTED[kind], params
    return "{problem}", {"problem": error["msg"]}


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        return "[…]"
    text = readable(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
