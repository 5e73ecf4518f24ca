"""Making a conversation that grew too long shorter, without breaking it.

A call and its result are never parted: providers refuse a conversation that has one without the
other. Whatever a compactor keeps of such a group, the whole group stays.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from loom_ia.core.errors import CallerError
from loom_ia.core.model.content import ToolCallBlock, ToolResultBlock
from loom_ia.core.model.messages import Message
from loom_ia.graph.running import called
from loom_ia.graph.transcript import conversation


@dataclass(frozen=True, slots=True)
class Compaction:
    """Makes a conversation shorter once a prompt is estimated at more than `over_tokens`.

    `compact(messages)` gives those that replace them, `archive(messages)` is then given those that
    were replaced; both sync (in a thread) or async. What either raises fails the step.
    """

    over_tokens: int
    compact: Callable[[list[Message]], Any]
    archive: Callable[[list[Message]], Any] | None = None

    def __post_init__(self) -> None:
        if self.over_tokens < 0:
            raise ValueError(f"Compaction(over_tokens={self.over_tokens}): it is not negative")

    async def compacted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Ask the compactor, and put together again what it parted."""
        given = await called(self.compact, list(messages))
        if not isinstance(given, list | tuple):
            raise CallerError(
                "compact gave {type}: it gives a list of messages", type=type(given).__name__
            )
        return whole(messages, conversation(cast("list[object]", given)).messages)

    async def archived(self, messages: Sequence[Message]) -> None:
        """Give the archive what was replaced."""
        if self.archive is not None:
            await called(self.archive, list(messages))


def whole(before: Sequence[Message], kept: Sequence[Message]) -> tuple[Message, ...]:
    """Give `kept` with each call beside its result, taking from `before` what is missing.

    What has its other half nowhere is left out. A half that the compactor rewrote stays so.
    """
    known, own = _Units(before), _Units(kept)
    units = [known.of(message) or own.of(message) for message in kept]
    for message, unit in zip(kept, units, strict=True):
        if unit is not None:
            unit.rewrite(message)
    found: list[Message] = []
    for message, unit in zip(kept, units, strict=True):
        if unit is not None:
            found += unit.told()
        elif not message.results:
            found.append(message)
    return tuple(found)


@dataclass(slots=True)
class _Unit:
    """A message that asks for calls, and their results as far as they are known."""

    asking: Message
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])
    is_told: bool = False

    def rewrite(self, message: Message) -> None:
        if message.calls:
            self.asking = message
        self.results.update({result.call_id: result for result in message.results})

    def told(self) -> Iterator[Message]:
        """Give the message, then the result of each of its calls; the first time only."""
        if self.is_told:
            return
        self.is_told = True
        blocks = tuple(
            block
            for block in self.asking.blocks
            if not isinstance(block, ToolCallBlock) or block.call_id in self.results
        )
        if blocks == self.asking.blocks:
            yield self.asking
        elif blocks:
            yield Message(role="assistant", blocks=blocks)
        for block in blocks:
            if isinstance(block, ToolCallBlock):
                yield Message(role="tool", blocks=(self.results[block.call_id],))


class _Units:
    """The units of a conversation. The same message is recognised, or else the id of a call is.

    Ids alone would not do: authors write conversations of which two turns have a call `1`.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._by_message: dict[int, _Unit] = {}
        self._by_call: dict[str, _Unit] = {}
        for message in messages:
            if message.calls:
                unit = self._by_message[id(message)] = _Unit(message)
                self._by_call.update({call.call_id: unit for call in message.calls})
            elif message.results and (unit := self._of_call(message)) is not None:
                self._by_message[id(message)] = unit
                unit.results.update({result.call_id: result for result in message.results})

    def of(self, message: Message) -> _Unit | None:
        """Give the unit that a message is a half of."""
        return self._by_message.get(id(message)) or self._of_call(message)

    def _of_call(self, message: Message) -> _Unit | None:
        ids = [call.call_id for call in message.calls] or [r.call_id for r in message.results]
        return next((self._by_call[one] for one in ids if one in self._by_call), None)
