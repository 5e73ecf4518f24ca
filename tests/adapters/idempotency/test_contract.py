"""What every store of keys does, whatever it is made of."""

import asyncio
from datetime import UTC, datetime, timedelta

from loom_ia.core.model import ToolOutput
from loom_ia.core.ports import IdempotencyStore, Record

NOW = datetime(2026, 1, 1, 9, 0, 0, 123456, UTC)
SOON = NOW + timedelta(seconds=30)
LATER = NOW + timedelta(days=1)
SENT = ToolOutput(data={"sent": True, "to": "élise"})


def reservation(key: str = "k", holder: str = "a", session_id: str = "s") -> Record:
    """Make a reservation that holds until `SOON`."""
    return Record(key, "in_progress", holder, "t", session_id, SOON)


async def test_an_unknown_key(store: IdempotencyStore) -> None:
    """A key that nobody reserved has no record."""
    assert await store.get("k", NOW) is None


async def test_a_reservation_comes_back_as_it_was(store: IdempotencyStore) -> None:
    """A reservation is read with all that it was made of, and stands in the way of another."""
    assert await store.reserve(reservation(), NOW) is None
    assert await store.get("k", NOW) == reservation()
    assert await store.reserve(reservation(holder="b"), NOW) == reservation()
    assert await store.reserve(reservation("other", "b"), NOW) is None


async def test_a_completed_record(store: IdempotencyStore) -> None:
    """What was completed gives its result, to its own holder and to others."""
    await store.reserve(reservation(), NOW)
    assert await store.complete("k", "a", SENT, LATER)
    found = await store.get("k", NOW)
    assert found == Record("k", "completed", "a", "t", "s", LATER, SENT)
    for holder in ("a", "b"):
        assert await store.reserve(reservation(holder=holder), NOW, instead_of="a") == found


async def test_a_completed_record_out_of_its_time(store: IdempotencyStore) -> None:
    """A result is given until its time, then its key is as free as a new one."""
    await store.reserve(reservation(), NOW)
    await store.complete("k", "a", SENT, LATER)
    assert await store.get("k", LATER - timedelta(microseconds=1)) is not None
    assert await store.get("k", LATER) is None
    assert await store.reserve(reservation(holder="b"), LATER) is None


async def test_an_expired_reservation_is_told(store: IdempotencyStore) -> None:
    """A reservation whose time is over stays: nobody knows what became of it."""
    await store.reserve(reservation(), NOW)
    assert await store.get("k", LATER) == reservation()
    assert await store.reserve(reservation(holder="b"), LATER) == reservation()


async def test_only_the_holder_completes(store: IdempotencyStore) -> None:
    """Whoever does not hold a key changes nothing of it."""
    assert not await store.complete("k", "a", SENT, LATER)
    await store.reserve(reservation(), NOW)
    assert not await store.complete("k", "b", SENT, LATER)
    assert await store.get("k", NOW) == reservation()
    assert await store.complete("k", "a", SENT, LATER)
    assert not await store.complete("k", "a", ToolOutput.of_text("twice"), LATER)


async def test_only_the_holder_releases(store: IdempotencyStore) -> None:
    """A key is free again once its holder says so, and only then."""
    await store.reserve(reservation(), NOW)
    assert not await store.release("k", "b")
    assert await store.get("k", NOW) is not None
    assert await store.release("k", "a")
    assert await store.get("k", NOW) is None
    assert not await store.release("k", "a")


async def test_what_was_done_is_not_released(store: IdempotencyStore) -> None:
    """A completed record stays, even for its own holder."""
    await store.reserve(reservation(), NOW)
    await store.complete("k", "a", SENT, LATER)
    assert not await store.release("k", "a")
    assert await store.get("k", NOW) is not None


async def test_a_reservation_is_replaced_by_name(store: IdempotencyStore) -> None:
    """Only who names the present holder takes its place, and that one has no more say."""
    await store.reserve(reservation(), NOW)
    other = reservation(holder="b")
    assert await store.reserve(other, NOW, instead_of="z") == reservation()
    assert await store.reserve(other, NOW, instead_of="a") is None
    assert await store.get("k", NOW) == other
    assert not await store.complete("k", "a", SENT, LATER)
    assert not await store.release("k", "a")
    assert await store.reserve(reservation(holder="c"), NOW, instead_of="a") == other


async def test_one_of_many_reserves(store: IdempotencyStore) -> None:
    """Of many that ask at once, one has the key, and all others see who."""
    asked = [store.reserve(reservation(holder=f"h{n}"), NOW) for n in range(20)]
    found = await asyncio.gather(*asked)
    (winner,) = {record.holder for record in found if record is not None}
    assert found.count(None) == 1
    assert found[int(winner[1:])] is None


async def test_forgetting_a_session(store: IdempotencyStore) -> None:
    """The keys of a session go, completed or not, and those of others stay."""
    for key, session_id in (("a", "s"), ("b", "s"), ("c", "other")):
        await store.reserve(reservation(key, session_id=session_id), NOW)
    await store.complete("a", "a", SENT, LATER)
    assert await store.forget("t", "s") == 2
    assert await store.forget("t", "s") == 0
    assert await store.forget("u", "other") == 0
    assert await store.get("a", NOW) is None
    assert await store.get("c", NOW) is not None
