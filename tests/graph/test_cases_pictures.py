"""Graphs and runs to look at: topology, drawings, comparisons."""

import re
from typing import Any

from loom_ia.graph import (
    END,
    MISSING,
    Ask,
    Edge,
    Graph,
    GraphEvent,
    MemoryStore,
    RunResult,
    add,
    branch,
    diff_runs,
    fan_out,
)

State = Any


def drawn(picture: str) -> tuple[dict[str, str], set[tuple[str, str, str, str]]]:
    """Read a drawing: the text of each node by its step, and the edges between steps."""
    nodes: dict[str, str] = {}
    names: dict[str, str] = {}
    for found in re.finditer(r'(?m)^\s*(?:subgraph )?(\w+)[\[({]+"(.*?)"[\])}]+$', picture):
        node, text = found.groups()
        name = text.split("<br/>")[0]
        names[node] = name
        nodes[name] = text
    edges: set[tuple[str, str, str, str]] = set()
    for found in re.finditer(r'(?m)^\s*(\w+) (-->|==>|-\.->)(?:\|"(.*?)"\|)? (\w+)$', picture):
        source, arrow, label, target = found.groups()
        edges.add((names[source], arrow, label or "", names[target]))
    return nodes, edges


def styled(picture: str, style: str) -> set[str]:
    """Give the steps that are drawn in a style."""
    nodes = dict(re.findall(r'(?m)^\s*(?:subgraph )?(\w+)[\[({]+"([^"<]*)', picture))
    found = re.search(rf"(?m)^\s*class ([\w,]+) {style}$", picture)
    return {nodes[node] for node in found.group(1).split(",")} if found else set()


def loop() -> Graph[Any]:
    """Make a graph that tries until it is good, or asks."""
    g: Graph[Any] = Graph("loop", "write", merge={"n": add})
    g.add_step("write", lambda state: {"n": 1}, then="judge", detail="a draft")
    routes = {"good": END, "bad": "write", "unsure": "ask"}
    g.add_step(
        "judge",
        lambda state: {"verdict": "bad" if state["n"] < 3 else state["end"]},
        then=branch("verdict", routes),
    )
    g.add_step("ask", lambda state: Ask("good?", phase="after"), then=END)
    return g


def test_topology_is_derived() -> None:
    """Each step has its ways out, in the order of declaration, with the keys of its routes."""
    topology = loop().topology()
    assert topology.entry == "write"
    assert [step.name for step in topology.steps] == ["write", "judge", "ask"]
    write, judge, ask = topology.steps
    assert write.detail == "a draft"
    assert write.edges == (Edge("judge", ""),)
    assert judge.edges == (Edge(END, "good"), Edge("write", "bad"), Edge("ask", "unsure"))
    assert ask.edges == (Edge(END, ""),)
    assert not any(step.dynamic for step in topology.steps)


def test_topology_of_hand_written_routers() -> None:
    """Without `targets` nothing is known; with them, they are."""
    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: None, then=lambda state: "b")
    g.add_step("b", lambda state: None, then=lambda state: "a", targets=["a", "b"])
    a, b = g.topology().steps
    assert (a.dynamic, a.edges) == (True, ())
    assert not b.dynamic
    assert [edge.to for edge in b.edges] == ["a", "b"]


def test_topology_of_splits() -> None:
    """A fan-out, static or over a list, leads to its steps."""
    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: None, then=["b", "c"])
    g.add_step("b", lambda state: None, then=fan_out("d", over="x", as_="y", collect="z"))
    g.add_step("c", lambda state: None, then="e")
    g.add_step("d", lambda state: None, then="e")
    g.add_step("e", lambda state: None, join="all")
    ways = {step.name: [edge.to for edge in step.edges] for step in g.topology().steps}
    assert ways == {"a": ["b", "c"], "b": ["d"], "c": ["e"], "d": ["e"], "e": [END]}


async def test_a_completed_run_over_its_graph() -> None:
    """Visited edges are thick with their counts; steps say how often and how long."""
    g = loop()
    result = await g.run({"n": 0, "end": "good"})
    nodes, edges = drawn(g.mermaid(result))
    assert "×3" in nodes["write"]
    assert "×3" in nodes["judge"]
    assert re.search(r"\d+(\.\d+)? (ms|s|min)", nodes["write"])
    assert "×" not in nodes["ask"]
    assert ("write", "==>", "×3", "judge") in edges
    assert ("judge", "==>", "bad ×2", "write") in edges
    assert ("judge", "==>", "good ×1", "END") in edges
    assert ("judge", "-->", "unsure", "ask") in edges
    assert ("ask", "-->", "", "END") in edges
    assert styled(g.mermaid(result), "visited") == {"write", "judge"}
    assert styled(g.mermaid(result), "paused") == set()


async def test_a_paused_run_over_its_graph() -> None:
    """The step that asks is highlighted, until it is answered."""
    g = loop()
    store = MemoryStore()
    result = await g.run({"n": 0, "end": "unsure"}, store=store, run_id="r")
    picture = g.mermaid(result)
    assert styled(picture, "paused") == {"ask"}
    nodes, edges = drawn(picture)
    assert "paused" in nodes["ask"]
    assert ("judge", "==>", "unsure ×1", "ask") in edges
    assert ("ask", "-->", "", "END") in edges
    done = await g.resume("r", answers={result.interrupts[0].id: 1}, store=store)
    picture = g.mermaid(done)
    assert styled(picture, "paused") == set()
    assert ("ask", "==>", "×1", "END") in drawn(picture)[1]


async def test_a_failed_run_over_its_graph() -> None:
    """The step that failed is highlighted, until it succeeds."""
    broken = [True]

    def b(state: State) -> None:
        if broken[0]:
            raise RuntimeError("no")

    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: None, then="b")
    g.add_step("b", b, then=END)
    store = MemoryStore()
    result = await g.run({}, store=store, run_id="r", raise_on_error=False)
    picture = g.mermaid(result)
    assert styled(picture, "failed") == {"b"}
    assert "failed" in drawn(picture)[0]["b"]
    assert ("a", "==>", "×1", "b") in drawn(picture)[1]
    broken[0] = False
    picture = g.mermaid(await g.resume("r", store=store))
    assert styled(picture, "failed") == set()
    assert "×1" in drawn(picture)[0]["b"]


async def test_branches_over_their_graph() -> None:
    """The edges of a split and of a join are thick, once for each branch."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", lambda state: {"a": 1}, then="a2")
    g.add_step("a2", lambda state: {"a2": 1}, then="meet")
    g.add_step("b", lambda state: {"b": 1}, then="meet")
    g.add_step("meet", lambda state: None, then=END, join="all")
    _, edges = drawn(g.mermaid(await g.run({})))
    taken = {(source, target): label for source, arrow, label, target in edges if arrow == "==>"}
    assert set(taken) == {
        ("split", "a"),
        ("split", "b"),
        ("a", "a2"),
        ("a2", "meet"),
        ("b", "meet"),
        ("meet", "END"),
    }
    assert all(label.endswith("×1") for label in taken.values())


async def test_a_branch_that_lost_over_its_graph() -> None:
    """The edge of a loser to the join was not taken."""
    import asyncio

    async def never(state: State) -> None:
        await asyncio.Event().wait()

    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["slow", "fast"])
    g.add_step("slow", never, then="meet")
    g.add_step("fast", lambda state: {"f": 1}, then="meet")
    g.add_step("meet", lambda state: None, then=END, join="any")
    _, edges = drawn(g.mermaid(await g.run({})))
    arrows = {(source, target): arrow for source, arrow, _, target in edges}
    assert arrows["fast", "meet"] == "==>"
    assert arrows["slow", "meet"] == "-->"


async def test_a_map_over_its_graph() -> None:
    """The step of a map counts its items, and its way out is taken once."""
    g: Graph[Any] = Graph("g", "load")
    g.add_step("load", lambda state: None, then=fan_out("s", over="x", as_="y", collect="z"))
    g.add_step("s", lambda state: {"v": 1}, then="end")
    g.add_step("end", lambda state: None, then=END)
    nodes, edges = drawn(g.mermaid(await g.run({"x": [1, 2, 3]})))
    assert "×3" in nodes["s"]
    taken = {(source, target): label for source, arrow, label, target in edges if arrow == "==>"}
    assert "×1" in taken["s", "end"]
    assert "×" in taken["load", "s"]


async def test_a_drawing_of_a_run_below() -> None:
    """A step that runs a graph is a box around it; a pause below marks it."""
    child: Graph[Any] = Graph("child")
    child.add_step("inner", lambda state: Ask("?"), then=END)
    g: Graph[Any] = Graph("g")
    g.add_step("run", child.as_step(), then=END)
    assert "subgraph" in g.mermaid()
    result: RunResult[Any] = await g.run({}, store=MemoryStore())
    assert "run" in styled(g.mermaid(result), "paused")


async def test_two_runs_that_are_alike() -> None:
    """No first divergence, no key that differs."""
    g = loop()
    store = MemoryStore()
    for run_id in ("a", "b"):
        await g.run({"n": 0, "end": "good"}, store=store, run_id=run_id)
    difference = diff_runs(await g.events("a", store=store), await g.events("b", store=store))
    assert difference["first_divergence"] is None
    assert difference["state"] == {}


async def test_two_runs_that_part() -> None:
    """The first facts that differ, and the keys of the last states."""
    g = loop()
    store = MemoryStore()
    await g.run({"n": 0, "end": "good"}, store=store, run_id="a")
    await g.run({"n": 1, "end": "good", "more": 1}, store=store, run_id="b")
    difference = diff_runs(await g.events("a", store=store), await g.events("b", store=store))
    one, other = difference["first_divergence"]
    assert isinstance(one, GraphEvent)
    assert one.type == other.type == "run.started"
    assert difference["state"] == {"more": (MISSING, 1)}
    assert difference["steps"] == (6, 4)


async def test_a_fork_and_its_source() -> None:
    """Comparing what-if branches: only what the fork changed differs."""
    g = loop()
    store = MemoryStore()
    await g.run({"n": 0, "end": "good"}, store=store, run_id="a")
    at = (await g.history("a", store=store))[0].seq
    await g.fork("a", at=at, input={"n": 5}, store=store, new_run_id="b")
    difference = diff_runs(await g.events("a", store=store), await g.events("b", store=store))
    assert difference["state"] == {"n": (3, 6)}
