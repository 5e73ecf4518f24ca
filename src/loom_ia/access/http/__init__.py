"""The REST API: `create_app(loom)` gives an application to serve, or to mount in one's own.

Needs the extra `http`: without it, reading `create_app` says so.
"""

from typing import TYPE_CHECKING

from loom_ia.access.extras import require_extra

if TYPE_CHECKING:
    from loom_ia.access.http.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> object:
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require_extra("http"):
        from loom_ia.access.http.app import create_app
    return create_app
