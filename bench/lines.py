"""Every line of the table: what is measured, beside what, and what it must reach.

The recorded figures of peers were measured once, elsewhere, and are compared as they are: they
orient where no environment is given, and prove nothing about another machine.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from bench.cells import Cell

Unit: TypeAlias = Literal["s", "us", "bytes", "ratio", "number"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework on the same work, and its recorded figure, in the unit of seconds or bytes."""

    cell: Cell
    recorded: float | None = None

    @property
    def name(self) -> str:
        """The name that people know it by."""
        name = _NAMES[self.cell.system]
        return f"{name} on DBOS" if self.cell.store == "dbos" else name


@dataclass(frozen=True, slots=True)
class AtMost:
    """Reach a figure, whatever others do."""

    limit: float


@dataclass(frozen=True, slots=True)
class TimesFloor:
    """Stay within so many times the floor."""

    times: float


@dataclass(frozen=True, slots=True)
class ShareOfPeers:
    """Take one `share`th of the fastest peer, plus what a cell needs beyond another, if given."""

    share: float
    beyond: tuple[Cell, Cell] | None = None


Goal: TypeAlias = AtMost | TimesFloor | ShareOfPeers


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of ours and its goal. `per` names a figure of the same cell to divide by."""

    label: str
    cell: Cell
    metric: str
    unit: Unit
    goal: Goal
    floor: Cell | None = None
    peers: tuple[Peer, ...] = field(default=())
    per: str | None = None

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All that must be measured for it."""
        found = [self.cell, *(peer.cell for peer in self.peers)]
        if self.floor is not None:
            found.append(self.floor)
        if isinstance(self.goal, ShareOfPeers) and self.goal.beyond:
            found += self.goal.beyond
        return tuple(found)


_NAMES: Final = {
    "pydantic_ai": "Pydantic AI",
    "langgraph": "LangGraph",
    "openai_agents": "OpenAI Agents",
    "dbos": "DBOS",
}

_US: Final = 1e-6


def _agents(cell: Cell, **recorded: float) -> tuple[Peer, ...]:
    return tuple(Peer(cell.of(name), figure) for name, figure in recorded.items())


def _w1() -> list[Line]:
    memory = Cell("W1")
    in_thread = Cell("W1", tool="sync")
    bare, bare_in_thread = memory.of("bare"), in_thread.of("bare")
    agents = _agents(memory, pydantic_ai=1946 * _US, openai_agents=2038 * _US, langgraph=2074 * _US)
    lines = [
        Line("W1 memory, async tool", memory, "per_call", "us", ShareOfPeers(10), bare, agents),
        Line(
            "W1 memory, sync tool",
            in_thread,
            "per_call",
            "us",
            ShareOfPeers(10, beyond=(bare_in_thread, bare)),
            bare_in_thread,
            agents,
        ),
    ]
    checked = Cell("W1", tool="checked")
    label = "W1 memory, two policies and a contract"
    lines.append(Line(label, checked, "per_call", "us", ShareOfPeers(10), bare, agents))
    free, disk = Cell("W1", store="sqlite"), Cell("W1", store="sqlite", medium="disk")
    resuming = (
        Peer(free.of("dbos"), 4465 * _US),
        Peer(free.of("langgraph"), 5387 * _US),
        Peer(free.of("pydantic_ai", "dbos")),
    )
    resuming_on_disk = (
        Peer(disk.of("langgraph"), 6827 * _US),
        Peer(disk.of("pydantic_ai", "dbos"), 7162 * _US),
        Peer(disk.of("dbos"), 7256 * _US),
    )
    for store in ("sqlite", "jsonl"):
        free, disk = Cell("W1", store=store), Cell("W1", store=store, medium="disk")
        lines += [
            Line(
                f"W1 {store}, flush-free",
                free,
                "per_call",
                "us",
                ShareOfPeers(8),
                free.of("bare"),
                resuming,
            ),
            Line(
                f"W1 {store}, on disk",
                disk,
                "per_call",
                "us",
                TimesFloor(1.5),
                disk.of("bare"),
                resuming_on_disk if store == "sqlite" else (),
            ),
        ]
    return lines


def _counts() -> list[Line]:
    lines: list[Line] = []
    for store in ("jsonl", "sqlite"):
        cell = Cell("count", store=store)
        lines.append(Line(f"flushes a run, {store}", cell, "flushes", "number", AtMost(24)))
    cell = Cell("count", store="jsonl")
    bare = cell.of("bare")
    lines.append(Line("bytes a run, jsonl", cell, "bytes", "bytes", AtMost(25e3), bare, per="runs"))
    return lines


def _w2() -> list[Line]:
    cell = Cell("W2", store="sqlite")
    bare = cell.of("bare")
    peers = _agents(cell, langgraph=7.3, openai_agents=8.7)
    return [
        Line("W2 sqlite, first run", cell, "first", "us", AtMost(float("inf")), bare),
        Line("W2 sqlite, last / first run", cell, "growth", "ratio", AtMost(1.5), bare),
        Line("W2 sqlite, total", cell, "total", "s", ShareOfPeers(8), bare, peers),
        Line("W2 sqlite, bytes", cell, "bytes", "bytes", AtMost(3e6), bare),
    ]


def _w3() -> list[Line]:
    lines: list[Line] = []
    memory, sqlite = Cell("W3"), Cell("W3", store="sqlite")
    agents = _agents(memory, langgraph=1.0, pydantic_ai=1.9, openai_agents=5.3)
    for cell in (memory, sqlite):
        label, bare = f"W3 {cell.store}", cell.of("bare")
        lines += [
            Line(f"{label}, first turn", cell, "first", "us", AtMost(float("inf")), bare),
            Line(f"{label}, last / first turn", cell, "growth", "ratio", AtMost(1.2), bare),
        ]
    lines += [
        Line("W3 memory, total", memory, "total", "s", ShareOfPeers(8), memory.of("bare"), agents),
        Line(
            "W3 sqlite, total",
            sqlite,
            "total",
            "s",
            AtMost(float("inf")),
            sqlite.of("bare"),
            (Peer(sqlite.of("dbos"), 1.3), Peer(sqlite.of("langgraph"), 3.2)),
        ),
        Line(
            "W3 sqlite, bytes a turn",
            sqlite,
            "bytes",
            "bytes",
            AtMost(2e3),
            sqlite.of("bare"),
            per="turns",
        ),
    ]
    return lines


def _w4() -> list[Line]:
    memory = Cell("W4")
    disk = Cell("W4", store="sqlite", medium="disk")
    agents = _agents(memory, langgraph=5.0, pydantic_ai=6.1, openai_agents=6.3)
    durable = (Peer(disk.of("langgraph"), 18.0), Peer(disk.of("openai_agents"), 26.0))
    return [
        Line("W4 memory", memory, "total", "s", ShareOfPeers(5), memory.of("bare"), agents),
        Line("W4 sqlite, on disk", disk, "total", "s", TimesFloor(1), disk.of("bare"), durable),
    ]


def _w5() -> list[Line]:
    floor = Cell(
        "W5",
        "bare",
        code=("-c", "import asyncio, pydantic\nclass M(pydantic.BaseModel): n: int"),
    )
    peers = (
        Peer(Cell("W5", "dbos", code=("-c", "import dbos")), 0.50),
        Peer(Cell("W5", "langgraph", code=("-c", "import langgraph.prebuilt")), 0.89),
        Peer(Cell("W5", "pydantic_ai", code=("-c", "import pydantic_ai")), 0.91),
        Peer(Cell("W5", "openai_agents", code=("-c", "import agents")), 1.59),
    )
    ours = (
        ("import loom_ia", ("-c", "import loom_ia"), 0.15),
        ("import Loom", ("-c", "from loom_ia.access import Loom"), 0.25),
        ("loom --help", ("-m", "loom_ia.access.cli.main", "--help"), 0.30),
    )
    return [
        Line(f"W5 {label}, CPU", Cell("W5", code=code), "cpu", "s", AtMost(limit), floor, peers)
        for label, code, limit in ours
    ]


def _m1() -> list[Line]:
    """Compare a call of a model through our adapter with the same call through the SDK alone."""
    cells = (Cell("M1", api=api) for api in ("anthropic", "chat", "responses"))
    return [
        Line(
            f"M1 {cell.api}, CPU of a call",
            cell,
            "cpu_per_call",
            "us",
            TimesFloor(1.25),
            cell.of("bare"),
        )
        for cell in cells
    ]


def _a1() -> list[Line]:
    """Compare what the REST API adds to a run with a request to FastAPI alone."""
    cell = Cell("A1")
    label = "A1 REST, CPU of a request beyond its run"
    return [Line(label, cell, "cpu", "us", TimesFloor(5), cell.of("bare"))]


def _g() -> list[Line]:
    """Compare a graph with a loop that commits once a step."""
    memory = Cell("G")
    free, disk = Cell("G", store="sqlite"), Cell("G", store="sqlite", medium="disk")
    peers = _agents(memory, langgraph=480 * _US)
    return [
        Line(
            "G1 memory, a step", memory, "per_step", "us", ShareOfPeers(6), memory.of("bare"), peers
        ),
        Line("G1 memory, a run of 3 steps", memory, "few_steps", "us", AtMost(1e-3)),
        Line(
            "G2 sqlite, a step, flush-free",
            free,
            "per_step",
            "us",
            AtMost(float("inf")),
            free.of("bare"),
            _agents(free, langgraph=1650 * _US),
        ),
        Line(
            "G2 sqlite, a step, on disk",
            disk,
            "per_step",
            "us",
            TimesFloor(1.5),
            disk.of("bare"),
            (Peer(disk.of("langgraph")),),
        ),
    ]


def _t1() -> list[Line]:
    label = "T1 tokens of the orchestrator, by a naive loop's"
    return [Line(label, Cell("T1"), "share", "ratio", AtMost(0.05))]


LINES: Final = (*_w1(), *_counts(), *_w2(), *_w3(), *_w4(), *_w5(), *_m1(), *_a1(), *_g(), *_t1())
