"""A door without keys, and one with a key for each scope."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom_ia.assembly.api_keys import key_ring
from tests.access.http.doors import SCOPES, SENT, Door, config, door, key

KEYS = (
    *(key(scope, scope) for scope in SCOPES),
    key("all", *SCOPES),
    key("masked", "run", "read", "approve", "admin"),
    key("only-relance", *SCOPES, agents=("relance",)),
    key("only-a", *SCOPES, agents=("a",)),
)
ELSEWHERE = key("elsewhere", *SCOPES, tenant="autre")
"""A key of a client, which no configuration may declare yet."""


@pytest.fixture
async def open_door(tmp_path: Path) -> AsyncIterator[Door]:
    """A door that is open to everybody."""
    SENT.clear()
    async with door(config(tmp_path)) as opened:
        yield opened


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Door]:
    """A door that opens to the keys above."""
    SENT.clear()
    keys = key_ring(config(tmp_path, (*KEYS, ELSEWHERE)))
    async with door(config(tmp_path, KEYS), keys) as opened:
        yield opened
