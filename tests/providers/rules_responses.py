"""What the Responses API of OpenAI refuses with a 400, beyond the shape of a request."""

from collections.abc import Iterator
from typing import Any, Final

from tests.providers.rules_common import (
    Body,
    Rule,
    faults_of_choice,
    faults_of_data_url,
    faults_of_output_schema,
    faults_of_parameters,
    is_blank,
    is_object,
    names,
    twice,
    unique_names,
)

_LONGEST_ID: Final = 64
_FEWEST_TOKENS: Final = 16
_PREFIXES: Final = {"reasoning": "rs", "function_call": "fc", "message": "msg"}


def _items(body: Body) -> list[tuple[str, str, dict[str, Any]]]:
    """Give each item of the input, with its place and its type."""
    given = body.get("input")
    items = given if isinstance(given, list) else []
    return [
        (f"input[{rank}]", item.get("type", "message"), item) for rank, item in enumerate(items)
    ]


def _input(body: Body) -> Iterator[str]:
    given = body.get("input")
    if not given or is_blank(given):
        yield "input: is empty"
    if "instructions" in body and (not body["instructions"] or is_blank(body["instructions"])):
        yield "instructions: are empty; leave them out"


def _texts(body: Body) -> Iterator[str]:
    for at, kind, item in _items(body):
        key = {"message": "content", "function_call_output": "output"}.get(kind)
        if key is None:
            continue
        content = item[key]
        if not content or is_blank(content):
            yield f"{at}.{key}: is empty"
        for rank, part in enumerate(content if isinstance(content, list) else []):
            if any(is_blank(part.get(each)) for each in ("text", "refusal")):
                yield f"{at}.{key}[{rank}]: the text is empty"


def _roles(body: Body) -> Iterator[str]:
    """What the assistant said is output, what the others said is input."""
    for at, kind, item in _items(body):
        content = item.get("content")
        if kind != "message" or not isinstance(content, list):
            continue
        is_output = item["role"] == "assistant"
        for rank, part in enumerate(content):
            if (part["type"] in ("output_text", "refusal")) != is_output:
                yield f"{at}.content[{rank}]: the {item['role']} has no {part['type']}"


def _results(body: Body) -> Iterator[str]:
    """Calls that were made together have their outputs after the last of them, in their order."""
    waiting: list[str] = []
    is_answered = False
    for at, kind, item in _items(body):
        if kind == "function_call_output":
            call_id = item["call_id"]
            if call_id not in waiting:
                yield f"{at}: no call before has the id {call_id}"
            elif waiting[0] != call_id:
                yield f"{at}: the outputs come in the order of the calls"
            waiting = [each for each in waiting if each != call_id]
            is_answered = True
            continue
        if waiting and (is_answered or kind == "message"):
            yield from (f"{at}: the output of {call_id} is missing" for call_id in waiting)
            waiting = []
        is_answered = False
        if kind == "function_call":
            waiting.append(item["call_id"])
    yield from (f"input: the output of {call_id} is missing" for call_id in waiting)


def _ids(body: Body) -> Iterator[str]:
    called: list[str] = []
    for at, kind, item in _items(body):
        if kind == "function_call":
            called.append(item["call_id"])
            if not 0 < len(item["call_id"]) <= _LONGEST_ID:
                yield f"{at}.call_id: has 1 to {_LONGEST_ID} characters"
        prefix = _PREFIXES.get(kind)
        if prefix and "id" in item and not item["id"].startswith(prefix):
            yield f"{at}.id: begins with {prefix!r}"
    for call_id in twice(called):
        yield f"input: two calls have the id {call_id}"
    for item_id in twice([item["id"] for _, _, item in _items(body) if item.get("id")]):
        yield f"input: two items have the id {item_id}"


def _arguments(body: Body) -> Iterator[str]:
    for at, kind, item in _items(body):
        if kind == "function_call" and not is_object(item["arguments"]):
            yield f"{at}.arguments: are no JSON object"


def _reasoning(body: Body) -> Iterator[str]:
    items = _items(body)
    for rank, (at, kind, item) in enumerate(items):
        if kind != "reasoning":
            continue
        if body.get("store") is False and not item.get("encrypted_content"):
            yield f"{at}: has no encrypted content, and nothing is stored"
        after = items[rank + 1] if rank + 1 < len(items) else ("", "", {})
        is_output = after[1] == "message" and after[2]["role"] == "assistant"
        if not is_output and after[1] not in ("function_call", "reasoning"):
            yield f"{at}: what was reasoned about does not follow"


def _names(body: Body) -> Iterator[str]:
    tools = [tool["name"] for tool in body.get("tools") or [] if tool["type"] == "function"]
    yield from names([(f"tools[{rank}]", name) for rank, name in enumerate(tools)])
    calls = [(at, item["name"]) for at, kind, item in _items(body) if kind == "function_call"]
    yield from names(calls)
    yield from unique_names(tools)


def _tools(body: Body) -> Iterator[str]:
    if "tools" in body and not body["tools"]:
        yield "tools: are empty; leave them out"
    yield from faults_of_choice(body, lambda choice: choice.get("name"))
    for rank, tool in enumerate(body.get("tools") or []):
        if tool["type"] == "function":
            at = f"tools[{rank}].parameters"
            strict = bool(tool["strict"])
            if strict and tool["parameters"] is None:
                yield f"{at}: are missing, and the tool is strict"
            yield from faults_of_parameters(tool["parameters"], at, strict=strict)


def _images(body: Body) -> Iterator[str]:
    for at, kind, item in _items(body):
        content = item.get("output" if kind == "function_call_output" else "content")
        for rank, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] == "input_image":
                yield from faults_of_data_url(part.get("image_url") or "", f"{at}[{rank}]")


def _options(body: Body) -> Iterator[str]:
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options: stands without stream"
    limit = body.get("max_output_tokens")
    if limit is not None and limit < _FEWEST_TOKENS:
        yield f"max_output_tokens: is at least {_FEWEST_TOKENS}"
    asked = (body.get("text") or {}).get("format") or {}
    if asked.get("type") == "json_schema":
        yield from faults_of_output_schema(asked, "text.format")


RULES: Final[tuple[Rule, ...]] = (
    _input,
    _texts,
    _roles,
    _results,
    _ids,
    _arguments,
    _reasoning,
    _names,
    _tools,
    _images,
    _options,
)
