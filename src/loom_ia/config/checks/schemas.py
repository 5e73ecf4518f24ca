"""The schema of an answer was read, and is a schema."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_schemas(project: Project) -> Iterator[Problem]:
    """Give what was found wrong while the schemas were read."""
    for schema in project.schemas.values():
        yield from schema.problems
