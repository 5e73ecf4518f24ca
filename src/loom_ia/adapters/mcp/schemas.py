"""The schema of a stranger's tool: what a model is shown of it, and what arguments are checked by.

What is shown is what every provider takes: an object with named properties, nothing that refers to
anything, no choice between shapes at its root. What is checked is the schema as the server gave it,
in the words of the draft that we know. Two things are not checked, for their cost is the server's
to choose: patterns that are not looked for in linear time, and what a reference that leads to
itself would still ask further down.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loom_ia.adapters.mcp.bounds import DEFINITION_CHARS
from loom_ia.adapters.mcp.definitions import visible
from loom_ia.core.json import JsonObject, JsonValue, canonical
from loom_ia.core.pointer import NOTHING, Nothing, at, is_pointer
from loom_ia.core.schema import misfit, unbounded_pattern

_NODES: Final = 4_000
"""How many schemas one may be made of, once its references are followed."""
_WORK: Final = 400_000
"""How much checking may cost: schemas times values."""
_DEPTH: Final = 24
"""How many schemas may stand inside one another, once its references are followed."""
_UNROLLED: Final = 2
"""How often a reference that leads to itself is followed."""

_ANY: Final[JsonObject] = {}
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_DROPPED: Final = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$comment",
        "$vocabulary",
        "$dynamicAnchor",
        "$defs",
        "definitions",
    }
)
_AT_ROOT: Final = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "dependentRequired",
     "dependentSchemas", "patternProperties", "propertyNames", "unevaluatedProperties"}
)  # fmt: skip
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
_INNER: Final = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip


class Unusable(Exception):
    """No model can be shown that schema; the text says why."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """What is `shown` to models, what arguments are `checked` by, and of how many schemas it is."""

    shown: JsonObject
    checked: JsonObject
    nodes: int = 1

    def misfit(self, arguments: JsonObject) -> str:
        """Tell where and why arguments do not fit; nothing when they do.

        Arguments that would take too long to look at are left to the server.
        """
        if self.nodes * _size(arguments) > _WORK:
            return ""
        return misfit(arguments, self.checked)


def adapted(given: JsonValue) -> Schemas:
    """Read a schema; raises `Unusable`. Its nesting is bounded already, as JSON that is kept."""
    if given is None or given is True:
        given = {}
    if not isinstance(given, dict):
        raise Unusable("its schema is no object")
    modern = cast("JsonObject", _modern(given))
    _check(modern)
    expansion = _Expansion(modern)
    expanded = expansion.of(modern)
    if not isinstance(expanded, dict):
        raise Unusable("its schema is no object")
    checked = modern if expansion.is_whole else expanded
    shown = _root(expanded)
    if len(canonical(shown)) > DEFINITION_CHARS:
        raise Unusable(f"its schema is longer than {DEFINITION_CHARS} characters")
    return Schemas(shown, checked, max(1, expansion.nodes))


def _check(schema: JsonObject) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(cast("dict[str, Any]", schema))
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path)
        raise Unusable(f"its schema is not valid at {place or 'its root'}") from error
    except RecursionError as error:
        raise Unusable("its schema is nested too deep") from error


def _modern(schema: JsonValue) -> JsonValue:
    """Say a schema in the words of Draft 2020-12, less what cannot be bounded in time."""
    if not isinstance(schema, dict):
        return schema
    new = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "id")}
    if isinstance(schema.get("id"), dict):  # a property, where somebody forgot the rest
        new["id"] = schema["id"]
    for limit, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(strict), bool):
            is_strict = new.pop(strict)
            if is_strict and limit in new:
                new[strict] = new.pop(limit)
    if not isinstance(new.get("required", []), list):
        del new["required"]  # said of a property, in the words of Draft 3
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
        if "additionalItems" in new:
            new["items"] = new.pop("additionalItems")
    new.pop("additionalItems", None)
    if isinstance(old := new.pop("dependencies", None), dict):
        for name, needs in old.items():
            key = "dependentRequired" if isinstance(needs, list) else "dependentSchemas"
            new[key] = {**cast("JsonObject", new.get(key) or {}), name: needs}
    _forget_patterns(new)
    return _inside(new, _modern)


def _forget_patterns(schema: JsonObject) -> None:
    if isinstance(schema.get("pattern"), str) and unbounded_pattern({"pattern": schema["pattern"]}):
        del schema["pattern"]
    if schema.pop("patternProperties", None):
        schema.pop("additionalProperties", None)
        schema.pop("unevaluatedProperties", None)


def _inside(schema: JsonObject, change: Any) -> JsonObject:
    """Give a schema with each schema inside of it changed."""
    new = dict(schema)
    for key in _LISTS:
        inner = new.get(key)
        if isinstance(inner, list):
            new[key] = [change(part) for part in inner]
    for key in (*_NAMED, "$defs", "definitions"):
        inner = new.get(key)
        if isinstance(inner, dict):
            new[key] = {name: change(part) for name, part in inner.items()}
    for key in _INNER:
        if key in new:
            new[key] = change(new[key])
    return new


@dataclass(slots=True)
class _Expansion:
    """Puts in place of each reference what it refers to, within bounds."""

    root: JsonObject
    nodes: int = 0
    is_whole: bool = True
    path: list[str] = field(default_factory=list[str])
    depth: int = 0

    def of(self, schema: JsonValue) -> JsonValue:
        self.depth += 1
        try:
            return self._of(schema)
        finally:
            self.depth -= 1

    def _of(self, schema: JsonValue) -> JsonValue:
        self.nodes += 1
        if schema is True:
            return _ANY
        if not isinstance(schema, dict):
            return {"not": {}} if schema is False else _ANY
        if self.nodes > _NODES or self.depth > _DEPTH:
            self.is_whole = False
            return _ANY
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise Unusable(
                "its schema has a reference that only a whole set of schemas gives sense"
            )
        kept = {key: value for key, value in schema.items() if key not in _DROPPED}
        ref = kept.pop("$ref", None)
        new = _inside(kept, self.of)
        return new if ref is None else self._beside(self._followed(ref), new)

    def _followed(self, ref: JsonValue) -> JsonValue:
        if not isinstance(ref, str):
            raise Unusable("its schema has a reference that is no text")
        if ref != "#" and not ref.startswith("#/"):
            raise Unusable(f"its schema refers to {ascii(ref)[:200]}, and nothing is fetched")
        if self.path.count(ref) >= _UNROLLED or self.nodes > _NODES:
            self.is_whole = False
            return _ANY
        target = _target(self.root, ref)
        self.path.append(ref)
        try:
            return self.of(target)
        finally:
            self.path.pop()

    @staticmethod
    def _beside(followed: JsonValue, new: JsonObject) -> JsonValue:
        if not isinstance(followed, dict) or not new:
            return followed
        told = {key: value for key, value in new.items() if key in _ANNOTATIONS}
        said = {key: value for key, value in new.items() if key not in _ANNOTATIONS}
        if not said or not followed.keys() & said.keys():
            return {**followed, **said, **told}
        return {"allOf": [followed, said], **told}


_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)


def _target(root: JsonObject, ref: str) -> JsonValue:
    from urllib.parse import unquote

    pointer = unquote(ref[1:])
    found = at(root, pointer) if is_pointer(pointer) else NOTHING
    if isinstance(found, Nothing):
        raise Unusable(f"its schema refers to {ascii(ref)[:200]}, which is not in it")
    return found


def _root(schema: JsonObject) -> JsonObject:
    """Give the root as every provider takes it: an object, its properties by name."""
    properties, required = _flat(schema)
    required = [name for name in required if name in properties]
    for name in [name for name in properties if not _PROPERTY.fullmatch(name)]:
        if name in required:
            raise Unusable(
                f"it needs an argument named {ascii(name)[:100]}, which models cannot give"
            )
        del properties[name]
    new: JsonObject = {
        key: value
        for key, value in schema.items()
        if key not in _AT_ROOT and key not in ("type", "properties", "required")
    }
    is_open = any(isinstance(schema.get(key), list) for key in ("anyOf", "oneOf", "allOf"))
    if is_open:
        new.pop("additionalProperties", None)
    new = {"type": "object", "properties": cast("JsonValue", properties), **new}
    if required:
        new["required"] = cast("JsonValue", required)
    return cast("JsonObject", _clean(new))


def _flat(schema: JsonObject) -> tuple[dict[str, JsonValue], list[str]]:
    """Gather the properties of a root and of all the shapes that it may take."""
    if not _may_be_object(schema):
        raise Unusable(f"it takes {ascii(schema.get('type'))[:60]}, and a model gives an object")
    named = schema.get("properties")
    properties = dict(named) if isinstance(named, dict) else {}
    required = _names(schema.get("required"))
    for part in _branches(schema, "allOf"):
        more, needed = _flat(part)
        _merge(properties, more)
        required += [name for name in needed if name not in required]
    for key in ("anyOf", "oneOf"):
        branches = _branches(schema, key)
        shapes = [_flat(part) for part in branches if _may_be_object(part)]
        if branches and not shapes:
            raise Unusable("none of the shapes that it takes is an object")
        for more, _ in shapes:
            _merge(properties, more)
        common = (
            set[str].intersection(*(set(needed) for _, needed in shapes)) if shapes else set[str]()
        )
        required += sorted(common - set(required))
    return properties, required


def _may_be_object(schema: JsonObject) -> bool:
    kinds = schema.get("type", "object")
    return "object" in kinds if isinstance(kinds, list) else kinds == "object"


def _branches(schema: JsonObject, key: str) -> list[JsonObject]:
    parts = schema.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _names(value: JsonValue) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _merge(properties: dict[str, JsonValue], more: Mapping[str, JsonValue]) -> None:
    for name, schema in more.items():
        known = properties.get(name)
        if known is None or known == schema:
            properties[name] = schema
            continue
        shapes = (
            known.get("anyOf") if isinstance(known, dict) and list(known) == ["anyOf"] else None
        )
        before = shapes if isinstance(shapes, list) else [known]
        if schema not in before:
            properties[name] = {"anyOf": [*before, schema]}


def _clean(schema: JsonValue) -> JsonValue:
    """Leave out of what is shown all that a reader would not see."""
    if not isinstance(schema, dict):
        return schema
    new = {
        key: visible(value) if key in ("description", "title") and isinstance(value, str) else value
        for key, value in schema.items()
    }
    return _inside(new, _clean)


def _size(value: JsonValue) -> int:
    inner: Iterable[JsonValue] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return 1 + sum(map(_size, inner))
