"""What the stores of this package promise besides: isolation, errors, several of them at once."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from loom_ia.assembly.stores import MemoryStore, SQLiteStore
from loom_ia.core.errors import JournalError, KeyNotFound, NestedTransaction, StoreError
from loom_ia.core.events import EventQuery, StoreChanged
from loom_ia.core.ids import STORE_STREAM
from loom_ia.core.ports.store import Store
from loom_ia.engine.values import JournalStore
from loom_ia.testing import JournalSpy
from tests.adapters.stores.conftest import Opener
from tests.builders import events, started

ROOT = Path(__file__).parents[3]


def _raw(value: bytes) -> Any:
    return bytearray(value)


async def added(store: JournalStore, key: str = "n") -> bool:
    """Add one to a number by compare-and-set, once; tell whether nobody was faster."""
    before = int(await store.get("ns", key))
    await asyncio.sleep(0)
    return await store.compare_and_set("ns", key, b"%d" % before, b"%d" % (before + 1))


def test_they_are_stores() -> None:
    """They have the five methods."""
    assert isinstance(MemoryStore(), Store)


async def test_so10_so15_a_transaction_inside_another_is_refused(store: JournalStore) -> None:
    """The store of a transaction begins none, and goes on; the refusal does not undo it."""
    async with store.tx() as tx:
        await tx.put("ns", "key", b"1")
        with pytest.raises(NestedTransaction) as refusal:
            tx.tx()
        assert type(refusal.value) is NestedTransaction
        with pytest.raises(NestedTransaction):
            async with tx.tx():
                pass
    assert await store.get("ns", "key") == b"1"


async def test_so16_w72_a_missing_key_has_one_error(store: JournalStore) -> None:
    """A key that is not there, never was or no longer is, raises the same, naming it."""
    await store.put("ns", "gone", b"x")
    await store.delete("ns", "gone")
    for ns, key in (("ns", "gone"), ("ns", "never"), ("nowhere", "gone")):
        with pytest.raises(KeyNotFound, match=f"'{key}' in '{ns}'"):
            await store.get(ns, key)
        async with store.tx() as tx:
            with pytest.raises(KeyNotFound, match=f"'{key}' in '{ns}'"):
                await tx.get(ns, key)


async def test_keys_are_listed_in_order(store: JournalStore) -> None:
    """A listing is sorted by code points, in a transaction too."""
    names = ["b", "a", "\U0001f98a", "é", "Z", "a/2", "a/10", "\uffff"]
    for name in names:
        await store.put("ns", name, b"")
    assert await store.list("ns") == sorted(names)
    async with store.tx() as tx:
        await tx.put("ns", "B", b"")
        assert await tx.list("ns") == sorted([*names, "B"])


async def test_w73_values_are_copied_both_ways(store: JournalStore) -> None:
    """Changing what was given, inside a transaction too, changes nothing that is kept."""
    given: Any = bytearray(b"abc")
    await store.put("ns", "one", given)
    given[0] = ord("X")
    assert await store.get("ns", "one") == b"abc"
    view: Any = memoryview(given)[1:]
    await store.put("ns", "view", view)
    assert await store.get("ns", "view") == b"bc"
    async with store.tx() as tx:
        await tx.put("ns", "two", given)
        given[1] = ord("Y")
        assert await tx.get("ns", "two") == b"Xbc"
        given[2] = ord("Z")
    assert await store.get("ns", "two") == b"Xbc"
    assert type(await store.get("ns", "two")) is bytes
    assert await store.compare_and_set("ns", "two", _raw(b"Xbc"), given)
    given[0] = 0
    assert await store.get("ns", "two") == b"XYZ"


@pytest.mark.parametrize("value", ["text", None, 3, [1], {"a": 1}])
async def test_other_values_than_bytes_are_refused(store: JournalStore, value: Any) -> None:
    """What is no bytes is a TypeError where it is given, and nothing is written."""
    with pytest.raises(TypeError, match="bytes"):
        await store.put("ns", "key", value)
    async with store.tx() as tx:
        with pytest.raises(TypeError, match="bytes"):
            await tx.put("ns", "key", value)
    with pytest.raises(TypeError, match="bytes"):
        await store.compare_and_set("ns", "key", None, value)
    assert await store.list("ns") == []


@pytest.mark.parametrize(("ns", "key"), [("ns", 1), (None, "key"), (b"ns", "key")])
async def test_other_keys_than_text_are_refused(store: JournalStore, ns: Any, key: Any) -> None:
    """A key and a namespace are texts, for every method."""
    for refused in (
        store.get(ns, key),
        store.put(ns, key, b""),
        store.delete(ns, key),
        store.list(ns, key),
        store.compare_and_set(ns, key, None, b""),
    ):
        with pytest.raises(TypeError, match="are str"):
            await refused


async def test_w68_the_outer_store_works_inside_a_transaction(store: JournalStore) -> None:
    """It reads and writes beside the transaction, without waiting and without seeing it."""
    async with store.tx() as tx:
        await tx.put("ns", "inside", b"1")
        await store.put("ns", "outside", b"2")
        assert await store.list("ns") == ["outside"]
        async with store.tx() as beside:
            await beside.put("ns", "beside", b"3")
        assert await store.compare_and_set("ns", "outside", b"2", b"4")
        assert await tx.get("ns", "inside") == b"1"
    assert await store.list("ns") == ["beside", "inside", "outside"]
    assert await store.get("ns", "outside") == b"4"


async def test_a_transaction_sees_the_values_of_its_beginning(
    store: JournalStore, other: JournalStore
) -> None:
    """What others change meanwhile, it does not see: neither values, nor keys."""
    for key in ("changed", "removed"):
        await store.put("ns", key, b"before")
    async with store.tx() as tx:
        await other.put("ns", "changed", b"after")
        await other.delete("ns", "removed")
        await store.put("ns", "added", b"after")
        assert await tx.list("ns") == ["changed", "removed"]
        assert await tx.get("ns", "changed") == b"before"
        assert await tx.get("ns", "removed") == b"before"
        with pytest.raises(KeyNotFound):
            await tx.get("ns", "added")
    assert await store.list("ns") == ["added", "changed"]


async def test_a_transaction_is_over_when_it_is_left(store: JournalStore) -> None:
    """Its store refuses everything then, after a commit and after an exception."""
    async with store.tx() as done:
        await done.put("ns", "key", b"1")
    ended: list[Store] = [done]
    with suppress(ZeroDivisionError):
        async with store.tx() as failed:
            ended.append(failed)
            raise ZeroDivisionError
    for tx in ended:
        for late in (tx.get("ns", "key"), tx.put("ns", "key", b"2"), tx.delete("ns", "key")):
            with pytest.raises(StoreError, match="over"):
                await late
        with pytest.raises(StoreError, match="over"):
            await tx.list("ns")
    assert await store.get("ns", "key") == b"1"


@pytest.mark.parametrize("how", ["value", "absence", "listing"])
async def test_w70_a_transaction_that_read_what_changed_is_refused(
    store: JournalStore, other: JournalStore, how: str
) -> None:
    """Nothing of it is written, and the error says to try again; then it works."""
    await store.put("ns", "n", b"1")

    async def add_ten(*, disturbed: bool) -> None:
        async with store.tx() as tx:
            match how:
                case "value":
                    await tx.get("ns", "n")
                case "absence":
                    with pytest.raises(KeyNotFound):
                        await tx.get("ns", "more")
                case _:
                    assert len(await tx.list("ns", "")) > 0
            if disturbed:
                await other.put("ns", "n" if how == "value" else "more", b"5")
            await tx.put("ns", "sum", b"11")

    with pytest.raises(StoreError, match="try again") as refusal:
        await add_ten(disturbed=True)
    assert not isinstance(refusal.value, KeyNotFound)
    with pytest.raises(KeyNotFound):
        await store.get("ns", "sum")
    if how == "absence":
        await other.delete("ns", "more")
    await add_ten(disturbed=False)
    assert await other.get("ns", "sum") == b"11"


async def test_a_transaction_that_only_writes_is_never_refused(
    store: JournalStore, other: JournalStore
) -> None:
    """Where nothing was read nothing can be lost: the last one wins."""
    async with store.tx() as tx:
        await tx.put("ns", "n", b"mine")
        await other.put("ns", "n", b"theirs")
        assert await tx.get("ns", "n") == b"mine"
    assert await other.get("ns", "n") == b"mine"


async def test_a_read_that_comes_true_again_is_no_conflict(
    store: JournalStore, other: JournalStore
) -> None:
    """A value that was changed and changed back is what the transaction read."""
    await store.put("ns", "n", b"1")
    async with store.tx() as tx:
        await tx.get("ns", "n")
        await other.put("ns", "n", b"2")
        await other.put("ns", "n", b"1")
        await tx.put("ns", "done", b"")
    assert await store.list("ns") == ["done", "n"]


async def test_w70_fifty_transactions_lose_no_update(opener: Opener) -> None:
    """Of tasks on two stores that read, wait and write, each adds its part, or is told."""
    stores = [opener(), opener()]
    await stores[0].put("ns", "n", b"0")

    async def add(number: int) -> bool:
        try:
            async with stores[number % 2].tx() as tx:
                before = int(await tx.get("ns", "n"))
                await asyncio.sleep(0)
                await tx.put("ns", "n", b"%d" % (before + 1))
        except StoreError:
            return False
        return True

    outcomes = await asyncio.gather(*(add(n) for n in range(50)))
    assert sum(outcomes) >= 1
    assert int(await stores[0].get("ns", "n")) == sum(outcomes)
    assert int(await stores[1].get("ns", "n")) == sum(outcomes)
    for store in stores:
        await store.aclose()


async def test_w70_fifty_tasks_that_compare_and_set(opener: Opener) -> None:
    """Each of fifty tasks on two stores adds one, however often it has to begin again."""
    stores = [opener(), opener()]
    await stores[1].put("ns", "n", b"0")

    async def add(number: int) -> None:
        while not await added(stores[number % 2]):
            pass

    await asyncio.gather(*(add(n) for n in range(50)))
    assert await stores[0].get("ns", "n") == b"50"
    for store in stores:
        await store.aclose()


async def test_one_of_fifty_creates_a_key(opener: Opener) -> None:
    """Where fifty tasks set a key if it is absent, exactly one is told that it did."""
    stores = [opener(), opener()]
    won = await asyncio.gather(
        *(stores[n % 2].compare_and_set("ns", "key", None, b"%d" % n) for n in range(50))
    )
    assert sum(won) == 1
    assert await stores[0].get("ns", "key") == b"%d" % won.index(True)
    for store in stores:
        await store.aclose()


async def test_compare_and_set_sees_what_others_wrote(
    store: JournalStore, other: JournalStore
) -> None:
    """It compares with the value that is kept now, not with the one seen last."""
    assert await store.compare_and_set("ns", "key", None, b"1")
    assert not await other.compare_and_set("ns", "key", None, b"2")
    assert not await other.compare_and_set("ns", "key", b"", b"2")
    assert await other.compare_and_set("ns", "key", b"1", b"2")
    assert not await store.compare_and_set("ns", "key", b"1", b"3")
    await other.delete("ns", "key")
    assert not await store.compare_and_set("ns", "key", b"2", b"3")
    assert await store.compare_and_set("ns", "key", None, b"")
    assert await other.get("ns", "key") == b""


async def test_two_stores_share_their_values(store: JournalStore, other: JournalStore) -> None:
    """What one writes or removes the other reads at once."""
    for n in range(3):
        await store.put("ns", f"k{n}", b"1")
        assert await other.get("ns", f"k{n}") == b"1"
        await other.put("ns", f"k{n}", b"2")
        assert await store.get("ns", f"k{n}") == b"2"
    await other.delete("ns", "k0")
    assert await store.list("ns") == ["k1", "k2"]


async def test_many_tasks_write_without_loss(opener: Opener) -> None:
    """Two hundred writes at once, from two stores, are all there."""
    stores = [opener(), opener()]
    await asyncio.gather(
        *(stores[n % 2].put("ns", f"k{n:03}", b"%d" % n) for n in range(200)),
        *(stores[n % 2].delete("ns", f"k{n:03}") for n in range(200, 220)),
    )
    for store in stores:
        assert await store.list("ns") == [f"k{n:03}" for n in range(200)]
        await store.aclose()


async def test_a_transaction_is_one_event(store: JournalStore) -> None:
    """All its changes are one fact of the reserved stream; reading and rolling back write none."""
    async with store.tx() as tx:
        for n in range(5):
            await tx.put("ns", f"k{n}", b"x")
        await tx.delete("ns", "k0")
    async with store.tx() as tx:
        await tx.get("ns", "k1")
    await store.delete("ns", "nowhere")
    (event,) = await store.journal.read("default", STORE_STREAM)
    assert isinstance(event.payload, StoreChanged)
    assert len(event.payload.changes) == 5
    assert event.payload.CONTENT == ("changes",)


async def test_runs_share_the_journal_of_the_store(store: JournalStore) -> None:
    """Sessions and values stand beside each other, and neither shows in the other."""
    await store.put("ns", "key", b"secret")
    journal = store.journal
    run = [started("run-1", tenant_id="default")]
    await journal.append(run, expected=0, sync=True)
    await store.put("ns", "key2", b"more")
    assert [e.session_id for e in (await journal.sessions("default")).sessions] == ["run-1"]
    assert await journal.query(EventQuery("default")) == run
    assert await store.list("ns") == ["key", "key2"]


async def test_values_outlive_their_store(opener: Opener) -> None:
    """A store that is opened later finds what another one kept."""
    first = opener()
    await first.put("ns", "key", b"kept")
    await first.delete("ns", "nothing")
    if not first.journal.durable:
        return
    await first.aclose()
    async with opener() as second:
        assert await second.get("ns", "key") == b"kept"


async def test_a_closed_store_refuses_everything(opener: Opener) -> None:
    """Reading, writing and beginning a transaction are a StoreError then; closing again is fine."""
    store = opener()
    async with store as opened:
        assert opened is store
        await opened.put("ns", "key", b"x")
    await store.aclose()
    for late in (
        store.get("ns", "key"),
        store.put("ns", "key", b"y"),
        store.delete("ns", "key"),
        store.list("ns"),
        store.compare_and_set("ns", "key", None, b"y"),
        store.open(),
    ):
        with pytest.raises(StoreError, match="closed") as refusal:
            await late
        assert not isinstance(refusal.value, KeyNotFound)
    with pytest.raises(StoreError, match="closed"):
        async with store.tx():
            pass


async def test_closing_inside_a_transaction_makes_its_commit_fail(opener: Opener) -> None:
    """What cannot be written any more is told, not dropped."""
    store = opener()

    async def close_inside() -> None:
        async with store.tx() as tx:
            await tx.put("ns", "key", b"x")
            await store.aclose()

    with pytest.raises(StoreError, match="closed"):
        await close_inside()


async def test_w71_opening_creates_the_file_and_checks_it(tmp_path: Path) -> None:
    """After `open` the file is there; building the store touches nothing."""
    store = SQLiteStore(tmp_path / "deep" / "values.db")
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - no thread for one look
    await store.open()
    assert (tmp_path / "deep" / "values.db").exists()
    await store.open()
    await store.aclose()


@pytest.mark.parametrize("fault", ["a folder", "no database", "under a file"])
async def test_w71_a_file_that_cannot_be_opened_is_told(tmp_path: Path, fault: str) -> None:
    """At `open` or at the first use, the error is a StoreError that names the path."""
    path = tmp_path / "values.db"
    match fault:
        case "a folder":
            path.mkdir()
        case "no database":
            path.write_bytes(b"this is no database, and long enough to be taken for one" * 50)
        case _:
            (tmp_path / "file").touch()
            path = tmp_path / "file" / "values.db"
    uses: list[Callable[[SQLiteStore], Awaitable[object]]] = [
        lambda store: store.open(),
        lambda store: store.get("ns", "key"),
        lambda store: store.put("ns", "key", b"x"),
        lambda store: store.list("ns"),
    ]
    for use in uses:
        store = SQLiteStore(path)
        with pytest.raises(StoreError, match=str(path)) as refusal:
            await use(store)
        assert not isinstance(refusal.value, KeyNotFound)
        assert isinstance(refusal.value.__cause__, JournalError)
        await store.aclose()


class _Broken(JournalSpy):
    """A journal that stops answering."""

    broken = False

    async def read(self, *args: Any, **kwargs: Any) -> Any:
        if self.broken:
            raise KeyError("a bug of the driver")
        return await super().read(*args, **kwargs)

    async def append(self, *args: Any, **kwargs: Any) -> Any:
        if self.broken:
            raise OSError("the line is cut")
        return await super().append(*args, **kwargs)


async def test_an_outage_is_never_a_missing_key(store: JournalStore) -> None:
    """Whatever the backend raises comes out as a StoreError with its cause; then it works again."""
    journal = _Broken(store.journal)
    cut = JournalStore(journal, name="the store of the test")
    await cut.put("ns", "key", b"1")
    journal.broken = True
    with pytest.raises(StoreError, match="the store of the test") as reading:
        await cut.get("ns", "key")
    with pytest.raises(StoreError, match="the line is cut") as writing:
        await cut.put("ns", "key", b"2")
    with pytest.raises(StoreError):
        async with cut.tx():
            pass
    assert not isinstance(reading.value, KeyNotFound)
    assert isinstance(reading.value.__cause__, KeyError)
    assert isinstance(writing.value.__cause__, OSError)
    journal.broken = False
    assert await cut.get("ns", "key") == b"1"


async def test_a_foreign_event_in_the_stream_is_told(store: JournalStore) -> None:
    """A stream that holds something else is not guessed around."""
    strange = events(1, session_id=STORE_STREAM, tenant_id="default")
    await store.journal.append(strange, expected=0, sync=True)
    with pytest.raises(StoreError, match=r"message\.user"):
        await store.get("ns", "key")


async def test_an_erased_stream_begins_again(store: JournalStore, other: JournalStore) -> None:
    """Who writes after the stream was erased starts anew, without what it held."""
    await store.put("ns", "old", b"1")
    await other.put("ns", "older", b"1")
    await other.journal.delete("default", STORE_STREAM)
    await store.put("ns", "new", b"2")
    assert await store.list("ns") == ["new"]


async def test_a_read_reads_only_what_follows(store: JournalStore) -> None:
    """A store that is up to date asks for the tail, and receives nothing."""
    spy = JournalSpy(store.journal)
    counted = JournalStore(spy)
    for n in range(5):
        await counted.put("ns", f"k{n}", b"x")
    assert spy.counts.reads == 0
    assert spy.counts.appends == 5
    assert await counted.list("ns") == [f"k{n}" for n in range(5)]
    assert spy.counts.reads == 1


async def test_a_store_serves_one_loop_after_the_other(opener: Opener) -> None:
    """A store can be used by loops that follow each other, as in a notebook."""
    store = MemoryStore()

    async def crowd() -> None:
        await asyncio.gather(*(store.put("ns", f"{n}", b"x") for n in range(20)))

    await asyncio.to_thread(asyncio.run, crowd())
    await asyncio.to_thread(asyncio.run, crowd())
    assert len(await store.list("ns")) == 20


async def _adder(path: Path, *arguments: object) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.adapters.stores.adder", str(path)),
        *map(str, arguments),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
    )


async def test_two_processes_on_one_file(tmp_path: Path) -> None:
    """Two processes that add to one number, by transactions and by comparing, lose nothing."""
    path = tmp_path / "values.db"
    async with SQLiteStore(path) as store:
        await store.put("ns", "n", b"0")
        adders = [await _adder(path, name, 40) for name in ("a", "b")]
        for adder in adders:
            _, complaint = await adder.communicate()
            assert adder.returncode == 0, complaint.decode()
        assert await store.get("ns", "n") == b"160"
        assert len(await store.list("done", "a/")) == 40
        assert len(await store.list("done", "b/")) == 40
