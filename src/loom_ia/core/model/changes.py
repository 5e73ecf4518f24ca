"""What a step does to the state of its graph, as operations that anybody can apply again.

A value stands here as the journal holds it: JSON, where what JSON does not know is a tagged object
of one key that begins with `$`, such as `{"$decimal": "19.90"}`. The codec of the graph library
gives that form; this module only has to add two numbers of it.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, Literal, TypeAlias, cast

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import Value, nullable, sparse

DECIMAL: Final = "$decimal"
"""The tag of a `Decimal`, whose text follows."""

ChangeOp: TypeAlias = Literal["set", "append", "add", "remove"]
Values: TypeAlias = Mapping[str, JsonValue]
"""The values of a state by key, in the form of the journal; never changed in place."""


class Change(Value):
    """One operation on one key.

    `set` puts `value`, `append` adds the items of the list `value` to a list, `add` sums a number,
    `remove` takes the key away. `incoming` is what the step gave, where a merge made `value` of it
    and the merge will be made again when branches meet; a list of one item, or empty.
    """

    op: ChangeOp
    key: str
    value: JsonValue = nullable()
    incoming: tuple[JsonValue, ...] = sparse(())

    @classmethod
    def of(cls, op: ChangeOp, key: str, value: JsonValue = None, *incoming: JsonValue) -> "Change":
        """Build a change from parts that are known to be right."""
        return cls.trusted(op=op, key=key, value=value, incoming=incoming)


def applied(values: Values, changes: Iterable[Change]) -> dict[str, JsonValue]:
    """Give `values` once `changes` are made; the values themselves stay as they are.

    It is total: what does not fit, which no writer gives, replaces what was there.
    """
    after = dict(values)
    for change in changes:
        key, value = change.key, change.value
        match change.op:
            case "set":
                after[key] = value
            case "append":
                before = after.get(key)
                items = cast("list[JsonValue]", value if isinstance(value, list) else [value])
                after[key] = [*before, *items] if isinstance(before, list) else items
            case "add":
                after[key] = added(after.get(key), value)
            case "remove":
                after.pop(key, None)
    return after


def added(before: JsonValue, amount: JsonValue) -> JsonValue:
    """Sum two numbers: two `int` give an `int`, a `Decimal` with an `int` a `Decimal`."""
    left, right = _number(before), _number(amount)
    if left is None or right is None:
        return amount
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        left = Decimal(left) if isinstance(left, int) else left
        right = Decimal(right) if isinstance(right, int) else right
        if isinstance(left, Decimal) and isinstance(right, Decimal):
            return cast("JsonObject", {DECIMAL: str(left + right)})
        return amount
    return left + right


def _number(value: JsonValue) -> int | float | Decimal | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, dict) and isinstance(text := value.get(DECIMAL), str):
        return Decimal(text)
    return None
