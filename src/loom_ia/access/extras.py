"""What is not installed, told where it is needed first."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from loom_ia.core.errors import CallerError

_PACKAGES: Final = {
    "http": frozenset(
        {"fastapi", "starlette", "uvicorn", "uvloop", "httptools", "python_multipart", "watchfiles"}
    ),
    "mcp": frozenset({"mcp", "httpx2"}),
}


class MissingExtra(CallerError, ImportError):
    """A part of this package needs others that are not installed; the message names the extra."""


@contextmanager
def require_extra(extra: str) -> Generator[None]:
    """Say which extra is missing when one of its packages cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _PACKAGES[extra]:
            raise
        raise MissingExtra(
            '{missing} is not installed: pip install "loom-ia[{extra}]"',
            missing=missing,
            extra=extra,
        ) from error
