"""`loom validate`: read the configuration, mount the agents, show what was understood."""

import argparse
from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk
    from loom_ia.config.profiles import ActiveProfile
    from loom_ia.config.root import LoomConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: it has none."""
    del parser


def execute(args: argparse.Namespace) -> int:
    """Check the configuration."""
    from loom_ia.access.cli.desk import perform

    return perform(_validate(args))


async def _validate(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED

    async with open_desk(args) as desk:
        _show(desk, args)
    return COMPLETED


def _show(desk: "Desk", args: argparse.Namespace) -> None:
    from loom_ia.access.cli.arguments import config_path
    from loom_ia.access.cli.terminal import printable, show

    config, programs = desk.config, desk.programs
    tools = dict.fromkeys(name for program in programs.values() for name in program.plan.tools)
    logging = config.telemetry.logging
    rows = (
        (_("Config"), config_path(args)),
        (_("Profile"), _profile(desk.loaded.profile)),
        (_("Models"), _listed(model.id for model in config.models)),
        (_("Agents"), _listed(programs)),
        (_("Tools"), _listed(tools)),
        (_("Journal"), _journal(config)),
        (_("Telemetry"), _("logs {level}, {format}", level=logging.level, format=logging.format)),
    )
    for label, value in rows:
        show(printable(f"{label:<10} : {value}"))
    for name, program in programs.items():
        count = len(program.plan.tools)
        model = program.plan.model
        show(
            "  "
            + _(
                "{agent} : model {model}, {count} Python tool(s)",
                agent=name,
                model=model,
                count=count,
            )
        )
    show()
    show(_("{count} agent(s) mounted without error.", count=len(programs)))


def _profile(profile: "ActiveProfile") -> str:
    if profile.name is None:
        return _("none (neither --profile, nor LOOM_PROFILE, nor 'profile:'); overrides: none")
    origin = "profile:" if profile.origin == "file" else profile.origin
    return _("{name} ({origin}); overrides: none", name=profile.name, origin=origin)


def _journal(config: "LoomConfig") -> str:
    events = config.storage.events
    return f"{events.backend} ({events.path})" if events.path else events.backend


def _listed(names: object) -> str:
    from collections.abc import Iterable
    from typing import cast

    return ", ".join(cast("Iterable[str]", names)) or _("none")
