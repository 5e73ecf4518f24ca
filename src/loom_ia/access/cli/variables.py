"""The environment file of a command: read before the configuration, undone after the command."""

import argparse
import os
from collections.abc import Generator
from contextlib import contextmanager

from loom_ia.access.cli.arguments import config_path, env_file, reads_env_file
from loom_ia.config.env import EnvFile, load_env_file
from loom_ia.config.profiles import ActiveProfile
from loom_ia.core.errors import Problem


@contextmanager
def variables(args: argparse.Namespace) -> Generator[EnvFile | None]:
    """Add the variables of the file that goes with `args`, for as long as the command lasts."""
    reads = reads_env_file(args)
    found = load_env_file(config_path(args), file=env_file(args)) if reads else None
    try:
        yield found
    finally:
        for name in found.added if found else ():
            os.environ.pop(name, None)


def advised_against(found: EnvFile | None, profile: ActiveProfile) -> tuple[Problem, ...]:
    """Warn when what runs in production depends on a file that lies beside it."""
    if found is None or not found.added or profile.name != "prod":
        return ()
    template = "in the prod profile, define these variables outside of a file: {names}"
    return (Problem(found.file, None, "", template, {"names": ", ".join(found.added)}),)
