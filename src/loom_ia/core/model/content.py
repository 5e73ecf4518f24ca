"""What a message is made of: typed blocks that belong to no provider.

File bytes never stand in a block that is stored: a file is a reference to an artifact.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from loom_ia.core.json import JsonObject, JsonValue, readable
from loom_ia.core.model.artifacts import NewFile
from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.session_state import StateRefusal


class Block(Value):
    """What every block may carry: a cache mark, and what its provider wants back untouched."""

    cache_breakpoint: bool = sparse(False)
    provider_meta: dict[str, JsonObject] = sparse({})


class TextBlock(Block):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class JsonBlock(Block):
    """A JSON document."""

    type: Literal["json"] = "json"
    data: JsonValue


class ArtifactBlock(Block):
    """A file by reference: `artifact://<tenant>/<session>/<sha256>.<ext>`, `size` in bytes."""

    type: Literal["artifact"] = "artifact"
    uri: str
    media_type: str
    size: int
    name: str = sparse("")


class ReasoningBlock(Block):
    """What a model thought, with the only model that may read it again.

    `model` is the name in the configuration and `model_id` the provider's. What the provider
    wants back beside the text, a signature or a sealed content, stands in `provider_meta`, under
    the name of its API.
    """

    type: Literal["reasoning"] = "reasoning"
    text: str
    model: str = sparse("")
    model_id: str = sparse("")


class ToolCallBlock(Block):
    """A call that the model asks for, with arguments as it wrote them."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments: JsonObject = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the call, by the name that callers give it."""
        return self.call_id


OutputBlock: TypeAlias = Annotated[
    TextBlock | JsonBlock | ArtifactBlock, Field(discriminator="type")
]


class ToolOutput(Value):
    """What a tool gave back: blocks for the model, `data` for code.

    When there are no blocks the model reads `data`, which is then stored once.

    `is_error` marks a result that tells the model what went wrong; `mended` lists the paths whose
    text the journal could not hold as it was. `offloaded` is the address of the whole result when
    only its beginning is shown. `files` were just made: they are stored and then stand in `blocks`
    by their address, so that they are never written here.

    `state` has what is to be kept in the state of the session, by key; null erases. Once the call
    is over it has what was kept, and `state_refused` what was not, which the model is told.

    `unverified` tells that what a role gave did not pass its checks, `fallback` that it is the text
    to be given in that case.
    """

    blocks: tuple[OutputBlock, ...] = sparse(())
    data: JsonValue = Field(default=None, exclude_if=lambda value: value is None)
    is_error: bool = sparse(False)
    mended: tuple[str, ...] = sparse(())
    offloaded: str = sparse("")
    files: tuple[NewFile, ...] = Field(default=(), exclude=True)
    state: dict[str, JsonValue] = sparse({})
    state_refused: tuple[StateRefusal, ...] = sparse(())
    unverified: bool = sparse(False)
    fallback: bool = sparse(False)

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False) -> "ToolOutput":
        """Wrap `text`; empty text gives no block."""
        return cls(blocks=(TextBlock(text=text),) if text else (), data=None, is_error=is_error)

    @classmethod
    def of_error(cls, text: str) -> "ToolOutput":
        """Wrap a sentence that tells the model what went wrong."""
        return cls(blocks=(TextBlock(text=text),), data=None, is_error=True)

    @property
    def shown(self) -> tuple[OutputBlock, ...]:
        """What a model reads: the blocks, or else `data` as a document."""
        if self.blocks or self.data is None:
            return self.blocks
        return (JsonBlock(data=self.data),)

    @property
    def text(self) -> str:
        """The text of what is shown, JSON documents included, one per line."""
        return "\n".join(block_text(block) for block in self.shown)


class ToolResultBlock(Block):
    """The result of the call `call_id`."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    output: ToolOutput


AnyBlock: TypeAlias = Annotated[
    TextBlock | JsonBlock | ArtifactBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock,
    Field(discriminator="type"),
]


def block_text(block: TextBlock | JsonBlock | ArtifactBlock) -> str:
    """Read a block as a person would."""
    match block:
        case TextBlock():
            return block.text
        case JsonBlock():
            return readable(block.data)
        case ArtifactBlock():
            return block.name or block.uri
