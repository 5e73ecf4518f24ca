"""Drawings: what they show, and that they stay valid whatever the names."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.routers import branch, condition, fan_out
from loom_ia.graph.topology import (
    Edge,
    StepInfo,
    StepVisit,
    Topology,
    Visits,
    mermaid,
    text_drawing,
)
from loom_ia.graph.types import END, Send
from tests.graph.random_graphs import AWKWARD, graphs, runs

TEXT = r'"([^"\[\]{}<>`|%\\\n]|<br/>)+"'
NODE = re.compile(
    rf"(?P<id>s[0-9_a-z]*)(\[{TEXT}\]|\[\[{TEXT}\]\]|\{{\{{{TEXT}\}}\}}|\(\[{TEXT}\]\)|\(\({TEXT}\)\))"
)
BOX = re.compile(rf"subgraph (?P<id>s[0-9_a-z]*)\[{TEXT}\]")
EDGE = re.compile(
    rf"(?P<from>s[0-9_a-z]*) (?P<arrow>-->|==>|-\.->)(\|(?P<text>{TEXT})\|)? (?P<to>s[0-9_a-z]*)"
)
STYLE = re.compile(
    r"classDef [a-z]+ [a-z0-9#:,-]+|class (?P<ids>s[0-9_a-z]*(,s[0-9_a-z]*)*) [a-z]+"
)


@dataclass
class Drawn:
    """What a strict reading of a flowchart finds."""

    nodes: dict[str, str] = field(default_factory=dict[str, str])
    edges: list[tuple[str, str, str, str]] = field(default_factory=list[tuple[str, str, str, str]])
    classes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def solid(self) -> set[tuple[str, str]]:
        """Give the edges between steps, and to the end, of the outer graph."""
        return {
            (source, to)
            for source, arrow, _, to in self.edges
            if arrow != "-.->" and re.fullmatch(r"s_\d+", source)
        }


def parse(text: str) -> Drawn:
    """Read a flowchart, refusing all that is not exactly of its grammar."""
    first, *lines = text.split("\n")
    assert first == "flowchart TD"
    drawn, depth = Drawn(), 0
    for line in lines:
        told = line.strip(" ")
        if box := BOX.fullmatch(told):
            assert box["id"] not in drawn.nodes
            drawn.nodes[box["id"]] = told
            depth += 1
        elif told == "end":
            depth -= 1
            assert depth >= 0
        elif edge := EDGE.fullmatch(told):
            drawn.edges.append((edge["from"], edge["arrow"], edge["text"] or "", edge["to"]))
        elif style := STYLE.fullmatch(told):
            for node in (style["ids"] or "").split(","):
                drawn.classes.setdefault(node, []).append(told.split(" ")[-1])
        else:
            node = NODE.fullmatch(told)
            assert node is not None, line
            assert node["id"] not in drawn.nodes
            drawn.nodes[node["id"]] = told
    assert depth == 0
    for source, _, _, to in drawn.edges:
        assert {source, to} <= drawn.nodes.keys()
    assert drawn.classes.keys() - {""} <= drawn.nodes.keys()
    return drawn


def noop(state: Any) -> None:
    """Change nothing."""
    return


def review() -> GraphDefinition[Any]:
    """Give a graph with one of each."""
    made: GraphDefinition[Any] = GraphDefinition("review")
    made.add_step("work", noop, "check", detail="Writes it")
    made.add_step("check", noop, branch("ok", {"yes": "split", "no": "work"}, default=END))
    made.add_step("split", noop, ["legal", "tech"])
    made.add_step("legal", noop, "merge", fallback="tech")
    made.add_step("tech", noop, "merge")
    made.add_step(
        "merge", noop, fan_out("mail", over="people", as_="to", collect="sent"), join="all"
    )
    made.add_step("mail", noop, lambda s: END)
    return made


def test_the_topology_is_derived_from_the_routers() -> None:
    """Steps come in the order of declaration, with their edges and labels."""
    assert review().topology() == Topology(
        "work",
        (
            StepInfo("work", "Writes it", (Edge("check", ""),), False),
            StepInfo("check", "", (Edge("split", "yes"), Edge("work", "no"), Edge(END, "")), False),
            StepInfo("split", "", (Edge("legal", ""), Edge("tech", "")), False),
            StepInfo("legal", "", (Edge("merge", ""),), False),
            StepInfo("tech", "", (Edge("merge", ""),), False),
            StepInfo("merge", "", (Edge("mail", ""),), False),
            StepInfo("mail", "", (), True),
        ),
    )
    assert GraphDefinition[Any]("g").topology() == Topology(None, ())


def test_w51_declared_targets_are_edges() -> None:
    """A router written by hand is drawn as its author says, several sends of a step as one edge."""
    made: GraphDefinition[Any] = GraphDefinition("g")
    made.add_step("a", noop, lambda s: END, targets=["b", ""])
    made.add_step("b", noop, [Send("a"), Send("a")])
    one, two = made.topology().steps
    assert (one.edges, one.dynamic) == ((Edge("b", ""), Edge(END, "")), False)
    assert two.edges == (Edge("a", ""),)


def test_a_drawing_shows_labels_loops_splits_and_joins() -> None:
    """The whole drawing, as it is written."""
    assert mermaid(review()).split("\n") == [
        "flowchart TD",
        '    s_go(("start"))',
        '    s_0["work<br/>Writes it"]',
        '    s_1["check"]',
        '    s_2["split"]',
        '    s_3["legal"]',
        '    s_4["tech"]',
        '    s_5{{"merge<br/>join all"}}',
        '    s_6["mail"]',
        '    s_any(["?"])',
        '    s_stop(["END"])',
        "    s_go --> s_0",
        "    s_0 --> s_1",
        '    s_1 -->|"yes"| s_2',
        '    s_1 -->|"no"| s_0',
        "    s_1 --> s_stop",
        '    s_2 -->|"parallel"| s_3',
        '    s_2 -->|"parallel"| s_4',
        "    s_3 --> s_5",
        '    s_3 -.->|"fallback"| s_4',
        "    s_4 --> s_5",
        '    s_5 -->|"each of people"| s_6',
        "    s_6 -.-> s_any",
    ]


def test_a_run_is_drawn_over_its_graph() -> None:
    """Edges that were taken are thick and counted, steps timed, the pause and the failure shown."""
    visits = Visits(
        steps={
            "work": StepVisit(2, 1.25),
            "check": StepVisit(2, 0.012),
            "mail": StepVisit(1, 125.4, failed=True),
        },
        edges={("work", "check"): 2, ("check", "work"): 1, ("mail", END): 1, ("check", "ghost"): 0},
        paused=frozenset({"check"}),
    )
    text = mermaid(review(), visits)
    drawn = parse(text)
    assert drawn.nodes["s_0"] == 's_0["work<br/>Writes it<br/>×2 · 1.2 s"]'
    assert drawn.nodes["s_1"] == 's_1["check<br/>×2 · 12 ms<br/>paused"]'
    assert drawn.nodes["s_6"] == 's_6["mail<br/>×1 · 2 min 05 s<br/>failed"]'
    thick = [edge for edge in drawn.edges if edge[1] == "==>"]
    assert thick == [
        ("s_0", "==>", '"×2"', "s_1"),
        ("s_1", "==>", '"no ×1"', "s_0"),
        ("s_6", "==>", '"×1"', "s_stop"),
    ]
    assert drawn.classes["s_0"] == ["visited"]
    assert drawn.classes["s_1"] == ["visited", "paused"]
    assert drawn.classes["s_6"] == ["visited", "failed"]
    assert "s_2" not in drawn.classes


def test_a_step_that_runs_a_graph_is_a_box_around_it() -> None:
    """Graphs nest, and one that runs itself is not drawn for ever."""
    inner: GraphDefinition[Any] = GraphDefinition("inner")
    inner.add_step("end", noop, END)
    outer: GraphDefinition[Any] = GraphDefinition("outer")
    outer.add_step("research", runs(inner), "again", join="any")
    outer.add_step("again", runs(outer)).add_step("empty", runs(GraphDefinition("none")))
    drawn = parse(mermaid(outer))
    assert drawn.nodes["s_0"] == 'subgraph s_0["research<br/>join any"]'
    assert drawn.nodes["s_0_0"] == 's_0_0["end"]'
    assert drawn.nodes["s_1"] == 's_1[["again"]]'
    assert drawn.nodes["s_2"] == 's_2[["empty"]]'
    assert ("s_0_0", "-->", "", "s_0_stop") in drawn.edges


@pytest.mark.parametrize("name", AWKWARD)
def test_any_name_can_be_drawn(name: str) -> None:
    """Words and signs of Mermaid in a name or a key stay text."""
    made: GraphDefinition[Any] = GraphDefinition(name)
    made.add_step(name, noop, branch("k", {name: name, "\n": END}))
    drawn = parse(mermaid(made))
    assert drawn.solid() == {("s_0", "s_0"), ("s_0", "s_stop")}
    assert len(text_drawing(made).splitlines()) == 2


def test_plain_names_are_written_as_they_are() -> None:
    """A reader finds the usual names in the source of the drawing."""
    made: GraphDefinition[Any] = GraphDefinition("g")
    made.add_step("Vérifier l'offre_2 (v1.0)", noop, condition(bool, END, "x-y"))
    text = mermaid(made)
    assert '"Vérifier l\'offre_2 (v1.0)"' in text
    assert '"x-y (no such step)"' in text


@given(graphs())
def test_every_edge_drawn_is_in_the_topology(made: GraphDefinition[Any]) -> None:
    """A drawing is valid whatever the graph, and shows exactly the edges of its topology."""
    text = mermaid(made)
    assert text == mermaid(made)
    ids: dict[object, str] = {name: f"s_{i}" for i, name in enumerate(made.steps)}
    ids[END] = "s_stop"
    drawn = parse(text)
    told = {
        (f"s_{i}", ids.get(edge.to, "missing"))
        for i, info in enumerate(made.topology().steps)
        for edge in info.edges
    }
    assert {(a, "missing" if b.startswith("s_m") else b) for a, b in drawn.solid()} == told


@given(graphs(), st.data())
def test_any_run_can_be_drawn(made: GraphDefinition[Any], data: st.DataObject) -> None:
    """Whatever a run is said to have done, the drawing is valid and shows each edge taken."""
    somewhere = st.sampled_from([*made.steps, "gone"])
    visits = Visits(
        data.draw(st.dictionaries(somewhere, st.builds(StepVisit, st.integers(0, 3)))),
        data.draw(
            st.dictionaries(
                st.tuples(somewhere, st.one_of(somewhere, st.just(END))), st.integers(0, 3)
            )
        ),
        data.draw(st.frozensets(somewhere)),
    )
    drawn = parse(mermaid(made, visits))
    thick = {(source, to) for source, arrow, _, to in drawn.edges if arrow == "==>"}
    taken = {edge for edge, count in visits.edges.items() if count and edge[0] in made.steps}
    assert len(thick) == len(taken)


def test_the_text_drawing_has_one_line_for_each_step() -> None:
    """The entry is marked, and each line tells where its step leads."""
    assert text_drawing(review()).split("\n") == [
        "review",
        "* work   → check",
        "  check  yes → split | no → work | → END",
        "  split  → legal + tech",
        "  legal  → merge | fallback → tech",
        "  tech   → merge",
        "  merge  join all | each of people → mail",
        "  mail   → ?",
    ]


@given(graphs())
def test_the_text_drawing_of_any_graph_is_one_line_for_each_step(
    made: GraphDefinition[Any],
) -> None:
    """No name breaks a line."""
    assert len(text_drawing(made).splitlines()) == 1 + len(made.steps)
