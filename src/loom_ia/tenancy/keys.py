"""The keys that let programs in: kept as digests, told apart in constant time, held to a pace.

Law. A key is never kept and never said: neither in an error, nor in a log. Whoever presents one is
compared with every key, so that the time taken tells nothing. The configuration holds digests
alone; a key is a random number of 256 bits, which no table of guesses can find, so that a plain
SHA-256 is enough and costs nothing.
"""

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from loom_ia.core.errors import KeyRefused, RateLimited
from loom_ia.core.model.scopes import Scope
from loom_ia.tenancy.visitor import EVERYBODY, Visitor

PREFIX: Final = "lk_"
LONGEST: Final = 512
"""Characters above which what is presented is no key, and is not even looked at."""

WINDOW_S: Final = 60.0

_BYTES: Final = 32


def new_key() -> tuple[str, str]:
    """Make a key; gives it, to be shown once, and its digest, to be kept."""
    secret = PREFIX + secrets.token_urlsafe(_BYTES)
    return secret, digest_of(secret)


def digest_of(secret: str) -> str:
    """Give the digest of a key, as the configuration has it: `sha256:` and 64 digits."""
    return f"sha256:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that was declared: its name, its digest, and what it lets its holder do.

    It is refused from `expires` on, and used at most `per_minute` times in any sixty seconds.
    Without `agents`, it is for all of them.
    """

    id: str
    digest: str = field(repr=False)
    scopes: frozenset[Scope]
    agents: frozenset[str] = frozenset()
    tenant_id: str = "default"
    expires: datetime | None = None
    per_minute: int | None = None

    @property
    def visitor(self) -> Visitor:
        """Whoever holds it."""
        return Visitor(self.id, self.scopes, self.agents, self.tenant_id)

    def is_expired(self, now: datetime) -> bool:
        """Whether it is refused at that instant."""
        return self.expires is not None and now >= self.expires


def _now() -> datetime:
    return datetime.now(UTC)


class KeyRing:
    """The keys of an instance, and how often each was used in the last minute by this process.

    Without any key, everybody is let in. `now` gives instants with their time zone; `seconds` gives
    a time that never goes back. To be used from one thread.
    """

    def __init__(
        self,
        keys: Sequence[ApiKey],
        *,
        now: Callable[[], datetime] = _now,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = tuple(keys)
        self._now = now
        self._seconds = seconds
        self._paces = {
            key.id: _Pace(key.per_minute) for key in self._keys if key.per_minute is not None
        }

    @property
    def is_open(self) -> bool:
        """Whether everybody is let in, for want of any key."""
        return not self._keys

    def visitor(self, secret: str | None) -> Visitor:
        """Say who presents that key, and count it as one use; None when none is presented.

        Raises `KeyRefused` for a key that is missing, unknown or expired, and `RateLimited` for one
        that is used too often: only uses that were let in are counted.
        """
        if not self._keys:
            return EVERYBODY
        if not secret:
            raise KeyRefused("a key is needed: send it in Authorization: Bearer … or in X-API-Key")
        key = self._find(secret)
        if key is None:
            raise KeyRefused("this key is not known here: ask for another one")
        if key.expires is not None and key.is_expired(self._now()):
            raise KeyRefused(
                "the key {key!r} expired on {expires}: ask for another one",
                key=key.id,
                expires=key.expires.isoformat(timespec="seconds"),
            )
        pace = self._paces.get(key.id)
        if pace is not None and (wait := pace.wait(self._seconds())) > 0:
            raise RateLimited(
                "the key {key!r} may be used {limit} time(s) a minute: wait {retry_after:.0f} s",
                retry_after=wait,
                key=key.id,
                limit=key.per_minute,
            )
        return key.visitor

    def _find(self, secret: str) -> ApiKey | None:
        """Compare a key with every one that was declared, whatever is found before."""
        if len(secret) > LONGEST:
            return None
        digest = digest_of(secret)
        found: ApiKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


class _Pace:
    """The uses of one key in the last minute: never more of them than are allowed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._uses: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Count a use and give 0, or give the seconds until one is allowed and count nothing."""
        while self._uses and self._uses[0] <= now - WINDOW_S:
            self._uses.popleft()
        if len(self._uses) >= self._limit:
            return self._uses[0] + WINDOW_S - now
        self._uses.append(now)
        return 0.0
