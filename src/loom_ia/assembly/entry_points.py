"""Sources of tools of installed packages, found by their entry points.

Law. Listing what is installed imports nothing; a package is imported when an agent uses its source.
A factory is called with `name`, `params`, `secrets` and `base_dir`, and gives a `ToolSource`, or
simply a list of tools.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, NamedTuple, cast

from loom_ia.config.sources import ToolSourceSpec
from loom_ia.core.errors import ConfigError, Problem, told
from loom_ia.core.ports.sources import NamedTools, OfferedTool, SourceContext, ToolSource
from loom_ia.core.ports.tools import Tool

GROUP: Final = "loom_ia.tools"


class Installed(NamedTuple):
    """A source that is installed, and the package that brings it; nothing of it is imported."""

    entry_point: str
    package: str


def installed() -> tuple[Installed, ...]:
    """Give the sources that are installed, sorted by name."""
    found = {
        Installed(point.name, point.dist.name if point.dist else "")
        for point in entry_points(group=GROUP)
    }
    return tuple(sorted(found))


class Secrets:
    """Gives the values of variables by name, and shows none."""

    def __init__(self, secret: Callable[[str], str]) -> None:
        self._secret = secret

    def __getitem__(self, name: str) -> str:
        """Give a value; raises `KeyError` when it is not defined, or is empty."""
        if value := self._secret(name):
            return value
        raise KeyError(name)

    def get(self, name: str, default: str = "") -> str:
        """Give a value, `default` when it is not defined, or is empty."""
        return self._secret(name) or default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._secret(name))


@dataclass(frozen=True, slots=True)
class ListedTools:
    """The source that a list of tools is."""

    tools: tuple[OfferedTool, ...]

    async def open(self, context: SourceContext) -> NamedTools:
        """Give the tools."""
        del context
        return NamedTools(self.tools)

    async def aclose(self) -> None:
        """Nothing was opened."""


def source_of_package(
    spec: ToolSourceSpec, *, secret: Callable[[str], str], base_dir: Path
) -> ToolSource:
    """Make the source of an installed package; raises `ConfigError`, without a place.

    This imports the package.
    """
    make = _factory(spec.entry_point)
    try:
        made: object = make(
            name=spec.name,
            params=_copied(spec.params),
            secrets=Secrets(secret),
            base_dir=base_dir,
        )
    except ConfigError:
        raise
    except Exception as error:
        raise _refused(
            "the source {name} refused to be made: {error}", name=spec.name, error=told(error)
        ) from error
    if callable(getattr(made, "open", None)) and callable(getattr(made, "aclose", None)):
        return cast("ToolSource", made)
    if isinstance(made, list | tuple):  # a list of tools is the simplest source
        return ListedTools(tuple(_offered(each) for each in cast("Sequence[object]", made)))
    raise _refused(
        "the entry point {entry_point} gave a {type}, not a source of tools nor a list of tools",
        entry_point=spec.entry_point,
        type=type(made).__name__,
    )


def _offered(tool: object) -> OfferedTool:
    """Name a tool of a list; what is no tool is told when it is fitted."""
    name = str(getattr(getattr(tool, "spec", None), "name", type(tool).__name__))
    return OfferedTool(name, cast("Tool", tool))


def _factory(name: str) -> Callable[..., object]:
    found: tuple[EntryPoint, ...] = tuple(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(dict.fromkeys(each.entry_point for each in installed())) or "none"
        raise _refused(
            "no installed package has the entry point {entry_point} in {group} (installed: "
            "{known})",
            entry_point=name,
            group=GROUP,
            known=known,
        )
    point = found[0]
    others = {each.dist.name for each in found if each.dist is not None}
    if len(others) > 1:
        raise _refused(
            "several packages have the entry point {entry_point}: {packages} (remove one)",
            entry_point=name,
            packages=", ".join(sorted(others)),
        )
    try:
        made: object = point.load()
    except Exception as error:
        raise _refused(
            "the entry point {entry_point} ({value}) cannot be imported: {error}",
            entry_point=name,
            value=point.value,
            error=told(error),
        ) from error
    if not callable(made):
        raise _refused(
            "the entry point {entry_point} ({value}) is no function that makes a source",
            entry_point=name,
            value=point.value,
        )
    return made


def _copied(params: Mapping[str, object]) -> dict[str, object]:
    from copy import deepcopy

    return deepcopy(dict(params))


def _refused(template: str, **params: object) -> ConfigError:
    return ConfigError([Problem("", None, "", template, params)])
