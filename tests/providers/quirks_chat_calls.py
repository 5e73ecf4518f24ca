"""How compatible servers stream tool calls."""

from typing import Any, Final

from tests.providers.chunks import bare, call, calls, chunk, said, stream
from tests.providers.quirk import Quirk, Understood
from tests.providers.replies import Raw

A: Final = "call_a"
B: Final = "call_b"
TWO: Final = (("add", {"a": 1, "b": 2}), ("now", {"zone": "Paris"}))
WITH_IDS: Final = Understood(calls=TWO, ids=(A, B), stop="tool_use")
WITHOUT_IDS: Final = Understood(calls=TWO, stop="tool_use")


def _two(*chunks: Any, finish: str | None = "tool_calls") -> Raw:
    return stream(*said(), *chunks, chunk({}, finish))


def _one(*pieces: Any, finish: str = "tool_calls") -> Raw:
    return stream(*said(), *(calls(piece) for piece in pieces), chunk({}, finish))


def _understood(arguments: Any, *, id: str = A) -> Understood:
    return Understood(calls=(("add", arguments),), ids=(id,), stop="tool_use")


_ADD: Final = {"a": 1, "b": 2}
_NOW: Final = {"zone": "Paris"}

_OUT_OF_ORDER: Final = (
    Quirk(
        "the second index first",
        _two(
            calls(call('{"zone":', index=1, id=B, name="now")),
            calls(call('{"a": 1,', index=0, id=A, name="add")),
            calls(call(' "Paris"}', index=1)),
            calls(call(' "b": 2}', index=0)),
        ),
        WITH_IDS,
    ),
    Quirk(
        "both in one delta, the second index first",
        _two(
            calls(
                call('{"zone": "Paris"}', index=3, id=B, name="now"),
                call('{"a": 1, "b": 2}', index=2, id=A, name="add"),
            )
        ),
        WITH_IDS,
    ),
)

_SIX: Final = (
    Quirk(
        "no index",
        _two(
            calls(call('{"a": 1,', id=A, name="add")),
            calls(call(' "b": 2}')),
            calls(call('{"zone":', id=B, name="now")),
            calls(call(' "Paris"}')),
        ),
        WITH_IDS,
    ),
    Quirk(
        "no index, the id on every piece",
        _two(
            calls(call('{"a": 1,', id=A, name="add")),
            calls(call('{"zone":', id=B, name="now")),
            calls(call(' "b": 2}', id=A)),
            calls(call(' "Paris"}', id=B)),
        ),
        WITH_IDS,
    ),
    Quirk(
        "no index, both calls in one delta",
        _two(
            calls(
                call('{"a": 1, "b": 2}', id=A, name="add"),
                call('{"zone": "Paris"}', id=B, name="now"),
            )
        ),
        WITH_IDS,
    ),
    Quirk(
        "all index 0 with distinct ids",
        _two(
            calls(call('{"a": 1,', index=0, id=A, name="add")),
            calls(call(' "b": 2}', index=0)),
            calls(call('{"zone":', index=0, id=B, name="now")),
            calls(call(' "Paris"}', index=0)),
        ),
        WITH_IDS,
    ),
    Quirk(
        "all index 0, both calls in one delta",
        _two(
            calls(
                call('{"a": 1, "b": 2}', index=0, id=A, name="add"),
                call('{"zone": "Paris"}', index=0, id=B, name="now"),
            )
        ),
        WITH_IDS,
    ),
    Quirk(
        "index without id",
        _two(
            calls(call('{"a": 1,', index=0, name="add")),
            calls(call(' "b": 2}', index=0)),
            calls(call('{"zone":', index=1, name="now")),
            calls(call(' "Paris"}', index=1)),
        ),
        WITHOUT_IDS,
    ),
    Quirk(
        "id only on the first delta, pieces mixed",
        _two(
            calls(call("", index=0, id=A, name="add"), call("", index=1, id=B, name="now")),
            calls(call('{"zone":', index=1), call('{"a": 1,', index=0)),
            calls(call(' "b": 2}', index=0)),
            calls(call(' "Paris"}', index=1)),
        ),
        WITH_IDS,
    ),
    Quirk(
        "whole call in one delta",
        _two(
            calls(call('{"a": 1, "b": 2}', index=0, id=A, name="add")),
            calls(call('{"zone": "Paris"}', index=1, id=B, name="now")),
        ),
        WITH_IDS,
    ),
    Quirk(
        "arguments as an object",
        _two(
            calls(call(_ADD, index=0, id=A, name="add")),
            calls(call(_NOW, index=1, id=B, name="now")),
        ),
        WITH_IDS,
    ),
)

_IDS: Final = (
    Quirk(
        "no id and no index, whole calls",
        _two(
            calls(call('{"a": 1, "b": 2}', name="add")),
            calls(call('{"zone": "Paris"}', name="now")),
        ),
        WITHOUT_IDS,
    ),
    Quirk(
        "empty ids",
        _two(
            calls(call('{"a": 1, "b": 2}', index=0, id="", name="add")),
            calls(call('{"zone": "Paris"}', index=1, id="", name="now")),
        ),
        WITHOUT_IDS,
    ),
    Quirk(
        "the id empty after the first piece",
        _two(
            calls(call('{"a": 1,', index=0, id=A, name="add")),
            calls(call(' "b": 2}', index=0, id="", name="")),
            calls(call('{"zone":', index=1, id=B, name="now")),
            calls(call(' "Paris"}', index=1, id="", name="")),
        ),
        WITH_IDS,
    ),
    Quirk(
        "duplicate ids",
        _two(
            calls(call('{"a": 1,', index=0, id=A, name="add")),
            calls(call(' "b": 2}', index=0)),
            calls(call('{"zone":', index=1, id=A, name="now")),
            calls(call(' "Paris"}', index=1)),
        ),
        WITHOUT_IDS,
    ),
    Quirk(
        "index gaps",
        _two(
            calls(call('{"a": 1, "b": 2}', index=0, id=A, name="add")),
            calls(call('{"zone":', index=2, id=B, name="now")),
            calls(call(' "Paris"}', index=2)),
        ),
        WITH_IDS,
    ),
    Quirk(
        "index from 1",
        _two(
            calls(call('{"a": 1, "b": 2}', index=1, id=A, name="add")),
            calls(call('{"zone": "Paris"}', index=2, id=B, name="now")),
        ),
        WITH_IDS,
    ),
    Quirk(
        "id and name after the first piece of arguments",
        _two(
            calls(call('{"a": 1,', index=0)),
            calls(call(' "b": 2}', index=0, id=A, name="add")),
            calls(call('{"zone":', index=1)),
            calls(call(' "Paris"}', index=1, id=B, name="now")),
        ),
        WITH_IDS,
    ),
)

_NAMES: Final = (
    Quirk(
        "name on every piece",
        _two(
            calls(call('{"a": 1,', index=0, id=A, name="add")),
            calls(call(' "b": 2}', index=0, id=A, name="add")),
            calls(call('{"zone":', index=1, id=B, name="now")),
            calls(call(' "Paris"}', index=1, id=B, name="now")),
        ),
        WITH_IDS,
    ),
    Quirk(
        "name empty, then filled",
        _one(
            call("", index=0, id=A, name=""),
            call('{"a": 1}', index=0, name="add"),
        ),
        _understood({"a": 1}),
    ),
    Quirk(
        "name null after the first piece",
        _one(
            call('{"a"', index=0, id=A, name="add"),
            {"index": 0, "id": None, "function": {"name": None, "arguments": ": 1}"}},
        ),
        _understood({"a": 1}),
    ),
)

_ARGUMENTS: Final = (
    Quirk(
        "arguments empty",
        _one(call("", index=0, id=A, name="add")),
        _understood({}),
    ),
    Quirk(
        "arguments null",
        _one({"index": 0, "id": A, "function": {"name": "add", "arguments": None}}),
        _understood({}),
    ),
    Quirk(
        "arguments missing",
        _one(call(index=0, id=A, name="add")),
        _understood({}),
    ),
    Quirk(
        "arguments with whitespace after them",
        _one(call('{"a": 1}\n\n  \t', index=0, id=A, name="add")),
        _understood({"a": 1}),
    ),
    Quirk(
        "half a character escaped in the arguments",
        _one(call('{"a": "\\ud83d"}', index=0, id=A, name="add")),
        _understood('{"a": "\\ud83d"}'),
    ),
    Quirk(
        "arguments that are no JSON",
        _one(call('{"a": 1', index=0, id=A, name="add")),
        _understood('{"a": 1'),
    ),
    Quirk(
        "arguments that are no object",
        _one(call("[1, 2]", index=0, id=A, name="add")),
        _understood("[1, 2]"),
    ),
)

_STOPS: Final = (
    Quirk(
        "stop although there are calls",
        _two(
            calls(call('{"a": 1, "b": 2}', index=0, id=A, name="add")),
            calls(call('{"zone": "Paris"}', index=1, id=B, name="now")),
            finish="stop",
        ),
        WITH_IDS,
    ),
    Quirk(
        "finish reason function_call",
        _one(call('{"a": 1}', index=0, id=A, name="add"), finish="function_call"),
        _understood({"a": 1}),
    ),
    Quirk(
        "calls, and no finish reason",
        stream(*said(), calls(call('{"a": 1}', index=0, id=A, name="add"))),
        _understood({"a": 1}),
    ),
    Quirk(
        "tool_calls although there are none",
        stream(*said("Bonjour"), chunk({}, "tool_calls")),
        Understood("Bonjour"),
    ),
    Quirk(
        "the call in the chunk that finishes",
        stream(
            *said(),
            chunk({"tool_calls": [call('{"a": 1}', index=0, id=A, name="add")]}, "tool_calls"),
        ),
        _understood({"a": 1}),
    ),
    Quirk(
        "a call cut by the limit of tokens",
        _one(call('{"a": 1', index=0, id=A, name="add"), finish="length"),
        Understood(calls=(("add", '{"a": 1'),), ids=(A,), stop="max_tokens"),
    ),
    Quirk(
        "the old function_call",
        stream(
            *said(),
            chunk({"function_call": {"name": "add", "arguments": ""}}),
            chunk({"function_call": {"arguments": '{"a":'}}),
            chunk({"function_call": {"arguments": " 1}"}}),
            chunk({}, "function_call"),
        ),
        Understood(calls=(("add", {"a": 1}),), stop="tool_use"),
    ),
    Quirk(
        "tool_calls null or empty beside a text",
        stream(
            chunk({"role": "assistant", "content": "Bon", "tool_calls": None}),
            chunk({"content": "jour", "tool_calls": [], "function_call": None}),
            chunk({}, "stop"),
        ),
        Understood("Bonjour"),
    ),
    Quirk(
        "a call in a message, not in a delta",
        stream(
            bare(
                [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": "Je calcule.",
                            "tool_calls": [call('{"a": 1}', index=0, id=A, name="add")],
                        },
                        "finish_reason": "tool_calls",
                    }
                ]
            )
        ),
        Understood("Je calcule.", calls=(("add", {"a": 1}),), ids=(A,), stop="tool_use"),
    ),
)

CALLS: Final[tuple[Quirk, ...]] = (*_SIX, *_OUT_OF_ORDER, *_IDS, *_NAMES, *_ARGUMENTS, *_STOPS)
