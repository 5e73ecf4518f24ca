"""What every store of values promises, that of somebody else included."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom_ia.core.ports.store import Store

KEYS = [
    *("a_1", "ab1", "a%1", "50%", "50%x", "500", r"a\b", r"a\\b", "a*", "a?", "a[b]", ""),
    *(
        "été",
        "e\u0301te",
        "ÉTÉ",
        "\U0001f98a",
        "\U0001f98a/1",
        "a\nb",
        "a b",
        "a/",
        "\x00",
        "'",
        '"',
    ),
]
PREFIXES = [
    "",
    "a",
    "a_",
    "a%",
    "%",
    "_",
    "50%",
    "\\",
    "a\\",
    "a\\\\",
    "é",
    "e",
    "\U0001f98a",
    "\x00",
]


async def test_so01_what_was_put_is_what_is_read(any_store: Store) -> None:
    """A value comes back as it was, whatever its bytes."""
    for value in (b"hello", b"", bytes(range(256)), "é".encode()):
        await any_store.put("ns", "key", value)
        assert await any_store.get("ns", "key") == value


async def test_so03_a_second_value_replaces_the_first(any_store: Store) -> None:
    """Putting again overwrites."""
    await any_store.put("ns", "key", b"v1")
    await any_store.put("ns", "key", b"v2")
    assert await any_store.get("ns", "key") == b"v2"


async def test_so04_namespaces_do_not_meet(any_store: Store) -> None:
    """One key in two namespaces is two values."""
    await any_store.put("one", "key", b"1")
    await any_store.put("two", "key", b"2")
    assert await any_store.get("one", "key") == b"1"
    assert await any_store.get("two", "key") == b"2"
    await any_store.delete("one", "key")
    assert await any_store.list("one") == []
    assert await any_store.list("two") == ["key"]


async def test_so06_so13_keys_are_listed_by_prefix(any_store: Store) -> None:
    """A listing gives the keys that begin with the prefix, and all without one."""
    for key in ("agent:beta", "conv:123", "agent:alpha"):
        await any_store.put("ns", key, b"x")
    assert sorted(await any_store.list("ns", "agent:")) == ["agent:alpha", "agent:beta"]
    assert len(await any_store.list("ns")) == 3
    for key in ("run:abc:1", "run:abc:2", "run:xyz:1"):
        await any_store.put("runs", key, b"x")
    assert len(await any_store.list("runs", "run:abc")) == 2
    assert len(await any_store.list("runs", "run:")) == 3


async def test_so07_an_unknown_namespace_is_empty(any_store: Store) -> None:
    """Listing what is not there gives nothing, and no error."""
    assert list(await any_store.list("nowhere")) == []
    assert list(await any_store.list("nowhere", "x")) == []


async def test_so09_an_exception_rolls_everything_back(any_store: Store) -> None:
    """What a transaction wrote before it raised is not there, and its exception propagates."""
    await any_store.put("ns", "kept", b"before")

    async def fail() -> None:
        async with any_store.tx() as tx:
            await tx.put("ns", "new", b"x")
            await tx.put("ns", "kept", b"after")
            await tx.delete("ns", "kept")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await any_store.list("ns") == ["kept"]
    assert await any_store.get("ns", "kept") == b"before"


async def test_so12_a_deleted_key_is_missing(any_store: Store) -> None:
    """Put, get, overwrite, get, delete, get; deleting what is not there is fine."""
    await any_store.delete("ns", "key")
    await any_store.put("ns", "key", b"v1")
    assert await any_store.get("ns", "key") == b"v1"
    await any_store.put("ns", "key", b"v2")
    assert await any_store.get("ns", "key") == b"v2"
    await any_store.delete("ns", "key")
    with pytest.raises(KeyError):
        await any_store.get("ns", "key")
    await any_store.delete("ns", "key")
    await any_store.put("ns", "key", b"v3")
    assert await any_store.get("ns", "key") == b"v3"


async def test_a_transaction_commits_whole(any_store: Store) -> None:
    """A transaction sees its own writes, others see them once it is over, all at once."""
    await any_store.put("ns", "old", b"1")
    async with any_store.tx() as tx:
        await tx.put("ns", "new", b"2")
        await tx.delete("ns", "old")
        assert await tx.get("ns", "new") == b"2"
        assert list(await tx.list("ns")) == ["new"]
        with pytest.raises(KeyError):
            await tx.get("ns", "old")
        assert list(await any_store.list("ns")) == ["old"]
        with pytest.raises(KeyError):
            await any_store.get("ns", "new")
    assert list(await any_store.list("ns")) == ["new"]
    assert await any_store.get("ns", "new") == b"2"


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_w69_a_prefix_is_literal(any_store: Store, prefix: str) -> None:
    """Signs that mean something to a database, or to Unicode, mean only themselves."""
    async with any_store.tx() as tx:
        for key in KEYS:
            await tx.put("ns", key, key.encode())
        inside = list(await tx.list("ns", prefix))
    expected = sorted(key for key in KEYS if key.startswith(prefix))
    assert sorted(inside) == expected
    assert sorted(await any_store.list("ns", prefix)) == expected
    assert [await any_store.get("ns", key) for key in expected] == [k.encode() for k in expected]


async def test_a_megabyte_comes_back(any_store: Store) -> None:
    """A value of a megabyte, and a key of ten thousand letters, are nothing special."""
    value = bytes(range(256)) * 4096
    await any_store.put("ns", "k" * 10_000, value)
    assert await any_store.get("ns", "k" * 10_000) == value


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operations=st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "commit", "roll back"]),
            st.sampled_from(["a", "ab", "b"]),
            st.binary(max_size=3),
        ),
        max_size=20,
    )
)
async def test_any_series_of_changes_gives_what_a_dictionary_gives(
    any_store: Store, operations: list[tuple[str, str, bytes]]
) -> None:
    """However keys are written and removed, what is kept is the last of each."""
    for key in await any_store.list("ns"):
        await any_store.delete("ns", key)
    kept: dict[str, bytes] = {}
    for operation, key, value in operations:
        match operation:
            case "put":
                await any_store.put("ns", key, value)
                kept[key] = value
            case "delete":
                await any_store.delete("ns", key)
                kept.pop(key, None)
            case _:
                with suppress(ZeroDivisionError):
                    async with any_store.tx() as tx:
                        await tx.put("ns", key, value)
                        await tx.delete("ns", f"{key}b")
                        if operation == "roll back":
                            raise ZeroDivisionError
                if operation == "commit":
                    kept[key] = value
                    kept.pop(f"{key}b", None)
    assert {key: await any_store.get("ns", key) for key in await any_store.list("ns")} == kept
