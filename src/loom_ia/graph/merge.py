"""What the deltas of steps do to the values of a state, in the form of the journal.

Law. Everything that a merge decides is decided here, once, and written as a change that anybody can
apply again without knowing the merge. Values go in and come out in the form of the journal: the
objects of a step are copied before a merge sees them. Branches meet in the order in which they were
declared, never in that of their ends.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from loom_ia.core.json import MAX_BITS, JsonValue
from loom_ia.core.model.changes import Change, Values, added, applied
from loom_ia.graph.codec import TUPLE, Codec
from loom_ia.graph.combine import (
    DEFAULT_MERGE,
    RESERVED,
    add,
    append,
    apply_delta,
    by_id,
    checked_key,
    combined,
    difference,
    maximum,
    merge_dict,
    minimum,
    name_of,
    overwrite,
    union,
    with_key,
)
from loom_ia.graph.errors import DeltaError, MergeConflict, MergeError, UnknownKey
from loom_ia.graph.types import DELETE, MISSING, Merge

__all__ = [
    "DEFAULT_MERGE",
    "Merges",
    "add",
    "append",
    "apply_delta",
    "by_id",
    "maximum",
    "merge_dict",
    "minimum",
    "overwrite",
    "union",
]

_NOTHING: Final = object()


class Merges:
    """The merges of a graph by key.

    With `keys`, another key is an `UnknownKey`; a key of `required` cannot be deleted. Raises
    `ValueError` for a merge that cannot be called, or under a reserved key.
    """

    def __init__(
        self,
        policies: Mapping[str, Merge],
        codec: Codec,
        *,
        keys: frozenset[str] | None = None,
        required: frozenset[str] = frozenset(),
    ) -> None:
        for key, merge in policies.items():
            if not callable(merge):
                raise ValueError(f"merge={{{key!r}: {merge!r}}}: a merge is a function of two")
            if key.startswith(RESERVED):
                raise ValueError(f"merge={{{key!r}: …}}: keys that begin with `__` are reserved")
        self._policies = dict(policies)
        self._codec = codec
        self._keys = keys
        self._required = required

    def table(self) -> dict[str, str]:
        """Give the name of the merge of each key that has one."""
        return {key: name_of(merge) for key, merge in self._policies.items()}

    def name(self, key: object) -> str:
        """Give the name of a key that the state may have; raises `ReservedKey`, `UnknownKey`."""
        name = checked_key(key)
        if self._keys is not None and name not in self._keys:
            raise with_key(
                UnknownKey(
                    "the state has no key {key}; it has {known}: declare it, or mend its name",
                    key=name,
                    known=", ".join(sorted(self._keys)),
                ),
                name,
            )
        return name

    def check(self, keys: Iterable[object]) -> None:
        """Refuse keys that the state cannot have: `ReservedKey`, `UnknownKey`."""
        for key in keys:
            self.name(key)

    def changes(
        self, values: Values, delta: Mapping[str, Any] | None, *, in_branch: bool
    ) -> tuple[Change, ...]:
        """Give what a delta does to `values`, in its order; nothing of it is changed or shared.

        In a branch, a change also tells what was given, for the merge is made again when branches
        meet. Raises a `DeltaError` with the key: `ReservedKey`, `UnknownKey`, `NotSerializable`
        or `MergeError`.
        """
        if not delta:
            return ()
        found: list[Change] = []
        for key, given in delta.items():
            change = self._change(values, self.name(key), given, in_branch)
            if change is not None:
                found.append(change)
        return tuple(found)

    def joined(
        self,
        base: Values,
        branches: Sequence[tuple[str, Sequence[Change]]],
        *,
        in_branch: bool = False,
    ) -> tuple[Change, ...]:
        """Give what branches, each a name and its changes, do together to `base`, in their order.

        What each step gave is merged again under the merge of its key. Raises `MergeConflict`
        where several branches wrote a key that has none, or one removed what others wrote. Say
        `in_branch` where these branches meet inside another one.
        """
        written: dict[str, dict[int, list[Change]]] = {}
        for index, (_, changes) in enumerate(branches):
            for change in changes:
                written.setdefault(change.key, {}).setdefault(index, []).append(change)
        found: list[Change] = []
        for key, by_branch in written.items():
            own = {key: base[key]} if key in base else {}
            names = {index: branches[index][0] for index in by_branch}
            found += self._meeting(own, key, by_branch, names, in_branch)
        return tuple(found)

    def returned(
        self, before: Values, after: Values, keys: Iterable[str], *, codec: Codec | None = None
    ) -> dict[str, Any]:
        """Give the delta by which a child that went from `before` to `after` changes its parent.

        Only keys that changed: what was added to an `append` key (`MergeError` if that is not all
        that happened to it), the difference of an `add` key, otherwise the value, or `DELETE`.
        `codec` is the child's, where it knows other classes.
        """
        reader = codec or self._codec
        wanted = set(keys)
        delta: dict[str, Any] = {}
        for key in (*after, *before):
            if key not in wanted or key in delta:
                continue
            if key not in after:
                delta[key] = DELETE
            elif key not in before or not same(before[key], after[key]):
                start = before.get(key, _NOTHING)
                delta[key] = self._difference(key, start, after[key], reader)
        return delta

    # -- one key ----------------------------------------------------------------------------------

    def _change(self, values: Values, key: str, given: Any, in_branch: bool) -> Change | None:
        if given is DELETE:
            if key in self._required:
                raise with_key(
                    MergeError(
                        "{key} cannot be deleted: the state needs it, for it has no default",
                        key=key,
                    ),
                    key,
                )
            return Change.of("remove", key) if key in values else None
        try:
            incoming = self._codec.to_json(given, key)
            policy = self._policies.get(key)
            if policy is None or policy is overwrite:
                return Change.of("set", key, incoming)
            return self._merged(values, key, policy, incoming, in_branch)
        except DeltaError as error:
            error.key = error.key or key
            raise

    def _merged(
        self, values: Values, key: str, policy: Merge, incoming: JsonValue, in_branch: bool
    ) -> Change | None:
        """Merge what is given under a key, in the form of the journal."""
        if policy is append:
            items = _sequence(incoming)
            is_list = isinstance(values.get(key), list)
            if items is not None and (is_list or key not in values):
                return Change.of("append", key, items) if items or not is_list else None
        elif policy is add and _adds(values.get(key, 0), incoming):
            return Change.of("add", key, incoming)
        read = self._codec.from_json
        existing = read(values[key]) if key in values else MISSING
        merged = combined(policy, key, existing, read(incoming))
        value = self._codec.to_json(merged, key)
        if policy is add and same(added(values.get(key), incoming), value):
            return Change.of("add", key, incoming)
        return Change.of("set", key, value, *((incoming,) if in_branch else ()))

    def _difference(self, key: str, before: Any, after: JsonValue, codec: Codec) -> Any:
        policy = self._policies.get(key)
        if before is _NOTHING or (policy is not append and policy is not add):
            return codec.from_json(after)
        if policy is append:
            old, new = _sequence(before), _sequence(after)
            if old is None or new is None or not same(old, new[: len(old)]):
                raise with_key(
                    MergeError(
                        "{key} is merged by `append`, and was not merely extended: give back its "
                        "new items alone, by a function in outputs=",
                        key=key,
                    ),
                    key,
                )
            return codec.from_json(new[len(old) :])
        return combined(difference, key, codec.from_json(before), codec.from_json(after))

    # -- where branches meet ----------------------------------------------------------------------

    def _meeting(
        self,
        own: Values,
        key: str,
        by_branch: Mapping[int, Sequence[Change]],
        names: Mapping[int, str],
        in_branch: bool,
    ) -> list[Change]:
        """Give what the branches did to one key; `own` has that key alone, if it is there."""
        left = {i: changes for i, changes in by_branch.items() if key in applied(own, changes)}
        gone = [i for i in by_branch if i not in left and key in own]
        if not left:
            return [Change.of("remove", key)] if gone else []
        policy = self._policies.get(key)
        if len(left) == 1 and not gone:
            (changes,) = left.values()
            return self._alone(own, key, changes, in_branch)
        given = [_given(change, policy) for changes in left.values() for change in changes]
        if gone or policy is None or any(one is _NOTHING for one in given):
            raise _conflict(key, tuple(names[i] for i in sorted((*left, *gone))), policy)
        return self._together(own, key, policy, cast("list[JsonValue]", given), in_branch)

    def _alone(
        self, own: Values, key: str, changes: Sequence[Change], in_branch: bool
    ) -> list[Change]:
        """Give what a single branch did, in few changes."""
        is_mergeable = all(_given(c, self._policies.get(key)) is not _NOTHING for c in changes)
        if (in_branch and is_mergeable) or {change.op for change in changes} <= {"add"}:
            return _compact(own, key, changes)
        if {change.op for change in changes} == {"append"}:
            return _compact(own, key, changes)
        return [Change.of("set", key, applied(own, changes)[key])]

    def _together(
        self, own: Values, key: str, policy: Merge, given: Sequence[JsonValue], in_branch: bool
    ) -> list[Change]:
        """Merge what several branches gave under one key again, in their order."""
        if policy is append:
            items = [item for one in given for item in _sequence(one) or ()]
            change = self._merged(own, key, append, cast("JsonValue", items), in_branch)
            return [] if change is None else [change]
        values = dict(own)
        made: list[Change] = []
        for one in given:
            change = self._merged(values, key, policy, one, in_branch)
            if change is not None:
                values = applied(values, (change,))
                made.append(change)
        if in_branch or all(change.op == "add" for change in made):
            return _compact(own, key, made)
        return [Change.of("set", key, values[key])]


def same(left: Any, right: Any) -> bool:
    """Tell whether two values in the form of the journal are the same, types included."""
    return left is right or (left == right and repr(left) == repr(right))


def _sequence(value: Any) -> list[JsonValue] | None:
    """Give the items of a list or tuple; None for anything else."""
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
        value = cast("dict[str, Any]", value).get(TUPLE)
    return cast("list[JsonValue]", value) if isinstance(value, list) else None


def _adds(before: JsonValue, amount: JsonValue) -> bool:
    """Tell at once, for most numbers, that their sum is one that the journal can hold."""
    if type(before) is int and type(amount) is int:
        return (before + amount).bit_length() <= MAX_BITS
    return type(before) is float and type(amount) is float and math.isfinite(before + amount)


def _given(change: Change, policy: Merge | None) -> object:
    """Give what a step gave that the merge of its key can take again; otherwise `_NOTHING`."""
    if change.incoming:
        return change.incoming[0]
    if change.op in ("append", "add") or (change.op == "set" and policy is overwrite):
        return change.value
    return _NOTHING


def _compact(own: Values, key: str, changes: Sequence[Change]) -> list[Change]:
    """Put neighbours together where one change does the same, to the last bit."""
    # The sum of integers alone does not depend on how they are put together.
    is_exact = type(own.get(key, 0)) is int and all(
        type(change.value) is int for change in changes if change.op == "add"
    )
    kept: list[Change] = []
    for change in changes:
        last = kept[-1] if kept else change
        if kept and last.op == change.op == "append":
            items = [*(_sequence(last.value) or ()), *(_sequence(change.value) or ())]
            kept[-1] = Change.of("append", key, cast("JsonValue", items))
        elif kept and last.op == change.op == "add" and is_exact:
            kept[-1] = Change.of("add", key, added(last.value, change.value))
        else:
            kept.append(change)
    return kept


def _conflict(key: str, branches: tuple[str, ...], policy: Merge | None) -> MergeConflict:
    if policy is None:
        template = (
            "the branches {branches} wrote {key}, which has no merge: declare one for it, or let "
            "one branch alone write it"
        )
    else:
        template = (
            "the branches {branches} wrote {key}, and one of them removed or replaced it: do that "
            "in one branch alone, or in the step where they join"
        )
    error = MergeConflict(template, branches=", ".join(branches), key=key)
    error.key = key
    error.branches = branches
    return error
