"""What an agent keeps for a session under names: the rules of its keys, and what was refused.

Law. The caller and the tools write values, the model never does. Null erases. Here are values
alone; `core/session_values.py` applies the rules, and `core/state` folds what was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import Value, sparse

StateFault: TypeAlias = Literal[
    "undeclared", "unstorable", "too_large", "no_room", "misfit", "missing"
]
OnMissing: TypeAlias = Literal["refuse", "ignore"]

STATE_KEY: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
"""What the name of a key looks like."""

DEFAULT_VALUE_BYTES: Final = 1024
DEFAULT_TOTAL_BYTES: Final = 4096
MOST_STATE_BYTES: Final = 1_048_576
"""The highest limits that may be asked for: the state goes with each request."""


class StateRefusal(Value):
    """A value that was not kept: its key, what kept it out, and the detail of that.

    `detail` is, by kind: the declared keys (`undeclared`), what JSON cannot hold (`unstorable`),
    the size and the limit in bytes (`too_large`, `no_room`), where and why it does not fit its
    schema (`misfit`), the pointer that leads to nothing (`missing`).
    """

    key: str
    kind: StateFault
    detail: str = sparse("")


@dataclass(frozen=True, slots=True)
class StateSource:
    """A tool whose success writes a key: what its data have at `path`, or `value` without one.

    `path` is a JSON Pointer (RFC 6901).
    """

    tool: str
    path: str | None = None
    value: JsonValue = None
    on_missing: OnMissing = "refuse"


@dataclass(frozen=True, slots=True)
class StateKey:
    """A key: the JSON Schema of its values, None for any, and where they come from."""

    description: str = ""
    schema: JsonObject | None = None
    sources: tuple[StateSource, ...] = ()
    required: bool = False
    default: JsonValue = None


@dataclass(frozen=True, slots=True)
class StateRules:
    """The keys of an agent, and how many bytes a value and all of them may take as JSON.

    `shown` tells whether the model reads the state at the end of each of its requests.
    """

    keys: Mapping[str, StateKey] = field(default_factory=dict[str, StateKey])
    max_value_bytes: int = DEFAULT_VALUE_BYTES
    max_total_bytes: int = DEFAULT_TOTAL_BYTES
    shown: bool = False

    @property
    def declared(self) -> dict[str, JsonValue]:
        """The keys, each with its default, null without one."""
        return {name: key.default for name, key in self.keys.items()}

    def only(self, *names: str) -> "StateRules":
        """Give the same rules for some of the keys."""
        keys = {name: key for name, key in self.keys.items() if name in names}
        return StateRules(
            MappingProxyType(keys), self.max_value_bytes, self.max_total_bytes, shown=self.shown
        )

    def identity(self) -> JsonValue:
        """Give what distinguishes these rules from others, as JSON; null for none."""
        if not self.keys:
            return None
        keys: list[JsonValue] = [
            [
                name,
                key.description,
                key.schema,
                [[s.tool, s.path, s.value, s.on_missing] for s in key.sources],
                key.required,
                key.default,
            ]
            for name, key in self.keys.items()
        ]
        return [keys, self.max_value_bytes, self.max_total_bytes, self.shown]


NO_STATE: Final = StateRules()
"""No key at all."""
