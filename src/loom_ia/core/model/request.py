"""What is asked of a model, in no provider's words."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.messages import Message
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.prompts import Language

ToolChoice: TypeAlias = Literal["auto", "none", "required"]
Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model.

    Messages come in three parts that share their content by reference, so that a call costs what
    is new: `history` (earlier runs of the session), `messages` (this run), `notes` (added for this
    call alone, never journalled). `max_tokens` and `params` go to the provider as they are.
    `output_schema` is what the answer must fit, for a model that follows it by itself. `effort` is
    how much it may think, for a provider that takes that; None leaves it to `params`. `language`
    is the one of the few texts that an adapter puts in the place of what a model cannot read.
    """

    model: str
    system: str
    history: tuple[Message, ...]
    messages: tuple[Message, ...]
    notes: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_tokens: int | None = None
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    output_schema: JsonObject | None = None
    effort: Effort | None = None
    language: Language = "en"

    def conversation(self) -> Iterator[Message]:
        """Give every message in order."""
        return chain(self.history, self.messages, self.notes)

    def conversation_backwards(self) -> Iterator[Message]:
        """Give every message, the last one first."""
        return chain(reversed(self.notes), reversed(self.messages), reversed(self.history))
