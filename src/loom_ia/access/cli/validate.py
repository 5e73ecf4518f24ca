"""`loom validate`: read the configuration, mount the agents, show what was understood."""

import argparse
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from loom_ia.access.cli.desk import Desk
    from loom_ia.app.sources import SourceListing
    from loom_ia.config.env import EnvFile
    from loom_ia.config.load import LoadedConfig
    from loom_ia.config.overrides import Override
    from loom_ia.core.errors import Problem
    from loom_ia.core.model.tooling import ToolSpec
    from loom_ia.engine.program import Program
    from loom_ia.engine.stages import Stages

_LONGEST_VALUE: Final = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--connect",
        action="store_true",
        help=_("connect to the MCP servers of the agents, and list the tools that they offer"),
    )


def execute(args: argparse.Namespace) -> int:
    """Check the configuration."""
    from loom_ia.access.cli.desk import perform

    return perform(_validate(args))


async def _validate(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.arguments import config_path
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
    from loom_ia.access.cli.validate_doors import rows_of_doors
    from loom_ia.access.cli.validate_sources import connected, is_short, rows_of_sources

    async with open_desk(args) as desk:
        found = await connected(desk, servers=args.connect)
        rows = (*_rows(desk, config_path(args)), *rows_of_sources(desk), *rows_of_doors(desk))
        _show(desk, rows, found)
    return NOT_COMPLETED if any(map(is_short, found)) else COMPLETED


def _show(
    desk: "Desk", rows: "Iterable[tuple[str, str]]", found: "Sequence[SourceListing]"
) -> None:
    from loom_ia.access.cli.terminal import printable, show
    from loom_ia.access.cli.validate_doors import warnings_of_doors
    from loom_ia.access.cli.validate_sources import lines_of, troubles

    warned = (*desk.warnings, *warnings_of_doors(desk))
    for label, value in rows:
        show(printable(f"{label:<10} : {value}" if label else f"  {value}"))
    for name, graph in desk.graphs.items():
        said = _("{graph} : graph, {count} step(s)", graph=name, count=len(graph.steps))
        show(printable("  " + said))
    for name, program in desk.programs.items():
        kinds = [tool.kind for tool in program.plan.tools.values()]
        said = _(
            "{agent} : model {model}, {count} Python tool(s)",
            agent=name,
            model=" → ".join(facts.id for facts in program.plan.chain),
            count=kinds.count("python"),
        )
        own = (
            *_delegated(program.plan.tools.values()),
            *_sourced(program),
            *_looking(program.stages),
        )
        show(printable("  " + ", ".join((said, *own))))
        for line in lines_of(name, found):
            show(printable(line))
    show()
    warnings = [*_said(warned), *_without_agent(desk), *troubles(found)]
    for line in warnings:
        show(printable(_("Warning    : {problem}", problem=line)))
    show(_conclusion(len(desk.programs), len(desk.graphs), len(warnings)))


def _delegated(tools: "Iterable[ToolSpec]") -> "Iterator[str]":
    """Say what an agent calls besides tools, kind by kind."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        names.setdefault(tool.kind, []).append(tool.name)
    if graphs := names.get("graph"):
        yield _("{count} graph(s)", count=len(graphs))
    if roles := names.get("role"):
        yield _("{count} role(s) ({names})", count=len(roles), names=", ".join(roles))
    if agents := names.get("subagent"):
        yield _("{count} sub-agent(s) ({names})", count=len(agents), names=", ".join(agents))


def _sourced(program: "Program") -> "Iterator[str]":
    """Say which sources an agent takes tools from."""
    if names := [source.name for source in program.sources]:
        yield _("tools of {names}", names=", ".join(names))


def _looking(stages: "Stages") -> "Iterator[str]":
    """Say who looks at what an agent does, in the order in which they are asked."""
    if names := [stage.name for stage in stages]:
        yield _("checked by {names}", names=", ".join(names))


def _rows(desk: "Desk", path: str) -> "Iterator[tuple[str, str]]":
    """Give what was understood, part by part; what was neither written nor found has no row."""
    from loom_ia.core.model.tooling import takes_references

    config, programs = desk.config, desk.programs
    specs = (spec for program in programs.values() for spec in program.plan.tools.values())
    tools = dict.fromkeys(spec.name for spec in specs if not takes_references(spec.kind))
    events, files = config.storage.events, config.storage.artifacts
    logging = config.telemetry.logging
    yield _("Config"), path
    if desk.env:
        yield _("Env"), _env(desk.env)
    yield _("Profile"), _profile(desk.loaded)
    yield from (("", _override(override)) for override in desk.loaded.overrides)
    yield _("Models"), _listed(model.id for model in config.models)
    yield _("Agents"), _listed(programs)
    if desk.graphs:
        yield _("Graphs"), _listed(desk.graphs)
    yield _("Tools"), _listed(tools)
    yield _("Journal"), _store(events.backend, events.path)
    if files.backend or files.path:
        yield _("Artifacts"), _store(files.backend or "local", files.path)
    yield _("Telemetry"), _("logs {level}, {format}", level=logging.level, format=logging.format)


def _env(env: "EnvFile") -> str:
    read = len(env.added) + len(env.kept)
    if not env.kept:
        return _("{file} ({count} variable(s))", file=env.file, count=read)
    kept = ", ".join(env.kept)
    return _(
        "{file} ({count} variable(s), already defined: {kept})",
        file=env.file,
        count=read,
        kept=kept,
    )


def _profile(loaded: "LoadedConfig") -> str:
    profile, count = loaded.profile, len(loaded.overrides)
    if profile.name is None:
        return _("none (neither --profile, nor LOOM_PROFILE, nor 'profile:'); overrides: none")
    origin = "profile:" if profile.origin == "file" else profile.origin
    if not count:
        return _("{name} ({origin}); overrides: none", name=profile.name, origin=origin)
    return _("{name} ({origin}); overrides: {count}", name=profile.name, origin=origin, count=count)


def _override(override: "Override") -> str:
    place = f"{override.file}:{override.line}"
    return f"{place}: {override.path} — {_brief(override.before)} → {_brief(override.after)}"


def _brief(value: object) -> str:
    from loom_ia.core.json import readable

    text = readable(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _store(backend: str, path: str | None) -> str:
    return f"{backend} ({path})" if path else backend


def _listed(names: "Iterable[str]") -> str:
    return ", ".join(names) or _("none")


def _said(warnings: "tuple[Problem, ...]") -> tuple[str, ...]:
    from loom_ia.core.errors import ConfigError
    from loom_ia.i18n import lines

    return lines(ConfigError(warnings)) if warnings else ()


def _without_agent(desk: "Desk") -> "Iterator[str]":
    if not desk.programs and not desk.graphs:
        yield _(
            "there is no agent (write {file}, or a first project with {command})",
            file=f"{desk.config.agents_dir}/<name>.yaml",
            command="loom init",
        )


def _conclusion(agents: int, graphs: int, warnings: int) -> str:
    if graphs:
        mounted = _("{agents} agent(s) and {graphs} graph(s)", agents=agents, graphs=graphs)
    else:
        mounted = _("{agents} agent(s)", agents=agents)
    if not warnings:
        return _("{mounted} mounted without error.", mounted=mounted)
    return _(
        "{mounted} mounted without error, {warnings} warning(s).",
        mounted=mounted,
        warnings=warnings,
    )
