"""What the model may write next, as a grammar of the engine.

An answer is one line of text, or JSON under a schema. A call is the name of a tool and its
arguments under the tool's schema. The engine lets through only tokens that can lead to one of
them; among these, the model chooses.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from scripts.local_llm.asked import Asked, Schema
from scripts.local_llm.prompt import ANSWER, CALL, JSON

Numbers = Sequence[int | float]

_HEAD: Final = "%llguidance {}"
_COMPACT: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_INNER: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def grammar(asked: Asked, numbers: Numbers = ()) -> str:
    """Write what may follow. `numbers` are those that a number is chosen among; none leaves all."""
    rules: list[str] = []
    ways: list[str] = []
    for at, tool in enumerate(asked.callable):
        ways.append(f"call_{at}")
        rules.append(f"call_{at}: {_text(f'{CALL}{tool.name} ')} arguments_{at}")
        rules.append(f"arguments_{at}: {_json(tool.parameters, numbers)}")
    if not asked.must_call:
        ways.append("answer")
        if asked.schema is None:
            rules.append(rf"answer: {_text(ANSWER)} /[^\s][^\n]*/")
        else:
            rules.append(f"answer: {_text(JSON)} document")
            rules.append(f"document: {_json(asked.schema, numbers)}")
    return "\n".join([_HEAD, f'start: ({" | ".join(ways)}) "\\n"', *rules, ""])


def schema_grammar(schema: Schema) -> str:
    """Write a grammar of nothing but a document under `schema`, to see whether it is understood."""
    return f"{_HEAD}\nstart: {_text(JSON)} document\ndocument: {_json(schema, ())}\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(schema: Schema, numbers: Numbers) -> str:
    written = {**_guided(schema, numbers), "x-guidance": _COMPACT}
    return f"%json {json.dumps(written, ensure_ascii=False)}"


def _guided(schema: Any, numbers: Numbers) -> Any:
    """Close objects to keys that nobody declared, and let a number be one of `numbers`."""
    if not isinstance(schema, dict):
        return schema
    guided = {key: _inside(key, value, numbers) for key, value in schema.items()}
    if "properties" in guided:
        guided.setdefault("additionalProperties", False)
    if guided.get("type") in {"number", "integer"} and not {"enum", "const"} & guided.keys():
        fitting = [number for number in numbers if _fits(number, guided)]
        guided |= {"enum": fitting} if fitting else {}
    return guided


def _inside(key: str, value: Any, numbers: Numbers) -> Any:
    if key in _INNER and isinstance(value, dict):
        return {name: _guided(inner, numbers) for name, inner in value.items()}
    if key in _LISTED and isinstance(value, list):
        return [_guided(inner, numbers) for inner in value]
    if key in {"items", "additionalProperties"}:
        return _guided(value, numbers)
    return value


def _fits(number: float, schema: Schema) -> bool:
    if schema["type"] == "integer" and not isinstance(number, int):
        return False
    least, above = schema.get("minimum", number), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum", number), schema.get("exclusiveMaximum")
    inside = (above is None or above < number) and (below is None or number < below)
    return inside and least <= number <= most
