"""The library as the command line uses it: opened from the arguments, closed at the end."""

import argparse
import asyncio
import getpass
import signal
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from loom_ia.access.api import Loom
from loom_ia.access.cli.arguments import command_line, config_path, profile
from loom_ia.access.cli.summary import forgotten
from loom_ia.access.cli.terminal import STANDARD_ERROR, say
from loom_ia.access.cli.variables import advised_against, variables
from loom_ia.config.env import EnvFile
from loom_ia.config.load import LoadedConfig
from loom_ia.core.errors import LoomError, Problem
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.ports.sources import ReviewedSource
from loom_ia.engine.program import Program
from loom_ia.i18n import translate as _
from loom_ia.telemetry import configure_logging

TERMINATED: Final = 143

_PATIENCE: Final = 0.3
"""Seconds that a stop may take before it is said what it waits for."""


class Desk(Loom):
    """A `Loom` that also shows what it was made from."""

    env: EnvFile | None = None

    @property
    def loaded(self) -> LoadedConfig:
        """The configuration, and what was learnt while it was loaded."""
        return self._host.loaded

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is accepted here, and would better not be."""
        return (*self._host.warnings, *advised_against(self.env, self.loaded.profile))

    def server(self, name: str) -> ReviewedSource:
        """Give an MCP server, to look at its tools and to be closed; see `Sources.server`."""
        return self._host.sources.server(name)

    @property
    def programs(self) -> Mapping[str, Program]:
        """The agents, ready to be driven."""
        return self._host.programs()


@asynccontextmanager
async def open_desk(args: argparse.Namespace, *, mount: bool = True) -> AsyncGenerator[Desk]:
    """Open the library on the configuration of `args`; without `mount`, agents are left alone.

    A run can so be read or cancelled although the code of its tools is broken.
    """
    with variables(args) as env:
        desk = Desk.from_config(config_path(args), profile=profile(args), references=mount)
        desk.env = env
        waiting: asyncio.TimerHandle | None = None
        try:
            logging = desk.config.telemetry.logging
            configure_logging(logging.level, logging.format, STANDARD_ERROR)
            if mount:
                desk.mount()
            yield desk
        except asyncio.CancelledError:
            waiting = asyncio.get_running_loop().call_later(_PATIENCE, _tell_waiting, desk)
            raise
        finally:
            try:
                await desk.aclose()
            finally:
                if waiting is not None:
                    waiting.cancel()


def _tell_waiting(desk: Desk) -> None:
    say(
        _(
            "Waiting for the tool under way, which cannot be cut: at most {seconds:g} s "
            "(execution.shutdown_timeout). Ctrl-C again leaves at once.",
            seconds=desk.config.execution.shutdown_timeout,
        )
    )


@asynccontextmanager
async def resumable(
    desk: Desk, args: argparse.Namespace, run_id: RunId, session_id: SessionId | None
) -> AsyncGenerator[None]:
    """Say, when a signal stops what is inside, how to go on with the run."""
    try:
        yield
    except asyncio.CancelledError:
        try:
            run = await desk.state(run_id, session_id=session_id)
        except LoomError:
            say(_("Interrupted: the run had not begun, nothing was written."))
            raise asyncio.CancelledError from None
        if run.is_open and not desk.store.durable:
            say(_("Interrupted: {reason}", reason=forgotten()))
        elif run.is_open:
            command = command_line(args, "resume", run_id)
            say(_("Interrupted: the run can be resumed with {command}", command=command))
        raise


def perform(work: Coroutine[Any, Any, int]) -> int:
    """Do the work of a command; SIGTERM stops it as Ctrl-C does, and the run is handed back."""
    return asyncio.run(_stoppable(work))


async def _stoppable(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    with suppress(NotImplementedError, RuntimeError, ValueError):  # not here, or not this thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            return TERMINATED
        raise


def author(args: argparse.Namespace) -> str:
    """Name who decides: the local user, with the name given by `--by` before it."""
    user = local_user()
    return f"{args.by} ({user})" if args.by else user


def local_user() -> str:
    """Name the local user, as the author of a decision."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):  # no name for this user id
        return "cli:unknown"
