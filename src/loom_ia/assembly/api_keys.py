"""The keys of the configuration, ready to tell who comes in."""

import time
from collections.abc import Callable

from loom_ia.config.root import LoomConfig
from loom_ia.config.server import ApiKeySpec
from loom_ia.core.ports.clock import Clock
from loom_ia.engine.clock import SystemClock
from loom_ia.tenancy.keys import ApiKey, KeyRing


def key_ring(
    config: LoomConfig,
    clock: Clock | None = None,
    *,
    seconds: Callable[[], float] = time.monotonic,
) -> KeyRing:
    """Make the key ring of an instance: one for all its doors, so that a use is counted once.

    `clock` tells when a key expires; `seconds` measures how often it is used.
    """
    now = (clock or SystemClock()).now
    return KeyRing(tuple(map(_key, config.security.api_keys)), now=now, seconds=seconds)


def _key(spec: ApiKeySpec) -> ApiKey:
    return ApiKey(
        id=spec.id,
        digest=spec.hash,
        scopes=frozenset(spec.scopes),
        agents=frozenset(spec.agents),
        tenant_id=spec.tenant,
        expires=spec.expires,
        per_minute=spec.rate_limit.per_minute if spec.rate_limit else None,
    )
