"""`loom serve --reload`: the old configuration serves until the new one is sound.

Law. One process watches, and owns the door; it loads nothing of the user's. Each change begins a
new process, which mounts the configuration and then answers on the same door; only then is the old
one told to stop. A process that refuses its configuration says why and ends, and nothing else
happens. No process outlives the one that watches: each reads a pipe that ends with it.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, TypeAlias

from watchfiles import Change, DefaultFilter, awatch  # pyright: ignore[reportUnknownVariableType] -- it names trio's classes

from loom_ia.access.cli import arguments
from loom_ia.access.cli.terminal import say
from loom_ia.access.cli.variables import variables
from loom_ia.access.http.listening import DOOR, listen
from loom_ia.config.load import LoadedConfig, load_config
from loom_ia.core.errors import CallerError, LoomError
from loom_ia.i18n import translate as _

SUFFIXES: Final = (".yaml", ".yml", ".md", ".py", ".env")

_DEBOUNCE_MS: Final = 200
_IGNORED: Final = frozenset(
    {"data", ".locks", ".artifacts", "__pycache__", ".venv", "venv", "node_modules", ".git"}
)

Changes: TypeAlias = AsyncGenerator[set[tuple[Change, str]]]


class Wanted(DefaultFilter):
    """Lets through what a configuration is made of, and none of what runs write.

    Of other kinds than `SUFFIXES`, only the files in the folders `own` are.
    """

    def __init__(
        self, folder: Path, own: tuple[Path, ...] = (), written: tuple[Path, ...] = ()
    ) -> None:
        super().__init__()
        self._folder = folder
        self._own = own
        self._written = written

    def __call__(self, change: Change, path: str) -> bool:
        """Whether a change of `path` may be one of the configuration."""
        file = Path(path)
        is_own = any(file.is_relative_to(each) for each in self._own)
        if not (is_own or file.suffix in SUFFIXES or file.name.startswith(".env")):
            return False
        if any(file.is_relative_to(each) for each in self._written):
            return False
        try:
            inside = file.relative_to(self._folder).parts[:-1]
        except ValueError:  # a file of variables that lies elsewhere
            inside = ()
        return not _IGNORED.intersection(inside) and super().__call__(change, path)


class Child:
    """A process that serves, or that is about to."""

    def __init__(self, process: asyncio.subprocess.Process, said: int) -> None:
        self.process = process
        self._said = said
        self.ready = asyncio.create_task(self._heard())
        self.ended = asyncio.create_task(process.wait())

    async def _heard(self) -> bool:
        """Whether it says that it serves, before it ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        with os.fdopen(self._said, "rb", buffering=0) as pipe:
            transport, _protocol = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            try:
                return bool(await reader.read(1))
            finally:
                transport.close()

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    def tell(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.lives:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Keeps one sound process behind the door, whatever becomes of the files."""

    def __init__(self, door: socket.socket, words: list[str]) -> None:
        self._door = door
        self._words = words
        self._life, self._held = os.pipe()  # it ends with this process, however that ends
        self._serving: Child | None = None
        self._leaving: set[Child] = set()

    async def run(self, changes: Changes, stop: asyncio.Event) -> int:
        """Serve, and follow the changes, until told to stop; gives the exit code."""
        stopping = asyncio.create_task(stop.wait())
        news = asyncio.create_task(anext(changes))
        await self._replace(stopping)
        while not stopping.done():
            ended = self._serving.ended if self._serving is not None else None
            waits = {stopping, news, *([ended] if ended is not None else [])}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                break
            if ended is not None and ended.done():
                self._serving = None
                say(
                    _(
                        "Reload     : the process that served ended (code {code}); "
                        "a change begins another one",
                        code=ended.result(),
                    ),
                    "red",
                )
            if news.done():
                news.result()
                news = asyncio.create_task(anext(changes))
                await self._replace(stopping)
        news.cancel()
        await asyncio.gather(news, return_exceptions=True)
        await self._end()
        return 0

    async def _replace(self, stopping: "asyncio.Task[bool]") -> None:
        """Begin a process on the files as they are; it takes the place of the old one if sound."""
        child = await self._begin()
        await asyncio.wait(
            {child.ready, child.ended, stopping}, return_when=asyncio.FIRST_COMPLETED
        )
        if stopping.done():
            self._leaving.add(child)
            return
        if not await child.ready:
            await child.ended
            if self._serving is not None:
                say(_("Reload     : refused; the configuration before it still serves"), "yellow")
            else:
                say(_("Reload     : refused; nothing serves until it is corrected"), "yellow")
            return
        before, self._serving = self._serving, child
        if before is not None:
            say(_("Reload     : the new configuration serves"), "green")
            before.tell(signal.SIGTERM)
            self._leaving = {each for each in self._leaving if each.lives} | {before}

    async def _begin(self) -> Child:
        said, saying = os.pipe()
        passed = (self._door.fileno(), saying, self._life)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "loom_ia.access.cli.main",
            *self._words,
            pass_fds=passed,
            env={**os.environ, DOOR: ",".join(map(str, passed))},
            start_new_session=True,  # Ctrl-C is for who watches, who tells the others
        )
        os.close(saying)
        return Child(process, said)

    async def _end(self) -> None:
        """End every process; one that does not end in its time is killed."""
        children = [c for c in (self._serving, *self._leaving) if c is not None]
        for child in children:
            child.tell(signal.SIGTERM)
        await asyncio.gather(*(child.ended for child in children))
        for child in children:
            child.ready.cancel()
        await asyncio.gather(*(child.ready for child in children), return_exceptions=True)

    def kill(self) -> None:
        """Kill every process, at the second signal."""
        for child in (self._serving, *self._leaving):
            if child is not None:
                child.tell(signal.SIGKILL)


def supervise(args: argparse.Namespace, words: list[str]) -> int:
    """Serve with reloading, as `args` ask; `words` begin a process that serves."""
    loaded = _loaded(args)
    if loaded is not None and loaded.profile.name == "prod":
        raise CallerError("--reload is refused in the profile prod: serve without it")
    http = loaded.config.server.http if loaded is not None else None
    host = args.host or (http.host if http else "127.0.0.1")
    port = args.port if args.port is not None else (http.port if http else 8000)
    folder = Path(arguments.config_path(args)).resolve().parent
    wanted = Wanted(folder, *_folders(loaded))
    file = arguments.env_file(args)
    paths = [folder, *([Path(file).resolve().parent] if file else [])]
    with listen(host, port) as door:
        return asyncio.run(_supervise(door, words, list(dict.fromkeys(paths)), wanted))


def _loaded(args: argparse.Namespace) -> LoadedConfig | None:
    """Read the configuration without its code; None when it is broken, which is told later."""
    with variables(args):
        try:
            return load_config(arguments.config_path(args), profile=arguments.profile(args))
        except LoomError:
            if not Path(arguments.config_path(args)).exists():
                raise
            return None


async def _supervise(
    door: socket.socket, words: list[str], paths: list[Path], wanted: Wanted
) -> int:
    stop = asyncio.Event()
    supervisor = Supervisor(door, words)
    loop = asyncio.get_running_loop()

    def told() -> None:
        if stop.is_set():
            supervisor.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    async with contextlib.aclosing(_changes(paths, wanted, stop)) as changes:
        return await supervisor.run(changes, stop)


async def _changes(paths: list[Path], wanted: Wanted, stop: asyncio.Event) -> Changes:
    watched = awatch(*paths, watch_filter=wanted, debounce=_DEBOUNCE_MS, stop_event=stop)
    async for changes in watched:
        yield changes
    await asyncio.Event().wait()  # told to stop: nothing more changes


def _folders(loaded: LoadedConfig | None) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Give the folders of the configuration alone, and where runs write."""
    if loaded is None:
        return (), ()
    config, storage = loaded.config, loaded.config.storage
    own = (config.agents_dir, config.prompts_dir)
    written = (storage.events.path, storage.artifacts.path, storage.idempotency.path)
    return (
        tuple(loaded.path(path).resolve() for path in own),
        tuple(loaded.path(path).resolve() for path in written if path),
    )
