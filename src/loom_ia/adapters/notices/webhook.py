"""A notice posted to an address, as JSON.

Law. Only a status tells what became of it: of the answer nothing else is read, and no redirect is
followed, for what is sent was meant for that address alone.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from loom_ia.core.errors import NoticeNotSent
from loom_ia.core.ports.clock import Clock

DELIVERY: Final = "Loom-Delivery"
TIMESTAMP: Final = "Loom-Timestamp"
SIGNATURE: Final = "Loom-Signature"
_PASSING: Final = frozenset({408, 425, 429})


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Sign what is posted: `sha256=` and the HMAC of the timestamp, a point, and the body."""
    signed = timestamp.encode() + b"." + body
    return f"sha256={hmac.new(secret.encode(), signed, sha256).hexdigest()}"


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Posts to `url`. `timeout` is in seconds; without a `secret` nothing is signed.

    Statuses of the class 5 and 408, 425, 429 may be tried again; other refusals are final.
    """

    url: str
    clock: Clock
    timeout: float = 10.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secret: str = field(default="", repr=False)

    async def send(self, body: bytes, delivery_id: str) -> None:
        """Post a notice."""
        import httpx2  # only where there is something to post

        headers = {**self.headers, "Content-Type": "application/json", DELIVERY: delivery_id}
        if self.secret:
            stamp = str(int(self.clock.now().timestamp()))
            headers |= {TIMESTAMP: stamp, SIGNATURE: signature(self.secret, stamp, body)}
        try:
            async with (
                httpx2.AsyncClient(timeout=self.timeout, follow_redirects=False) as client,
                client.stream("POST", self.url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise NoticeNotSent(
                "the webhook does not answer: {type}", type=type(error).__name__
            ) from error
        if not 200 <= status < 300:
            again = status >= 500 or status in _PASSING
            raise NoticeNotSent("the webhook answered {status}", again=again, status=status)
