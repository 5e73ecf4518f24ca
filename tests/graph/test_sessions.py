"""Conversations in a store: what comes back, and that neither a race nor an outage loses a turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import product
from typing import Any, cast

import pytest

from loom_ia.core.errors import KeyNotFound, NestedTransaction, StoreError, UnstorableValue
from loom_ia.core.model.content import (
    JsonBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from loom_ia.core.model.messages import Message
from loom_ia.core.ports.store import Store
from loom_ia.graph.errors import CorruptCheckpoint
from loom_ia.graph.sessions import NAMESPACE, append_session, load_session


class FiveMethods:
    """A store in memory that lets others in at each call, and no transaction keeps them out.

    `before` is awaited at the beginning of each call; it may fail it.
    """

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}
        self.before: Callable[[str], Awaitable[None]] | None = None

    async def _enter(self, call: str) -> None:
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(call)

    async def get(self, ns: str, key: str) -> bytes:
        await self._enter("get")
        if (ns, key) not in self.values:
            raise KeyNotFound("nothing under {key}", key=key)
        return self.values[ns, key]

    async def put(self, ns: str, key: str, value: bytes) -> None:
        await self._enter("put")
        self.values[ns, key] = value

    async def delete(self, ns: str, key: str) -> None:
        await self._enter("delete")
        self.values.pop((ns, key), None)

    async def list(self, ns: str, prefix: str = "") -> list[str]:
        await self._enter("list")
        return sorted(key for n, key in self.values if n == ns and key.startswith(prefix))

    def tx(self) -> AbstractAsyncContextManager[Store]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Store]:
        within = Within(self)
        yield within
        await self._enter("commit")
        self.values |= within.written


class Within(FiveMethods):
    """A transaction: what it writes is seen by nobody before its end."""

    def __init__(self, outer: FiveMethods) -> None:
        super().__init__()
        self.values = dict(outer.values)
        self.written: dict[tuple[str, str], bytes] = {}
        self.before = outer.before

    async def put(self, ns: str, key: str, value: bytes) -> None:
        await super().put(ns, key, value)
        self.written[ns, key] = value

    def tx(self) -> AbstractAsyncContextManager[Store]:
        raise NestedTransaction("inside another one")


class Comparing(FiveMethods):
    """The same, that can compare and set."""

    async def compare_and_set(
        self, ns: str, key: str, expected: bytes | None, value: bytes
    ) -> bool:
        await self._enter("put")
        if self.values.get((ns, key)) != expected:
            return False
        self.values[ns, key] = value
        return True


@pytest.fixture(params=[FiveMethods, Comparing])
def store(request: pytest.FixtureRequest) -> FiveMethods:
    """Give each kind of store in turn."""
    kind: type[FiveMethods] = request.param
    return kind()


def said(*texts: str) -> list[Message]:
    """Give what a user said."""
    return [Message(role="user", blocks=(TextBlock(text=text),)) for text in texts]


async def test_pm09_an_unknown_session_is_empty(store: FiveMethods) -> None:
    """A session that nobody wrote to has no message, and reading it writes none."""
    assert await load_session(store, "new") == []
    assert store.values == {}


async def test_messages_come_back_in_order(store: FiveMethods) -> None:
    """Each append gives the new length, and all of them are read in the order of the turns."""
    assert await append_session(store, "s", said("a", "b")) == 2
    assert await append_session(store, "s", said("c")) == 3
    assert await append_session(store, "s", said(*map(str, range(12)))) == 15
    assert await append_session(store, "s", said("z")) == 16
    assert await load_session(store, "s") == said("a", "b", "c", *map(str, range(12)), "z")


async def test_no_message_writes_nothing(store: FiveMethods) -> None:
    """Appending nothing gives the length."""
    await append_session(store, "s", said("a", "b"))
    before = dict(store.values)
    assert await append_session(store, "s", []) == 2
    assert await append_session(store, "new", []) == 0
    assert store.values == before


async def test_w17_calls_and_results_come_back_identical(store: FiveMethods) -> None:
    """Tool calls, their results, reasoning and marks are what they were."""
    call = ToolCallBlock(call_id="c1", name="price", arguments={"ht": 9007199254740993, "x": [1.5]})
    thought = ReasoningBlock(text="hm", model="m", provider_meta={"api": {"signature": "é\u2028"}})
    output = ToolOutput(blocks=(JsonBlock(data={"ttc": None}),), data=[1, True], is_error=True)
    messages = [
        Message(role="user", blocks=(TextBlock(text="\U0001f44d\x00", cache_breakpoint=True),)),
        Message(role="assistant", blocks=(thought, call)),
        Message(role="tool", blocks=(ToolResultBlock(call_id="c1", output=output),)),
    ]
    await append_session(store, "s", messages)
    loaded = await load_session(store, "s")
    assert loaded == messages
    assert [m.model_dump_json() for m in loaded] == [m.model_dump_json() for m in messages]


@pytest.mark.parametrize("call", ["get", "list"])
@pytest.mark.parametrize("error", [StoreError("down"), OSError("down"), RuntimeError("down")])
async def test_w66_an_outage_is_not_an_empty_conversation(
    store: FiveMethods, call: str, error: Exception
) -> None:
    """A store that fails raises, whether or not the session is known, and nothing is lost."""
    await append_session(store, "s", said("a"))

    async def fail(what: str) -> None:
        if what == call:
            raise error

    store.before = fail
    for session_id in ("s", "unknown"):
        with pytest.raises(StoreError) as caught:
            await load_session(store, session_id)
        assert not isinstance(caught.value, KeyNotFound)
        assert caught.value is error or caught.value.__cause__ is error
        with pytest.raises(StoreError):
            await append_session(store, session_id, said("b"))
    store.before = None
    assert await load_session(store, "s") == said("a")


async def test_a_write_that_fails_leaves_the_session(store: FiveMethods) -> None:
    """An append is whole or absent."""
    await append_session(store, "s", said("a"))

    async def fail(what: str) -> None:
        if what in ("put", "commit"):
            raise ConnectionError("gone")

    store.before = fail
    with pytest.raises(StoreError, match="session s: the store failed: gone") as caught:
        await append_session(store, "s", said("b", "c"))
    assert isinstance(caught.value.__cause__, ConnectionError)
    store.before = None
    assert await load_session(store, "s") == said("a")


async def test_w67_turns_at_once_are_all_kept(store: FiveMethods) -> None:
    """Of many appends at once none is lost, and each batch stays together."""
    await append_session(store, "s", said("first"))
    turns = [said(f"{n}a", f"{n}b") for n in range(20)]
    await asyncio.gather(*(append_session(store, "s", turn) for turn in turns))
    first, *loaded = [message.as_text() for message in await load_session(store, "s")]
    assert first == "first"
    assert sorted(loaded) == sorted(f"{n}{part}" for n, part in product(range(20), "ab"))
    assert all(a[:-1] == b[:-1] for a, b in zip(loaded[::2], loaded[1::2], strict=True))
    assert await append_session(store, "s", said("last")) == 42
    assert (await load_session(store, "s"))[-1:] == said("last")


async def test_w67_each_of_the_turns_at_once_is_told_its_length() -> None:
    """Where the store compares and sets, the lengths are those of one turn after the other."""
    store = Comparing()
    lengths = await asyncio.gather(*(append_session(store, "s", said("x")) for _ in range(20)))
    assert sorted(lengths) == list(range(1, 21))


async def test_sessions_never_mix(store: FiveMethods) -> None:
    """Whatever its id, a session has its own messages and no others."""
    ids = ["a", "a/b", "a%2Fb", "a/", "/a", "%", "%25", "_", "a/000000000000", "é", "e\u0301", "A"]
    ids += ["a b", " a", "a\x00", "\ud800", "?", "*", ".", ".."]
    for session_id in ids:
        assert await append_session(store, session_id, said(repr(session_id))) == 1
    for session_id in ids:
        assert await load_session(store, session_id) == said(repr(session_id))


@pytest.mark.parametrize("junk", [b"", b"[", b"{}", b"null", b'[{"role": "x"}]', b"\xff"])
async def test_an_unreadable_batch_is_an_error(store: FiveMethods, junk: bytes) -> None:
    """What cannot be read is neither skipped nor written over."""
    await append_session(store, "s", said("a"))
    (key,) = store.values
    store.values[key] = junk
    with pytest.raises(CorruptCheckpoint, match="session s"):
        await load_session(store, "s")
    with pytest.raises(CorruptCheckpoint):
        await append_session(store, "s", said("b"))
    assert store.values == {key: junk}


async def test_a_missing_batch_is_an_error() -> None:
    """A hole in a conversation is told."""
    store = Comparing()
    for text in "abc":
        await append_session(store, "s", said(text))
    del store.values[NAMESPACE, "s/000000000001"]
    with pytest.raises(CorruptCheckpoint, match="a batch is missing"):
        await load_session(store, "s")


@pytest.mark.parametrize("key", ["s", "s/notes"])
async def test_another_form_is_not_an_empty_conversation(store: FiveMethods, key: str) -> None:
    """What somebody else kept under the session's name is an error, not nothing."""
    store.values[NAMESPACE, key] = b'[{"role": "user", "content": "hello"}]'
    with pytest.raises(CorruptCheckpoint):
        await load_session(store, "s")
    with pytest.raises(CorruptCheckpoint):
        await append_session(store, "s", said("b"))


async def test_a_batch_that_goes_away_while_it_is_read_is_an_error(store: FiveMethods) -> None:
    """A session that is deleted by somebody else is not read by half."""
    await append_session(store, "s", said("a"))

    async def forget(what: str) -> None:
        if what == "get":
            store.values.clear()

    store.before = forget
    with pytest.raises(StoreError, match="went away"):
        await load_session(store, "s")


async def test_a_store_that_always_refuses_is_told() -> None:
    """A store that takes a free key for a taken one does not make an append go on for ever."""

    class Refusing(Comparing):
        async def compare_and_set(
            self, ns: str, key: str, expected: bytes | None, value: bytes
        ) -> bool:
            return False

    with pytest.raises(StoreError, match="does not list it"):
        await append_session(Refusing(), "s", said("a"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
async def test_what_would_not_come_back_is_refused(store: FiveMethods, value: Any) -> None:
    """A message that JSON cannot hold is refused with its place, and so is the whole batch."""
    call = ToolCallBlock(call_id="c1", name="price", arguments={"x": value})
    batch = [*said("a"), Message(role="assistant", blocks=(call,))]
    with pytest.raises(UnstorableValue, match="message 1"):
        await append_session(store, "s", batch)
    assert store.values == {}


async def test_only_messages_are_taken(store: FiveMethods) -> None:
    """A mapping is no message."""
    with pytest.raises(UnstorableValue, match="message 0 is of type dict"):
        await append_session(store, "s", cast("Any", [{"role": "user", "content": "a"}]))


@pytest.mark.parametrize("session_id", ["", None, 7])
async def test_an_id_is_a_text(store: FiveMethods, session_id: Any) -> None:
    """An id that is empty, or no text, is refused."""
    with pytest.raises(ValueError, match="session id"):
        await load_session(store, session_id)
    with pytest.raises(ValueError, match="session id"):
        await append_session(store, session_id, said("a"))
