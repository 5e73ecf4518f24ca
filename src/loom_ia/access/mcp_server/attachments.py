"""The files that come with a call, brought to bytes.

Law. Nothing is fetched from a network. A file of this machine is read only when the path, links
resolved, is under a folder that the configuration allows, and it is opened component by component
without following any link: what changes meanwhile is refused, not read. What is outside is told in
the same words whether it exists or not.
"""

import asyncio
import base64
import binascii
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from loom_ia.access.mcp_server.arguments import Given, GivenImage, GivenLink
from loom_ia.access.mcp_server.results import LINK
from loom_ia.access.portal import Portal
from loom_ia.core.errors import AttachmentRefused, CallerError, Problem
from loom_ia.core.model.artifacts import parse_artifact_uri
from loom_ia.engine.attachments import Attachment

_SAFE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0)
_DESCENDS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_LONGEST_LABEL: Final = 200

_SHELF: Final = LINK.partition("://")[2]

_OUTSIDE: Final = (
    "it is not a file under one of the folders that server.mcp.file_roots allows: move it there, "
    "or add its folder"
)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where files may come from: what a visitor may read, and some folders of this machine."""

    portal: Portal
    roots: tuple[Path, ...]
    max_bytes: int

    async def gather(self, given: Sequence[Given]) -> tuple[Attachment, ...]:
        """Read what was given; raises `AttachmentRefused` with every fault."""
        found: list[Attachment] = []
        problems: list[Problem] = []
        for rank, each in enumerate(given):
            label = _label(each, rank)
            try:
                found.append(await self._one(each, label))
            except _Refused as fault:
                problems.append(fault.problem)
        if problems:
            raise AttachmentRefused(problems)
        return tuple(found)

    async def _one(self, given: Given, label: str) -> Attachment:
        if isinstance(given, GivenImage):
            return Attachment(_decoded(given.data, label), given.name, given.mime_type or None)
        uri = given.uri
        if uri.startswith((LINK, "artifact://")):
            return await self._kept(given, label)
        if uri[:5].lower() == "file:":
            path = _path_of(uri, label)
            data = await asyncio.to_thread(self._read, path, label)
            return Attachment(data, given.name or path.name, given.mime_type or None)
        raise _Refused(
            _problem(
                label,
                "links of this kind are not followed: give the image itself, an artifact:// "
                "address or a file:// path",
            )
        )

    async def _kept(self, link: GivenLink, label: str) -> Attachment:
        """Read a file that an agent kept, in a session that the visitor may read."""
        address = parse_artifact_uri(
            f"artifact://{link.uri.partition('://')[2].removeprefix(_SHELF)}"
        )
        if address is None or address.tenant_id != self.portal.visitor.tenant_id:
            raise _Refused(_problem(label, "no such file is kept: check the address"))
        try:
            kept, data = await self.portal.file(address.session_id, address.file)
        except CallerError as error:
            raise _Refused(_problem(label, "it cannot be read: {reason}", reason=error)) from None
        return Attachment(data, link.name or kept.name, link.mime_type or None)

    def _read(self, path: Path, label: str) -> bytes:
        try:
            real = Path(os.path.realpath(path))
        except OSError:  # it changed meanwhile
            raise _Refused(_problem(label, _OUTSIDE)) from None
        inside = (root for root in self.roots if real != root and real.is_relative_to(root))
        root = next(inside, None)
        if root is None:
            raise _Refused(_problem(label, _OUTSIDE))
        try:
            handle = _opened(root, real)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise _Refused(_problem(label, "it cannot be read: {reason}", reason=reason)) from None
        if handle is None:
            raise _Refused(_problem(label, "it is no plain file: give the path of an image"))
        with os.fdopen(handle, "rb") as stream:
            return stream.read(self.max_bytes + 1)


def resolved_roots(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Give the folders that are allowed, links resolved."""
    return tuple(Path(os.path.realpath(folder)) for folder in folders)


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.template)
        self.problem = problem


def _problem(file: str, template: str, **params: object) -> Problem:
    return Problem(file, None, "", template, params)


def _opened(root: Path, real: Path) -> int | None:
    """Open a plain file below `root` without following links; None for anything else."""
    if not _DESCENDS:  # no such way to open here: look again once it is open
        handle = os.open(real, _SAFE | getattr(os, "O_BINARY", 0))
        now = Path(os.path.realpath(real))
        same = os.path.samestat(os.fstat(handle), now.stat())
        inside = now.is_relative_to(root)
        return _plain(handle) if same and inside else _closed(handle)
    folder = os.open(root, os.O_RDONLY | _FOLDER)
    try:
        *folders, name = real.relative_to(root).parts
        for part in folders:
            below = os.open(part, _SAFE | _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return None  # without opening it: to open some of them is to use them
        return _plain(os.open(name, _SAFE, dir_fd=folder))
    finally:
        os.close(folder)


def _plain(handle: int) -> int | None:
    return handle if stat.S_ISREG(os.fstat(handle).st_mode) else _closed(handle)


def _closed(handle: int) -> None:
    os.close(handle)


def _path_of(uri: str, label: str) -> Path:
    """Read the path of a `file:` address of this machine."""
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise _Refused(_problem(label, _OUTSIDE)) from None
    plain = parts.netloc in {"", "localhost"} and not parts.query and not parts.fragment
    if os.name == "nt":
        path = path.lstrip("/")
    if not plain or "\0" in path or not Path(path).is_absolute():
        raise _Refused(_problem(label, _OUTSIDE))
    return Path(path)


def _decoded(data: str, label: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _Refused(_problem(label, "its data is not base64")) from None


def _label(given: Given, rank: int) -> str:
    written = given.name if isinstance(given, GivenImage) else given.uri
    shown = "".join(c if c.isprintable() else "_" for c in written)
    if len(shown) > _LONGEST_LABEL:
        return f"{shown[:_LONGEST_LABEL]}…"
    return shown or f"attachments[{rank}]"
