"""Signed links to the page where a decision is taken.

Law. A link says which request it is about, what was shown of it, to whom it was sent and until when
it holds, and hides none of it: it is the signature that makes it a permission. It is made of facts
alone, so that a notice sent again holds the same one. Opening it reads; it decides nothing.
"""

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, cast

from loom_ia.core.errors import LinkRefused
from loom_ia.core.ids import RunId, TenantId
from loom_ia.core.spans import span

MOST_CHARS: Final = 600
"""A link that is made of ordinary ids has some 230."""
_TOKEN: Final = re.compile(r"([A-Za-z0-9_-]{1,600})\.([A-Za-z0-9_-]{43})")
_PURPOSE: Final = b"loom-ia decide 1 "
_BAD: Final = "this link is not one of ours, or was cut on its way"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a link says. `shown` is the digest of what its notice showed, `target` who was told."""

    tenant_id: TenantId
    run_id: RunId
    request: str
    shown: str
    expires_at: datetime
    target: str

    @property
    def author(self) -> str:
        """How what is decided by the link is signed in the journal."""
        return f"link:{self.target}"


@dataclass(frozen=True, slots=True)
class Links:
    """Makes and reads links. The first of `secrets` signs, the others only open.

    `base` is what every link begins with, None when none is sent. `expires_in` is in seconds, from
    the instant of the request.
    """

    secrets: Sequence[str] = field(repr=False)
    base: str | None = None
    expires_in: float = 86_400.0

    def holds_until(self, asked_at: datetime, expire_at: datetime | None) -> datetime:
        """Say until when a link to a request may be used: never longer than the request is open."""
        limit = asked_at + span(self.expires_in)
        return limit if expire_at is None else min(limit, expire_at)

    def url(self, claim: Claim, now: datetime) -> str | None:
        """Write a link; None when none is sent, or when it would be of no use."""
        if self.base is None or claim.expires_at <= now:
            return None
        token = self.token(claim)
        return f"{self.base.rstrip('/')}/decide/{token}" if len(token) <= MOST_CHARS else None

    def token(self, claim: Claim) -> str:
        """Write and sign the end of a link."""
        said = [
            claim.tenant_id,
            claim.run_id,
            claim.request,
            claim.shown,
            int(claim.expires_at.timestamp()),
            claim.target,
        ]
        body = _coded(json.dumps(said, separators=(",", ":")).encode())
        return f"{body}.{self._signed(body, self.secrets[0])}"

    def read(self, token: str, now: datetime) -> Claim:
        """Read the end of a link. Raises `LinkRefused` for what we did not sign, or is too old."""
        found = _TOKEN.fullmatch(token) if len(token) <= MOST_CHARS else None
        if found is None:
            raise LinkRefused(_BAD)
        body, given = found.groups()
        signatures = [self._signed(body, secret) for secret in self.secrets]
        if not any(hmac.compare_digest(given, signed) for signed in signatures):
            raise LinkRefused(_BAD)
        tenant, run, request, shown, until, target = _said(body)
        expires_at = datetime.fromtimestamp(until, UTC)
        if now >= expires_at:
            raise LinkRefused(
                "this link could be used until {expire_at}",
                expired=True,
                expire_at=expires_at.isoformat(timespec="seconds"),
            )
        return Claim(tenant, run, request, shown, expires_at, target)

    @staticmethod
    def _signed(body: str, secret: str) -> str:
        return _coded(hmac.new(secret.encode(), _PURPOSE + body.encode(), sha256).digest())


def _coded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _said(body: str) -> tuple[str, str, str, str, int, str]:
    """Read what was signed, which is ours: another version may have written it."""
    try:
        said: object = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError as error:
        raise LinkRefused(_BAD) from error
    kinds = (str, str, str, str, int, str)
    parts = cast("list[object]", said) if isinstance(said, list) else []
    if len(parts) != len(kinds) or not all(map(isinstance, parts, kinds)):
        raise LinkRefused(_BAD)
    return cast("tuple[str, str, str, str, int, str]", tuple(parts))
