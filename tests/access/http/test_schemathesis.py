"""The API is held to its own description by requests that nobody thought of.

No answer is 500, none has a status or a shape that is not described, what the description refuses
is refused, and a key is needed where it says so.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from loom_ia.access.http import create_app
from tests.access.http.doors import SCOPES, config, key, opened

_QUICK = int(os.environ.get("LOOM_API_EXAMPLES", "12"))
_LONG = 400
_SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


# The cases are made from the description before any fixture is.
_FOLDER = TemporaryDirectory(prefix="loom-api-")
_LOOMS = [
    opened(config(Path(_FOLDER.name) / name, keys))
    for name, keys in {"open": (), "keyed": (key("k", *SCOPES),)}.items()
]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    """Leave nothing open behind."""
    yield
    for loom in _LOOMS:
        asyncio.run(loom.aclose())
    _FOLDER.cleanup()


# A stream has no end of its own, and is tested beside what it does.
_open, _keyed = (
    schemathesis.openapi.from_asgi("/openapi.json", create_app(loom)).exclude(
        path_regex="/runs/.+/events$"
    )
    for loom in _LOOMS
)


def _excluded(case: schemathesis.Case) -> list[Any]:
    """Leave out what cannot be asked of a search.

    A place to go on from may be well written and in no journal: 400 is right for it. And whatever
    stands in an address is text, so that `type=null` is a type as good as another.
    """
    if case.path != "/v1/events":
        return []
    return [positive_data_acceptance, negative_data_rejection]


@_open.parametrize()
@settings(max_examples=_QUICK, **_SETTINGS)
def test_the_api_is_what_it_says(case: schemathesis.Case) -> None:
    """Whatever is asked, the answer is one that is described."""
    case.call_and_validate(excluded_checks=_excluded(case))


@_keyed.parametrize()
@settings(max_examples=_QUICK // 3, **_SETTINGS)
def test_with_keys_it_is_what_it_says(case: schemathesis.Case) -> None:
    """With a key the same holds, and without it nothing is answered."""
    case.call_and_validate(
        headers={"Authorization": "Bearer lk_k"}, excluded_checks=_excluded(case)
    )


@pytest.mark.slow
@_open.parametrize()
@settings(max_examples=_LONG, **_SETTINGS)
def test_the_api_is_what_it_says_at_length(case: schemathesis.Case) -> None:
    """The same, for minutes."""
    case.call_and_validate(excluded_checks=_excluded(case))
