"""Keys in the memory of the process, for tests and trials."""

from dataclasses import replace
from datetime import datetime

from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.ports.idempotency import Record


class MemoryIdempotency:
    """Keeps records as long as the process lives."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    async def get(self, key: str, now: datetime) -> Record | None:
        self._drop_old(now)
        return self._records.get(key)

    async def reserve(
        self, reservation: Record, now: datetime, *, instead_of: str | None = None
    ) -> Record | None:
        self._drop_old(now)
        found = self._records.get(reservation.key)
        if found and (found.state == "completed" or found.holder != instead_of):
            return found
        self._records[reservation.key] = reservation
        return None

    async def complete(
        self, key: str, holder: str, result: ToolOutput, expires_at: datetime
    ) -> bool:
        found = self._held(key, holder)
        if found is None:
            return False
        self._records[key] = replace(found, state="completed", result=result, expires_at=expires_at)
        return True

    async def release(self, key: str, holder: str) -> bool:
        if self._held(key, holder) is None:
            return False
        del self._records[key]
        return True

    async def forget(self, tenant_id: TenantId, session_id: SessionId) -> int:
        whose = (tenant_id, session_id)
        gone = [r.key for r in self._records.values() if (r.tenant_id, r.session_id) == whose]
        for key in gone:
            del self._records[key]
        return len(gone)

    async def close(self) -> None:
        pass

    def _held(self, key: str, holder: str) -> Record | None:
        found = self._records.get(key)
        return found if found and found.state == "in_progress" and found.holder == holder else None

    def _drop_old(self, now: datetime) -> None:
        old = [
            r.key for r in self._records.values() if r.state == "completed" and r.expires_at <= now
        ]
        for key in old:
            del self._records[key]
