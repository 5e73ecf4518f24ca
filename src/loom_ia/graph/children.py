"""What a step opens: another graph, or an agent of the host, as a run below.

A child is given an input and gives back a change; nothing else passes between the two states.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from loom_ia.core.errors import CallerError
from loom_ia.graph.types import Delta, Step

if TYPE_CHECKING:
    from loom_ia.graph.definition import GraphDefinition

Inputs: TypeAlias = Callable[[Any], Mapping[str, Any]] | Sequence[str] | None
Outputs: TypeAlias = Callable[[Any], Delta] | Sequence[str] | None
OnYield: TypeAlias = str | Callable[[Any], Delta]


@dataclass(frozen=True, slots=True)
class ChildStep:
    """A step that is a run of its own; it is driven, never called."""

    __loom_child__: ClassVar[property]

    def __call__(self, state: Any) -> Delta:
        """Refuse: only a graph that is driven opens runs."""
        del state
        raise CallerError("a step that is a run of its own is driven by its graph, never called")


@dataclass(frozen=True, slots=True)
class ChildGraph(ChildStep):
    """Another graph as a step: see `GraphDefinition.as_step`.

    `messages_only` makes it a hand-off: the child begins with the messages, `compress`ed, and the
    `keys`, and gives its output back.
    """

    graph: "GraphDefinition[Any]"
    inputs: Inputs = None
    outputs: Outputs = None
    on_yield: OnYield = "bubble"

    def __post_init__(self) -> None:
        if not callable(self.on_yield) and self.on_yield not in ("bubble", "trap"):
            raise ValueError(
                f"as_step(on_yield={self.on_yield!r}): it is 'bubble', 'trap' or a function"
            )
        _require_mapper("inputs", self.inputs)
        _require_mapper("outputs", self.outputs)


@dataclass(frozen=True, slots=True)
class ChildAgent(ChildStep):
    """An agent of the host as a step: what it is asked, and where its answer goes."""

    agent: str
    ask: str | Callable[[Any], str]
    into: str


ChildStep.__loom_child__ = property(lambda self: self)  # the mark that is looked for


def subgraph(graph: "GraphDefinition[Any]", **options: Any) -> Step:
    """Make a step of a graph: the same as `graph.as_step(**options)`."""
    return ChildGraph(graph, **options)


def agent_step(agent: str, *, ask: str | Callable[[Any], str], into: str) -> Step:
    """Make a step of an agent of the host: a run of it, below the graph's.

    `ask` is what it is asked, a text or a function of the state; its answer goes under `into`.
    """
    if not agent or not into:
        raise ValueError("agent_step: the agent and into are names, not empty")
    return ChildAgent(agent, ask, into)


def handoff(
    graph: "GraphDefinition[Any]",
    *,
    compress: Callable[[list[Any]], Any] | None = None,
    keys: Sequence[str] = ("session_id", "user_id", "namespace"),
) -> Step:
    """Hand a conversation over to another graph.

    It begins with `{"messages": compress(messages)}` and the `keys` that there are, and nothing
    else. What comes back is its `output`, and its name under `handoff_to`.
    """

    def inputs(state: Any) -> Mapping[str, Any]:
        messages = list(_get(state, "messages") or ())
        given = {key: value for key in keys if (value := _get(state, key)) is not None}
        return {"messages": messages if compress is None else compress(messages), **given}

    def outputs(state: Any) -> Delta:
        return {"output": _get(state, "output"), "handoff_to": graph.name}

    return ChildGraph(graph, inputs, outputs)


def _get(state: Any, key: str) -> Any:
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key)
    return getattr(state, key, None)


def _require_mapper(option: str, mapper: object) -> None:
    if mapper is None or callable(mapper):
        return
    names = cast("Sequence[object]", mapper)
    is_list = isinstance(mapper, Sequence) and not isinstance(mapper, str | bytes)
    if is_list and all(isinstance(name, str) for name in names):
        return
    raise ValueError(f"as_step({option}={mapper!r}): it is a function, or a list of keys")
