"""A message: who speaks, in which blocks.

Calls and reasoning stand only in what the assistant says, results only in what tools say.
"""

from typing import Literal, Self, TypeAlias

from pydantic import model_validator

from loom_ia.core.model.base import Value
from loom_ia.core.model.content import (
    AnyBlock,
    ArtifactBlock,
    JsonBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    block_text,
)

MessageRole: TypeAlias = Literal["user", "assistant", "tool"]


class Message(Value):
    """One turn of speech, with at least one block."""

    role: MessageRole
    blocks: tuple[AnyBlock, ...]

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

    @classmethod
    def text(cls, role: MessageRole, text: str) -> "Message":
        """Build a message of one text block."""
        return cls(role=role, blocks=(TextBlock(text=text),))

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls that the message asks for, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCallBlock))

    def as_text(self) -> str:
        """Join what a person reads of the message; calls, results and reasoning are left out."""
        return "".join(
            block_text(block)
            for block in self.blocks
            if isinstance(block, TextBlock | JsonBlock | ArtifactBlock)
        )
