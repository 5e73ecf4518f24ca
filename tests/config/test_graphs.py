"""Graphs written beside agents: read, checked with located problems, and built."""

from typing import Any

import pytest

from loom_ia import Loom
from loom_ia.config.schema import graph_schema
from loom_ia.graph import Blocked, Graph, StopReason
from loom_ia.graph.spec import KINDS
from tests.config.projects import Folder

ROOT = """\
version: 1
profile: dev
imports: [steps]
models:
  - {id: HAIKU, sdk: fake, model: fake-1, params: {script: [{text: "42"}]}}
"""
STEPS = '''\
from loom_ia.graph import Graph
from loom_ia.tools import tool

def double(state):
    return {"n": state["n"] * 2}

@tool()
def area(width: int, height: int = 2) -> int:
    """Give an area."""
    return width * height

built = Graph("built")
built.add_step("one", lambda s: {"built": True})
'''
WHOLE = """\
name: whole
description: Uses every kind of step.
merge: {log: append}
limits: {max_iterations: 50, step_budget: 40, timeout: 30, iterations_per: segment}
steps:
  check:
    guard:
      - "'n' in state"
      - {check: "n > 0", reason: n is positive}
    then: double
  double:
    python: steps:double
    retry: {attempts: 2, delay: 0}
    detail: twice
    then: size
  size:
    tool: area
    args: {width: n, height: 3}
    into: area
    then: ask
  ask:
    agent: devis
    ask: "What of {{ area }}?"
    into: said
    then: {condition: "area > 10 and said == '42'", if_true: below, if_false: END}
  below:
    graph: built
    outputs: [built]
    then: spread
  spread:
    set: {items: [1, 2, 3], log: "[said]"}
    then: {fan_out: each, over: items, as: item, collect: squares, take: square}
  each:
    set: {square: "item * item"}
    then: human
  human:
    ask_human: {prompt: {of: "{{ squares.1 }}"}, response: r, into: choice, schema: {type: string}}
    then: {branch: choice, routes: {again: human, stop: END}, default: finish}
  finish:
    set: {output: "said + ' ' + choice"}
"""


@pytest.fixture
def project(folder: Folder) -> Folder:
    """A project with an agent, a module of steps and a graph of every kind."""
    folder.write("loom.yaml", ROOT)
    folder.write("steps.py", STEPS)
    folder.write("graphs/whole.yaml", WHOLE)
    return folder


async def test_every_kind_of_step_runs(project: Folder) -> None:
    """A graph written in YAML does what its text says, up to the question and after it."""
    async with Loom(project.load(references=True)) as loom:
        assert list(loom.graphs) == ["whole", "built"]
        result = await loom.run_graph("whole", {"n": 2}, run_id="r1")
        assert result.stop is StopReason.YIELDED
        assert result.state["area"] == 12
        assert (result.state["squares"], result.state["log"]) == ([1, 4, 9], ["42"])
        assert result.state["built"] is True
        assert result.interrupts[0].payload == {"of": "4"}
        answers = {result.interrupts[0].id: "go"}
        result = await loom.graphs.resume("r1", answers=answers)
        assert result.state["output"] == "42 go"
        again = await loom.run_graph("whole", {"n": -1}, raise_on_error=False)
        assert isinstance(again.error, Blocked)
        assert again.blocked == "n is positive"


JOIN = """\
  a: {set: {}, then: [b, c]}
  b: {set: {}, then: d}
  c: {set: {}, then: d}
  d: {set: {}}"""
PROBLEMS: dict[str, tuple[str, str]] = {
    "no kind": ("  a: {then: END}", "graphs/g.yaml:3: steps.a — a step has one of python, agent"),
    "unknown key": (
        "  a: {python: steps:double, thn: b}",
        "graphs/g.yaml:3: steps.a.thn — unknown key (did you mean then?)",
    ),
    "key of another kind": (
        "  a: {set: {x: '1'}, ask: b}",
        "graphs/g.yaml:3: steps.a.ask — unknown key (known keys: then, join, timeout",
    ),
    "no such step": (
        "  a: {set: {x: '1'}, then: b}",
        "graphs/g.yaml:3: steps.a.then — there is no step b (steps: a, END)",
    ),
    "a step that is nearly there": (
        "  start: {set: {}, then: {branch: x, routes: {y: ende, n: END}}}\n  end: {set: {}}",
        "graphs/g.yaml:3: steps.start.then.routes.y — there is no step ende (did you mean end?)",
    ),
    "fallback": (
        "  a: {set: {x: '1'}, fallback: zzzz}",
        "graphs/g.yaml:3: steps.a.fallback — there is no step zzzz (steps: a, END)",
    ),
    "cached child": (
        "  a: {agent: devis, ask: x, into: y, cache: {key: '1'}}",
        "graphs/g.yaml:3: steps.a — add_step('a', cache=…): what a graph or an agent below gives",
    ),
    "expression": (
        "  a: {set: {x: 'y ** 2'}}",
        "graphs/g.yaml:3: steps.a.set.x — in the expression 'y ** 2', column 1: only keys",
    ),
    "condition": (
        "  a: {set: {}, then: {condition: 'x.y', if_true: END, if_false: END}}",
        "graphs/g.yaml:3: steps.a.then.condition — in the expression 'x.y', column 1: only keys",
    ),
    "template": (
        "  a: {agent: devis, ask: 'Hello {{ x', into: y}",
        "graphs/g.yaml:3: steps.a.ask — column 7: {{ is not closed",
    ),
    "no such agent": (
        "  a: {agent: devi, ask: x, into: y}",
        "graphs/g.yaml:3: steps.a.agent — there is no agent devi (agents: devis)",
    ),
    "join": (
        JOIN,
        "graphs/g.yaml:6: steps.d — branches meet here: say after how many it runs",
    ),
    "route": (
        "  a: {set: {}, then: 3}",
        "graphs/g.yaml:3: steps.a.then — must be a step, a list of steps, or a mapping",
    ),
    "end": ("  END: {set: {}}", "graphs/g.yaml:3: steps.END — END is the end"),
    "merge": ("  a: {set: {}}\nmerge: {x: apend}", "graphs/g.yaml:4: merge.x — must be one of"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_fault_has_its_place(folder: Folder, case: str) -> None:
    """What is wrong in a graph is told at its line, with what to write instead."""
    text, expected = PROBLEMS[case]
    folder.write("graphs/g.yaml", f"name: g\nsteps:\n{text}\n")
    (problem,) = folder.problems()
    assert problem.startswith(expected)


def test_a_wrong_text_hides_no_wrong_step(folder: Folder) -> None:
    """An expression that cannot be read and a step that is not there are told at once."""
    folder.write(
        "graphs/g.yaml",
        "name: g\nsteps:\n  a: {set: {x: 'y **'}, then: [b, c]}\n  b: {set: {}, join: all}\n",
    )
    places = [problem.split(" — ")[0] for problem in folder.problems()]
    assert places == ["graphs/g.yaml:3: steps.a.set.x", "graphs/g.yaml:3: steps.a.then[1]"]


async def test_doubts_about_shapes_are_warnings(folder: Folder) -> None:
    """A step that no way leads to, or that never ends: written or built, the instance starts."""
    folder.write("loom.yaml", ROOT.replace("profile: dev", "profile: prod"))
    folder.write(
        "graphs/g.yaml",
        "name: g\nsteps:\n  a: {set: {}}\n  lost: {set: {}}\n  loop: {set: {}, then: loop}\n",
    )
    folder.write(
        "steps.py",
        "from loom_ia.graph import Graph\n"
        'built = Graph("built").add_step("a", dict, "a").add_step("b", dict)\n',
    )
    expected = [
        "graphs/g.yaml:4: steps.lost — no way leads from a to the step lost",
        "graphs/g.yaml:5: steps.loop — no way leads from a to the step loop",
        "graphs/g.yaml:5: steps.loop — END cannot be reached from the step loop",
    ]
    assert [str(w) for w in folder.load().warnings if "steps." in w.path] == expected
    async with Loom(folder.load(references=True)) as loom:
        assert list(loom.graphs) == ["g", "built"]
        told = [str(warning) for warning in loom._host.warnings]
    assert [text for text in told if "graphs/g.yaml" in text] == expected
    assert [text for text in told if text.startswith("graph built")] == [
        "graph built: no way leads from a to the step b",
        "graph built: END cannot be reached from the step a",
    ]


REFERENCES = {
    "python: steps:doubl": "steps.a.python — nothing is called steps:doubl (did you mean",
    "python: steps:built.name": "steps.a.python — steps:built.name is of type str, not a function",
    "tool: steps:double, into: x": "steps.a.tool — steps:double is of type function, not a tool",
    "graph: other": "steps.a.graph — nothing is called other",
    "graph: steps:area": "steps.a.graph — steps:area is of type PythonTool, not a graph",
}


@pytest.mark.parametrize("written", REFERENCES)
def test_a_reference_stands_for_what_it_is_used_as(folder: Folder, written: str) -> None:
    """Functions, tools and graphs are looked up when modules are imported, and not before."""
    folder.write("steps.py", STEPS)
    folder.write("graphs/g.yaml", f"name: g\nsteps:\n  a: {{{written}}}\n")
    folder.load()
    (problem,) = folder.problems(references=True)
    assert problem.startswith(f"graphs/g.yaml:3: {REFERENCES[written]}")


CALLS_GRAPH = "name: devis\nmain: {model: HAIKU, system: Bonjour.}\ntools: [{graph: g}]\n"


def test_a_cycle_is_named(folder: Folder) -> None:
    """An agent that calls a graph whose step runs the agent is refused at the call."""
    folder.write("agents/devis.yaml", CALLS_GRAPH)
    folder.write(
        "graphs/g.yaml",
        "name: g\ndescription: x\nsteps:\n  a: {agent: devis, ask: x, into: y}\n",
    )
    (problem,) = folder.problems()
    assert problem == (
        "agents/devis.yaml:3: tools[0].graph — a run would open itself for ever: "
        "devis → g → devis (cut one of these calls)"
    )


def test_graphs_that_call_each_other_are_a_cycle(folder: Folder) -> None:
    """Two graphs in a circle are refused too, once."""
    folder.write("graphs/a.yaml", "name: a\nsteps:\n  x: {graph: b}\n")
    folder.write("graphs/b.yaml", "name: b\nsteps:\n  x: {graph: a}\n")
    (problem,) = folder.problems()
    assert "a → b → a" in problem


def test_a_model_is_told_what_a_graph_does(folder: Folder) -> None:
    """A graph as a tool needs a description, its own or that of the reference."""
    folder.write("agents/devis.yaml", CALLS_GRAPH)
    folder.write("graphs/g.yaml", "name: g\nsteps:\n  a: {set: {}}\n")
    (problem,) = folder.problems(references=True)
    assert problem.endswith("a model must be told what the graph g does (add description)")


async def test_a_reference_overrides_what_is_known(project: Folder) -> None:
    """Name, description, effects and approval are those that the reference gives."""
    project.write(
        "agents/devis.yaml",
        "name: devis\nmain: {model: HAIKU, system: Bonjour.}\ntools:\n"
        "  - {graph: built, name: build, description: Builds., approval: always,\n"
        "     side_effects: reversible}\n",
    )
    async with Loom(project.load(references=True)) as loom:
        spec = loom._host.programs()["devis"].plan.tools["build"]
        assert (spec.kind, spec.description) == ("graph", "Builds.")
        assert (spec.approval, spec.side_effects) == ("always", "reversible")


def test_the_folder_of_graphs_may_be_missing_unless_it_is_named(folder: Folder) -> None:
    """Without `graphs_dir`, no folder is no fault."""
    assert folder.load().config.graphs == ()
    text = (folder.path / "loom.yaml").read_text()
    folder.write("loom.yaml", text + "graphs_dir: flows\n")
    (problem,) = folder.problems()
    assert "there is no folder flows" in problem


def test_a_pause_needs_a_journal_that_lasts(folder: Folder) -> None:
    """A graph that asks a human on a journal in memory is refused outside of dev."""
    text = "name: g\nsteps:\n  a: {ask_human: {response: r, into: x}}\n"
    folder.write("graphs/g.yaml", text)
    (problem,) = folder.problems()
    assert problem.startswith("graphs/g.yaml:1: name — g may wait for a human")


def test_names_are_unique(folder: Folder) -> None:
    """Of graphs among themselves, and with those of agents."""
    folder.write("graphs/a.yaml", "name: devis\nsteps:\n  a: {set: {}}\n")
    folder.write("graphs/b.yaml", "name: b\nsteps:\n  a: {set: {}}\n")
    folder.write("graphs/c.yaml", "name: b\nsteps:\n  a: {set: {}}\n")
    clash, twice = folder.problems()
    assert clash.endswith("the name devis is that of an agent (choose another)")
    assert twice == "graphs/c.yaml:1: name — b is already defined at graphs/b.yaml:1"


def test_the_schema_has_every_kind() -> None:
    """What an editor is given knows each kind of step and where it may lead."""
    schema: Any = graph_schema()
    steps = schema["properties"]["steps"]["additionalProperties"]["oneOf"]
    known = {key for step in steps for key in schema["definitions"][_name(step)]["required"]}
    assert known >= {*KINDS}


def _name(step: dict[str, str]) -> str:
    return step["$ref"].rpartition("/")[2]


async def test_a_graph_of_the_folder_hides_nothing_of_python(project: Folder) -> None:
    """A registered graph of a name that is taken is refused."""
    loaded = project.load(references=True)
    loom = Loom(loaded)
    loom.register("whole", Graph("whole").add_step("a", lambda s: None))
    with pytest.raises(Exception, match="two graphs are called whole"):
        loom.mount()
