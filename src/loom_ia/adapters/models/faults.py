"""What went wrong with a provider, as one of the kinds that decide retry and fallback.

Law. The table below is the only place where a status, a code or a sentence of a provider is read.
The first line that matches wins.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

from loom_ia.adapters.models.hidden import without, without_piece
from loom_ia.core.errors import ModelError, ModelErrorKind, StreamInterrupted
from loom_ia.core.json import storable_text
from loom_ia.core.model.models import ModelSpec

_LONGEST: Final = 600
_MOST_READ: Final = 4_000
"""Characters of what a provider says that are looked at."""

_LONGEST_WAIT: Final = 1e9
_OVERFLOW: Final = re.compile(
    r"context.{0,12}(length|window|size)|prompt is too long|too many (input )?tokens"
    r"|maximum.{0,20}tokens|input.{0,20}too (long|large)|exceeds?.{0,40}(context|token limit)"
    r"|reduce the length",
    re.IGNORECASE,
)
_NOTHING_LEFT: Final = re.compile(
    r"credit balance is too low|insufficient (account )?(balance|credit|fund|quota)"
    r"|exceeded your current quota",
    re.IGNORECASE,
)
_SOON: Final = re.compile(r"(retry|try again) (in|after) \d", re.IGNORECASE)
"""What a limit of calls says that speaks as if there was nothing left."""

_STATUS: Final = re.compile(r"[45]\d\d")

_QUOTA: Final = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "insufficient_balance"}
)
_CONTEXT: Final = frozenset(
    {"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}
)
_FILTERED: Final = frozenset(
    {
        *("content_filter", "content_policy_violation", "invalid_prompt", "bio_policy"),
        *("misalignment_policy_violation", "image_content_policy_violation"),
    }
)
_AUTH: Final = frozenset({"authentication_error", "permission_error", "invalid_api_key"})
_OVERLOADED: Final = frozenset({"overloaded_error", "server_overloaded"})
_TRANSIENT: Final = frozenset({"api_error", "timeout_error", "server_error"})
_INVALID: Final = (
    *("invalid_", "image_", "data_residency_mismatch", "unsupported_image_media_type"),
    *("empty_image_file", "failed_to_download_image"),
)
"""How the codes begin of what is wrong with a request, when it is told inside an answer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a provider said: its status, the codes and types in the body, and its sentence."""

    status: int | None = None
    codes: frozenset[str] = frozenset()
    message: str = ""
    retry_after: float | None = None

    @property
    def kind(self) -> ModelErrorKind:
        """The kind of the error."""
        status, codes = self._meant_status, self.codes
        table: tuple[tuple[ModelErrorKind, bool], ...] = (
            ("quota_exhausted", bool(codes & _QUOTA) or status == 402 or self._says_nothing_left),
            ("context_overflow", bool(codes & _CONTEXT) or self._says_overflow),
            ("content_filtered", bool(codes & _FILTERED)),
            ("auth", bool(codes & _AUTH) or status in {401, 403}),
            ("overloaded", bool(codes & _OVERLOADED) or status in {503, 529}),
            ("transient", self._is_transient),
        )
        for kind, holds in table:
            if holds:
                return kind
        return "invalid_request"

    @property
    def _says_nothing_left(self) -> bool:
        return bool(_NOTHING_LEFT.search(self.message)) and not _SOON.search(self.message)

    @property
    def _says_overflow(self) -> bool:
        return self._meant_status in {None, 400, 413} and bool(_OVERFLOW.search(self.message))

    @property
    def _is_transient(self) -> bool:
        if self.codes & _TRANSIENT or any(code.startswith("rate_limit") for code in self.codes):
            return True
        status = self._meant_status
        if status is None:
            return not any(code.startswith(_INVALID) for code in self.codes)
        return status in {408, 409, 429} or status >= 500

    @property
    def _meant_status(self) -> int | None:
        """The status; inside an answer, the one that its codes give."""
        told = (int(code) for code in self.codes if _STATUS.fullmatch(code))
        return self.status if self.status is not None else min(told, default=None)


def model_error(
    spec: ModelSpec, fault: Fault, *, secret: str | None = None, cut: bool = False
) -> ModelError:
    """Give the error of a provider; `secret` never stands in it. `cut` tells of a broken answer."""
    message = without_piece(secret, without(secret, fault.message[:_MOST_READ]))
    message = storable_text(" ".join(message.split()))[:_LONGEST]
    template = "{model}: {message}"
    if fault.status is not None:
        template = "{model}: HTTP {status}: {message}"
    return (StreamInterrupted if cut else ModelError)(
        fault.kind,
        template,
        model=spec.id,
        status=fault.status,
        message=message or "no explanation",
        http_status=fault.status,
        retry_after=fault.retry_after,
    )


def fault_of(
    body: object, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Fault:
    """Read what a provider said; `body` is its JSON document, or its text.

    A status that says that all is well says nothing of an error: it came inside the answer.
    """
    if status is not None and status < 300:
        status = None
    return Fault(status, _codes(body), _message(body)[:_MOST_READ], retry_after(headers or {}))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Give the seconds that a provider asks to wait, by `retry-after-ms` or `retry-after`.

    What is longer than any wait, some thirty years, is that long.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    written = headers.get("retry-after")
    seconds = _number(written)
    if seconds is not None or not written:
        return seconds
    try:
        date = parsedate_to_datetime(written)
    except (ValueError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    wait = (date - (now or datetime.now(UTC))).total_seconds()
    return min(max(wait, 0.0), _LONGEST_WAIT)


def _number(text: str | None) -> float | None:
    """Read a number that is not negative, however many digits it has."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    is_long = math.isinf(value) and (text or "").strip().isdigit()
    return min(value, _LONGEST_WAIT) if value >= 0 and (math.isfinite(value) or is_long) else None


def _codes(body: object) -> frozenset[str]:
    found: set[str] = set()
    for part in _parts(body):
        for key in ("code", "type"):
            value = part.get(key)
            if isinstance(value, int):
                value = str(value)
            if isinstance(value, str) and value != "error":
                found.add(value)
    return frozenset(found)


def _message(body: object) -> str:
    for part in reversed(_parts(body)):
        for key in ("message", "detail", "error", "msg", "status_msg"):
            value = part.get(key)
            if isinstance(value, str) and value.strip():
                return value
    if isinstance(body, str):
        # A page of a proxy is told by its text, without its marks.
        return re.sub(r"<[^>]{0,200}>", " ", body[:20_000])
    return _written(body) if body else ""


def _written(body: object) -> str:
    """Write the beginning of a document, however long or deep it is."""
    written = ""
    with suppress(RecursionError):
        for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(body):
            written += piece[:_LONGEST]
            if len(written) >= _LONGEST:
                break
    return written[:_LONGEST]


def _parts(body: object) -> list[dict[str, Any]]:
    """Give the objects in which an error may say what it is, the outer one first."""
    parts: list[dict[str, Any]] = []
    if isinstance(body, list):  # so do some gateways
        body = next(iter(cast("list[object]", body)), None)
    while isinstance(body, dict) and len(parts) < 4:
        part = cast("dict[str, Any]", body)
        parts.append(part)
        body = part.get("error") or part.get("base_resp")
    return parts
