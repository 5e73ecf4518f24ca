"""`loom sessions export` and `loom sessions files`: what leaves the journal for a folder.

A name that a tool gave to its file never leads out of the folder that was asked for.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk
    from loom_ia.core.ids import SessionId
    from loom_ia.core.model.artifacts import StoredArtifact

ORIGINS: Final = ("attachment", "tool_output", "offload")
"""Where files come from, here so that it is known before anything is imported."""

_PAGE: Final = 100
_LONGEST_NAME: Final = 100


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `export`."""
    parser.add_argument("sessions", metavar="ID", nargs="*", help=_("the ids of the sessions"))
    parser.add_argument("--all", action="store_true", help=_("every session"))
    parser.add_argument(
        "--out",
        metavar="PATH",
        help=_("a file for one session, a folder for several (default: standard output)"),
    )


def add_files_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `files`."""
    parser.add_argument("--out", metavar="DIR", help=_("copy the files into this folder"))
    parser.add_argument(
        "--origin",
        choices=ORIGINS,
        help=_("only what came with requests, what tools made, or large results"),
    )
    parser.add_argument("--force", action="store_true", help=_("replace files that are there"))
    parser.add_argument("--json", action="store_true", help=_("show it as JSON"))


async def export(args: argparse.Namespace) -> int:
    """Write each session whole; an unknown one stops before anything of it is written."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.screen import progress
    from loom_ia.core.errors import CallerError

    if bool(args.sessions) == args.all:
        raise CallerError("say which sessions to export: their ids, or --all")
    async with open_desk(args, mount=False) as desk:
        wanted = await _every(desk) if args.all else list(dict.fromkeys(args.sessions))
        several = args.all or len(wanted) > 1
        if not several:
            _write_export(args.out, await desk.export_session(wanted[0]))
            return COMPLETED
        with progress(_("exporting sessions"), len(wanted)) as advance:
            for session_id in wanted:
                text = await desk.export_session(session_id)
                place = Path(args.out) / f"{session_id}.jsonl" if args.out else None
                _write_export(place, text)
                advance()
    return COMPLETED


async def files(args: argparse.Namespace) -> int:
    """List the files of a session, or copy them into a folder."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import say, show, show_json

    async with open_desk(args, mount=False) as desk:
        session = await desk.session(args.session)
        found = [f for f in session.artifacts if args.origin in {None, f.origin}]
        if args.out is not None:
            await _copy(desk, dict(_named(found)), Path(args.out), force=args.force)
    if args.json:
        show_json([file.model_dump(mode="json") for file in found])
        return COMPLETED
    for line in _lines(found):
        show(line)
    if not found:
        say(_("No file."))
    return COMPLETED


async def _every(desk: "Desk") -> "list[SessionId]":
    found: list[SessionId] = []
    while True:
        page = await desk.sessions(after=found[-1] if found else None, limit=_PAGE)
        found += (session.session_id for session in page)
        if len(page) < _PAGE:
            return found


def _write_export(place: str | Path | None, text: str) -> None:
    from loom_ia.access.cli.terminal import show

    if place is None:
        show(text.removesuffix("\n"))
    else:
        _write(Path(place), text.encode("utf-8"))


async def _copy(
    desk: "Desk", files: "dict[str, StoredArtifact]", folder: Path, *, force: bool
) -> None:
    """Write each file under its name; refuse to replace one unless `force`."""
    from loom_ia.access.cli.screen import progress
    from loom_ia.core.errors import CallerError

    present = [name for name in files if (folder / name).exists()]
    if present and not force:
        raise CallerError(
            "{folder} already has {files}: nothing was written, say --force to replace them",
            folder=str(folder),
            files=", ".join(present),
        )
    with progress(_("copying files"), len(files)) as advance:
        for name, file in files.items():
            _write(folder / name, await desk.artifact(file.uri))
            advance()


def _write(place: Path, data: bytes) -> None:
    from loom_ia.core.errors import CallerError

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    except OSError as error:
        raise CallerError(
            "{file} cannot be written: {reason}",
            file=str(place),
            reason=error.strerror or str(error),
        ) from error


def _named(found: "Iterable[StoredArtifact]") -> "Iterator[tuple[str, StoredArtifact]]":
    """Give each file a name of its own, harmless on any system."""
    taken: set[str] = set()
    for file in found:
        own = file.uri.rpartition("/")[2]
        name = _harmless(file.name) or own
        if name.lower() in taken:
            name = f"{own[:12]}-{name}"
        if name.lower() in taken:
            name = own
        taken.add(name.lower())
        yield name, file


def _harmless(name: str) -> str:
    """Keep the last part of a name, without what would hide it, move it or command a terminal."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c if c.isprintable() and c not in '<>:"|?*' else "_" for c in last)
    return kept.strip().lstrip(".").rstrip(". ")[-_LONGEST_NAME:]


def _lines(found: "list[StoredArtifact]") -> Iterator[str]:
    from loom_ia.access.cli.table import columns

    rows = [
        (name, file.media_type, str(file.size), file.origin, file.uri)
        for name, file in _named(found)
    ]
    if rows:
        heads = (_("file"), _("type"), _("bytes"), _("origin"), _("address"))
        yield from columns([heads, *rows], right=(2,))
