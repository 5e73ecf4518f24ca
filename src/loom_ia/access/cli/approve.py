"""`loom approve RUN`: grant a call that waits, then go on with the run."""

import argparse
import json
from typing import Any

from loom_ia.access.cli import decision
from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    decision.add_arguments(parser)
    parser.add_argument(
        "--arguments",
        metavar="JSON",
        help=_("other arguments than those that were shown; needs --call"),
    )


def execute(args: argparse.Namespace) -> int:
    """Grant the call."""
    from loom_ia.access.cli.desk import Desk, perform

    edited = None if args.arguments is None else _read(args.arguments)

    async def grant(desk: Desk, by: str) -> tuple[str, ...]:
        return await desk.approve(
            args.run,
            call_id=args.call,
            by=by,
            reason=args.reason,
            arguments=edited,
            session_id=args.session,
            resume=False,
        )

    return perform(decision.decide(args, grant))


def _read(text: str) -> dict[str, Any]:
    from loom_ia.core.errors import DecisionRefused

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecisionRefused("--arguments is not JSON: {reason}", reason=str(error)) from error
    if not isinstance(value, dict):
        raise DecisionRefused("--arguments must be a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]
