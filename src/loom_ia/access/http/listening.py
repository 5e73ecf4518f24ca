"""Where a server listens, and whether it may.

Law. A door that is open to all is said to be so, and refused in `prod` wherever it is: what keeps
others away from this machine today may not tomorrow. A port that is taken is found before anything
else is begun.
"""

import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from loom_ia.config.load import LoadedConfig
from loom_ia.core.errors import CallerError, Problem

BACKLOG: Final = 2048
DOOR: Final = "LOOM_SERVE_DOOR"
"""The variable by which a process that serves is told its door, and the pipes of who watches."""


def exposed(loaded: LoadedConfig, host: str) -> Iterator[Problem]:
    """Warn of a server that everybody on the network may use."""
    if not loaded.config.security.api_keys and not is_loopback(host):
        template = "it listens on {host}, so that whoever reaches it over the network may do all"
        yield loaded.problem(("security", "api_keys"), template, host=host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Give a socket that listens there; a connection that comes early waits in it.

    Raises `CallerError` naming the address and what to do about it.
    """
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise CallerError("there is no address {host} to listen on", host=host) from error
    family, kind, protocol, _, address = found[0]
    door = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(BACKLOG)
    except OSError as error:
        door.close()
        raise _refused(host, port, error) from error
    door.setblocking(False)
    return door


def _refused(host: str, port: int, error: OSError) -> CallerError:
    match error.errno:
        case errno.EADDRINUSE:
            return CallerError(
                "port {port} of {host} is taken: stop what listens there, or choose another one "
                "with --port (or server.http.port)",
                host=host,
                port=port,
            )
        case errno.EACCES | errno.EPERM:
            return CallerError(
                "this user may not listen on port {port}: choose one from 1024 on, with --port "
                "(or server.http.port)",
                port=port,
            )
        case errno.EADDRNOTAVAIL:
            return CallerError(
                "{host} is no address of this machine: choose another one with --host (or "
                "server.http.host)",
                host=host,
            )
        case _:
            return CallerError(
                "{host}:{port} cannot be listened on ({reason})",
                host=host,
                port=port,
                reason=os.strerror(error.errno or 0),
            )


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a process that serves has from the one that watches it.

    `orphaned` can be read once that one has ended.
    """

    door: socket.socket
    saying: int
    orphaned: int

    def tell_ready(self) -> None:
        """Say that this process answers."""
        with contextlib.suppress(OSError):
            os.write(self.saying, b"1")
            os.close(self.saying)


def inherited() -> Inherited | None:
    """Give what was inherited from a process that watches, None without one."""
    given = os.environ.pop(DOOR, "")
    if not given:
        return None
    door, saying, orphaned = map(int, given.split(","))
    for number in (door, saying, orphaned):
        os.set_inheritable(number, False)
    listening = socket.socket(fileno=door)
    listening.setblocking(False)
    return Inherited(listening, saying, orphaned)


def url_of(door: socket.socket, base_path: str = "") -> str:
    """Write the address of a server as one opens it."""
    host, port, *_ = door.getsockname()
    shown = f"[{host}]" if door.family == socket.AF_INET6 else host
    return f"http://{shown}:{port}{base_path}"
