"""The table of adapters: which name of the configuration is served by which code.

Adapters are named as text, so that nothing is imported before it is asked for.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

BackendKind: TypeAlias = Literal["journal", "artifacts", "idempotency", "model"]

BACKENDS: Final[Mapping[tuple[BackendKind, str], str]] = MappingProxyType(
    {
        ("journal", "memory"): "loom_ia.adapters.journals.memory:MemoryJournal",
        ("journal", "jsonl"): "loom_ia.adapters.journals.jsonl:JsonlJournal",
        ("journal", "sqlite"): "loom_ia.adapters.journals.sqlite:SqliteJournal",
        ("artifacts", "local"): "loom_ia.adapters.artifacts.local:LocalArtifacts",
        ("artifacts", "memory"): "loom_ia.adapters.artifacts.memory:MemoryArtifacts",
        ("idempotency", "memory"): "loom_ia.adapters.idempotency.memory:MemoryIdempotency",
        ("idempotency", "sqlite"): "loom_ia.adapters.idempotency.sqlite:SqliteIdempotency",
        ("model", "fake"): "loom_ia.adapters.models.fake:FakeModel",
    }
)
"""`module:factory` by kind and by the name that the configuration uses."""


def factory(kind: BackendKind, name: str) -> Callable[..., Any]:
    """Import the code that serves `name`."""
    module, _, attribute = BACKENDS[kind, name].partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), attribute))
