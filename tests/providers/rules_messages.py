"""What the Messages API of Anthropic refuses with a 400, beyond the shape of a request."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from tests.providers.rules_common import (
    Body,
    Rule,
    faults_of_base64,
    faults_of_choice,
    is_blank,
    names,
    twice,
    unique_names,
)

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_FEWEST_THOUGHT: Final = 1024
_MOST_MARKS: Final = 4


def blocks(message: Body) -> list[dict[str, Any]]:
    """Give the content of a message as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _located(body: Body) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give each block of each message, with its place and its role."""
    for number, message in enumerate(body["messages"]):
        for rank, block in enumerate(blocks(message)):
            yield f"messages[{number}].content[{rank}]", message["role"], block


def _nested(body: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each block that is written as one, those of the results and of the system too."""
    if isinstance(body.get("system"), list):
        for rank, block in enumerate(body["system"]):
            yield f"system[{rank}]", block
    for number, message in enumerate(body["messages"]):
        if isinstance(message["content"], str):
            continue
        for rank, block in enumerate(message["content"]):
            at = f"messages[{number}].content[{rank}]"
            yield at, block
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                for inner, part in enumerate(block["content"]):
                    yield f"{at}.content[{inner}]", part


def _roles(body: Body) -> Iterator[str]:
    messages = body["messages"]
    if not messages:
        yield "messages: there is none"
        return
    if messages[0]["role"] != "user":
        yield "messages[0]: the first message is the user's"
    for number, (before, after) in enumerate(pairwise(messages), 1):
        if before["role"] == after["role"]:
            yield f"messages[{number}]: two messages of the {after['role']} follow each other"
    for number, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            yield f"messages[{number}]: only some models take the role {message['role']!r} here"


def _last(body: Body) -> Iterator[str]:
    if body["messages"] and body["messages"][-1]["role"] == "assistant":
        yield "messages: the last message is the assistant's"


def _prefilled(body: Body) -> Iterator[str]:
    """What is begun for the model is no space, which would spoil its first word."""
    message = body["messages"][-1] if body["messages"] else None
    if message is None or message["role"] != "assistant" or not blocks(message):
        return
    text = blocks(message)[-1].get("text", "")
    if text != text.rstrip():
        yield "messages: the last text of the assistant ends with whitespace"


def _contents(body: Body) -> Iterator[str]:
    for number, message in enumerate(body["messages"]):
        if not message["content"] or is_blank(message["content"]):
            yield f"messages[{number}].content: is empty"
    for at, block in _nested(body):
        if block["type"] == "text" and is_blank(block["text"]):
            yield f"{at}: the text is empty"


def _system(body: Body) -> Iterator[str]:
    if "system" in body and (not body["system"] or is_blank(body["system"])):
        yield "system: is empty; leave it out"


def _results(body: Body) -> Iterator[str]:
    """Each call has its one result in the next message, before anything else."""
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        at = f"messages[{number}]"
        found = blocks(message)
        given = [block["tool_use_id"] for block in found if block["type"] == "tool_result"]
        if message["role"] == "assistant" and given:
            yield f"{at}: the assistant gives a result"
        for call_id in waiting:
            if call_id not in given:
                yield f"{at}: the result of {call_id} is missing"
        for call_id in sorted(set(given) - set(waiting)):
            yield f"{at}: no call before has the id {call_id}"
        for call_id in twice(given):
            yield f"{at}: {call_id} has two results"
        kinds = [block["type"] == "tool_result" for block in found]
        if kinds != sorted(kinds, reverse=True):
            yield f"{at}: the results come first"
        waiting = [block["id"] for block in found if block["type"] == "tool_use"]
        if waiting and message["role"] != "assistant":
            yield f"{at}: the user asks for a call"
    for call_id in waiting:
        yield f"messages: the result of {call_id} is missing"


def _result_contents(body: Body) -> Iterator[str]:
    for at, _, block in _located(body):
        content = block.get("content") if block["type"] == "tool_result" else "."
        if not content or is_blank(content):
            yield f"{at}: the result is empty"


def _ids(body: Body) -> Iterator[str]:
    found = [(at, block["id"]) for at, _, block in _located(body) if block["type"] == "tool_use"]
    for at, call_id in found:
        if not _ID.fullmatch(call_id):
            yield f"{at}: {call_id!r} is no id of a call"
    for call_id in twice([call_id for _, call_id in found]):
        yield f"messages: two calls have the id {call_id}"


def _names(body: Body) -> Iterator[str]:
    tools = body.get("tools", [])
    used = [(at, block["name"]) for at, _, block in _located(body) if block["type"] == "tool_use"]
    yield from names([(f"tools[{rank}]", tool["name"]) for rank, tool in enumerate(tools)])
    yield from names(used)
    yield from unique_names([tool["name"] for tool in tools])


def _tools(body: Body) -> Iterator[str]:
    for rank, tool in enumerate(body.get("tools", [])):
        if "input_schema" in tool and tool["input_schema"].get("type") != "object":
            yield f"tools[{rank}].input_schema: the arguments of a tool are an object"
    used = any(block["type"] in ("tool_use", "tool_result") for _, _, block in _located(body))
    if used and not body.get("tools"):
        yield "tools: are missing, and the messages use some"


def _choice(body: Body) -> Iterator[str]:
    yield from faults_of_choice(body, lambda choice: choice.get("name"))
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    if forced and _thinks(body):
        yield "tool_choice: a model that thinks cannot be forced to call"


def _thinks(body: Body) -> bool:
    return (body.get("thinking") or {"type": "disabled"})["type"] != "disabled"


def _thoughts(body: Body) -> Iterator[str]:
    for number, message in enumerate(body["messages"]):
        at = f"messages[{number}]"
        kinds = [block["type"] in _THOUGHTS for block in blocks(message)]
        if not any(kinds):
            continue
        if message["role"] != "assistant":
            yield f"{at}: only the assistant thinks"
        if not kinds[0]:
            yield f"{at}: the thoughts come first"
        if kinds[-1]:
            yield f"{at}: a thought comes last"
    for at, _, block in _located(body):
        if block["type"] == "thinking" and not block["signature"]:
            yield f"{at}: the thought has no signature"
        if block["type"] == "redacted_thinking" and not block["data"]:
            yield f"{at}: the hidden thought has no data"


def _running(body: Body) -> Iterator[str]:
    """While its tools run, the turn of a model that thinks on a budget begins with a thought."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    turn: dict[str, Any] | None = None
    for message in reversed(body["messages"]):
        is_result = any(block["type"] == "tool_result" for block in blocks(message))
        if message["role"] == "user" and not is_result:
            break
        if message["role"] == "assistant":
            turn = message
    is_over = body["messages"][-1]["role"] == "assistant" if body["messages"] else True
    if turn is not None and not is_over and blocks(turn)[0]["type"] not in _THOUGHTS:
        number = next(i for i, message in enumerate(body["messages"]) if message is turn)
        yield f"messages[{number}]: the turn whose tools run begins with a thought"


def _limits(body: Body) -> Iterator[str]:
    if body["max_tokens"] < 1:
        yield "max_tokens: is at least 1"
    budget = (body.get("thinking") or {}).get("budget_tokens")
    if budget is None:
        return
    if budget < _FEWEST_THOUGHT:
        yield f"thinking.budget_tokens: is at least {_FEWEST_THOUGHT}"
    if body["max_tokens"] <= budget:
        yield "max_tokens: is greater than the budget of the thoughts"


def _marks(body: Body) -> Iterator[str]:
    """Count the marks in the order in which the prompt is put together."""
    places = [(f"tools[{rank}]", tool) for rank, tool in enumerate(body.get("tools", []))]
    places += [*_nested(body), ("$", body)]
    marks = [(at, part["cache_control"]) for at, part in places if part.get("cache_control")]
    if len(marks) > _MOST_MARKS:
        yield f"cache_control: {len(marks)} marks, and {_MOST_MARKS} are allowed"
    short = False
    for at, mark in marks:
        is_long = mark.get("ttl", "5m") == "1h"
        if is_long and short:
            yield f"{at}.cache_control: a mark of 1h comes after one of 5m"
        short = short or not is_long
    for at, part in places:
        if part.get("type") in _THOUGHTS and "cache_control" in part:
            yield f"{at}: a thought bears no mark"


def _sources(body: Body) -> Iterator[str]:
    for at, block in _nested(body):
        source = block.get("source") or {}
        if source.get("type") == "base64":
            yield from faults_of_base64(source["data"], f"{at}.source.data")


RULES: Final[tuple[Rule, ...]] = (
    _roles,
    _contents,
    _system,
    _results,
    _result_contents,
    _ids,
    _names,
    _tools,
    _choice,
    _thoughts,
    _running,
    _limits,
    _marks,
    _sources,
)
WITHOUT_PREFILL: Final[tuple[Rule, ...]] = (*RULES, _last)
WITH_PREFILL: Final[tuple[Rule, ...]] = (*RULES, _prefilled)
