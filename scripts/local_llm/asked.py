"""A request of the chat API, read and checked before the model is troubled."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from scripts.local_llm.refusal import Refusal, invalid

Schema: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

LONGEST: Final = 256
"""Tokens of an answer when the request gives no limit."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_FIXED: Final = {"n": 1, "logprobs": False, "stop": None, "functions": None}
_SAMPLING: Final = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0)}


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the assistant made, with its arguments as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """A message. `answers` is the id of the call that a tool's message answers."""

    role: Role
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A tool that may be called."""

    name: str
    description: str
    parameters: Schema


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked: `callable` are the tools that may be called now, among `tools`."""

    messages: tuple[Said, ...]
    tools: tuple[Function, ...] = ()
    callable: tuple[Function, ...] = ()
    must_call: bool = False
    schema: Schema | None = None
    longest: int = LONGEST
    sampling: dict[str, float] = field(default_factory=lambda: {"temperature": 0.0})
    stream: bool = False
    with_usage: bool = False


def read(body: object, model: str) -> Asked:
    """Read the body of a request for `model`. Raises `Refusal`."""
    if not isinstance(body, dict):
        raise Refusal(400, "the body must be a JSON object")
    named = body.get("model")
    if not isinstance(named, str):
        raise invalid("model", "you must provide a model parameter")
    if named != model:
        raise Refusal(404, f"the model {named!r} does not exist: {model}", "model_not_found")
    for key, usual in _FIXED.items():
        if body.get(key) not in (None, usual):
            raise invalid(key, f"this server does not support another {key} than {usual!r}")
    tools = tuple(_function(at, tool) for at, tool in enumerate(_list(body, "tools")))
    callable_, must_call = _choice(body.get("tool_choice"), tools)
    options = body.get("stream_options") or {}
    return Asked(
        messages=_messages(_list(body, "messages")),
        tools=tools,
        callable=callable_,
        must_call=must_call,
        schema=_schema(body.get("response_format")),
        longest=_longest(body),
        sampling=_sampling(body),
        stream=bool(body.get("stream")),
        with_usage=isinstance(options, dict) and bool(options.get("include_usage")),
    )


def _list(body: dict[str, Any], key: str) -> list[Any]:
    value = body.get(key)
    if value is None and key != "messages":
        return []
    if not isinstance(value, list) or not value:
        raise invalid(key, f"{key} must be a list that is not empty")
    return value


def _function(at: int, tool: object) -> Function:
    where = f"tools[{at}]"
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or tool.get("type") != "function" or not function:
        raise invalid(where, f"{where} must be a function")
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(f"{where}.function.name", "a name is 1 to 64 letters, digits, _ or -")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise invalid(
            f"{where}.function.parameters",
            f"invalid schema for function {name!r}: it must be of type object",
            "invalid_function_parameters",
        )
    return Function(name, function.get("description") or "", parameters)


def _choice(choice: object, tools: tuple[Function, ...]) -> tuple[tuple[Function, ...], bool]:
    """Give the tools that may be called, and whether one must be."""
    if choice in {None, "auto"} if not isinstance(choice, dict) else False:
        return tools, False
    if not tools:
        raise invalid("tool_choice", "tool_choice is only allowed when tools are given")
    if choice == "none":
        return (), False
    if choice == "required":
        return tools, True
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    named = tuple(tool for tool in tools if tool.name == name)
    if not named:
        raise invalid("tool_choice", f"tool_choice names no tool that is given: {choice!r}")
    return named, True


def _schema(given: object) -> Schema | None:
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, dict) else None
    if isinstance(given, dict) and kind == "json_schema":
        inner = given.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if not isinstance(schema, dict):
            raise invalid("response_format", "response_format.json_schema needs a schema")
        return schema
    if kind == "json_object":
        return {"type": "object"}
    if kind != "text":
        raise invalid("response_format", f"unknown type of response_format: {kind!r}")
    return None


def _longest(body: dict[str, Any]) -> int:
    for key in ("max_completion_tokens", "max_tokens"):
        value = body.get(key)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise invalid(key, f"{key} must be an integer, 1 or more")
        return value
    return LONGEST


def _sampling(body: dict[str, Any]) -> dict[str, float]:
    chosen: dict[str, float] = {"temperature": 0.0}
    for key, (least, most) in _SAMPLING.items():
        value = body.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(key, f"{key} must be a number")
        if not least <= value <= most:
            raise invalid(key, f"{key} must be between {least:g} and {most:g}")
        chosen[key] = value
    seed = body.get("seed")
    return chosen | ({"seed": seed} if type(seed) is int else {})


def _messages(given: Sequence[object]) -> tuple[Said, ...]:
    """Read the conversation: each call is answered, at once, and nothing else is."""
    messages: list[Said] = []
    waiting: dict[str, int] = {}
    for at, message in enumerate(given):
        said = _said(at, message)
        if said.role == "tool":
            if waiting.pop(said.answers, None) is None:
                raise invalid(
                    f"messages[{at}]",
                    "a message of role 'tool' must answer a call of the preceding tool_calls",
                )
        elif waiting:
            break
        waiting |= {call.id: at for call in said.calls}
        messages.append(said)
    if waiting:
        raise invalid(
            f"messages[{min(waiting.values())}]",
            "tool_calls must be followed by a message of role 'tool' for each tool_call_id; "
            f"without one: {', '.join(waiting)}",
        )
    return tuple(messages)


def _said(at: int, message: object) -> Said:
    where = f"messages[{at}]"
    if not isinstance(message, dict):
        raise invalid(where, f"{where} must be an object")
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        raise invalid(f"{where}.role", f"unknown role: {message.get('role')!r}")
    calls = tuple(_call(where, call) for call in message.get("tool_calls") or ())
    if calls and role != "assistant":
        raise invalid(where, "only the assistant makes tool_calls")
    text = _text(f"{where}.content", message.get("content"))
    if message.get("content") is None and not calls:
        raise invalid(f"{where}.content", f"{where} has neither content nor tool_calls")
    return Said(role, text, calls, str(message.get("tool_call_id") or ""))


def _text(where: str, content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    if len(known) != len(parts):
        raise invalid(where, "this model reads text only", "unsupported_value")
    return "\n".join(known)


def _call(where: str, call: object) -> Call:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise invalid(f"{where}.tool_calls", "a call needs an id and a function")
    values = (call.get("id"), function.get("name"), function.get("arguments"))
    if not all(isinstance(value, str) for value in values):
        raise invalid(f"{where}.tool_calls", "the id, name and arguments of a call are texts")
    return Call(*map(str, values))
