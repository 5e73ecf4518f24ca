"""A value of a delta that is added to the list under its key, whatever the merge of that key."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Appended:
    """`{key: Appended(items)}` adds `items` at the end of the list that the key has, or begins one.

    It is for steps of this package whose contract is to add: authors declare a merge.
    """

    items: tuple[Any, ...]
