"""The common project, as the acceptance tests have it."""

from tests.acceptance.conftest import project

__all__ = ["project"]
