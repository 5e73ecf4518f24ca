"""`loom init [DIR]`: write the project of the quick start."""

import argparse
import shlex
from pathlib import Path

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help=_("the folder (default: this one)")
    )


def execute(args: argparse.Namespace) -> int:
    """Write the project, or nothing at all."""
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.quickstart import FILES, IGNORED, QUESTION
    from loom_ia.access.cli.terminal import printable, show

    folder = Path(args.directory)
    files = {
        name: text
        for name, text in FILES.items()
        if name != IGNORED or not (folder / name).exists()
    }
    write(folder, files)
    show(printable(_("Written in {folder}: {files}", folder=folder, files=", ".join(files))))
    show(_("Next:"))
    here = f"cd {shlex.quote(str(folder))} && " if folder != Path() else ""
    show(printable(f"  {here}loom validate"))
    show(f'  loom run devis "{QUESTION}"')
    return COMPLETED


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write each text to its file; refuse, and leave nothing behind, if one cannot be."""
    from loom_ia.core.errors import CallerError

    present = [name for name in texts if (folder / name).exists()]
    if present:
        raise CallerError(
            "{folder} already has {files}: nothing was written, choose another folder",
            folder=str(folder),
            files=", ".join(present),
        )
    made: list[Path] = []
    try:
        for name, text in texts.items():
            for path in reversed((folder / name).parents):
                if not path.exists():
                    path.mkdir()
                    made.append(path)
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                made.append(folder / name)
                file.write(text)
    except OSError as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise CallerError(
            "the project cannot be written in {folder}: {reason}",
            folder=str(folder),
            reason=error.strerror or str(error),
        ) from error
