"""The API is held to its own description by requests that nobody thought of.

No answer is 500, none has a status or a shape that is not described, what the description refuses
is refused, and a key is needed where it says so.
"""

import asyncio
import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from loom_ia.access.http import create_app
from tests.access.http.doors import SCOPES, config, key, opened

_QUICK = int(os.environ.get("LOOM_API_EXAMPLES", "12"))
_LONG = 400
_SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def _described(folder: pytest.TempPathFactory, *keys: str) -> Iterator[object]:
    made = tuple(key(name, *SCOPES) for name in keys)
    loom = opened(config(folder.mktemp("api"), made))
    yield schemathesis.openapi.from_asgi("/openapi.json", create_app(loom))
    asyncio.run(loom.aclose())


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The API without keys."""
    yield from _described(tmp_path_factory)


@pytest.fixture(scope="module")
def keyed_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The API that asks for a key."""
    yield from _described(tmp_path_factory, "k")


# A stream has no end of its own, and is tested beside what it does.
_open = schemathesis.pytest.from_fixture("api").exclude(path_regex="/runs/.+/events$")
_keyed = schemathesis.pytest.from_fixture("keyed_api").exclude(path_regex="/runs/.+/events$")


@_open.parametrize()
@settings(max_examples=_QUICK, **_SETTINGS)
def test_the_api_is_what_it_says(case: schemathesis.Case) -> None:
    """Whatever is asked, the answer is one that is described."""
    case.call_and_validate()


@_keyed.parametrize()
@settings(max_examples=_QUICK // 3, **_SETTINGS)
def test_with_keys_it_is_what_it_says(case: schemathesis.Case) -> None:
    """With a key the same holds, and without it nothing is answered."""
    case.call_and_validate(headers={"Authorization": "Bearer lk_k"})


@pytest.mark.slow
@_open.parametrize()
@settings(max_examples=_LONG, **_SETTINGS)
def test_the_api_is_what_it_says_at_length(case: schemathesis.Case) -> None:
    """The same, for minutes."""
    case.call_and_validate()
