"""What the tests of the adapters of models share."""

from tests.providers.conftest import provider

__all__ = ["provider"]
