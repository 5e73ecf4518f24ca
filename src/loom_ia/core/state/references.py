"""Results by their rank: how an argument stands for one, and how the model is shown which is which.

Law. `{"$ref": "result:3"}` as the value of an argument stands for the result of the third call that
the model asked for in its run; so does the same object written as a text, for the models that keep
to a schema of texts. Nothing else is a reference, and none is looked for deeper.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.content import TextBlock, ToolOutput
from loom_ia.core.state.calls import Call

KEY: Final = "$ref"

_REFERENCE: Final = re.compile(r"result:([1-9][0-9]{0,8})")
_MARK: Final = re.compile(r"\[result:[1-9][0-9]{0,8}\]")
_LONGEST: Final = 100


def mark_of(rank: int) -> str:
    """Give what stands before a result, so that the model can name it."""
    return f"[result:{rank}]"


def unmarked(output: ToolOutput) -> ToolOutput:
    """Give a result without the mark of its rank."""
    first = output.blocks[0] if output.blocks else None
    if not isinstance(first, TextBlock) or not _MARK.fullmatch(first.text):
        return output
    return output.model_copy(update={"blocks": output.blocks[1:]})


def reference_in(value: JsonValue) -> str | None:
    """Give what a value refers to, as it is written; None when it is no reference."""
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST or not text.startswith("{"):
            return None
        try:
            value = cast("JsonValue", json.loads(text))
        except ValueError:
            return None
    if not isinstance(value, dict) or value.keys() != {KEY}:
        return None
    target = value[KEY]
    return target[:_LONGEST] if isinstance(target, str) else json.dumps(target)[:_LONGEST]


def references_in(arguments: JsonObject) -> tuple[str, ...]:
    """Give the references among the values of arguments, each once, in their order."""
    found = (reference_in(value) for value in arguments.values())
    return tuple(dict.fromkeys(each for each in found if each is not None))


def call_named(reference: str, past: Sequence[Call]) -> Call | None:
    """Find the call that a reference names, None when there is none."""
    match = _REFERENCE.fullmatch(reference.strip())
    rank = int(match[1]) if match else 0
    return past[rank - 1] if 0 < rank <= len(past) else None
