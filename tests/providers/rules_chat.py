"""What OpenAI refuses of a chat completion with a 400, and what its imitators choke on."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
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

_SYSTEM: Final = ("system", "developer")
_LONGEST_ID: Final = 40


def _messages(body: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, message in enumerate(body["messages"]):
        yield f"messages[{number}]", message


def _calls(body: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each call of the assistant, with its place."""
    for at, message in _messages(body):
        for rank, call in enumerate(message.get("tool_calls") or []):
            yield f"{at}.tool_calls[{rank}]", call


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _order(body: Body) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"]]
    if not roles:
        yield "messages: there is none"
        return
    if len(roles) > 1 and roles[0] in _SYSTEM and roles[1] not in ("user", *_SYSTEM):
        yield "messages[1]: the first message is the user's"
    if roles[0] not in ("user", *_SYSTEM):
        yield "messages[0]: the first message is the user's, or the system's"
    for number, role in enumerate(roles):
        if number and role in _SYSTEM:
            yield f"messages[{number}]: only the first message may be the {role}'s"
    for number, (before, after) in enumerate(pairwise(roles), 1):
        if before == after == "assistant":
            yield f"messages[{number}]: two messages of the assistant follow each other"


def _contents(body: Body) -> Iterator[str]:
    for at, message in _messages(body):
        if message.get("tool_calls") == []:
            yield f"{at}.tool_calls: is empty; leave it out"
        content = message.get("content")
        if (not content or is_blank(content)) and not _stands_alone(message):
            yield f"{at}: the content is empty"
        for rank, part in enumerate(_parts(message)):
            if part["type"] == "text" and is_blank(part["text"]):
                yield f"{at}.content[{rank}]: the text is empty"


def _stands_alone(message: Mapping[str, Any]) -> bool:
    """Whether a message says something without any content; a tool may have given nothing."""
    gave_nothing = message.get("role") == "tool" and message.get("content") == ""
    return bool(message.get("tool_calls") or message.get("refusal") or gave_nothing)


def _results(body: Body) -> Iterator[str]:
    """Each call has its one result right after the message, in the order of the calls."""
    waiting: list[str] = []
    for at, message in _messages(body):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id not in waiting:
                yield f"{at}: no call right before has the id {call_id}"
            elif waiting[0] != call_id:
                yield f"{at}: the results come in the order of the calls"
            waiting = [each for each in waiting if each != call_id]
            continue
        for call_id in waiting:
            yield f"{at}: the result of {call_id} is missing"
        waiting = [call["id"] for call in message.get("tool_calls") or []]
    for call_id in waiting:
        yield f"messages: the result of {call_id} is missing"


def _ids(body: Body) -> Iterator[str]:
    found = list(_calls(body))
    for at, call in found:
        if not 0 < len(call["id"]) <= _LONGEST_ID:
            yield f"{at}.id: has 1 to {_LONGEST_ID} characters"
    for call_id in twice([call["id"] for _, call in found]):
        yield f"messages: two calls have the id {call_id}"


def _arguments(body: Body) -> Iterator[str]:
    for at, call in _calls(body):
        if not is_object(call["function"]["arguments"]):
            yield f"{at}.function.arguments: are no JSON object"


def _names(body: Body) -> Iterator[str]:
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    yield from names([(f"tools[{rank}]", name) for rank, name in enumerate(tools)])
    yield from names([(at, call["function"]["name"]) for at, call in _calls(body)])
    yield from unique_names(tools)


def _tools(body: Body) -> Iterator[str]:
    if "tools" in body and not body["tools"]:
        yield "tools: are empty; leave them out"
    yield from faults_of_choice(body, lambda choice: choice.get("function", {}).get("name"))
    if "parallel_tool_calls" in body and not body.get("tools"):
        yield "parallel_tool_calls: stands without tools"
    for rank, tool in enumerate(body.get("tools") or []):
        at = f"tools[{rank}].function.parameters"
        function = tool["function"]
        strict = bool(function.get("strict"))
        if strict and "parameters" not in function:
            yield f"{at}: are missing, and the tool is strict"
        yield from faults_of_parameters(function.get("parameters"), at, strict=strict)


def _options(body: Body) -> Iterator[str]:
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options: stands without stream"
    if "max_tokens" in body and "max_completion_tokens" in body:
        yield "max_tokens: stands beside max_completion_tokens"
    for key in ("max_tokens", "max_completion_tokens"):
        given = body.get(key)
        if given is not None and given < 1:
            yield f"{key}: is at least 1"


def _images(body: Body) -> Iterator[str]:
    for at, message in _messages(body):
        for rank, part in enumerate(_parts(message)):
            if part["type"] != "image_url":
                continue
            place = f"{at}.content[{rank}]"
            if message["role"] != "user":
                yield f"{place}: only the user shows an image"
            else:
                yield from faults_of_data_url(part["image_url"]["url"], place)


def _output(body: Body) -> Iterator[str]:
    asked = body.get("response_format") or {}
    if asked.get("type") == "json_schema":
        yield from faults_of_output_schema(asked["json_schema"], "response_format.json_schema")


RULES: Final[tuple[Rule, ...]] = (
    _order,
    _contents,
    _results,
    _ids,
    _arguments,
    _names,
    _tools,
    _options,
    _images,
    _output,
)
