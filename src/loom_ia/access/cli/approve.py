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
    parser.add_argument(
        "--answer",
        metavar="VALUE",
        help=_("what a step of a graph asks for; JSON is read as such"),
    )


def execute(args: argparse.Namespace) -> int:
    """Grant the call."""
    from loom_ia.access.cli.desk import Desk, perform
    from loom_ia.app.approvals import NO_ANSWER

    edited = None if args.arguments is None else _read(args.arguments)
    answer: object = NO_ANSWER if args.answer is None else _value(args.answer)

    async def grant(desk: Desk, by: str) -> tuple[str, ...]:
        return await desk.approve(
            args.run,
            call_id=args.call,
            by=by,
            reason=args.reason,
            arguments=edited,
            answer=answer,
            session_id=args.session,
            resume=False,
        )

    return perform(decision.decide(args, grant))


def _value(text: str) -> object:
    from loom_ia.access.cli.graph_results import value_of

    return value_of(text)


def _read(text: str) -> dict[str, Any]:
    from loom_ia.core.errors import DecisionRefused

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecisionRefused("--arguments is not JSON: {reason}", reason=str(error)) from error
    if not isinstance(value, dict):
        raise DecisionRefused("--arguments must be a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]
