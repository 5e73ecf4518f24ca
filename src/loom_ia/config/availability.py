"""The table of what the configuration will say one day and cannot say yet.

Law. A key or a value that belongs to the language of the configuration is never taken for a typing
error, and never ignored: it is refused as not available. A line leaves this table when the models
of `config/root.py` and `agents/spec.py` learn it. `*` stands for any item of a list.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

Pattern: TypeAlias = tuple[str, ...]

AGENT: Final[Pattern] = ("agents", "*")
GRAPH: Final[Pattern] = ("graphs", "*")
_TOOL: Final[Pattern] = (*AGENT, "tools", "*")


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNAVAILABLE_KEYS: Final[Mapping[Pattern, frozenset[str]]] = MappingProxyType(
    {
        (): _keys("tenants"),
        ("sessions",): _keys("snapshot_every compaction media"),
        ("storage",): _keys("queue bus encryption retention"),
        ("storage", "events"): _keys("dsn_env role pool"),
        ("storage", "idempotency"): _keys("dsn_env url_env role pool"),
        ("execution", "tools"): _keys("validate_arguments"),
        ("telemetry",): _keys("redaction exporters"),
        ("telemetry", "capture"): _keys("exports"),
        (*AGENT, "approval"): _keys("scope"),
        ("budgets",): _keys("tenant"),
        (*AGENT, "budget"): _keys("tenant"),
    }
)

UNAVAILABLE_VALUES: Final[Mapping[Pattern, frozenset[str]]] = MappingProxyType(
    {
        ("storage", "events", "backend"): frozenset({"postgres"}),
        ("storage", "idempotency", "backend"): frozenset({"postgres", "redis"}),
    }
)

# Keys that will never be, each with what to write instead.
EXPLAINED_KEYS: Final[Mapping[Pattern, Mapping[str, str]]] = MappingProxyType(
    {
        ("telemetry",): {"bus": "the bus is declared under storage.bus, not here"},
        _TOOL: {"judge": "a tool has no judge: judges review roles and final answers"},
    }
)


def pattern_of(path: tuple[str | int, ...]) -> Pattern:
    """Give the entry of the tables that `path` falls under."""
    return tuple("*" if isinstance(part, int) else part for part in path)
