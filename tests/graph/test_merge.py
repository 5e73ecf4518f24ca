"""What deltas do to a state: the merges, their changes, and how branches and children meet."""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.model.changes import Change, applied
from loom_ia.core.model.messages import Message
from loom_ia.graph.codec import Codec
from loom_ia.graph.errors import (
    MergeConflict,
    MergeError,
    NotSerializable,
    ReservedKey,
    UnknownKey,
)
from loom_ia.graph.merge import (
    DEFAULT_MERGE,
    Merges,
    add,
    append,
    apply_delta,
    by_id,
    maximum,
    merge_dict,
    minimum,
    overwrite,
    union,
)
from loom_ia.graph.types import DELETE, MISSING, Merge

CODEC = Codec()
ALL: dict[str, Merge] = {
    "log": append,
    "n": add,
    "tags": union,
    "most": maximum,
    "least": minimum,
    "facts": merge_dict,
    "items": by_id,
    "last": overwrite,
}


def merges(**policies: Merge) -> Merges:
    """Compile merges by key."""
    return Merges(policies, CODEC)


def after(table: Merges, values: Mapping[str, Any], *deltas: dict[str, Any]) -> dict[str, Any]:
    """Give the Python values after deltas."""
    stored: Any = {key: CODEC.to_json(value) for key, value in values.items()}
    for delta in deltas:
        stored = applied(stored, table.changes(stored, delta, in_branch=False))
    return {key: CODEC.from_json(value) for key, value in stored.items()}


def written(table: Merges, values: Mapping[str, Any], *deltas: dict[str, Any]) -> list[Change]:
    """Give the changes of a branch that begins at `values` and gives deltas."""
    stored: Any = dict(values)
    made: list[Change] = []
    for delta in deltas:
        changes = table.changes(stored, delta, in_branch=True)
        made += changes
        stored = applied(stored, changes)
    return made


# -- the merges -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "delta", "merge", "expected"),
    [
        ({"a": "old", "b": "keep"}, {"a": "new", "c": 1}, None, {"a": "new", "b": "keep", "c": 1}),
        ({"count": 10}, {"count": 5}, {"count": add}, {"count": 15}),
        ({"n": Decimal("0.1")}, {"n": 2}, {"n": add}, {"n": Decimal("2.1")}),
        ({}, {"n": 2}, {"n": add}, {"n": 2}),
        ({"m": [1]}, {"m": (2,)}, {"m": append}, {"m": [1, 2]}),
        ({}, {"m": (2,)}, {"m": append}, {"m": [2]}),
        ({"t": [1, 2]}, {"t": [2, 3, 3]}, {"t": union}, {"t": [1, 2, 3]}),
        ({"t": [[1]]}, {"t": [[1], [2]]}, {"t": union}, {"t": [[1], [2]]}),
        ({"t": {1}}, {"t": {2}}, {"t": union}, {"t": {1, 2}}),
        ({"b": 100}, {"b": 80}, {"b": maximum}, {"b": 100}),
        ({"b": 100}, {"b": 150}, {"b": maximum}, {"b": 150}),
        ({"b": 100}, {"b": 80}, {"b": minimum}, {"b": 80}),
        ({}, {"b": 80}, {"b": minimum}, {"b": 80}),
        (
            {"d": {"a": 1, "b": {"x": 1}}},
            {"d": {"b": {}}},
            {"d": merge_dict},
            {"d": {"a": 1, "b": {}}},
        ),
        (
            {"i": [{"id": 1, "v": 1}, {"id": 2}]},
            {"i": [{"id": 1, "v": 2}, {"id": 3}, {"v": 0}]},
            {"i": by_id},
            {"i": [{"id": 1, "v": 2}, {"id": 2}, {"id": 3}, {"v": 0}]},
        ),
        ({"a": 1, "b": 2}, {"a": DELETE}, {"a": add}, {"b": 2}),
        ({"a": 1}, {"z": DELETE}, None, {"a": 1}),
        ({"a": 1}, None, None, {"a": 1}),
        ({"b": 100}, {"b": 80}, {"b": max}, {"b": 100}),
    ],
)
def test_st_deltas_are_merged_without_changing_anything(
    state: dict[str, Any], delta: Any, merge: Any, expected: dict[str, Any]
) -> None:
    """The pure function and the journalled changes agree, and nobody's objects are changed."""
    before = (
        copy.deepcopy((state, dict(delta or {})))
        if delta is None or DELETE not in delta.values()
        else None
    )
    assert apply_delta(state, delta, merge) == expected
    assert after(Merges(merge or {}, CODEC), state, delta or {}) == expected
    if before is not None:
        assert before == (state, dict(delta or {}))


def test_st04_floats_are_summed() -> None:
    """`add` takes floats."""
    assert apply_delta({"s": 0.7}, {"s": 0.3}, {"s": add})["s"] == pytest.approx(1.0)


def test_w14_integers_stay_integers() -> None:
    """An integer that was stored and read is still one, and is still summed as one."""
    n = after(merges(n=add), {"n": 10}, {"n": 5})["n"]
    assert (n, type(n)) == (15, int)
    assert dict(DEFAULT_MERGE) == {"messages": append}


@pytest.mark.parametrize(
    ("merge", "existing", "incoming"),
    [
        (append, [1], "text"),
        (append, "text", [1]),
        (append, [1], None),
        (append, [1], {2}),
        (add, 1, "2"),
        (add, "1", 2),
        (add, None, 2),
        (add, 1, True),
        (add, 1.5, Decimal(1)),
        (add, 10**400, 1.5),
        (union, [1], {1}),
        (union, {1}, [1]),
        (union, MISSING, 3),
        (maximum, 1, "a"),
        (minimum, MISSING, {"a": 1}),
        (merge_dict, {}, [1]),
        (by_id, [1], {"id": 1}),
        (by_id, [], [{"id": []}]),
        (lambda a, b: a + b, 1, "x"),
    ],
    ids=range(19),
)
def test_w16_a_wrong_type_is_an_error_that_names_the_key(
    merge: Merge, existing: Any, incoming: Any
) -> None:
    """A value of the wrong type never counts as empty, in the function and in the journal."""
    state = {} if existing is MISSING else {"k": existing}
    for attempt in (
        lambda: apply_delta(state, {"k": incoming}, {"k": merge}),
        lambda: after(merges(k=merge), state, {"k": incoming}),
    ):
        with pytest.raises(MergeError) as caught:
            attempt()
        assert caught.value.key == "k"
        assert str(caught.value).startswith("k: ")


def test_a_custom_merge_that_raises_is_the_cause() -> None:
    """What a merge of the user raises is kept, and the key is named."""

    def broken(existing: Any, incoming: Any) -> Any:
        raise LookupError("no")

    with pytest.raises(MergeError, match=r"k: .*broken.*LookupError: no") as caught:
        after(merges(k=broken), {}, {"k": 1})
    assert isinstance(caught.value.__cause__, LookupError)


def test_w16_typed_messages_are_appended() -> None:
    """A list of messages grows by messages."""
    first, second = Message("user", "a"), Message("assistant", "b")
    assert after(merges(m=append), {}, {"m": [first]}, {"m": (second,)}) == {"m": [first, second]}


def test_w56_two_merges_from_one_base_are_apart() -> None:
    """Two continuations of one list share nothing."""
    base = {"m": [1]}
    left, right = (apply_delta(base, {"m": [x]}, {"m": append}) for x in "xy")
    assert (left, right, base) == ({"m": [1, "x"]}, {"m": [1, "y"]}, {"m": [1]})


# -- changes --------------------------------------------------------------------------------------


def test_changes_are_small_and_in_the_order_of_the_delta() -> None:
    """Only what is new of a list is written, an amount of a sum, and a key that goes."""
    table = Merges(ALL, CODEC)
    values: Any = {"log": [1, 2], "n": 5, "old": 1}
    delta = {"x": 0, "old": DELETE, "log": [3], "n": 2, "most": 4, "last": None, "never": DELETE}
    assert table.changes(values, delta, in_branch=True) == (
        Change.of("set", "x", 0),
        Change.of("remove", "old"),
        Change.of("append", "log", [3]),
        Change.of("add", "n", 2),
        Change.of("set", "most", 4, 4),
        Change.of("set", "last", None),
    )
    assert table.changes(values, {"most": 4}, in_branch=False) == (Change.of("set", "most", 4),)
    assert table.changes(values, None, in_branch=True) == ()


def test_changes_survive_the_journal() -> None:
    """A change of any falsy value reads back as it was written."""
    table = merges(log=append, most=maximum)
    for value in (0, False, "", None, 0.0):
        (change,) = table.changes({}, {"x": value}, in_branch=False)
        assert Change.model_validate_json(change.model_dump_json()) == change
    for change in table.changes({}, {"log": [], "most": 0}, in_branch=True):
        assert Change.model_validate_json(change.model_dump_json()) == change


def test_append_is_written_whole_where_there_is_a_tuple() -> None:
    """A tuple that an earlier version put there is extended into a list."""
    (change,) = merges(m=append).changes({"m": {"$tuple": [1]}}, {"m": [2]}, in_branch=True)
    assert change == Change.of("set", "m", [1, 2], [2])


@pytest.mark.parametrize("value", [2**14_000 - 1, Decimal("1.5"), -5, 0.5])
def test_a_sum_is_the_same_once_applied(value: Any) -> None:
    """Numbers that the kernel sums, and those that it cannot, end in the same sum."""
    expected = apply_delta({"n": value}, {"n": value}, {"n": add})
    assert after(merges(n=add), {"n": value}, {"n": value}) == expected


def test_a_sum_that_is_no_number_is_refused() -> None:
    """Two finite numbers whose sum is infinite are an error, not an infinity in the journal."""
    with pytest.raises(NotSerializable) as caught:
        after(merges(n=add), {"n": 1e308}, {"n": 1e308})
    assert (caught.value.key_path, caught.value.key) == ("n", "n")


def test_deltas_are_checked() -> None:
    """Reserved and unknown keys, marks and foreign values are refused with their key."""
    table = Merges({}, CODEC, keys=frozenset({"a", "b"}), required=frozenset({"b"}))
    for delta, kind, key in (
        ({"__run_id": 1}, ReservedKey, "__run_id"),
        ({"z": 1}, UnknownKey, "z"),
        ({"b": DELETE}, MergeError, "b"),
        ({"a": MISSING}, NotSerializable, "a"),
        ({"a": [1, object()]}, NotSerializable, "a"),
    ):
        with pytest.raises(kind) as caught:
            table.changes({"b": 1}, delta, in_branch=False)
        assert caught.value.key == key
        assert key in str(caught.value)
    table.check(["a", "b"])
    with pytest.raises(UnknownKey):
        table.check(["a", "z"])
    for bad in ({1: 2}, {"\ud800": 1}):
        with pytest.raises(NotSerializable):
            merges().changes({}, bad, in_branch=False)  # pyright: ignore[reportArgumentType] -- it is wrong on purpose
    with pytest.raises(ReservedKey):
        apply_delta({}, {"__yield": True})
    with pytest.raises(NotSerializable):
        apply_delta({}, {"a": MISSING})


def test_a_merge_gets_copies() -> None:
    """A merge that changes what it is given changes neither the state nor the step's objects."""

    def rude(existing: Any, incoming: Any) -> Any:
        incoming.append(9)
        existing.append(9)
        return [*existing, *incoming]

    given_list = [2]
    values: Any = {"k": [1]}
    (change,) = merges(k=rude).changes(values, {"k": given_list}, in_branch=True)
    assert (given_list, values) == ([2], {"k": [1]})
    assert change == Change.of("set", "k", [1, 9, 2, 9], [2])


def test_merges_are_checked_and_named() -> None:
    """The table of a run names each merge; what is no merge is refused when the graph is made."""
    table = Merges({"a": append, "b": CUSTOM}, CODEC).table()
    assert table == {"a": "append", "b": f"{__name__}.CUSTOM"}
    for bad in ({"a": 3}, {"__a": append}):
        with pytest.raises(ValueError, match="merge="):
            Merges(bad, CODEC)  # pyright: ignore[reportArgumentType] -- it is wrong on purpose


def CUSTOM(existing: Any, incoming: Any) -> Any:  # noqa: N802 -- a name that tests look for
    """Keep the longer text."""
    return incoming if existing is MISSING or len(incoming) > len(existing) else existing


# -- branches -------------------------------------------------------------------------------------

LISTS = st.lists(st.integers(0, 3), max_size=3)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "log": LISTS,
        "n": st.integers(-5, 5) | st.floats(-5, 5),
        "tags": LISTS,
        "most": st.integers(),
        "least": st.integers(),
        "facts": st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=2),
        "items": st.lists(
            st.fixed_dictionaries({"id": st.integers(0, 3), "v": st.integers()}), max_size=3
        ),
        "last": st.text(max_size=2),
        "custom": st.text(max_size=4),
    },
)
TABLE = Merges({**ALL, "custom": CUSTOM}, CODEC)


@given(DELTAS, st.lists(st.lists(DELTAS, max_size=3), max_size=4))
def test_branches_end_as_their_deltas_one_after_the_other(
    first: dict[str, Any], branches: list[list[dict[str, Any]]]
) -> None:
    """Keys that have a merge end as if the branches had run in turn, in any depth of branches."""
    base = applied({}, TABLE.changes({}, first, in_branch=False))
    ended = [(f"b{i}", written(TABLE, base, *deltas)) for i, deltas in enumerate(branches)]
    expected: Any = base
    for deltas in branches:
        for delta in deltas:
            expected = applied(expected, TABLE.changes(expected, delta, in_branch=False))
    joined = applied(base, TABLE.joined(base, ended))
    assert repr(sorted(joined.items())) == repr(sorted(expected.items()))
    inner = TABLE.joined(base, ended[:2], in_branch=True)
    nested = applied(base, TABLE.joined(base, [("inner", inner), *ended[2:]]))
    assert repr(sorted(nested.items())) == repr(sorted(expected.items()))


def test_pub48_a_hundred_orders_of_arrival_give_one_state() -> None:
    """Branches are merged as they were declared, whichever ended first."""
    draw = random.Random(48)
    base: Any = {"log": ["start"], "n": 1}
    deltas = {f"b{i}": {"log": [i], "n": i, f"own{i}": i} for i in range(6)}
    ended: list[str] = []
    for _ in range(100):
        order = list(deltas)
        draw.shuffle(order)
        done = {name: written(TABLE, base, deltas[name]) for name in order}
        found = applied(base, TABLE.joined(base, [(name, done[name]) for name in deltas]))
        ended.append(repr(found))
    assert set(ended) == {
        repr({"log": ["start", 0, 1, 2, 3, 4, 5], "n": 16, **{f"own{i}": i for i in range(6)}})
    }


def test_integers_are_not_put_together_after_a_float() -> None:
    """A float that is lost in a greater sum is lost in the same way where branches meet."""
    base: Any = {"n": 5e-121}
    there_and_back = written(TABLE, base, {"n": 2}, {"n": -2})
    assert applied(base, there_and_back) == {"n": 0.0}
    assert applied(base, TABLE.joined(base, [("a", there_and_back)])) == {"n": 0.0}
    changes = [("a", there_and_back[:1]), ("b", there_and_back[1:])]
    assert applied(base, TABLE.joined(base, changes)) == {"n": 0.0}


def test_joined_changes_are_few() -> None:
    """What many branches did to one key is one change."""
    branches = [(f"b{i}", written(TABLE, {}, {"log": [i], "n": i, "most": i})) for i in range(50)]
    assert TABLE.joined({}, branches) == (
        Change.of("append", "log", list(range(50))),
        Change.of("add", "n", sum(range(50))),
        Change.of("set", "most", 49),
    )


@pytest.mark.parametrize(
    ("deltas", "key", "names"),
    [
        ([{"x": 1}, {"y": 1}, {"x": 2}], "x", ("b0", "b2")),
        ([{"x": 1}, {"x": 1}], "x", ("b0", "b1")),
        ([{"x": DELETE}, {"x": 1}], "x", ("b0", "b1")),
        ([{"log": DELETE}, {"log": [1]}], "log", ("b0", "b1")),
        ([{"n": 1}, {"n": DELETE}, {"n": 2}], "n", ("b0", "b1", "b2")),
    ],
)
def test_pub48_branches_that_cannot_agree_are_refused(
    deltas: list[dict[str, Any]], key: str, names: tuple[str, ...]
) -> None:
    """One key without a merge in two branches is refused, with the key and who wrote it."""
    base: Any = {"x": 0, "log": [], "n": 0}
    branches = [(f"b{i}", written(TABLE, base, delta)) for i, delta in enumerate(deltas)]
    with pytest.raises(MergeConflict) as caught:
        TABLE.joined(base, branches)
    assert (caught.value.key, caught.value.branches) == (key, names)
    assert key in str(caught.value)


def test_a_branch_that_removes_and_writes_again_conflicts_with_another() -> None:
    """A key that was begun anew in one branch cannot be merged with what another added."""
    base: Any = {"log": [1]}
    anew = written(TABLE, base, {"log": DELETE}, {"log": [2]})
    assert TABLE.joined(base, [("a", anew)]) == (Change.of("set", "log", [2]),)
    with pytest.raises(MergeConflict, match="removed or replaced"):
        TABLE.joined(base, [("a", anew), ("b", written(TABLE, base, {"log": [3]}))])


def test_branches_that_agree_are_no_conflict() -> None:
    """Several removals are one, and what a branch made and removed itself was never there."""
    base: Any = {"x": 0}
    gone = written(TABLE, base, {"x": DELETE})
    assert TABLE.joined(base, [("a", gone), ("b", gone)]) == (Change.of("remove", "x"),)
    scratch = written(TABLE, base, {"draft": 1}, {"draft": DELETE})
    assert TABLE.joined(base, [("a", scratch), ("b", scratch)]) == ()
    assert TABLE.joined(base, [("a", written(TABLE, base, {"x": 1}, {"x": 2}))]) == (
        Change.of("set", "x", 2),
    )


def test_the_order_of_branches_is_that_of_their_declaration() -> None:
    """Each order of declaration gives its own, certain, result."""
    made = {name: written(TABLE, {}, {"log": [name], "last": name}) for name in "abc"}
    for order in permutations("abc"):
        found = applied({}, TABLE.joined({}, [(name, made[name]) for name in order]))
        assert found == {"log": list(order), "last": order[-1]}


# -- children -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "values", "expected"),
    [
        ({"log": [1], "n": 10, "x": 1}, {"log": [1], "n": 10, "x": 1}, {}),
        ({"n": 10}, {"n": 13}, {"n": 3}),
        ({}, {"n": 13, "log": [1]}, {"n": 13, "log": [1]}),
        ({"log": [1]}, {"log": [1, 2, 3]}, {"log": [2, 3]}),
        ({"log": {"$tuple": [1]}}, {"log": [1, 2]}, {"log": [2]}),
        ({"x": 1}, {}, {"x": DELETE}),
        ({"x": 1}, {"x": True}, {"x": True}),
        ({"x": 0.0}, {"x": -0.0}, {"x": -0.0}),
        ({"most": 3}, {"most": 4}, {"most": 4}),
        ({"n": {"$decimal": "1.5"}}, {"n": {"$decimal": "2.0"}}, {"n": Decimal("0.5")}),
        ({}, {"private": 1}, {}),
    ],
)
def test_w44_a_child_gives_back_what_it_changed(
    before: Any, values: Any, expected: dict[str, Any]
) -> None:
    """Items that were added, a difference, or the value: merged by the parent, nothing doubles."""
    delta = TABLE.returned(before, values, ["log", "n", "x", "most"])
    assert repr(delta) == repr(expected)
    changes = TABLE.changes(before, delta, in_branch=False)
    found = applied(before, changes)
    assert {k: v for k, v in found.items() if k != "private"} == {
        k: v for k, v in values.items() if k != "private"
    }


@pytest.mark.parametrize(
    ("before", "values"),
    [
        ({"log": [1, 2]}, {"log": [2, 1]}),
        ({"log": [1, 2]}, {"log": [1]}),
        ({"log": [1]}, {"log": [True, 2]}),
        ({"log": [1]}, {"log": "text"}),
        ({"n": 1}, {"n": "text"}),
    ],
)
def test_lc10_a_child_that_did_not_merely_extend_is_refused(before: Any, values: Any) -> None:
    """An `append` key that was reordered or shortened cannot be given back as a change."""
    with pytest.raises(MergeError) as caught:
        TABLE.returned(before, values, before)
    assert caught.value.key in before


def test_what_comes_back_is_in_a_certain_order() -> None:
    """The order of the delta is that of the child's state, whatever holds the keys."""
    keys: Sequence[str] = [f"k{i}" for i in range(20)]
    values: Any = dict.fromkeys(keys, 1)
    make: Callable[[], list[str]] = lambda: list(TABLE.returned({}, values, set(keys)))  # noqa: E731 -- said twice
    assert make() == list(keys)
