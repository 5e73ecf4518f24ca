"""Graphs of any shape and any names, sound or not."""

from typing import Any

from hypothesis import strategies as st

from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.routers import branch, condition, fan_out
from loom_ia.graph.types import END, MISSING, Send

AWKWARD = [
    "end",
    "subgraph",
    "a b",
    '"',
    "[x]",
    "a\nb",
    "`c`",
    "#quot;",
    "%%",
    "é→😀",
    "o",
    "|",
    "\\",
]
names = st.one_of(
    st.sampled_from(["a", "b", "c", "d", *AWKWARD]),
    st.text(min_size=1, max_size=6).filter(
        lambda n: bool(n.strip()) and "/" not in n and not n.startswith("__")
    ),
)


def _noop(state: Any) -> None:
    return None


class _Child:
    def __init__(self, graph: GraphDefinition[Any]) -> None:
        self.graph = graph


def runs(child: GraphDefinition[Any]) -> Any:
    """Give a step that runs a graph."""

    def run_child(state: Any) -> None:
        return None

    setattr(run_child, "__loom_child__", _Child(child))  # noqa: B010 -- functions lack it
    return run_child


def thens(known: list[str]) -> st.SearchStrategy[Any]:
    """Give anything that a step may lead to."""
    name = st.sampled_from(known)
    lists = st.lists(st.one_of(name, name.map(Send)), min_size=1, max_size=3)
    target = st.one_of(name, st.just(END), lists)
    keys = st.one_of(st.text(max_size=3), st.integers(), st.just(MISSING), st.booleans())
    return st.one_of(
        target,
        st.none(),
        st.builds(branch, st.just("k"), st.dictionaries(keys, target, max_size=3), target),
        st.builds(lambda a, b: condition(bool, a, b), target, target),
        st.builds(lambda n: fan_out(n, over="docs", as_="doc", collect="all"), name),
        st.just(lambda state: "a"),
    )


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1) -> GraphDefinition[Any]:
    """Give a graph; some lead to steps that are not there, some run graphs."""
    steps = draw(st.lists(names, unique=True, max_size=6))
    known = [*steps, draw(names)]
    entry = draw(st.one_of(st.none(), st.sampled_from(known)))
    made: GraphDefinition[Any] = GraphDefinition(draw(names), entry)
    then = thens(known)
    for step in steps:
        fn: Any = _noop
        if depth and draw(st.integers(0, 5)) == 0:
            fn = runs(draw(st.one_of(st.just(made), graphs(depth=depth - 1))))
        made.add_step(
            step,
            fn,
            draw(then),
            join=draw(st.sampled_from([None, None, "all", "any", 2])),
            fallback=draw(st.one_of(st.none(), st.none(), st.sampled_from(known))),
            detail=draw(st.sampled_from(["", "does it", 'says "end"\n'])),
        )
    return made
