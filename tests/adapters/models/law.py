"""The law of the turns of a conversation, checked strictly.

assert list(faults(turns)) == []
"""

import re
from collections.abc import Iterable
from typing import Any, assert_never

from loom_ia.adapters.models.turns import (
    AssistantTurn,
    Call,
    Result,
    ResultsTurn,
    Text,
    Thought,
    Turn,
    UserTurn,
)

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def faults(made: list[Turn]) -> Iterable[str]:
    """Say where turns are not what the law says."""
    if not made or not isinstance(made[0], UserTurn):
        yield "the user does not begin"
    if made and isinstance(made[-1], AssistantTurn):
        yield "the assistant has the last word"
    for before, after in zip(made, [*made[1:], None], strict=True):
        match before, after:
            case AssistantTurn(), ResultsTurn():
                if [c.call_id for c in before.calls] != [r.call_id for r in after.results]:
                    yield "results that are not those of the calls"
            case AssistantTurn(), _ if before.calls:
                yield "calls without results"
            case (UserTurn() | AssistantTurn(), ResultsTurn()) | (ResultsTurn(), ResultsTurn()):
                yield "results without calls"
            case (UserTurn(), UserTurn()) | (AssistantTurn(), AssistantTurn()):
                yield "somebody speaks twice"
            case _:
                pass
    calls = [c for turn in made if isinstance(turn, AssistantTurn) for c in turn.calls]
    if len({c.call_id for c in calls}) < len(calls):
        yield "an id stands twice"
    for turn in made:
        yield from _faults_of_turn(turn)


def _faults_of_turn(turn: Turn) -> Iterable[str]:
    match turn:
        case UserTurn():
            parts: Iterable[Any] = turn.parts
        case AssistantTurn():
            parts = turn.parts
            if all(isinstance(part, Thought) for part in turn.parts):
                yield "a turn of thoughts alone"
        case ResultsTurn():
            parts = [part for result in turn.results for part in (result, *result.parts)]
        case _:
            assert_never(turn)
    if not parts:
        yield "a turn of nothing"
    for part in parts:
        match part:
            case Text(text) if not text.strip() or text != text.encode("utf-8", "replace").decode():
                yield f"a text that cannot be sent: {text!r}"
            case Text(text) if "\0" in text:
                yield f"a text with a NUL: {text!r}"
            case Call() if not (_ID.fullmatch(part.call_id) and _NAME.fullmatch(part.name)):
                yield f"a call that cannot be sent: {part}"
            case Result() if not part.parts:
                yield "a result of nothing"
            case _:
                pass
