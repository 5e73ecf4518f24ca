"""What was said in one run, with a digest for each message.

Digests form a chain: each covers its message and all those before it, so that the digest of a
long conversation costs only its last message. Changing a message recomputes the chain from there.
"""

from dataclasses import dataclass
from hashlib import sha256

from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.messages import Message


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages of a run in the order in which the model reads them."""

    messages: tuple[Message, ...] = ()
    digests: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Identify everything said so far; empty when nothing was."""
        return self.digests[-1] if self.digests else ""

    def add(self, message: Message) -> "Conversation":
        """Say one more thing."""
        return Conversation((*self.messages, message), (*self.digests, chain(self.digest, message)))

    def with_arguments(self, call_id: CallId, arguments: JsonObject) -> "Conversation":
        """Rewrite the arguments of the latest call `call_id`, as the model will read them."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if any(call.call_id == call_id for call in message.calls):
                return self._replace(index, _with_arguments(message, call_id, arguments))
        return self

    def with_last(self, message: Message) -> "Conversation":
        """Put a message in the place of the last one."""
        return self._replace(len(self.messages) - 1, message)

    def _replace(self, index: int, message: Message) -> "Conversation":
        kept = Conversation(self.messages[:index], self.digests[:index]).add(message)
        for later in self.messages[index + 1 :]:
            kept = kept.add(later)
        return kept


def chain(before: str, message: Message) -> str:
    """Give the digest that follows `before` once `message` is said."""
    return chain_text(before, message.model_dump_json())


def chain_text(before: str, text: str) -> str:
    """Give the digest that follows `before` once `text` is added; 32 hexadecimal digits."""
    return sha256(f"{before}\n{text}".encode("utf-8", "replace")).hexdigest()[:32]


def _with_arguments(message: Message, call_id: CallId, arguments: JsonObject) -> Message:
    blocks = tuple(
        block.model_copy(update={"arguments": arguments})
        if isinstance(block, ToolCallBlock) and block.call_id == call_id
        else block
        for block in message.blocks
    )
    return message.model_copy(update={"blocks": blocks})
