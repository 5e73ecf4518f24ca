"""`loom doctor [MODEL]`: ask models what they can do, and say what to write of them."""

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import count
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.api import Loom
    from loom_ia.access.cli.terminal import Style
    from loom_ia.config.load import LoadedConfig
    from loom_ia.config.root import LoomConfig
    from loom_ia.core.views.checkup import Checkup, Difference, Outcome, Probe, ProbeName, Said

_MARKS: Final[dict["Outcome", tuple[str, "Style"]]] = {
    "yes": ("✔", "green"),
    "no": ("–", "yellow"),
    "failed": ("✘", "red"),
    "skipped": ("–", "dim"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help=_("the model's id (default: all but the fakes)")
    )
    parser.add_argument("--json", action="store_true", help=_("show what was found as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Check one model, or those of providers."""
    from loom_ia.access.cli.desk import perform

    return perform(_doctor(args))


async def _doctor(args: argparse.Namespace) -> int:
    from loom_ia.access.api import Loom
    from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
    from loom_ia.access.cli.terminal import STANDARD_ERROR, show_json
    from loom_ia.access.cli.variables import variables
    from loom_ia.telemetry import configure_logging

    with variables(args):
        loom = Loom(_loaded(args))
        try:
            logging = loom.config.telemetry.logging
            configure_logging(logging.level, logging.format, STANDARD_ERROR)
            found = [await _check(loom, model, args) for model in _wanted(loom, args.model)]
        finally:
            await loom.aclose()
    if args.json:
        show_json([checkup.model_dump(mode="json") for checkup in found])
    return COMPLETED if all(checkup.answers for checkup in found) else NOT_COMPLETED


def _loaded(args: argparse.Namespace) -> "LoadedConfig":
    """Load the configuration; that it has no folder of agents yet does not matter here."""
    from loom_ia.access.cli.arguments import config_path, profile
    from loom_ia.assembly.models import price_list
    from loom_ia.config.load import load_config, prepare_config
    from loom_ia.config.places import FILE_NAME
    from loom_ia.core.errors import ConfigError

    path, asked, prices = Path(config_path(args)), profile(args), price_list()
    try:
        return load_config(path, profile=asked, prices=prices)
    except ConfigError as error:
        if others := [problem for problem in error.problems if problem.path != "agents_dir"]:
            raise ConfigError(others) from None
        file = path / FILE_NAME if path.is_dir() else path
        config = _without_agents(file)
        if config is None:
            raise
    return prepare_config(config, base_dir=file.parent, profile=asked, prices=prices)


def _without_agents(file: Path) -> "LoomConfig | None":
    """Read a configuration of which only the agents may be wrong; None when more of it is."""
    from loom_ia.config.document import read_document
    from loom_ia.config.files import read_bytes
    from loom_ia.config.places import Source
    from loom_ia.config.root import LoomConfig
    from loom_ia.config.validation import validate

    document = read_document(read_bytes(file), str(file))
    value = {**document.value, "agents": []}
    found = validate(LoomConfig, value, Source(str(file), value, document))
    return None if found.problems else found.spec


def _wanted(loom: "Loom", model: str | None) -> list[str]:
    from loom_ia.core.errors import CallerError

    if model is not None:
        return [model]
    models = loom.config.models
    found = [spec.id for spec in models if spec.sdk != "fake"]
    if not found and models:
        template = "no model of a provider is declared (name a fake to check it: {known})"
        raise CallerError(template, known=", ".join(spec.id for spec in models))
    if not found:
        raise CallerError("no model is declared: add it under models")
    return found


async def _check(loom: "Loom", model: str, args: argparse.Namespace) -> "Checkup":
    """Ask one model, and show each answer when it comes, unless one document is wanted."""
    from loom_ia.access.cli.screen import progress
    from loom_ia.access.cli.terminal import printable, show

    label = printable(_("asking {model}", model=model))
    with ExitStack() as waiting:

        def told(probe: "Probe") -> None:
            waiting.close()  # a line that is shown while something is drawn would be folded
            _tell(probe)
            waiting.enter_context(progress(label))

        if not args.json:
            _begin(loom, model)
        waiting.enter_context(progress(label))
        checkup = await loom.checkup(model, told=None if args.json else told)
    if not args.json:
        for line, style in _conclusion(checkup):
            show(printable(line), style)
        show()
    return checkup


def _begin(loom: "Loom", model: str) -> None:
    """Name the model that is about to be asked; one that is unknown is refused by the asking."""
    from loom_ia.access.cli.terminal import printable, show

    for spec in loom.config.models:
        if spec.id == model:
            address = spec.base_url or _("the official address")
            known = (spec.model, spec.sdk, spec.api, None if spec.sdk == "fake" else address)
            show(printable(f"{model} — {', '.join(filter(None, known))}"), "bold")


def _tell(probe: "Probe") -> None:
    """Show what came of one question."""
    from loom_ia.access.cli.terminal import printable, show

    labels = _labels()
    mark, style = _MARKS[probe.outcome]
    width = max(map(len, labels.values()))
    detail = _("not tried") if probe.outcome == "skipped" else ""
    detail = _said(probe.detail) if probe.detail else detail
    show(printable(f"  {mark} {labels[probe.name]:<{width}}  {detail}".rstrip()), style)
    if probe.remedy:
        show(printable(f"    → {_said(probe.remedy)}"))


def _labels() -> "dict[ProbeName, str]":
    return {
        "reach": _("answers"),
        "streaming": _("streams"),
        "usage": _("counts its tokens"),
        "tools": _("calls a tool"),
        "tool_result": _("reads its result"),
        "parallel_calls": _("makes two calls at once"),
        "forced_tool_choice": _("calls when it must"),
        "native_json": _("follows a schema"),
        "vision": _("sees images"),
        "thinking": _("shows its thoughts"),
    }


def _conclusion(checkup: "Checkup") -> "Iterator[tuple[str, Style]]":
    """Say what was consumed, what the configuration gets wrong, and what it should say."""
    if not checkup.answers:
        return
    yield _consumed(checkup), "dim"
    for difference in sorted(checkup.differences, key=lambda each: each.found):
        yield _difference(difference)
    yield _("To write under the model:"), ""
    yield "    capabilities:", ""
    for name, value in checkup.capabilities.items():
        yield f"      {name}: {json.dumps(value)}", ""


def _consumed(checkup: "Checkup") -> str:
    calls, usage, cost = checkup.calls, checkup.usage, checkup.cost_usd
    read, written = count(usage.prompt_tokens), count(usage.output_tokens)
    if cost is None:
        return _(
            "Consumed   : {calls} call(s), {read} tokens read, {written} written",
            calls=calls,
            read=read,
            written=written,
        )
    return _(
        "Consumed   : {calls} call(s), {read} tokens read, {written} written, ${cost:.6f}",
        calls=calls,
        read=read,
        written=written,
        cost=cost,
    )


def _difference(difference: "Difference") -> "tuple[str, Style]":
    name = f"capabilities.{difference.capability}"
    if difference.found:
        return _("Note       : {name} is false, and the model can do it", name=name), "cyan"
    problem = _("{name} is true, and the model was not seen to do it", name=name)
    return _("Warning    : {problem}", problem=problem), "yellow"


def _said(said: "Said") -> str:
    """Say a sentence in the language that is spoken."""
    from loom_ia.core.errors import LoomError
    from loom_ia.i18n import render

    return render(LoomError(said.template, **said.params))
