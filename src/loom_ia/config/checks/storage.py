"""A store has a path when, and only when, its backend keeps it somewhere."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_storage(project: Project) -> Iterator[Problem]:
    """Refuse a store on disk without a path, and one in memory with a path."""
    if "storage" in project.broken:
        return
    storage = project.root.storage
    events, files = storage.events, storage.artifacts
    at = project.source.inside("storage", "artifacts")
    if files.backend == "memory" and files.path is not None:
        template = "the memory backend keeps nothing and takes no path (remove it)"
        yield at.problem(("path",), template)
    if files.backend == "local" and files.path is None and events.backend == "memory":
        template = "the {backend} backend needs a path (add path: data)"
        yield at.problem((), template, backend=files.backend)
    keys = storage.idempotency
    at = project.source.inside("storage", "idempotency")
    if keys.backend != "sqlite" and keys.path is not None:
        template = "the {backend} backend takes no path (remove it)"
        yield at.problem(("path",), template, backend=keys.backend)
    if keys.backend == "sqlite" and keys.path is None:
        yield at.problem((), "the sqlite backend needs a path (add path: data/keys.db)")
    source = project.source.inside("storage", "events")
    if events.backend == "memory" and events.path is not None:
        template = "the memory backend keeps nothing and takes no path (remove it)"
        yield source.problem(("path",), template)
    if events.backend != "memory" and events.path is None:
        template = "the {backend} backend needs a path (add path: data)"
        yield source.problem((), template, backend=events.backend)
