"""Files that come with a request: checked before anything is written, then kept.

Law. Every fault of every file is told at once, and a file that is refused leaves nothing behind. A
path is read only when it leads to a plain file, and no further than the limit: a pipe, a device or
a file that grows can neither hang nor fill the memory.
"""

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias, cast

from loom_ia.core.errors import ArtifactStoreError, AttachmentRefused, Problem
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.artifacts import NewFile, sniffed_type
from loom_ia.core.model.attachments import AttachmentLimits, attachment_name
from loom_ia.core.model.content import ArtifactBlock
from loom_ia.core.model.images import has_whole_header, image_type
from loom_ia.core.ports.artifacts import ArtifactStore

_EXAMINED: Final = 100
"""How many files are looked at when there are too many anyway."""
_HEAD: Final = 64
_LONGEST_LABEL: Final = 200
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_UNSAID: Final = frozenset({"", "application/octet-stream"})
_SAME: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that comes with a request: its bytes in `data`, or the `path` to read them from.

    `name` is what it is called, by default the end of the path. `media_type` may be left out: the
    bytes tell it, and one that says otherwise is refused.
    """

    data: bytes | bytearray | memoryview | None = None
    name: str = ""
    media_type: str | None = None
    path: str | os.PathLike[str] | None = None


AnyAttachment: TypeAlias = Attachment | str | os.PathLike[str] | bytes | bytearray | memoryview
"""A file, the path of one, or its bytes."""
_ONE: Final = (Attachment, str, os.PathLike, bytes, bytearray, memoryview)


async def admitted(given: Sequence[AnyAttachment], limits: AttachmentLimits) -> tuple[NewFile, ...]:
    """Read and check what is attached; the same content is given once, under its first name.

    Raises `AttachmentRefused` with every fault, and `TypeError` for what is no attachment at all.
    """
    if isinstance(cast("object", given), _ONE):
        raise TypeError("attachments is a list: put the file in brackets")
    wanted = tuple(map(_attachment, given))
    return await asyncio.to_thread(_admitted, wanted, limits) if wanted else ()


async def keep(
    files: Sequence[NewFile], store: ArtifactStore | None, tenant_id: TenantId, home: SessionId
) -> tuple[ArtifactStored, ...]:
    """Store what was admitted; raises `ArtifactStoreError`."""
    kept: list[ArtifactStored] = []
    for file in files:
        if store is None:
            raise ArtifactStoreError("there is no store of files")
        uri = await store.put(tenant_id, home, file.data, file.media_type)
        fact = ArtifactStored(
            uri=uri,
            media_type=file.media_type,
            size=len(file.data),
            name=file.name,
            origin="attachment",
        )
        kept.append(fact)
    return tuple(kept)


def blocks_of(kept: Sequence[ArtifactStored]) -> tuple[ArtifactBlock, ...]:
    """Give the files as the message that they come with shows them."""
    return tuple(
        ArtifactBlock(uri=file.uri, media_type=file.media_type, size=file.size, name=file.name)
        for file in kept
    )


def _attachment(given: object) -> Attachment:
    match given:
        case Attachment():
            return given
        case str() | os.PathLike():
            return Attachment(path=cast("str | os.PathLike[str]", given))
        case bytes() | bytearray() | memoryview():
            return Attachment(data=cast("bytes | bytearray | memoryview", given))
        case _:
            raise TypeError(
                "an attachment is an Attachment, the path of a file or its bytes, "
                f"not {type(given).__name__}"
            )


def _admitted(given: Sequence[Attachment], limits: AttachmentLimits) -> tuple[NewFile, ...]:
    problems: list[Problem] = []
    if len(given) > limits.max_files:
        problem = _problem(
            "attachments",
            "there are {count} files, and at most {limit} are accepted: give fewer, or raise "
            "execution.attachments.max_files",
            count=len(given),
            limit=limits.max_files,
        )
        problems.append(problem)
    found: dict[bytes, NewFile] = {}
    for rank, attachment in enumerate(given[: max(limits.max_files, _EXAMINED)]):
        label = _label(attachment, rank)
        data = _bytes_of(attachment, label, limits.max_bytes)
        if isinstance(data, Problem):
            problems.append(data)
            continue
        faults = list(_faults(attachment, data, label, limits))
        problems += faults
        kind = image_type(data.head)
        if problems or kind is None:
            continue
        name = attachment.name or _name_of(attachment.path)
        file = NewFile(data=data.data, media_type=kind, name=attachment_name(name, kind))
        found.setdefault(sha256(data.data).digest(), file)
    if problems:
        raise AttachmentRefused(problems)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a file: all of it, or its first bytes when it is too large."""

    data: bytes
    size: int

    @property
    def head(self) -> bytes:
        return self.data[:_HEAD]


def _bytes_of(attachment: Attachment, label: str, limit: int) -> _Read | Problem:
    data, path = attachment.data, attachment.path
    if data is not None and path is None:
        whole = bytes(data)
        return _Read(whole, len(whole))
    if path is None or data is not None:
        return _problem(label, "an attachment has either data or a path: give one of them")
    try:
        return _read(Path(path), label, limit)
    except FileNotFoundError:
        return _problem(
            label,
            "there is no such file: check the path, which is read from {folder}",
            folder=_here(),
        )
    except OSError as error:
        return _problem(
            label,
            "it cannot be read: {reason}. Check the path and the rights on it",
            reason=error.strerror or type(error).__name__,
        )
    except ValueError:  # a NUL in it
        return _problem(label, "it is no path: check it")


def _read(path: Path, label: str, limit: int) -> _Read | Problem:
    if problem := _special(path.stat().st_mode, label):
        return problem  # without opening it: to open some of them is to use them
    handle = os.open(path, _FLAGS)
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(stream.fileno())
        if problem := _special(status.st_mode, label):
            return problem
        if status.st_size > limit:
            return _Read(stream.read(_HEAD), status.st_size)
        data = stream.read(limit + 1)
        return _Read(data, len(data))


def _special(mode: int, label: str) -> Problem | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return _problem(label, "it is a folder: give the files in it, one by one")
    return _problem(
        label, "it is a pipe, a device or a socket: write what comes of it to a file, and give that"
    )


def _faults(
    attachment: Attachment, read: _Read, label: str, limits: AttachmentLimits
) -> Iterator[Problem]:
    if read.size == 0:
        yield _problem(label, "it is empty: give a file that holds an image")
        return
    if read.size > limits.max_bytes:
        yield _problem(
            label,
            "it has {size} bytes, and at most {limit} are accepted: make it smaller, or raise "
            "execution.attachments.max_bytes",
            size=read.size,
            limit=limits.max_bytes,
        )
    accepted = ", ".join(limits.types)
    kind = image_type(read.head)
    if kind is None:
        yield _problem(
            label,
            "its first bytes are those of no known image ({kind}), whatever its name says: give "
            "one of {accepted}",
            kind=sniffed_type(read.head),
            accepted=accepted,
        )
        return
    if kind not in limits.types:
        yield _problem(
            label,
            "it is {kind}, and only {accepted} are accepted: convert it, or add the type to "
            "execution.attachments.types",
            kind=kind,
            accepted=accepted,
        )
    if read.size <= limits.max_bytes and not has_whole_header(read.data):
        yield _problem(
            label, "it begins as {kind}, and its header is cut or damaged: save it again", kind=kind
        )
    declared = (attachment.media_type or "").partition(";")[0].strip().lower()
    if declared not in _UNSAID and _SAME.get(declared, declared) != kind:
        yield _problem(
            label,
            "it is said to be {declared}, and its bytes are {kind}: correct media_type, or leave "
            "it out",
            declared=declared[:_LONGEST_LABEL],
            kind=kind,
        )


def _problem(file: str, template: str, **params: object) -> Problem:
    return Problem(file, None, "", template, params)


def _label(attachment: Attachment, rank: int) -> str:
    """Name a file to whoever gave it: as he wrote it, or by its place."""
    written = attachment.name if attachment.path is None else os.fsdecode(attachment.path)
    shown = "".join(c if c.isprintable() else "_" for c in written)
    if len(shown) > _LONGEST_LABEL:
        return f"{shown[:_LONGEST_LABEL]}…"
    return shown or f"attachments[{rank}]"


def _name_of(path: str | os.PathLike[str] | None) -> str:
    return "" if path is None else os.fsdecode(path)


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed meanwhile
        return "."
