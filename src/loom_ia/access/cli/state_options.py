"""The option `--state KEY=VALUE` of the commands that begin a run."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from loom_ia.core.errors import CallerError
from loom_ia.i18n import translate as _


def add_state_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--state",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=_("write a value of the session, JSON or else text; null erases it (repeatable)"),
    )


def state_given(written: Sequence[str]) -> dict[str, Any]:
    """Read what was given; raises `CallerError` for what is not KEY=VALUE, and a key given twice.

    A value is JSON where it can be read as JSON, and else the text itself.
    """
    state: dict[str, Any] = {}
    for item in written:
        key, equals, text = item.partition("=")
        if not equals or not key:
            raise CallerError("--state takes KEY=VALUE, not {given}", given=item)
        if key in state:
            raise CallerError("--state gives {key} twice", key=key)
        state[key] = _value(text)
    return state


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):  # not JSON, or nothing that may be kept: judged as text
        return text


def _no_json(name: str) -> Any:
    raise ValueError(name)
