"""The conversation of a session, kept in a store between runs.

Law. A conversation only grows: a batch of messages is one value under a key of its own, which is
never written again. So an append is whole or absent, two at once lose nothing, and what cannot be
read is an error, never an empty conversation that the next turn would go on from.

In the namespace `session`, the batch that begins at message `n` of a session has the key
`<id>/<n in 12 digits>`, the id being percent-encoded. A store that cannot compare and set may admit
two batches at one place: there, the key ends in a point and some chance.
"""

import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from pydantic import TypeAdapter

from loom_ia.core.errors import UnstorableValue
from loom_ia.core.model.messages import Message
from loom_ia.core.ports.store import Store
from loom_ia.graph.errors import CorruptCheckpoint, KeyNotFound, StoreError

NAMESPACE: Final = "session"

_PLACE: Final = re.compile(r"([0-9]{12})(\.[0-9a-f]+)?")
_BATCH: Final = TypeAdapter(list[Message])

CompareAndSet: TypeAlias = Callable[[str, str, bytes | None, bytes], Awaitable[bool]]


class _Key(NamedTuple):
    """Where a batch is kept: the number of its first message; `shared` when others may be there."""

    start: int
    name: str
    shared: bool


async def load_session(store: Store, session_id: str) -> list[Message]:
    """Give all messages of a session, in order; none when it is unknown.

    Raises `StoreError` when the store fails, `CorruptCheckpoint` for what cannot be read.
    """
    with _outside(session_id):
        messages: list[Message] = []
        keys = await _keys(store, session_id)
        may_overlap = any(key.shared for key in keys)
        for key in keys:
            if not may_overlap and key.start != len(messages):
                raise CorruptCheckpoint(
                    "session {session_id}: {key} begins at message {start}, and {count} stand"
                    " before it: a batch is missing",
                    session_id=session_id,
                    key=key.name,
                    start=key.start,
                    count=len(messages),
                )
            messages += await _batch(store, session_id, key)
        return messages


async def append_session(store: Store, session_id: str, messages: Sequence[Message]) -> int:
    """Add messages to the end of a session, all or none; gives how many it then has.

    Two appends at once are both kept, one after the other. Where the store can neither compare and
    set nor keep its transactions apart, the number may leave out what was added at the same time.
    Raises `StoreError` when the store fails, `CorruptCheckpoint` when the end of the session cannot
    be read, and `UnstorableValue` for a message that would not come back as it is.
    """
    value = _encoded(session_id, messages)
    with _outside(session_id):
        if not messages:
            return await _length(store, session_id, await _keys(store, session_id))
        compare_and_set = getattr(store, "compare_and_set", None)
        if compare_and_set is None:
            start = await _put(store, session_id, value)
        else:
            start = await _compare_and_put(store, session_id, value, compare_and_set)
        return start + len(messages)


async def _compare_and_put(
    store: Store, session_id: str, value: bytes, compare_and_set: CompareAndSet
) -> int:
    """Put a batch at the end, wherever that is by then; each try that fails, another one made."""
    refused = -1
    while True:
        start = await _length(store, session_id, await _keys(store, session_id))
        if start == refused:
            raise StoreError(
                "session {session_id}: the store refuses {key} as taken and does not list it",
                session_id=session_id,
                key=_name(session_id, start),
            )
        if await compare_and_set(NAMESPACE, _name(session_id, start), None, value):
            return start
        refused = start


async def _put(store: Store, session_id: str, value: bytes) -> int:
    async with store.tx() as within:
        start = await _length(within, session_id, await _keys(within, session_id))
        # By chance, since a transaction beside this one may be putting its own at the same place.
        await within.put(NAMESPACE, f"{_name(session_id, start)}.{token_hex(8)}", value)
    return start


async def _length(store: Store, session_id: str, keys: Sequence[_Key]) -> int:
    if not keys:
        return 0
    if any(key.shared for key in keys):
        return sum([len(await _batch(store, session_id, key)) for key in keys])
    return keys[-1].start + len(await _batch(store, session_id, keys[-1]))


async def _keys(store: Store, session_id: str) -> list[_Key]:
    """List the batches in order."""
    prefix = _prefix(session_id)
    keys: list[_Key] = []
    for name in sorted(await store.list(NAMESPACE, prefix)):
        place = _PLACE.fullmatch(name.removeprefix(prefix))
        if place is None:
            template = "session {session_id}: {key} is not the key of a batch of messages"
            raise CorruptCheckpoint(template, session_id=session_id, key=name)
        keys.append(_Key(int(place[1]), name, shared=place[2] is not None))
    if not keys:
        await _require_unknown(store, session_id)
    return keys


async def _require_unknown(store: Store, session_id: str) -> None:
    """Refuse a conversation that was kept in another form, as one value: it is not an empty one."""
    name = _prefix(session_id).removesuffix("/")
    try:
        await store.get(NAMESPACE, name)
    except KeyNotFound:
        return
    raise CorruptCheckpoint(
        "session {session_id}: {key} holds a conversation in a form that is not read here; append"
        " its messages to a session of another id",
        session_id=session_id,
        key=name,
    )


async def _batch(store: Store, session_id: str, key: _Key) -> list[Message]:
    try:
        data = await store.get(NAMESPACE, key.name)
    except KeyNotFound as error:
        template = "session {session_id}: {key} went away while the session was read; try again"
        raise StoreError(template, session_id=session_id, key=key.name) from error
    try:
        return _BATCH.validate_json(data)
    except ValueError as error:
        template = "session {session_id}: {key} does not hold a list of messages"
        raise CorruptCheckpoint(template, session_id=session_id, key=key.name) from error


def _encoded(session_id: str, messages: Sequence[Message]) -> bytes:
    parts: list[bytes] = []
    for index, message in enumerate(messages):
        given: Any = message
        if not isinstance(given, Message):
            raise UnstorableValue(
                "session {session_id}: message {index} is of type {type}, not a Message",
                session_id=session_id,
                index=index,
                type=type(given).__name__,
            )
        parts.append(_encoded_message(session_id, index, given))
    return b"[" + b",".join(parts) + b"]"


def _encoded_message(session_id: str, index: int, message: Message) -> bytes:
    template = "session {session_id}: message {index} has a value that JSON cannot hold"
    try:
        encoded = message.model_dump_json().encode()
        read = Message.model_validate_json(encoded)
    except ValueError as error:
        raise UnstorableValue(template, session_id=session_id, index=index) from error
    if read.blocks != message.blocks:  # NaN, for one, is written as null
        raise UnstorableValue(template, session_id=session_id, index=index)
    return encoded


def _prefix(session_id: str) -> str:
    """Give what the keys of a session begin with; no other session's do, whatever its id is."""
    given: Any = session_id
    if not isinstance(given, str) or not given:
        raise ValueError(f"a session id is a text that is not empty, not {given!r}")
    return f"{quote(given, safe='@:+=, ', errors='surrogatepass')}/"


def _name(session_id: str, start: int) -> str:
    return f"{_prefix(session_id)}{start:012d}"


@contextmanager
def _outside(session_id: str) -> Generator[None]:
    """Map what a foreign store raises."""
    _prefix(session_id)
    try:
        yield
    except (StoreError, CorruptCheckpoint):
        raise
    except Exception as error:
        template = "session {session_id}: the store failed: {reason}"
        raise StoreError(template, session_id=session_id, reason=str(error)) from error
