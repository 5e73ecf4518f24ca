"""What a call is told of effects that were remembered, and what is written of it.

A key is kept in one of two places. In a store, a reservation is held by one launch of one call, and
tells every other run. In the journal, `tool.called` is the reservation, and tells this call alone.
Either way a call that was launched before is not given the right to act by an absence: records
are forgotten in time, and an absence proves nothing.
"""

import logging
from dataclasses import dataclass
from typing import Final

from loom_ia.core.errors import RaceError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.idempotency import IdempotencyRecorded, IdempotencyReused
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.idempotency import (
    Busy,
    CallMemory,
    Claim,
    IdempotencyStore,
    Record,
    Remembered,
    Reserved,
    Unknown,
)
from loom_ia.core.spans import span
from loom_ia.core.state.calls import Call
from loom_ia.engine.perform.context import EffectContext

_RESERVATION_S: Final = 300.0
"""How long a reservation holds when the call may take any time."""

_log = logging.getLogger("loom_ia.engine.tools")


def call_memory(call: Call, tool: ToolSpec, key: str, context: EffectContext) -> CallMemory:
    """Give `call` its memory; `key` identifies the call, however often it is launched."""
    store = context.agent.idempotency
    if store is None:
        return _JournalMemory(call, context)
    return _StoreMemory(call, context, store, key, tool.timeout or _RESERVATION_S)


@dataclass(frozen=True, slots=True)
class _JournalMemory:
    call: Call
    context: EffectContext

    async def claim(self, key: str, *, seconds: float | None = None, again: bool = False) -> Claim:
        known = self.context.run.call(self.call.call_id)
        if known is not None and known.remembered is not None:
            await _tell_reuse(key, self.call, self.context)
            return Remembered(known.remembered)
        return Unknown() if self.call.launches > 1 and not again else Reserved()

    async def complete(self, key: str, result: ToolOutput, *, keep: float) -> None:
        call = self.call
        fact = IdempotencyRecorded(
            key=key, call_id=call.call_id, tool_name=call.name, result=result
        )
        await _tell(fact, self.context, sync=True)

    async def release(self, key: str) -> None:
        pass  # the end of the call says it


@dataclass(frozen=True, slots=True)
class _StoreMemory:
    call: Call
    context: EffectContext
    store: IdempotencyStore
    call_key: str
    seconds: float

    async def claim(self, key: str, *, seconds: float | None = None, again: bool = False) -> Claim:
        now = self.context.pen.log.clock.now()
        if self.call.launches > 1 and not again:
            found = await self.store.get(key, now)
            return Unknown() if found is None else await self._claim_of(found)
        header = self.context.run.header
        ours = Record(
            key,
            "in_progress",
            self._holder,
            header.tenant_id,
            header.session_id,
            now + span(seconds or self.seconds),
        )
        found = await self.store.reserve(ours, now)
        if found is not None and again and self._is_unknown(found):
            found = await self.store.reserve(ours, now, instead_of=found.holder)
        return Reserved() if found is None else await self._claim_of(found)

    async def complete(self, key: str, result: ToolOutput, *, keep: float) -> None:
        until = self.context.pen.log.clock.now() + span(keep)
        if not await self.store.complete(key, self._holder, result, until):
            _log.warning("%s ended after its key was given to another call", self.call.name)

    async def release(self, key: str) -> None:
        await self.store.release(key, self._holder)

    @property
    def _holder(self) -> str:
        return f"{self.call_key}#{self.call.span}"

    async def _claim_of(self, found: Record) -> Claim:
        if found.result is not None:
            await _tell_reuse(found.key, self.call, self.context)
            return Remembered(found.result)
        return Unknown() if self._is_unknown(found) else Busy(found.expires_at)

    def _is_unknown(self, found: Record) -> bool:
        """Whether a reservation is nobody's any more: expired, or of an earlier launch of ours."""
        if found.state == "completed":
            return False
        is_ours = found.holder.startswith(f"{self.call_key}#")
        return is_ours or found.expires_at <= self.context.pen.log.clock.now()


async def _tell_reuse(key: str, call: Call, context: EffectContext) -> None:
    fact = IdempotencyReused(key=key, call_id=call.call_id, tool_name=call.name)
    await _tell(fact, context, sync=False)


async def _tell(fact: Payload, context: EffectContext, *, sync: bool) -> None:
    try:
        await context.pen.write(fact, sync=sync)
    except RaceError as error:  # the driver learns it, and the end of the call says the rest
        _log.info("%s not written: %s", fact.type, type(error).__name__)
