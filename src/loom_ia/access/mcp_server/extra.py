"""The extra that this door needs."""

from importlib.util import find_spec

from loom_ia.core.errors import CallerError


def require_mcp() -> None:
    """Raise `CallerError` naming the extra when the protocol is not installed."""
    if find_spec("mcp") is None:
        raise CallerError('serving MCP needs the extra mcp: pip install "loom-ia[mcp]"')
