"""Which session a run is in: one symbolic link per run, `.runs/<run> → ../<session>.jsonl`.

In the name of a link, what a file name cannot hold is percent-encoded (RFC 3986, section 2.1).

A link is made at once with what it says, and only if there is none: nothing to read half-written.
A run that begins its own session (the same id, the first event) needs none: the first line of
that file says it.

Runs begin one at a time in a tenant: whoever begins one holds the lock of the folder `.runs` from
the look at what is there until the batch is written. So a link that is there while its session
does not hold the run was left by a crash, and is replaced. The lock of a session comes before
this one, never after.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from loom_ia.adapters.journals.batch import run_exists
from loom_ia.adapters.journals.flock import try_lock, wait_lock
from loom_ia.adapters.journals.jsonl_lines import following, run_started, split, whole
from loom_ia.adapters.journals.unflushed import Unflushed
from loom_ia.core.ids import RunId, SessionId, is_reserved, is_safe_id

SUFFIX = ".jsonl"

_LONGEST_NAME: Final = 200  # the names of files end at 255 bytes


def name_of_file(session_id: SessionId) -> str:
    """Name the file of a session, or of a reserved stream, which no session's file can be."""
    name = quote(session_id, safe="") if is_reserved(session_id) else session_id
    return f"{name}{SUFFIX}"


def session_of_file(name: str) -> SessionId:
    """Give the session, or the reserved stream, that a file of that name holds."""
    return unquote(name.removesuffix(SUFFIX))


def can_name_run(run_id: RunId) -> bool:
    """Tell whether a run can be kept here: what its id says before the first `/` must be safe."""
    return is_safe_id(run_id.partition("/")[0])


class RunIndex:
    """The runs of the tenant whose sessions are the files of `tenant`."""

    def __init__(self, tenant: Path, unflushed: Unflushed) -> None:
        self._tenant = tenant
        self._unflushed = unflushed
        self.folder = tenant / ".runs"

    def locate(self, run_id: RunId) -> SessionId | None:
        """Find the session of a run."""
        with suppress(FileNotFoundError):
            session_id = Path(self._at(run_id).readlink()).name.removesuffix(SUFFIX)
            if self._path(session_id).exists():
                return session_id
        return run_id if self._begins(run_id) else None

    @contextmanager
    def claiming(
        self, runs: Sequence[RunId], session_id: SessionId, *, opening: bool, deadline: float | None
    ) -> Generator[bool]:
        """Make `runs` known as those of `session_id`, unless the block ends with an exception.

        `opening`: the first of them is the first event of its session. Without a `deadline`,
        gives False at once when somebody else has the lock. Raises `RunExists`.
        """
        self.folder.mkdir(exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        made: list[Path] = []
        try:
            if deadline is not None:
                wait_lock(descriptor, self.folder, deadline)
            elif not try_lock(descriptor):
                yield False
                return
            for at, run_id in enumerate(runs):
                self._require_free(run_id, runs[:at], session_id)
                if not (opening and at == 0 and run_id == session_id):
                    made.append(self._link(run_id, session_id))
            yield True
        except BaseException:
            for link in made:
                link.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    def forget(self, session_id: SessionId, lines: Sequence[bytes]) -> None:
        """Remove the links of the runs that begin in `lines`, those of a session that is gone."""
        for line in lines:
            run_id = run_started(line, session_id)
            link = self._at(run_id or "")
            with suppress(OSError):  # no link, or no name for one
                if run_id and link.readlink().name == session_id + SUFFIX:
                    link.unlink()
                    self._unflushed.add_name(link)

    def _require_free(
        self, run_id: RunId, same_batch: Sequence[RunId], session_id: SessionId
    ) -> None:
        owner = self.locate(run_id)
        if run_id in same_batch:
            raise run_exists(run_id, session_id)
        if owner is not None:
            if self._holds(owner, run_id):
                raise run_exists(run_id, owner)
            self._at(run_id).unlink(missing_ok=True)

    def _link(self, run_id: RunId, session_id: SessionId) -> Path:
        link = self._at(run_id)
        target = f"../{session_id}{SUFFIX}"
        try:
            link.symlink_to(target)
        except FileExistsError:
            link.unlink()
            link.symlink_to(target)
        self._unflushed.add_name(link)
        return link

    def _holds(self, session_id: SessionId, run_id: RunId) -> bool:
        try:
            data = self._path(session_id).read_bytes()
        except FileNotFoundError:
            return False
        lines = split(data[: whole(data) or 0])
        return any(run_started(line, session_id) == run_id for line in lines)

    def _begins(self, run_id: RunId) -> bool:
        if not is_safe_id(run_id):
            return False
        try:
            with self._path(run_id).open("rb") as file:
                first = file.readline()
                if run_started(first, run_id) != run_id:
                    return False
                rest = [file.readline() for _ in range(following(first))]
        except FileNotFoundError:
            return False
        return all(line.endswith(b"\n") for line in (first, *rest))

    def _at(self, run_id: RunId) -> Path:
        name = quote(run_id, safe="", errors="surrogatepass")
        if len(name) > _LONGEST_NAME:
            name = f"={sha256(name.encode()).hexdigest()}"  # no encoded name begins so
        return self.folder / name

    def _path(self, session_id: SessionId) -> Path:
        return self._tenant / f"{session_id}{SUFFIX}"
