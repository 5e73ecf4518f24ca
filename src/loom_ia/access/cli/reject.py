"""`loom reject RUN`: refuse a call that waits, then go on with the run."""

import argparse

from loom_ia.access.cli import decision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    decision.add_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Refuse the call."""
    from loom_ia.access.cli.desk import Desk, perform
    from loom_ia.app.approvals import Ruling

    async def refuse(desk: Desk, ruling: Ruling) -> tuple[str, ...]:
        return await desk.refuse(ruling)

    return perform(decision.decide(args, refuse))
