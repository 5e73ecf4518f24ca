"""What a step gave, kept for the next time that it is asked the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakKeyDictionary

from loom_ia.core.json import canonical, digest
from loom_ia.core.ports.store import Store
from loom_ia.graph.codec import Codec
from loom_ia.graph.step_definition import StepDefinition
from loom_ia.graph.types import Ask, Cache, Goto

if TYPE_CHECKING:
    from loom_ia.graph.definition import GraphDefinition


_MEMORIES: WeakKeyDictionary[object, dict[str, bytes]] = WeakKeyDictionary()
"""What graphs without a store keep, each as long as it lives."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The memory of one step; without a store it lives as long as the graph."""

    step: str
    graph: str
    cache: Cache
    store: Store | None
    memory: dict[str, bytes]
    codec: Codec

    @classmethod
    def of(
        cls,
        step: StepDefinition,
        graph: "GraphDefinition[Any]",
        store: Store | None,
        codec: Codec,
    ) -> Self | None:
        """Give the memory of a step, None when it has none."""
        if step.cache is None:
            return None
        memory = _MEMORIES.setdefault(graph, {})
        return cls(step.name, graph.name, step.cache, store, memory, codec)

    async def find(self, view: Any) -> Mapping[str, Any] | None:
        """Give the delta that is kept for this state, unless it is too old."""
        key = self._key(view)
        try:
            if self.store is None:
                data = self.memory[key]
            else:
                data = await self.store.get(self._namespace, key)
        except KeyError:
            return None
        kept = json.loads(data)
        if kept["until"] is not None and datetime.fromisoformat(kept["until"]) <= _now():
            return None
        return cast("Mapping[str, Any]", self.codec.from_json(kept["delta"]))

    async def keep(self, view: Any, given: Any) -> None:
        """Keep what the step gave; a route or a question is not kept."""
        if isinstance(given, Ask | Goto) or not isinstance(given, Mapping | None):
            return
        delta = self.codec.to_json(dict(cast("Mapping[str, Any]", given or {})))
        ttl = self.cache.ttl
        until = None if ttl is None else (_now() + timedelta(seconds=ttl)).isoformat()
        data = canonical({"delta": delta, "until": until}).encode()
        if self.store is None:
            self.memory[self._key(view)] = data
        else:
            await self.store.put(self._namespace, self._key(view), data)

    @property
    def _namespace(self) -> str:
        return f"cache:{self.graph}"

    def _key(self, view: Any) -> str:
        wanted = self.codec.to_json(self.cache.key(view), "Cache.key")
        return f"{self.step}/{digest(wanted)[:32]}"


def _now() -> datetime:
    return datetime.now(UTC)
