"""How what a step gives under a key meets what was there: the merges, over plain Python values.

Law. A merge is pure: it changes neither argument, gives a new value, and refuses a value of the
wrong type instead of taking it for an empty one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, cast

from loom_ia.core.errors import told
from loom_ia.graph.errors import DeltaError, MergeError, ReservedKey
from loom_ia.graph.scalars import check_text, placed, unfit
from loom_ia.graph.types import DELETE, MISSING, Delta, Merge

RESERVED: Final = "__"
"""What keys of a state do not begin with."""


def overwrite(existing: Any, incoming: Any) -> Any:
    """Take what is given."""
    del existing
    return incoming


def append(existing: Any, incoming: Any) -> list[Any]:
    """Concatenate two lists or tuples into a new list."""
    return [*_items("append", existing), *_items("append", incoming)]


def add(existing: Any, incoming: Any) -> Any:
    """Sum two numbers, `int`, `float` or `Decimal`; two `int` give an `int`."""
    right = _number(incoming)
    if existing is MISSING:
        return right
    left = _number(existing)
    try:
        return left + right
    except (TypeError, ArithmeticError) as error:
        raise MergeError(
            "{key}: `add` cannot sum {left} and {right}",
            key=_SOMEWHERE,
            left=type(left).__name__,
            right=type(right).__name__,
        ) from error


def difference(existing: Any, incoming: Any) -> Any:
    """Give what `add` would have to be given to go from one number to the other."""
    left, right = _number(existing), _number(incoming)
    return right - left


def union(existing: Any, incoming: Any) -> Any:
    """Unite two sets, or two lists without duplicates, of which the first occurrence is kept."""
    if isinstance(incoming, set | frozenset):
        given = cast("set[Any] | frozenset[Any]", incoming)
        if existing is MISSING:
            return given.copy()
        if isinstance(existing, set | frozenset):
            return cast("set[Any] | frozenset[Any]", existing) | given
        raise _wrong("union", "two sets or two lists", existing)
    return _distinct((*_items("union", existing), *_items("union", incoming)))


def maximum(existing: Any, incoming: Any) -> Any:
    """Keep the greater value, the one that was there if they are equal."""
    before = incoming if existing is MISSING else existing
    return incoming if _is_less("maximum", before, incoming) else before


def minimum(existing: Any, incoming: Any) -> Any:
    """Keep the lesser value, the one that was there if they are equal."""
    before = incoming if existing is MISSING else existing
    return incoming if _is_less("minimum", incoming, before) else before


def merge_dict(existing: Any, incoming: Any) -> dict[Any, Any]:
    """Put the keys of one dict over those of the other, not deeper."""
    return {**_entries(existing), **_entries(incoming)}


def by_id(existing: Any, incoming: Any) -> list[Any]:
    """Put each item in the place of the one that has the same `id`, or at the end."""
    merged: list[Any] = []
    places: dict[Any, int] = {}
    for item in (*_items("by_id", existing), *_items("by_id", incoming)):
        identity = _id(item)
        if identity is None:
            merged.append(item)
        elif identity in places:
            merged[places[identity]] = item
        else:
            places[identity] = len(merged)
            merged.append(item)
    return merged


BUILT_IN: Final = (overwrite, append, add, union, maximum, minimum, merge_dict, by_id)
DEFAULT_MERGE: Final[Mapping[str, Merge]] = {"messages": append}
"""What most conversations want; it is applied where it is given."""


def combined(merge: Merge, key: str, existing: Any, incoming: Any) -> Any:
    """Apply the merge of a key; raises `MergeError` with the key, whatever the merge raised."""
    try:
        return merge(existing, incoming)
    except MergeError as error:
        error.key = error.key or key
        if error.params.get("key") == _SOMEWHERE:
            error.params["key"] = key
        raise
    except Exception as error:
        raise with_key(
            MergeError(
                "{key}: its merge {merge} raised {reason}",
                key=key,
                merge=name_of(merge),
                reason=told(error),
            ),
            key,
        ) from error


def apply_delta(
    state: Mapping[str, Any], delta: Delta, merge: Mapping[str, Merge] | None = None
) -> dict[str, Any]:
    """Give the state once a delta is merged into it; neither is changed.

    A key without a merge is overwritten. Raises `MergeError` and `ReservedKey`, with the key.
    """
    after = dict(state)
    policies = merge or {}
    for given_key, value in (delta or {}).items():
        key = checked_key(given_key)
        if value is DELETE:
            after.pop(key, None)
            continue
        if value is MISSING:
            raise with_key(placed(unfit("{path} is MISSING, which is no value"), key), key)
        policy = policies.get(key)
        if policy is not None:
            value = combined(policy, key, after.get(key, MISSING), value)  # noqa: PLW2901 -- merged
        after[key] = value
    return after


def checked_key(key: object) -> str:
    """Give the name of a key of a state; raises `ReservedKey`, or `NotSerializable` for no text."""
    if not isinstance(key, str):
        error = unfit(
            "the key {key} is of type {type}: the keys of a state are texts",
            key=repr(key),
            type=type(key).__name__,
        )
        error.key_path = repr(key)
        raise error
    name = str.__str__(key)
    if not name.isascii():
        check_text(name)
    if name.startswith(RESERVED):
        raise with_key(
            ReservedKey(
                "the key {key} is reserved, as all that begin with two underscores: rename it",
                key=name,
            ),
            name,
        )
    return name


def name_of(merge: Merge) -> str:
    """Give the name of a merge: the plain one of ours, the qualified one of the user's."""
    if merge in BUILT_IN:
        return cast("Callable[..., Any]", merge).__name__
    known: Any = merge if hasattr(merge, "__qualname__") else type(merge)
    return f"{known.__module__}.{known.__qualname__}"


def with_key(error: DeltaError, key: str | None) -> DeltaError:
    """Name the key that an error is about."""
    error.key = key
    return error


_SOMEWHERE: Final = "a value"


def _items(merge: str, value: Any) -> Sequence[Any]:
    if value is MISSING:
        return ()
    if isinstance(value, list | tuple):
        return cast("Sequence[Any]", value)
    raise _wrong(merge, "a list or a tuple", value)


def _entries(value: Any) -> Mapping[Any, Any]:
    if value is MISSING:
        return {}
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    raise _wrong("merge_dict", "a dict", value)


def _number(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    raise _wrong("add", "an int, a float or a Decimal", value)


def _is_less(merge: str, left: Any, right: Any) -> bool:
    try:
        return bool(left < right)
    except TypeError as error:
        raise MergeError(
            "{key}: `{merge}` cannot compare {left} with {right}",
            key=_SOMEWHERE,
            merge=merge,
            left=type(left).__name__,
            right=type(right).__name__,
        ) from error


def _distinct(items: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    known: set[Any] = set()
    others: list[Any] = []  # what no set can hold
    for item in items:
        try:
            is_new = item not in known
            known.add(item)
        except TypeError:
            is_new = item not in others
            others.append(item)
        if is_new:
            kept.append(item)
    return kept


def _id(item: Any) -> Any:
    if isinstance(item, Mapping):
        return cast("Mapping[str, Any]", item).get("id")
    return getattr(item, "id", None)


def _wrong(merge: str, wanted: str, value: Any) -> MergeError:
    return MergeError(
        "{key}: `{merge}` takes {wanted}, not a value of type {type}",
        key=_SOMEWHERE,
        merge=merge,
        wanted=wanted,
        type=type(value).__name__,
    )
