"""Whoever comes in through a door, and what he may do.

Law. A visitor is a value that the key alone decides: nothing that a request says can change it.
"""

from dataclasses import dataclass
from typing import Final

from loom_ia.core.model.scopes import SCOPES, Scope


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks: the id of his key, in whose name he acts, his scopes and his agents.

    Without `agents` he may use all of them. `name` signs what he does in the journal.
    """

    name: str
    scopes: frozenset[Scope]
    agents: frozenset[str] = frozenset()
    tenant_id: str = "default"

    def may(self, scope: Scope) -> bool:
        """Whether he holds a scope."""
        return scope in self.scopes

    def sees(self, agent: str) -> bool:
        """Whether he may have to do with that agent."""
        return not self.agents or agent in self.agents


EVERYBODY: Final = Visitor("anonymous", frozenset(SCOPES))
"""Whoever asks while no key is declared."""
