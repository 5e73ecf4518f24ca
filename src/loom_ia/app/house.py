"""What a host gives to the graphs that run on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loom_ia.core.model.budget import Budget
from loom_ia.core.ports.store import Store
from loom_ia.core.prompts import Language
from loom_ia.engine.program import GraphProgram

if TYPE_CHECKING:  # graphs are imported where there is one
    from loom_ia.graph.definition import GraphDefinition
    from loom_ia.graph.running import Host


@dataclass(frozen=True, slots=True)
class House:
    """The graphs of a host by name, the names that their steps use, and what bounds their runs.

    `store` is where steps keep values; `limits` bind every run and `session_limits` all those of a
    session, None for no limit.
    """

    graphs: "Callable[[], Mapping[str, GraphDefinition[Any]]]"
    host: "Host"
    store: Store | None = None
    limits: Budget | None = None
    session_limits: Budget | None = None
    language: Language = "en"

    def program(self, graph: "GraphDefinition[Any]") -> GraphProgram:
        """Give a graph ready to be driven."""
        from loom_ia.graph.compiled import program_of

        return program_of(
            graph,
            store=self.store,
            host=self.host,
            limits=self.limits,
            session_limits=self.session_limits,
            language=self.language,
        )
