"""What was done under a key, so that it is not done twice.

Two ports. A store keeps records for any number of runs; it is given the time and draws no token.
A `CallMemory` is what one call of a tool sees of it: the engine knows whose call it is, until when
a reservation holds, and what is written of it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.content import ToolOutput

RecordState: TypeAlias = Literal["in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class Record:
    """One key. A reservation `in_progress` that is past `expires_at` tells of an unknown effect.

    `holder` names the launch that reserved it, and `expires_at` is in UTC: the end of the
    reservation, or of the time for which a completed record is kept.
    """

    key: str
    state: RecordState
    holder: str
    tenant_id: TenantId
    session_id: SessionId
    expires_at: datetime
    result: ToolOutput | None = None


class IdempotencyStore(Protocol):
    """Keeps records. Every adapter passes the same contract suite.

    Each operation is atomic, and what it wrote survives a power cut when it returns, if the store
    outlives the process. A completed record past its time is as if it were not there; an expired
    reservation stays, for nobody knows what became of it. All raise `IdempotencyStoreError`.
    """

    async def get(self, key: str, now: datetime) -> Record | None:
        """Give the record of `key`."""
        ...

    async def reserve(
        self, reservation: Record, now: datetime, *, instead_of: str | None = None
    ) -> Record | None:
        """Write `reservation` unless its key has a record, expired or not; give that one then.

        A reservation that the holder `instead_of` has, and has not completed, is replaced.
        """
        ...

    async def complete(
        self, key: str, holder: str, result: ToolOutput, expires_at: datetime
    ) -> bool:
        """Keep the result until `expires_at`; False, and nothing, when `holder` has no more say."""
        ...

    async def release(self, key: str, holder: str) -> bool:
        """Remove a reservation; False, and nothing, when `holder` has no more say."""
        ...

    async def forget(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove the records of a session, so that nothing of them can be read in the store."""
        ...

    async def close(self) -> None:
        """Let go of everything; closing twice does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Reserved:
    """Nobody did it: it is now the call's to do."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """It was done, and this is what it gave. The journal says already that it was reused."""

    output: ToolOutput


@dataclass(frozen=True, slots=True)
class Busy:
    """Another call is doing it, until `until` at the latest."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Unknown:
    """It was begun and nobody saw its end: it may have been done."""


Claim: TypeAlias = Reserved | Remembered | Busy | Unknown


class CallMemory(Protocol):
    """What one call of a tool may ask and tell about effects, each under a key of its choice."""

    async def claim(self, key: str, *, seconds: float | None = None, again: bool = False) -> Claim:
        """Ask for the right to act, held for `seconds` (by default the time that the call has).

        A call that was launched before is never given it, unless `again`: the caller knows that
        an effect whose end is unknown may happen now. Raises `IdempotencyStoreError`.
        """
        ...

    async def complete(self, key: str, result: ToolOutput, *, keep: float) -> None:
        """Tell that it was done, to be remembered for `keep` seconds."""
        ...

    async def release(self, key: str) -> None:
        """Tell that it was not done, and that whoever wants may try again."""
        ...
