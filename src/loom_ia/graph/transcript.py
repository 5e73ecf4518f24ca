"""The conversation that a state holds, in the forms that authors write it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from loom_ia.core.errors import CallerError
from loom_ia.core.model.messages import Message

_PARTS: Final = ("role", "content", "text", "tool_calls", "tool_call_id", "is_error")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and the text of those that spoke as the system."""

    messages: tuple[Message, ...] = ()
    system: str = ""


def value_of(state: Any, key: str) -> Any:
    """Read a key of a state, a mapping or an instance; None when it is not there."""
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key)
    return getattr(state, key, None)


def conversation(given: object) -> Conversation:
    """Read a list of `Message` or of `{"role", "content"}`. Raises `CallerError` with the place."""
    if given is None:
        return Conversation()
    if not isinstance(given, list | tuple):
        raise CallerError(
            "messages is of type {type}: it is a list of messages", type=type(given).__name__
        )
    found: list[Message] = []
    system: list[str] = []
    for rank, item in enumerate(cast("list[object]", given)):
        match item:
            case Message():
                found.append(item)
            case {"role": "system"}:
                system.append(_content(cast("Mapping[str, Any]", item), rank))
            case Mapping():
                found.append(_message(cast("Mapping[str, Any]", item), rank))
            case _:
                raise CallerError(
                    "messages[{rank}] is of type {type}: it is a Message, or has role and content",
                    rank=rank,
                    type=type(item).__name__,
                )
    return Conversation(tuple(found), "\n\n".join(filter(None, system)))


def _message(item: Mapping[str, Any], rank: int) -> Message:
    unknown = sorted(set(map(str, item)) - set(_PARTS))
    if unknown:
        raise CallerError(
            "messages[{rank}] has {unknown}; a message has {known}",
            rank=rank,
            unknown=", ".join(unknown),
            known=", ".join(_PARTS),
        )
    text = _content(item, rank)
    try:
        return Message(
            item.get("role", ""),
            text,
            item.get("tool_calls") or (),
            item.get("tool_call_id"),
            bool(item.get("is_error")),
        )
    except ValueError as error:
        raise CallerError(
            "messages[{rank}] is not a message: {reason}", rank=rank, reason=error
        ) from error


def _content(item: Mapping[str, Any], rank: int) -> str:
    content = item.get("content", item.get("text"))
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    raise CallerError(
        "messages[{rank}]: its content is of type {type}; it is a text",
        rank=rank,
        type=type(content).__name__,
    )
