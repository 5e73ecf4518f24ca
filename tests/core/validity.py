"""The rules that every provider has for a conversation, checked together and strictly."""

from collections.abc import Iterable

from loom_ia.core.model import Message, ReasoningBlock, TextBlock, ToolResultBlock
from loom_ia.core.model.content import AnyBlock


def faults(history: Iterable[Message], *, reasoning: bool = False) -> list[str]:
    """Say what a strict provider would refuse; reasoning is refused unless it is allowed."""
    messages = list(history)
    found: list[str] = []
    if messages and messages[0].role != "user":
        found.append(f"it begins with {messages[0].role}")
    for at, message in enumerate(messages):
        found += [f"{at}: {fault}" for fault in _block_faults(message.blocks, reasoning=reasoning)]
        asked = [call.call_id for call in message.calls]
        after = messages[at + 1] if at + 1 < len(messages) else None
        if asked and (after is None or after.role != "tool"):
            found.append(f"{at}: calls without results")
        if message.role == "tool":
            before = [call.call_id for call in messages[at - 1].calls] if at else []
            given = [b.call_id for b in message.blocks if isinstance(b, ToolResultBlock)]
            if given != before:
                found.append(f"{at}: results of {given} follow calls of {before}")
        if len(set(asked)) != len(asked):
            found.append(f"{at}: an id is used twice")
        if message.role == "assistant" and at and messages[at - 1].role == "assistant":
            found.append(f"{at}: the assistant speaks twice")
    return found


def _block_faults(blocks: tuple[AnyBlock, ...], *, reasoning: bool) -> list[str]:
    found = [] if blocks else ["no block"]
    for block in blocks:
        match block:
            case TextBlock() if not block.text.strip():
                found.append("an empty text")
            case ReasoningBlock() if not reasoning:
                found.append("reasoning")
            case ToolResultBlock() if not block.output.blocks:
                found.append(f"an empty result of {block.call_id}")
            case _:
                pass
    return found
