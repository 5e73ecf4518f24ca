"""The one base of everything that is written down: frozen, closed, and small on disk."""

from operator import not_
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Value(BaseModel):
    """A frozen value that serialises. Unknown fields are refused, except when reading a journal."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def sparse(default: Any, **options: Any) -> Any:
    """Declare a field that is left out of the written form while it is empty.

    `default` must be falsy, so that what the reader puts back is what the writer had.
    """
    if default:
        raise ValueError("a sparse field needs a falsy default")
    if default == {}:  # Pydantic copies a mutable default deeply, which is slower than making one
        return Field(default_factory=dict, exclude_if=not_, **options)
    return Field(default, exclude_if=not_, **options)
