"""A tool that remembers under a key that runs share has a store that they share."""

from collections.abc import Iterator
from typing import Final

from loom_ia.config.project import Project
from loom_ia.config.tool_kinds import declared
from loom_ia.core.errors import Problem

_SHARED: Final = frozenset({"sqlite"})
_NOT_SHARED: Final = (
    "{tool} remembers under a key of its own, which needs a store that is durable and that runs "
    "share, and {backend} is none (use sqlite under storage.idempotency; postgres and redis are "
    "not available in this version)"
)


def check_idempotency(project: Project) -> Iterator[Problem]:
    """Refuse a key of its own without a store that runs share. Needs the tools to be imported."""
    backend = project.root.storage.idempotency.backend
    if "storage" in project.broken or backend in _SHARED:
        return
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            spec = declared(project, tool)
            if spec is not None and spec.remembers == "key":
                path = ("tools", position, tool.KEY)
                yield agent.source.problem(path, _NOT_SHARED, tool=tool.target, backend=backend)
