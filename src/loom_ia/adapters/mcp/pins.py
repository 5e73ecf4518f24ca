"""What was accepted of each server: the digest of every tool, and its definition to compare with.

Law. What cannot be read is not taken for nothing: without the file of what was accepted, no tool is
offered. The file is replaced as a whole, under a lock that the processes of a machine share.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

from loom_ia.adapters.mcp.definitions import Definition, Listed
from loom_ia.core.errors import SourceUnavailable
from loom_ia.core.json import JsonObject
from loom_ia.core.model.mcp import ReviewState, ToolReview

_VERSION: Final = 1
_LARGEST: Final = 64 * 1024 * 1024

CHANGED: Final = "it changed since it was accepted"
NEW: Final = "it was not there when the server was accepted"
UNTRUSTED: Final = "the configuration pins the tools of this server, and not this one"
DIFFERS: Final = "it is not the one that the configuration pins"


_STATES: Final[Mapping[str, ReviewState]] = {
    CHANGED: "changed",
    NEW: "new",
    UNTRUSTED: "refused",
    DIFFERS: "refused",
}


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool that was accepted."""

    digest: str
    document: JsonObject


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted of one server: `identity` tells whether it is still the same one."""

    identity: str
    pins: Mapping[str, Pin] = field(default_factory=dict[str, Pin])


class PinStore(Protocol):
    """Where what was accepted is kept, by server."""

    async def read(self, server: str) -> Accepted | None:
        """Give what was accepted of a server; None when it was never seen."""
        ...

    async def first(self, server: str, accepted: Accepted) -> Accepted:
        """Keep what is seen first, unless somebody else did, and give what is kept."""
        ...

    async def write(self, server: str, accepted: Accepted) -> None:
        """Keep what a human accepted, in place of what was kept."""
        ...


@dataclass(slots=True)
class MemoryPins:
    """Pins that end with the process."""

    kept: dict[str, Accepted] = field(default_factory=dict[str, Accepted])

    async def read(self, server: str) -> Accepted | None:
        """Give what was accepted of a server."""
        return self.kept.get(server)

    async def first(self, server: str, accepted: Accepted) -> Accepted:
        """Keep what is seen first."""
        known = self.kept.get(server)
        if known is None or known.identity != accepted.identity:
            known = self.kept[server] = accepted
        return known

    async def write(self, server: str, accepted: Accepted) -> None:
        """Keep what a human accepted."""
        self.kept[server] = accepted


@dataclass(frozen=True, slots=True)
class FilePins:
    """Pins in a file beside the journal, which all processes on it share."""

    path: Path

    async def read(self, server: str) -> Accepted | None:
        """Give what was accepted of a server; raises `SourceUnavailable` for an unreadable file."""
        return await asyncio.to_thread(lambda: self._all().get(server))

    async def first(self, server: str, accepted: Accepted) -> Accepted:
        """Keep what is seen first; what is kept already is read without a lock."""
        known = await self.read(server)
        if known is not None and known.identity == accepted.identity:
            return known
        return await asyncio.to_thread(self._put, server, accepted, only_first=True)

    async def write(self, server: str, accepted: Accepted) -> None:
        """Keep what a human accepted."""
        await asyncio.to_thread(self._put, server, accepted, only_first=False)

    def _put(self, server: str, accepted: Accepted, *, only_first: bool) -> Accepted:
        try:
            with self._locked():
                known = self._all()
                before = known.get(server)
                if only_first and before is not None and before.identity == accepted.identity:
                    return before
                known[server] = accepted
                self._replace(known)
                return accepted
        except OSError as error:
            raise self._unusable(error) from error

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _all(self) -> dict[str, Accepted]:
        try:
            if self.path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            document: Any = json.loads(self.path.read_bytes())
            return {name: _accepted(entry) for name, entry in document["servers"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(
            "what was accepted of MCP servers cannot be read or written in {file} ({error}): "
            "repair it, or remove it to accept all of them again",
            file=str(self.path),
            error=type(error).__name__,
        )

    def _replace(self, known: Mapping[str, Accepted]) -> None:
        document = {
            "version": _VERSION,
            "servers": {name: _entry(known[name]) for name in sorted(known)},
        }
        text = json.dumps(document, ensure_ascii=True, indent=1, sort_keys=True)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise


def _accepted(entry: dict[str, Any]) -> Accepted:
    pins = {
        str(name): Pin(str(pin["digest"]), cast("JsonObject", pin["definition"]))
        for name, pin in entry["tools"].items()
    }
    return Accepted(str(entry["identity"]), pins)


def _entry(accepted: Accepted) -> dict[str, Any]:
    return {
        "identity": accepted.identity,
        "tools": {
            name: {"digest": pin.digest, "definition": pin.document}
            for name, pin in accepted.pins.items()
        },
    }


def pins_of(identity: str, listed: Listed) -> Accepted:
    """Give what is kept when all that a server offers is accepted."""
    pins = {name: Pin(it.digest, it.document) for name, it in listed.definitions.items()}
    return Accepted(identity, pins)


def quarantined(
    listed: Listed, accepted: Accepted | None, configured: Mapping[str, str]
) -> dict[str, str]:
    """Tell which tools are not the ones that were accepted, and why.

    Where the configuration pins tools, it alone decides.
    """
    faults = dict[str, str]()
    for name, definition in listed.definitions.items():
        if configured:
            if name not in configured:
                faults[name] = UNTRUSTED
            elif configured[name].removeprefix("sha256:").lower() != definition.digest:
                faults[name] = DIFFERS
        elif accepted is not None:
            pin = accepted.pins.get(name)
            if pin is None:
                faults[name] = NEW
            elif pin.digest != definition.digest:
                faults[name] = CHANGED
    return faults


def reviewed(
    listed: Listed,
    accepted: Accepted | None,
    configured: Mapping[str, str],
    unusable: Callable[[Definition], str],
) -> tuple[ToolReview, ...]:
    """Put what a server offers beside what was accepted of it; nothing was, and all is new."""
    known = accepted or Accepted("")
    faults = quarantined(listed, known, configured)
    pinned = {name: Pin(digest, {}) for name, digest in configured.items()} or known.pins
    reviews = [
        ToolReview(name=name, state="unusable", reason=reason)
        for name, reason in listed.unusable.items()
    ]
    for name, definition in listed.definitions.items():
        reason, pin = faults.get(name, ""), pinned.get(name)
        fault = "" if reason else unusable(definition)
        reviews.append(
            ToolReview(
                name=name,
                state=_STATES[reason] if reason else "unusable" if fault else "accepted",
                reason=reason or fault,
                digest=definition.digest,
                document=definition.document,
                accepted_digest=pin.digest if pin else "",
                accepted=pin.document if pin else {},
            )
        )
    there = listed.definitions.keys() | listed.unusable.keys()
    reviews += [
        ToolReview(name=name, state="gone", accepted_digest=pin.digest, accepted=pin.document)
        for name, pin in pinned.items()
        if name not in there
    ]
    return tuple(reviews)
