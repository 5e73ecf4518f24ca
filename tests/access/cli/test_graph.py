"""`loom graph`: graphs on the command line, from a project on disk."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.cli.conftest import Desk

ROOT = """\
version: 1
imports: [steps]
telemetry: {logging: {level: ERROR}}
storage: {events: {backend: jsonl, path: data}}
models:
  - {id: PRICER, sdk: fake, model: fake-1, params: {script: [{text: "900"}]}}
  - id: BOSS
    sdk: fake
    model: fake-2
    params: {script: [{tool_calls: [{name: quote, arguments: {what: roof}}]}, {text: Done.}]}
agents:
  - {name: pricer, main: {model: PRICER, system: Price.}}
  - {name: boss, main: {model: BOSS, system: Boss.}, tools: [{graph: quote}]}
"""
STEPS = """\
from loom_ia.graph import Graph

def total(state):
    return {"total": int(state["price"]) + 100}

built = Graph("built")
built.add_step("one", lambda s: {"n": s.get("n", 0) + 1})
"""
QUOTE = """\
name: quote
description: Prices something.
steps:
  check:
    guard: ["'what' in state"]
    then: price
  price: {agent: pricer, ask: "Price {{ what }}", into: price, then: total}
  total:
    python: steps:total
    then: {condition: "total > 500", if_true: ask, if_false: END}
  ask:
    ask_human: {prompt: "{{ total }}?", response: r, into: ok, schema: {enum: [yes, no]}}
    then: {branch: ok, routes: {yes: conclude}, default: END}
  conclude:
    set: {output: "what + ' for ' + price"}
"""


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    """A project with a graph in YAML, one in Python, and two agents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOM_LANG", "en")
    monkeypatch.delenv("LOOM_PROFILE", raising=False)
    (tmp_path / "graphs").mkdir()
    (tmp_path / "loom.yaml").write_text(ROOT)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "graphs" / "quote.yaml").write_text(QUOTE)
    yield Desk(capsys, tmp_path)
    log = logging.getLogger("loom_ia")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True


def read(text: str) -> Any:
    """Read a JSON document."""
    return json.loads(text)


def asked(project: Desk, run_id: str) -> str:
    """Give the id of the question that a run waits with."""
    done = project("graph", "resume", run_id, "--json")
    return str(read(done.out)["interrupts"][0]["id"])


def statuses(project: Desk) -> list[str]:
    """Give how the runs stand, the latest first."""
    return [run["status"] for run in read(project("runs", "--json").out)["runs"]]


def test_graphs_are_listed(project: Desk) -> None:
    """Those that are written and those of the modules, with their descriptions."""
    done = project("graph", "list")
    assert done.code == 0
    assert done.out.splitlines()[1].split() == ["quote", "5", "check", "Prices", "something."]
    names = [graph["name"] for graph in read(project("graph", "list", "--json").out)]
    assert names == ["quote", "built"]


def test_a_graph_is_drawn(project: Desk) -> None:
    """As Mermaid by default, and for a terminal."""
    assert project("graph", "draw", "quote").out.startswith("flowchart TD\n")
    drawn = project("graph", "draw", "quote", "--text").out
    assert "* check" in drawn
    assert "true → ask | false → END" in drawn


def test_a_run_pauses_and_is_answered(project: Desk) -> None:
    """The pause exits with 1 and says what to type; the answer completes the run."""
    done = project("graph", "run", "quote", "--input", "what=roof", "--run-id", "r1")
    assert done.code == 1
    assert "Status     : yielded" in done.err
    assert "loom graph resume r1 --answer" in done.err
    question = asked(project, "r1")
    done = project("graph", "resume", "r1", "--answer", f"{question}=yes")
    assert (done.code, done.out) == (0, "roof for 900\n")


def test_approve_answers_a_question(project: Desk) -> None:
    """`loom approve --answer` is the same, and a bare approval is refused."""
    project("graph", "run", "quote", "--input", "what=roof", "--run-id", "r1")
    done = project("approve", "r1")
    assert done.code == 2
    assert "wants an answer, not a yes" in done.err
    assert project("approve", "r1", "--answer", "maybe").code == 2
    done = project("approve", "r1", "--answer", "yes")
    assert (done.code, done.out) == (0, "roof for 900\n")


def test_what_an_agent_above_waits_for_is_decided_there(project: Desk) -> None:
    """The question of a graph below an agent is shown, and answered on the agent's run."""
    done = project("run", "boss", "Go.", "--run-id", "r1")
    assert done.code == 1
    assert "loom approve r1 --call" in done.err
    assert 'it asks "1000?"' in done.err
    done = project("approve", "r1", "--answer", "yes")
    assert (done.code, done.out) == (0, "Done.\n")
    tree = project("inspect", "r1").out
    assert "run quote — completed" in tree
    assert "step price (1)" in tree
    assert "run pricer — completed" in tree


def test_the_input_may_be_a_file(project: Desk) -> None:
    """Keys of the file, then those of the options, as JSON where they are."""
    (project.folder / "in.json").write_text('{"n": 4, "m": [1]}')
    words = ("graph", "run", "built", "--input-file", "in.json", "--input", "n=7", "--json")
    done = project(*words)
    assert done.code == 0
    assert read(done.out)["state"] == {"n": 8, "m": [1]}


REFUSED = {
    ("graph", "run", "quotes"): "there is no graph 'quotes'; graphs: quote, built",
    ("graph", "run", "boss"): "'boss' is an agent, not a graph: run it with loom run boss",
    ("run", "quote", "x"): "'quote' is a graph, not an agent: run it with loom graph run quote",
    ("graph", "run", "built", "--input", "n"): "write a name, =, and a value",
    ("graph", "run", "built", "--input-file", "no.json"): "no.json cannot be read",
    ("graph", "resume", "r9"): "there is no run r9",
    ("graph", "history", "r9"): "there is no run r9",
    ("graph", "draw", "quotes"): "there is no graph 'quotes'",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_exits_with_2(project: Desk, words: tuple[str, ...]) -> None:
    """In one line that says what to do."""
    done = project(*words)
    assert done.code == 2
    assert REFUSED[words] in done.err


def test_a_failure_exits_with_1(project: Desk) -> None:
    """A guard that refuses is told, with the command that goes on."""
    done = project("graph", "run", "quote", "--run-id", "r1")
    assert done.code == 1
    assert "blocked" in done.err
    assert "loom graph resume r1" in done.err


def test_the_history_is_a_table_and_a_fork_starts_in_it(project: Desk) -> None:
    """Each step has a place; a fork at one goes on from there under a new id."""
    project("graph", "run", "quote", "--input", "what=roof", "--run-id", "r1")
    found = read(project("graph", "history", "r1", "--json").out)
    assert [(step["n"], step["step"], step["stop"]) for step in found] == [
        (1, "check", None),
        (2, "price", None),
        (3, "total", None),
        (4, "ask", "yielded"),
    ]
    assert "yielded" in project("graph", "history", "r1").out
    at = str(found[1]["seq"])
    words = ("graph", "fork", "r1", "--at", at, "--input", "price=100", "--run-id", "r2", "--json")
    done = project(*words)
    assert (done.code, read(done.out)["state"]["total"]) == (0, 200)
    assert project("graph", "fork", "r1", "--at", "9999").code == 2


def test_runs_of_graphs_are_listed_reported_and_cancelled(project: Desk) -> None:
    """By the commands that agents have."""
    project("graph", "run", "quote", "--input", "what=roof", "--run-id", "r1")
    assert statuses(project) == ["completed", "paused"]
    assert "r1/price/1 (pricer, completed)" in project("report", "r1").out
    assert project("cancel", "r1").code == 0
    assert statuses(project) == ["completed", "cancelled"]
    assert project("cancel", "r1/price/1").code == 2


def test_validate_names_graphs(project: Desk) -> None:
    """What was understood of them has its lines."""
    out = project("validate").out
    assert "Graphs     : quote, built" in out
    assert "quote : graph, 5 step(s)" in out
    assert "boss : model BOSS, 0 Python tool(s), 1 graph(s)" in out
    assert out.endswith("2 agent(s) and 2 graph(s) mounted without error.\n")


def test_validate_warns_of_steps_that_nothing_leads_to(project: Desk) -> None:
    """With the place, as for anything else; the project is accepted."""
    with (project.folder / "graphs" / "quote.yaml").open("a") as file:
        file.write("  lost: {set: {}}\n")
    done = project("validate")
    assert done.code == 0
    place = "graphs/quote.yaml:16: steps.lost"
    assert f"Warning    : {place} — no way leads from check to the step lost" in done.out
    assert done.out.endswith("2 agent(s) and 2 graph(s) mounted without error, 1 warning(s).\n")


def test_it_speaks_french(project: Desk) -> None:
    """The summary and the refusals do."""
    done = project(
        "--lang", "fr", "graph", "run", "quote", "--input", "what=roof", "--run-id", "r1"
    )
    assert "Statut     : yielded · étapes : 4" in done.err
    done = project("--lang", "fr", "graph", "run", "quotes")
    assert "il n'y a pas de graphe 'quotes'" in done.err
