"""What a policy may put in the place of what it looked at, checked before it is written."""

from dataclasses import fields
from typing import Final, cast

from loom_ia.core.errors import InvalidDecision, UnstorableValue, text_of
from loom_ia.core.json import JsonObject, storable, storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import RequestChange
from loom_ia.core.model.request import ModelRequest

_FIXED: Final = ("model", "history", "messages", "output_schema", "effort", "language")


def new_request(before: ModelRequest, value: object) -> RequestChange | None:
    """Give what differs in a request, None when nothing does. Raises `InvalidDecision`."""
    if not isinstance(value, ModelRequest):
        raise _unfit(value, "a ModelRequest (dataclasses.replace(subject.request, …))")
    for part in fields(ModelRequest):
        name = part.name
        if name in _FIXED and getattr(value, name) != getattr(before, name):
            raise InvalidDecision("it changed {part} of the request, which is fixed", part=name)
    names = {tool.name for tool in before.tools}
    if any(tool.name not in names for tool in value.tools):
        raise InvalidDecision("it added a tool to the request: only fewer can be offered")
    if value.notes[: len(before.notes)] != before.notes:
        raise InvalidDecision("it changed the notes of the request: only more can be added")
    added = value.notes[len(before.notes) :]
    if any(note.role != "user" for note in added):
        raise InvalidDecision("it added a note that is not a text of the user")
    tools = tuple(tool.name for tool in value.tools)
    change = RequestChange(
        system=None if value.system == before.system else storable_text(value.system),
        tools=None if value.tools == before.tools else tools,
        tool_choice=None if value.tool_choice == before.tool_choice else value.tool_choice,
        max_tokens=None if value.max_tokens == before.max_tokens else value.max_tokens,
        params=None if value.params == before.params else new_arguments(value.params),
        added=tuple(storable_text(note.as_text()) for note in added),
    )
    return change if change.said else None


def new_arguments(value: object) -> JsonObject:
    """Give the arguments of a call, or params of a model. Raises `InvalidDecision`."""
    if not isinstance(value, dict):
        raise _unfit(value, "a dict")
    try:
        safe, _ = storable(cast("JsonObject", value), "arguments")
    except UnstorableValue as error:
        raise InvalidDecision("its arguments cannot be kept: {why}", why=text_of(error)) from error
    return cast("JsonObject", safe)


def new_output(value: object) -> ToolOutput:
    """Give what a tool is said to give. Raises `InvalidDecision`."""
    if isinstance(value, str):
        return ToolOutput.of_text(storable_text(value))
    if not isinstance(value, ToolOutput):
        raise _unfit(value, "a ToolOutput or a text")
    safe, _ = storable(value.model_dump(mode="json"), "output")
    return ToolOutput.model_validate(safe)


def new_message(value: object) -> Message:
    """Give an answer, of a text or of a message of the assistant. Raises `InvalidDecision`."""
    if isinstance(value, str):
        return Message.text("assistant", storable_text(value))
    if not isinstance(value, Message):
        raise _unfit(value, "a text or a Message")
    if value.role != "assistant" or value.calls:
        raise InvalidDecision("it gave a message that is no answer of the assistant")
    safe, _ = storable(value.model_dump(mode="json"), "output")
    return Message.model_validate(safe)


def _unfit(value: object, wanted: str) -> InvalidDecision:
    return InvalidDecision(
        "it replaced by a value of type {type}, where {wanted} is expected",
        type=type(value).__name__,
        wanted=wanted,
    )
