"""Graphs of every shape whose run is a function of their recipe, whoever drives it and how often.

A recipe is a value; `flow` makes the graph. Every step is async and touches no clock, so that only
the shape decides. Where it may depend on timing who comes first, all who come do the same.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias

from hypothesis import strategies as st

from loom_ia.graph import (
    Ask,
    Goto,
    Graph,
    Hooks,
    Interrupt,
    Retry,
    add,
    append,
    condition,
    fan_out,
    union,
)

Rest = Callable[[str], Awaitable[None]]
"""Told the name of a step before it does anything, to let others go first."""


@dataclass(frozen=True)
class Plain:
    """A step. `effects` are `(side_effects, idempotent)` of each effect, `asks` how it asks."""

    effects: tuple[tuple[str, bool], ...] = ()
    asks: str = ""
    fails: bool = False
    falls_back: bool = False
    acts: str = "none"
    idempotent: bool = True
    goes: bool = False
    turns: int = 1
    sleeps: int = 0


@dataclass(frozen=True)
class Split:
    """Branches, which meet in a step with `join`; all the same ones where not all are awaited."""

    branches: tuple["Block", ...]
    join: str | int = "all"


@dataclass(frozen=True)
class Over:
    """A list, each item of which is given to one step."""

    items: int
    limit: int
    fails: bool
    takes: bool
    effect: bool


@dataclass(frozen=True)
class Below:
    """A graph as a step."""

    block: "Block"


Node: TypeAlias = Plain | Split | Over | Below
Block: TypeAlias = tuple[Node, ...]


@dataclass
class World:
    """What is outside of every process: how often each effect was made, by its key."""

    made: Counter[str] = field(default_factory=Counter[str])
    rest: Rest | None = None

    async def wait(self, step: str, sleeps: int) -> None:
        """Let others go first."""
        if self.rest is not None:
            await self.rest(step)
        for _ in range(sleeps):
            await asyncio.sleep(0)

    def effect(self, result: str) -> Callable[[str], Awaitable[str]]:
        """Give a function that an effect calls with its key."""

        async def make(key: str) -> str:
            self.made[key] += 1
            return result

        return make


def answer(asked: Interrupt) -> Any:
    """Answer any question, always the same."""
    return f"answer to {asked.key}" if asked.kind == "input" else {"approved": True}


def flow(block: Block, world: World, *, hooked: bool = False) -> Graph[dict[str, Any]]:
    """Make the graph of a recipe."""
    return _Maker(world, count(1)).graph("flow", block, hooked=hooked)


@dataclass
class _Maker:
    world: World
    numbers: "count[int]"

    def graph(self, name: str, block: Block, *, hooked: bool = False) -> Graph[dict[str, Any]]:
        hooks = Hooks(before=(_count,), after=(_count,)) if hooked else None
        merge = {"log": append, "n": add, "hooks": add, "seen": union}
        graph: Graph[dict[str, Any]] = Graph(name, "begin", merge=merge, hooks=hooks)
        graph.add_step("begin", _nothing, self.put(graph, block, "end"))
        graph.add_step("end", _nothing)
        return graph

    def name(self, kind: str) -> str:
        return f"{kind}{next(self.numbers)}"

    def put(self, graph: Graph[dict[str, Any]], block: Block, then: str) -> str:
        """Add the steps of a block that goes on with `then`, and give the first one."""
        for node in reversed(block):
            match node:
                case Plain():
                    then = self.plain(graph, node, then)
                case Split():
                    then = self.split(graph, node, then)
                case Over():
                    then = self.over(graph, node, then)
                case Below():
                    name = self.name("below")
                    child = self.graph(f"{name}-graph", node.block)
                    graph.add_step(name, child.as_step(), then)
                    then = name
        return then

    def plain(self, graph: Graph[dict[str, Any]], node: Plain, then: str) -> str:
        name = self.name("plain")
        turns = f"turns_{name}"
        graph.add_step(
            name,
            self.step(name, node, then),
            condition(lambda s: s.get(turns, 0) < node.turns, name, then),
            retry=Retry(attempts=2, delay=0) if node.fails else None,
            fallback=f"{name}-instead" if node.falls_back else None,
            side_effects=node.acts,
            idempotent=node.idempotent,
            on_unknown="pause",
        )
        if node.falls_back:

            async def instead(state: Mapping[str, Any]) -> dict[str, Any]:
                await self.world.wait(name, node.sleeps)
                return {"log": [f"instead of {name}"]}

            graph.add_step(f"{name}-instead", instead, then)
        return name

    def step(self, name: str, node: Plain, then: str) -> Callable[..., Any]:
        world = self.world

        async def step(state: Mapping[str, Any], ctx: Any) -> Any:
            await world.wait(name, node.sleeps)
            given: list[Any] = []
            for rank, (side_effects, idempotent) in enumerate(node.effects):
                made = world.effect(f"{name}.{ctx.occurrence}.{rank}")
                given.append(
                    await ctx.effect(
                        f"effect{rank}", made, side_effects=side_effects, idempotent=idempotent
                    )
                )
                await world.wait(name, node.sleeps)
            if node.fails and ctx.attempt == 1:
                raise RuntimeError("the first attempt")
            if node.falls_back:
                raise RuntimeError("every attempt")
            if node.asks == "inside":
                given.append(await ctx.interrupt("which?"))
                given.append(await ctx.interrupt("and then?", key="more"))
            if node.asks == "mid" and ctx.answer is None:
                return Ask("which?", update={"log": [f"{name} asks"]})
            if node.asks == "mid":
                given.append(ctx.answer)
            turn = state.get(f"turns_{name}", 0) + 1
            delta = {"log": [name, *given], "n": 1, f"key_{name}": given, f"turns_{name}": turn}
            if node.asks == "after":
                return Ask("which?", phase="after", update=delta, into=f"answer_{name}")
            return Goto(then, delta) if node.goes else delta

        return step

    def split(self, graph: Graph[dict[str, Any]], node: Split, then: str) -> str:
        name, join = self.name("split"), self.name("join")
        graph.add_step(join, self.marking(join), then, join=node.join)
        if node.join == "all":
            entries = [self.put(graph, block, join) for block in node.branches]
        else:
            entries = [self.racer(graph, block, join) for block in node.branches]
        graph.add_step(name, _nothing, entries)
        return name

    def marking(self, name: str) -> Callable[..., Any]:
        async def mark(state: Mapping[str, Any]) -> dict[str, Any]:
            await self.world.wait(name, 0)
            return {"log": [name]}

        return mark

    def racer(self, graph: Graph[dict[str, Any]], block: Block, join: str) -> str:
        """Add a branch that does what its rivals do, after as many steps as the block has."""
        then = join
        for node in block:
            name, sleeps = self.name("racer"), node.sleeps if isinstance(node, Plain) else 1

            async def race(
                state: Mapping[str, Any], name: str = name, sleeps: int = sleeps
            ) -> dict[str, Any]:
                await self.world.wait(name, sleeps)
                return {"seen": [join]}

            graph.add_step(name, race, then)
            then = name
        return then

    def over(self, graph: Graph[dict[str, Any]], node: Over, then: str) -> str:
        name, item = self.name("over"), self.name("item")

        async def load(state: Mapping[str, Any]) -> dict[str, Any]:
            return {f"items_{name}": list(range(node.items))}

        async def one(state: Mapping[str, Any], ctx: Any) -> dict[str, Any]:
            number = state["item"]
            await self.world.wait(f"{item}.{number}", number % 3)
            if node.fails and number == 1:
                raise ValueError("item 1")
            if node.effect:
                return {"out": await ctx.effect("effect", self.world.effect(f"{item}.{number}"))}
            return {"out": number * 2}

        router = fan_out(
            item,
            over=f"items_{name}",
            as_="item",
            collect=f"all_{name}",
            limit=node.limit,
            take="out" if node.takes else None,
            on_error="collect" if node.fails else "fail",
        )
        graph.add_step(name, load, router)
        graph.add_step(item, one, then)
        return name


async def _nothing(state: Mapping[str, Any]) -> None:
    return None


async def _count(step: str, state: Mapping[str, Any]) -> dict[str, Any] | None:
    return {"hooks": 1} if step.startswith("plain") else None


_effects = st.tuples(st.sampled_from(["none", "reversible", "irreversible"]), st.booleans())
_plains = st.builds(
    Plain,
    effects=st.lists(_effects, max_size=2).map(tuple),
    asks=st.sampled_from(["", "", "", "inside", "mid", "after"]),
    fails=st.booleans(),
    falls_back=st.sampled_from([False, False, True]),
    acts=st.sampled_from(["none", "none", "reversible", "irreversible"]),
    idempotent=st.booleans(),
    goes=st.booleans(),
    turns=st.integers(1, 2),
    sleeps=st.integers(0, 3),
).map(lambda p: replace(p, turns=1) if p.goes or p.falls_back else p)
_overs = st.builds(
    Over,
    items=st.integers(0, 4),
    limit=st.integers(1, 3),
    fails=st.booleans(),
    takes=st.booleans(),
    effect=st.booleans(),
)


def _nodes(depth: int) -> st.SearchStrategy[Node]:
    if depth == 0:
        return st.one_of(_plains, _plains, _overs)
    inner = _blocks(depth - 1)
    splits = st.builds(Split, st.lists(inner, min_size=2, max_size=3).map(tuple))
    racing = st.builds(
        Split, st.lists(inner, min_size=3, max_size=3).map(tuple), st.sampled_from(["any", 1, 2])
    )
    return st.one_of(_plains, _plains, _overs, splits, racing, st.builds(Below, inner))


def _blocks(depth: int) -> st.SearchStrategy[Block]:
    return st.lists(_nodes(depth), min_size=1, max_size=2).map(tuple)


def _size(node: Node) -> int:
    """Count the steps that do something."""
    match node:
        case Plain():
            return node.turns
        case Over():
            return max(node.items, 1)
        case Below(block):
            return sum(map(_size, block))
        case Split(branches):
            return sum(_size(node) for block in branches for node in block)


blocks: st.SearchStrategy[Block] = st.lists(_nodes(2), min_size=1, max_size=3).map(tuple)
"""Recipes of graphs of one to three parts, two levels deep."""
small: st.SearchStrategy[Block] = _nodes(1).filter(lambda n: _size(n) <= 4).map(lambda n: (n,))
"""Recipes whose run can be crashed everywhere in a moment."""
