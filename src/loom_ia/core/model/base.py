"""The one base of everything that is written down: frozen, closed, and small on disk."""

from operator import not_
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

_set = object.__setattr__


class Value(BaseModel):
    """A frozen value that serialises. Unknown fields are refused, except when reading a journal."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """Build the value from parts that the engine made itself; nothing is checked.

        Every field must be given. Checking seven events a turn again would cost a tenth of it.
        """
        new = object.__new__(cls)
        _set(new, "__dict__", fields)
        _set(new, "__pydantic_fields_set__", set(fields))
        _set(new, "__pydantic_extra__", None)
        _set(new, "__pydantic_private__", None)
        return new


def sparse(default: Any, **options: Any) -> Any:
    """Declare a field that is left out of the written form while it is empty.

    `default` must be falsy, so that what the reader puts back is what the writer had.
    """
    if default:
        raise ValueError("a sparse field needs a falsy default")
    if default == {}:  # Pydantic copies a mutable default deeply, which is slower than making one
        return Field(default_factory=dict, exclude_if=not_, **options)
    return Field(default, exclude_if=not_, **options)


def nullable(**options: Any) -> Any:
    """Declare a field that is left out of the written form while it is None, and only then."""
    return Field(None, exclude_if=_is_none, **options)


def _is_none(value: object) -> bool:
    return value is None
