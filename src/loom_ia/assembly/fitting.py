"""From what a source offers to the tools of an agent: chosen, named, under what was said last.

Law. One tool that cannot be used is withheld, with the reason, and the others are offered. A name
of the source is any text; the one that models see is legal, and the same each time.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loom_ia.agents import McpTool, SourcedTools, ToolOverrides
from loom_ia.assembly.tools import ConfiguredTool
from loom_ia.config.root import ToolExecution
from loom_ia.core.errors import UnstorableValue, told
from loom_ia.core.json import digest, storable, storable_text
from loom_ia.core.model.tooling import ToolKind, ToolSpec
from loom_ia.core.ports.sources import OfferedTool
from loom_ia.core.ports.tools import Tool
from loom_ia.engine.program import Fitted

_log = logging.getLogger("loom_ia.assembly")

_LONGEST: Final = 500
_OURS: Final[tuple[ToolKind, ...]] = ("python", "mcp")


@dataclass(frozen=True, slots=True)
class Reference:
    """How an agent names a source, and what is said of each of its tools, by its own name."""

    written: SourcedTools
    said: Mapping[str, ToolOverrides]


@dataclass(slots=True)
class Fitting:
    """Fits the tools of one source for one agent. `shared_keys`: keys of tools outlive a run."""

    source: str
    references: tuple[Reference, ...]
    defaults: ToolExecution
    shared_keys: bool = False
    _last: tuple[tuple[OfferedTool, ...], Mapping[str, str], Fitted] | None = None
    _warned: set[str] = field(default_factory=set[str])

    def __call__(self, offered: Sequence[OfferedTool], withheld: Mapping[str, str]) -> Fitted:
        """Fit the tools; what did not change since the last time is given again."""
        given = tuple(offered)
        if self._last is not None:
            before, kept_back, fitted = self._last
            same = len(before) == len(given) and all(map(_is_same, before, given))
            if same and kept_back == withheld:
                return fitted
        fitted = self._fitted(given, withheld)
        self._last = given, withheld, fitted
        return fitted

    def _fitted(self, offered: tuple[OfferedTool, ...], withheld: Mapping[str, str]) -> Fitted:
        tools: dict[str, Tool] = {}
        reasons = {
            storable_text(str(own)): storable_text(str(reason))[:_LONGEST]
            for own, reason in withheld.items()
            if self._takes(str(own))
        }
        listed = {str(own) for own in withheld}
        owns: dict[str, str] = {}
        digests: dict[str, str] = {}
        for each in offered:
            own = each.name
            listed.add(own)
            for reference in self.references:
                if not reference.written.takes(own):
                    continue
                name = reference.written.named(own)
                problem = self._unusable(each.tool) or (
                    "another tool has this name" if name in tools else ""
                )
                if not problem:
                    try:
                        tool = self._configured(each, name, reference)
                        digests[name] = digest(tool.spec.model_dump(mode="json"))
                        tools[name], owns[name] = tool, own
                    except (UnstorableValue, ValueError, TypeError) as error:
                        problem = told(error)
                if problem:
                    reasons[storable_text(own)] = storable_text(problem)[:_LONGEST]
        self._warn(listed)
        return Fitted(tools, reasons, digest(list(digests.items()))[:16], owns)

    def _takes(self, own: str) -> bool:
        return any(reference.written.takes(own) for reference in self.references)

    def _unusable(self, tool: object) -> str:
        """Say what keeps something from being a tool of an agent; empty when nothing does."""
        spec: object = getattr(tool, "spec", None)
        if not isinstance(spec, ToolSpec):
            return f"{type(tool).__name__} is no tool: its spec is none"
        if not all(callable(getattr(tool, method, None)) for method in ("check", "call")):
            return f"{type(tool).__name__} is no tool: it has no check, or no call"
        if spec.input_schema.get("type", "object") != "object":
            return "the schema of its arguments is not of type object"
        if spec.remembers == "key" and not self.shared_keys:
            return (
                "it remembers under a key of its own, which needs a store that runs share "
                "(storage.idempotency)"
            )
        return ""

    def _configured(self, offered: OfferedTool, name: str, reference: Reference) -> Tool:
        tool, spec = offered.tool, offered.tool.spec
        over = reference.said.get(offered.name, ToolOverrides())
        changes: dict[str, Any] = {
            key: value for key, value in over if value is not None and key != "output"
        }
        is_mcp = isinstance(reference.written, McpTool)
        declared: object = getattr(tool, "declared", {} if is_mcp else None)
        for key in ("timeout", "offload_over"):
            if isinstance(declared, Mapping) and key not in declared:
                changes.setdefault(key, getattr(self.defaults, key))
        kind = "mcp" if is_mcp else spec.kind if spec.kind in _OURS else "python"
        described = storable_text(changes.pop("description", spec.description))
        schema, _ = storable(spec.input_schema, "input_schema")
        changes |= {"name": name, "kind": kind, "description": described, "input_schema": schema}
        changes |= {"terminal": False, "sees": False} if is_mcp else {}
        return ConfiguredTool(spec.model_copy(update=changes), tool)  # each part was checked

    def _warn(self, listed: set[str]) -> None:
        """Tell, once, of names of the configuration that the source does not know."""
        for unknown in sorted(set(self._written()) - listed - self._warned):
            self._warned.add(unknown)
            _log.warning("source %s has no tool %s, which the agent names", self.source, unknown)

    def _written(self) -> Iterator[str]:
        for reference in self.references:
            yield from reference.written.include or ()
            yield from reference.written.exclude or ()
            yield from reference.said


def _is_same(before: OfferedTool, now: OfferedTool) -> bool:
    return before.name == now.name and cast("object", before.tool) is cast("object", now.tool)
