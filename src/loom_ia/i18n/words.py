"""The few words of ours that errors carry as parameters, by the name of the parameter.

Law. A closed list: a parameter is otherwise shown as it is, since it is somebody else's word.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "agents": frozenset({"none"}),
        "pending": frozenset({"none"}),
        "what": frozenset({"run id", "session id", "tenant id", "the name of a lock"}),
        "kind": frozenset({"a list", "a single value"}),
    }
)
