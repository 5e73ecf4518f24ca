"""The benchmarks run, and judge what they measure. The sizes are tiny: nothing is timed here."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import door, wire
from bench.__main__ import planned
from bench.cell import measure
from bench.cells import Cell, Machine, Outcome
from bench.lines import LINES, AtMost, Line, Peer, ShareOfPeers, TimesFloor
from bench.report import MET, MISSED, UNKNOWN, judge, show, table
from bench.script import Script
from bench.systems import MODULES, Setup, Store, ToolStyle
from bench.tokens import TOKENS
from bench.workloads import GRAPH_WORKLOADS, WORKLOADS


@pytest.mark.parametrize("system", ["bare", "loom"])
@pytest.mark.parametrize("store", ["memory", "jsonl", "sqlite"])
@pytest.mark.parametrize("workload", WORKLOADS)
async def test_every_workload_ends_on_every_store(
    system: str, store: Store, workload: str, tmp_path: Path
) -> None:
    """Each gives the figures that lines ask for."""
    setup = Setup(Script(), store, "async", tmp_path)
    figures = await measure(workload, system, setup, scale=0.01)
    asked = {
        name
        for line in LINES
        if line.cell.workload == workload
        for name in (line.metric, line.per)
        if name
    }
    assert asked <= set(figures)
    assert (figures["bytes"] > 0) == (store != "memory")


@pytest.mark.parametrize("system", ["bare", "loom"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("workload", GRAPH_WORKLOADS)
async def test_every_workload_of_a_graph_ends_on_every_store(
    system: str, store: Store, workload: str, tmp_path: Path
) -> None:
    """Each gives the figures that lines ask for."""
    setup = Setup(Script(), store, "async", tmp_path)
    figures = await measure(workload, system, setup, scale=0.01)
    assert {line.metric for line in LINES if line.cell.workload == workload} <= set(figures)
    assert (figures["bytes"] > 0) == (store != "memory")


@pytest.mark.parametrize("system", ["bare", "loom"])
@pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])
def test_a_call_over_http_is_measured_on_both_sides(system: str, api: str) -> None:
    """The SDK alone, and our adapter on it, read the same answer whole."""
    figures = wire.measure(system, api, calls=2)
    asked = {line.metric for line in LINES if line.cell.api}
    assert asked <= set(figures)


@pytest.mark.parametrize("system", ["bare", "loom"])
async def test_a_request_is_measured_on_both_sides(system: str) -> None:
    """FastAPI alone, and a run behind our API, answer every request."""
    figures = await door.measure(system, calls=2)
    assert {line.metric for line in LINES if line.cell.workload == "A1"} <= set(figures)


@pytest.mark.parametrize("tool", ["async", "sync"])
@pytest.mark.parametrize("system", ["bare", "loom"])
async def test_a_tool_may_run_in_a_thread(system: str, tool: ToolStyle, tmp_path: Path) -> None:
    """Both ways to write a tool give the answer."""
    await measure("W1", system, Setup(Script(), "memory", tool, tmp_path), scale=0.01)


async def test_a_durable_run_flushes_before_and_after_each_effect(tmp_path: Path) -> None:
    """A flush for each message of the run, as the floor does, and no more than two beyond."""
    floor, ours = tmp_path / "floor", tmp_path / "ours"
    for folder in (floor, ours):
        folder.mkdir()
    least = await measure("count", "bare", Setup(Script(), "jsonl", "async", floor), scale=0.01)
    figures = await measure("count", "loom", Setup(Script(), "jsonl", "async", ours), scale=0.01)
    assert least["flushes"] == 22
    assert 22 <= figures["flushes"] <= 24


def test_lines_name_systems_and_workloads_that_exist() -> None:
    """No line asks for what nothing measures, and no two lines bear the same name."""
    cells = [cell for line in LINES for cell in line.cells if not cell.code and not cell.api]
    assert {cell.system for cell in cells} <= set(MODULES)
    assert {cell.workload for cell in cells} == {*WORKLOADS, *GRAPH_WORKLOADS, TOKENS, "A1"}
    assert len({line.label for line in LINES}) == len(LINES)


def test_what_has_no_environment_is_not_planned(tmp_path: Path) -> None:
    """Peers are left out one by one; ours and the floor never are."""
    python = tmp_path / "venv-dbos" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    for peers, expected in ((None, {"bare", "loom"}), (tmp_path, {"bare", "loom", "dbos"})):
        machine = Machine(peers, tmp_path, tmp_path)
        assert {cell.system for cell in planned(LINES, machine, quick=True)} == expected


@pytest.mark.parametrize(
    ("ours", "goal", "verdict"),
    [
        ((1.0, 3.0, 2.0), AtMost(2.0), MET),
        ((1.0, 3.0, 2.1), AtMost(2.0), MISSED),
        ((9.0,), AtMost(math.inf), ""),
        ((1.5,), TimesFloor(1.5), MET),
        ((1.6,), TimesFloor(1.5), MISSED),
        ((4.0,), ShareOfPeers(2), MET),
        ((5.0,), ShareOfPeers(2), MISSED),
        ((5.0,), ShareOfPeers(2, beyond=(Cell("W4", "bare"), Cell("W1", "bare"))), MET),
        ((), AtMost(2.0), UNKNOWN),
    ],
)
def test_a_median_meets_its_goal_or_misses_it(
    ours: Sequence[float], goal: AtMost | TimesFloor | ShareOfPeers, verdict: str
) -> None:
    """The floor is 1, a peer 8; the cell W4 of the floor needs one more than W1."""
    cell = Cell("W1")
    line = Line("W1", cell, "total", "s", goal, cell.of("bare"), (Peer(cell.of("dbos"), 3.0),))
    outcomes = {
        cell: [Outcome({"total": figure}) for figure in ours] or [Outcome({}, "it broke")],
        cell.of("bare"): [Outcome({"total": 1.0})],
        cell.of("dbos"): [Outcome({"total": 8.0})],
        Cell("W4", "bare"): [Outcome({"total": 2.0})],
    }
    row = judge(line, outcomes)
    assert row.verdict == verdict
    assert ("it broke" in table([row])) == (not ours)


def test_a_recorded_peer_is_told_from_a_measured_one() -> None:
    """A figure that was not measured here says so, and gives way to one that was."""
    cell = Cell("W1")
    slow, fast = Peer(cell.of("dbos"), 9.0), Peer(cell.of("langgraph"), 3.0)
    line = Line("W1", cell, "total", "s", ShareOfPeers(10), peers=(slow, fast))
    ours = {cell: [Outcome({"total": 0.5})]}
    recorded, measured = judge(line, ours), judge(line, {**ours, slow.cell: ours[cell]})
    assert str(recorded.fastest) == "LangGraph (recorded)"
    assert recorded.limit == pytest.approx(0.3)
    assert str(measured.fastest) == "DBOS"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5e-6, "us", "1.5 µs"),
        (0.0015, "us", "1,500 µs"),
        (0.25, "s", "0.250 s"),
        (2e6, "bytes", "2.00 MB"),
        (math.inf, "ratio", "–"),
        (None, "s", "–"),
    ],
)
def test_figures_bear_their_unit(value: float | None, unit: str, text: str) -> None:
    """Each unit is written as people write it."""
    assert show(value, unit) == text  # pyright: ignore[reportArgumentType]
