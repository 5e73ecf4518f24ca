"""The tools that a model is offered, and the rules on their calls.

A toolset is a value: it holds live tools and calls none. Rules come in layers, each of which can
only take away what the others leave.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, final

from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import Tool
from loom_ia.graph.errors import InvalidGraph
from loom_ia.graph.patterns import Pattern

Verdict: TypeAlias = Literal["denied", "not_allowed", "ask", "allowed"]

_STRICTEST_FIRST: tuple[Verdict, ...] = ("denied", "not_allowed", "ask")


@dataclass(frozen=True, slots=True)
class Rules:
    """One layer: `deny` wins over `ask`, which wins over `allow`; None is no list."""

    deny: tuple[Pattern, ...] = ()
    allow: tuple[Pattern, ...] | None = None
    ask: tuple[Pattern, ...] = ()

    def shows(self, name: str) -> bool:
        """Tell whether some call of the tool `name` can be made."""
        if any(rule.argument is None and rule.names(name) for rule in self.deny):
            return False
        return self.allow is None or any(rule.names(name) for rule in (*self.ask, *self.allow))

    def verdict(self, name: str, texts: tuple[str, ...]) -> Verdict:
        """Judge a call of `name`. Of several readings of its first text, the strictest counts."""
        if any(rule.matches(name, text) for rule in self.deny for text in texts):
            return "denied"
        if any(rule.matches(name, text) for rule in self.ask for text in texts):
            return "ask"
        if self.allow is None:
            return "allowed"
        allowed = all(any(rule.matches(name, text) for rule in self.allow) for text in texts)
        return "allowed" if allowed else "not_allowed"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Toolset:
    """Tools by name, in order, with the rules on their calls; `permissions` adds rules.

    `tools` has those that no call can reach, too. A toolset is iterable, over the visible ones.
    """

    tools: Mapping[str, Tool]
    rules: tuple[Rules, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the visible tools, in order."""
        return tuple(n for n in self.tools if all(layer.shows(n) for layer in self.rules))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told of the visible tools, in order."""
        return tuple(tool.spec for tool in self)

    def get(self, name: str) -> Tool | None:
        """Give the tool of that name, visible or not; None when there is none."""
        return self.tools.get(name)

    def verdict(self, name: str, arguments: Mapping[str, Any]) -> Verdict:
        """Judge a call of a tool of the set by the rules, not by what the tool declares.

        What a model wrote in the place of arguments is judged as no argument.
        """
        is_object = isinstance(cast("object", arguments), Mapping)
        seen = arguments if is_object else dict[str, Any]()
        texts = _first_texts(self.tools[name].spec, seen)
        given = {layer.verdict(name, texts) for layer in self.rules}
        for verdict in _STRICTEST_FIRST:
            if verdict in given:
                return verdict
        return "allowed"

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Tool]:
        return iter([self.tools[name] for name in self.names])

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Toolset {', '.join(self.names)}>"


Tools: TypeAlias = Toolset | Iterable[Tool]
"""What stands for the tools of a model: a list of tools, or a `Toolset`."""


def toolset(tools: Tools) -> Toolset:
    """Make a toolset of tools; one that is a toolset already stays as it is.

    Raises `InvalidGraph` for what is not a tool and for two tools of one name.
    """
    if isinstance(tools, Toolset):
        return tools
    if not _is_list(tools):
        raise InvalidGraph(
            "tools is of type {type}: give a list of tools, or a Toolset", type=type(tools).__name__
        )
    found: dict[str, Tool] = {}
    for rank, item in enumerate(tools):
        tool = a_tool(item, f"tools[{rank}]")
        name = tool.spec.name
        if name in found:
            raise InvalidGraph("there are two tools named {name!r}: rename one", name=name)
        found[name] = tool
    return Toolset(found)


def a_tool(value: object, where: str) -> Tool:
    """Give `value` back, which stands at `where`. Raises `InvalidGraph` when it is no tool."""
    if isinstance(value, Toolset):
        raise InvalidGraph("{where} is a Toolset: give it alone, not in a list", where=where)
    methods = [getattr(value, name, None) for name in ("check", "call")]
    if isinstance(value, type) or not all(map(callable, methods)):
        raise InvalidGraph(
            "{where} is {value!r}, which is not a tool: decorate it with loom_ia.tools.tool",
            where=where,
            value=value,
        )
    if not isinstance(getattr(value, "spec", None), ToolSpec):
        raise InvalidGraph("{where}: the spec of the tool is not a ToolSpec", where=where)
    return cast("Tool", value)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def _first_texts(spec: ToolSpec, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the first text of a call: as it is written, and in the order of the parameters.

    A model chooses the order in which it writes; it must not choose what is looked at.
    """
    properties = spec.input_schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    orders = ([name for name in names if name in arguments], list(arguments))
    return tuple(dict.fromkeys(_first_text([arguments[n] for n in order]) for order in orders))


def _first_text(values: list[Any]) -> str:
    return next((value for value in values if isinstance(value, str)), "")
