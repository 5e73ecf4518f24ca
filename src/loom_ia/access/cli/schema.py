"""`loom schema`: print the JSON Schema of the configuration, for editors."""

import argparse

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--agent", action="store_true", help=_("the schema of an agent's file instead")
    )
    kind.add_argument(
        "--graph", action="store_true", help=_("the schema of a graph's file instead")
    )


def execute(args: argparse.Namespace) -> int:
    """Print the schema; no configuration is read."""
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import show_json
    from loom_ia.config.schema import agent_schema, graph_schema, root_schema

    made = graph_schema if args.graph else agent_schema if args.agent else root_schema
    show_json(made())
    return COMPLETED
