"""From stored lines back to events, refusing damage with its place."""

from collections.abc import Callable, Iterable

from loom_ia.core.errors import JournalCorrupted
from loom_ia.core.events.codec import from_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import SessionId, TenantId

Place = Callable[[int], str]
"""Names where the event of a given place is stored."""


def decode(
    lines: Iterable[bytes | str],
    *,
    tenant_id: TenantId,
    session_id: SessionId,
    first: int,
    place: Place,
) -> list[Event]:
    """Read the lines of a session, which begin at the event `first`.

    Raises `JournalCorrupted` with the place when one is no event or is not the one that is due.
    """
    found: list[Event] = []
    for seq, line in enumerate(lines, first):
        try:
            event = from_line(line, tenant_id=tenant_id, session_id=session_id)
        except JournalCorrupted as error:
            raise corrupted(place(seq), str(error)) from error
        if event.seq != seq:
            raise corrupted(place(seq), f"event {seq} is due, not {event.seq}")
        found.append(event)
    return found


def corrupted(place: str, reason: str) -> JournalCorrupted:
    """Build the error of damage at `place`."""
    return JournalCorrupted(
        "{place}: {reason}; nothing after it was read, restore the file from a copy",
        place=place,
        reason=reason,
    )
