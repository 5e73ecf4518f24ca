"""A message: who speaks, in which blocks.

Calls and reasoning stand only in what the assistant says, results only in what tools say.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    cast,
    overload,
)

from pydantic import model_validator

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.content import (
    AnyBlock,
    ArtifactBlock,
    JsonBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    block_text,
)
from loom_ia.core.model.short import ShortForm

MessageRole: TypeAlias = Literal["user", "assistant", "tool"]


class CallLike(Protocol):
    """A call that a model asks for, whoever describes it; its id may also be named `call_id`."""

    @property
    def id(self) -> str | None: ...

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...


AnyCall: TypeAlias = CallLike | ToolCallBlock | Mapping[str, Any]


class _Text:
    """`Message.text(role, text)` builds a message of one text; of a message, `text` is its text."""

    @overload
    def __get__(
        self, message: None, owner: type["Message"]
    ) -> "Callable[[MessageRole, str], Message]": ...

    @overload
    def __get__(self, message: "Message", owner: type["Message"]) -> str: ...

    def __get__(self, message: "Message | None", owner: type["Message"]) -> Any:
        if message is None:
            return _of_text
        if message.role == "tool":
            return "\n".join(result.output.text for result in message.results)
        return message.as_text()


class Message(Value, metaclass=ShortForm):
    """One turn of speech, with at least one block.

    In short, `Message(role, text, tool_calls, tool_call_id, is_error)`: calls are for what the
    assistant says, the last two for the result of the call `tool_call_id`, which only a tool says.
    `text`, `tool_calls`, `tool_call_id` and `is_error` read it back.
    """

    role: MessageRole
    blocks: tuple[AnyBlock, ...]

    text: ClassVar[_Text] = _Text()

    if TYPE_CHECKING:

        @overload
        def __init__(self, *, role: MessageRole, blocks: Iterable[AnyBlock]) -> None: ...

        @overload
        def __init__(
            self,
            role: MessageRole,
            text: str = "",
            tool_calls: Iterable[AnyCall] = (),
            tool_call_id: str | None = None,
            is_error: bool = False,
        ) -> None: ...

        def __init__(self, *args: Any, **fields: Any) -> None: ...

    @classmethod
    def long_form(cls, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """Give the role and the blocks of a message that was written in short."""
        return fields if "blocks" in fields and not args else _message(*args, **fields)

    @model_validator(mode="after")
    def _blocks_fit_role(self) -> Self:
        if not self.blocks:
            raise ValueError("a message needs at least one block")
        for block in self.blocks:
            if isinstance(block, ToolResultBlock) != (self.role == "tool"):
                raise ValueError(
                    f"a block of type {block.type} cannot stand in a {self.role} message"
                )
            if isinstance(block, ToolCallBlock | ReasoningBlock) and self.role != "assistant":
                raise ValueError(
                    f"a block of type {block.type} cannot stand in a {self.role} message"
                )
        return self

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls that the message asks for, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCallBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls that the message asks for, by the name of the short form."""
        return self.calls

    @property
    def results(self) -> tuple[ToolResultBlock, ...]:
        """The results that the message tells, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolResultBlock))

    @property
    def tool_call_id(self) -> str | None:
        """The call whose result this is, the first one if there are several."""
        return next((result.call_id for result in self.results), None)

    @property
    def is_error(self) -> bool:
        """Whether a result in it tells what went wrong."""
        return any(result.output.is_error for result in self.results)

    def as_text(self) -> str:
        """Join what a person reads of the message; calls, results and reasoning are left out.

        The name of a file is never glued to what stands beside it.
        """
        said = ""
        beside_file = False
        for block in self.blocks:
            if isinstance(block, TextBlock | JsonBlock | ArtifactBlock):
                is_file = isinstance(block, ArtifactBlock)
                is_apart = not said or said[-1].isspace() or not (is_file or beside_file)
                said += ("" if is_apart else "\n") + block_text(block)
                beside_file = is_file
        return said


def _of_text(role: MessageRole, text: str) -> Message:
    return Message(role=role, blocks=(TextBlock(text=text),))


def _message(
    role: MessageRole,
    text: str = "",
    tool_calls: Iterable[AnyCall] = (),
    tool_call_id: str | None = None,
    is_error: bool = False,
) -> dict[str, Any]:
    calls = tuple(map(_call, tool_calls))
    if role == "tool":
        if not tool_call_id:
            raise ValueError("a tool message needs the id of its call: give it tool_call_id")
        output = ToolOutput.of_text(text, is_error=is_error)
        return {
            "role": role,
            "blocks": (ToolResultBlock(call_id=tool_call_id, output=output), *calls),
        }
    if tool_call_id is not None or is_error:
        raise ValueError(
            f"tool_call_id and is_error are of the result of a call, and a {role} message is none"
        )
    said = (TextBlock(text=text),) if text or not calls else ()
    return {"role": role, "blocks": (*said, *calls)}


def _call(given: AnyCall) -> ToolCallBlock:
    """Read a call, whoever describes it."""
    if isinstance(given, ToolCallBlock):
        return given
    if isinstance(given, Mapping):
        parts = given
    else:
        names = ("id", "call_id", "name", "arguments")
        parts = {name: getattr(given, name) for name in names if hasattr(given, name)}
    call_id = parts.get("id") or parts.get("call_id")
    if not isinstance(call_id, str) or not isinstance(parts.get("name"), str):
        raise ValueError(f"a call of tool_calls needs an id and a name, which are texts: {given!r}")
    arguments = cast("object", parts.get("arguments") or {})
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of the call {call_id} are not an object: {arguments!r}")
    given_arguments = dict(cast("Mapping[str, Any]", arguments))
    return ToolCallBlock(call_id=call_id, name=parts["name"], arguments=given_arguments)


_REPAIR: Final[dict[str, JsonObject]] = {"loom": {"kind": "repair"}}


def repair_message(text: str) -> Message:
    """Make what asks for another answer in the place of one that was refused."""
    return Message(role="user", blocks=(TextBlock(text=text, provider_meta=_REPAIR),))


def is_repair(message: Message) -> bool:
    """Whether a message asks for another answer: the engine says it, not the user."""
    return any("loom" in block.provider_meta for block in message.blocks)
