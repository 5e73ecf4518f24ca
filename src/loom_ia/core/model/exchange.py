"""One HTTP exchange with a provider, as it may be kept: without secrets, and bounded."""

from pydantic import Field

from loom_ia.core.model.base import Value, sparse


class HttpExchange(Value):
    """What was sent and what came back.

    Names of headers are in lower case. Bodies are text, cut at the limit that the configuration
    gives (`*_truncated` says so); `*_bytes` are their whole sizes and `request_sha256` the digest
    of what was really sent. `status_code` is None when no answer came; `error` is the type of what
    ended the exchange before its end.
    """

    method: str
    url: str
    status_code: int | None = sparse(None)
    duration_ms: int = sparse(0)
    request_headers: dict[str, str] = Field(default_factory=dict)
    request_body: str = sparse("")
    request_bytes: int = sparse(0)
    request_sha256: str = sparse("")
    request_truncated: bool = sparse(False)
    response_headers: dict[str, str] = sparse({})
    response_body: str = sparse("")
    response_bytes: int = sparse(0)
    response_truncated: bool = sparse(False)
    error: str = sparse("")
