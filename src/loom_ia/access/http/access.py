"""Who comes in over HTTP: the key of a request, and what its holder may do.

Law. A request is let in here, before anything of it is read, or not at all. Without any key in the
configuration, everybody may do everything.
"""

from ipaddress import ip_address
from typing import Annotated, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request

from loom_ia.access.api import Loom
from loom_ia.access.portal import Portal
from loom_ia.core.errors import Forbidden, KeyRefused
from loom_ia.tenancy.visitor import EVERYBODY, Visitor


class Keys(Protocol):
    """Knows the holders of keys.

    `visitor` raises `KeyRefused` for a key that is unknown or expired, and `RateLimited`.
    """

    def visitor(self, secret: str) -> Visitor: ...


class Doorkeeper:
    """Lets the visitors of one `Loom` in; without `keys`, everybody is let in.

    `prefix` is what the routes begin with. With `names`, whoever needs no key must ask for one of
    them, for this machine or for an address of numbers: a name that a stranger made lead here would
    let the pages of that stranger in (DNS rebinding).
    """

    def __init__(self, loom: Loom, keys: Keys | None, prefix: str) -> None:
        self.loom = loom
        self.keys = keys
        self.prefix = prefix
        self.names: frozenset[str] | None = None

    def visitor(self, authorization: str | None, api_key: str | None) -> Visitor:
        """Say who comes with these headers; raises `KeyRefused`, `RateLimited`."""
        if self.keys is None:
            return EVERYBODY
        return self.keys.visitor(_secret(authorization, api_key))

    def portal(self, request: Request) -> Portal:
        """Let a request in."""
        headers = request.headers
        if self.keys is None:
            self._require_known_host(headers.get("host", ""))
        origin = headers.get("origin")
        if self.keys is None and origin is not None and not _is_own(origin, headers.get("host")):
            raise Forbidden(
                "a page of {origin} cannot come in while no key is declared: any site could",
                origin=origin[:200],
            )
        given = [headers.getlist(name) for name in ("authorization", "x-api-key")]
        if self.keys is not None and any(len(values) > 1 for values in given):
            raise KeyRefused("the key is given twice: send it once")
        visitor = self.visitor(*(values[0] if values else None for values in given))
        return Portal(self.loom, visitor, "rest")

    def _require_known_host(self, host: str) -> None:
        if self.names is None or _is_known(host, self.names):
            return
        raise Forbidden(
            "the name {host} may lead here without being ours, and no key is declared: use the "
            "address, or declare a key (loom keys create)",
            host=host[:200],
        )


def doorkeeper(request: Request) -> Doorkeeper:
    """Find who keeps the door of the application that a request is for."""
    return cast("Doorkeeper", request.app.state.doorkeeper)


async def _portal(request: Request) -> Portal:
    return doorkeeper(request).portal(request)


Visit: TypeAlias = Annotated[Portal, Depends(_portal)]
"""What whoever sent the request may do."""


def _is_known(host: str, names: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    # a name without a dot is given by the network here, not by a stranger
    if name in names or (name and "." not in name) or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_own(origin: str, host: str | None) -> bool:
    """Whether a page is one of this server's, such as `/docs`."""
    return host is not None and origin.partition("://")[2] == host


def _secret(authorization: str | None, api_key: str | None) -> str:
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise KeyRefused("Authorization takes the scheme Bearer, and then the key")
        if api_key is not None and api_key != secret.strip():
            raise KeyRefused("Authorization and X-API-Key hold two different keys: send one")
        return secret.strip()
    if api_key is None:
        raise KeyRefused("a key is needed: send it in Authorization: Bearer … or in X-API-Key")
    return api_key.strip()
