"""Whether a body was signed by whoever shares a secret."""

import hashlib
import hmac
from typing import Final

_SCHEME: Final = "sha256="
_LONGEST: Final = 256


def signature_of(body: bytes, secret: str) -> str:
    """Sign a body: `sha256=` and its HMAC-SHA256 in hexadecimal, as many services do."""
    return _SCHEME + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_signed(body: bytes, signature: str | None, secret: str) -> bool:
    """Tell, in constant time, whether `signature` is that of `body`; an empty secret signs nothing.

    Capital digits are accepted.
    """
    if not secret or not signature or len(signature) > _LONGEST or not signature.isascii():
        return False
    return hmac.compare_digest(signature_of(body, secret), signature.strip().lower())
