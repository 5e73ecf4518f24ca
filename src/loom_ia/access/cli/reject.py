"""`loom reject RUN`: refuse a call that waits, then go on with the run."""

import argparse

from loom_ia.access.cli import decision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    decision.add_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Refuse the call."""
    from loom_ia.access.cli.desk import Desk, perform

    async def refuse(desk: Desk, by: str) -> tuple[str, ...]:
        return await desk.reject(
            args.run,
            call_id=args.call,
            by=by,
            reason=args.reason,
            session_id=args.session,
            resume=False,
        )

    return perform(decision.decide(args, refuse))
