"""From figures to a table: medians, ratios, goals and verdicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.cells import Cell, Outcome
from bench.lines import AtMost, Line, ShareOfPeers, TimesFloor, Unit

Outcomes = Mapping[Cell, Sequence[Outcome]]

MET: Final = "✔"
MISSED: Final = "✘"
UNKNOWN: Final = "?"
_HEAD: Final = ("line", "ours", "(least–most)", "floor", "× floor", "fastest peer", "÷", "goal", "")


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest peer of a line; `recorded` when its figure was not measured here."""

    name: str
    figure: float
    recorded: bool

    def __str__(self) -> str:
        return f"{self.name}{' (recorded)' if self.recorded else ''}"


@dataclass(frozen=True, slots=True)
class Row:
    """One judged line."""

    line: Line
    ours: tuple[float, ...]
    floor: float | None
    fastest: Fastest | None
    limit: float | None
    failure: str = ""

    @property
    def median(self) -> float | None:
        """Our figure."""
        return median(self.ours) if self.ours else None

    @property
    def verdict(self) -> str:
        """Whether the goal is reached."""
        if self.limit == math.inf:
            return ""
        if self.median is None or self.limit is None:
            return UNKNOWN
        return MET if self.median <= self.limit else MISSED

    def told(self) -> dict[str, object]:
        """Tell it for a program, in seconds and bytes."""
        return {
            "line": self.line.label,
            "ours": self.median,
            "all": self.ours,
            "floor": self.floor,
            "fastest_peer": None if self.fastest is None else str(self.fastest),
            "fastest_peer_figure": None if self.fastest is None else self.fastest.figure,
            "limit": None if self.limit == math.inf else self.limit,
            "verdict": self.verdict,
            "failure": self.failure,
        }


def judge(line: Line, outcomes: Outcomes) -> Row:
    """Compare one line with its goal."""
    ours = _figures(line, line.cell, outcomes)
    floor = _median(line, line.floor, outcomes)
    fastest = _fastest(line, outcomes)
    failures = [outcome.failure for outcome in outcomes.get(line.cell, ()) if outcome.failure]
    return Row(
        line=line,
        ours=ours,
        floor=floor,
        fastest=fastest,
        limit=_limit(line, floor, fastest, outcomes),
        failure=failures[-1] if failures else "",
    )


def table(rows: Sequence[Row]) -> str:
    """Lay the rows out for people."""
    cells = [_HEAD, *(_shown(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    rule = tuple("─" * width for width in widths)
    cells.insert(1, rule)
    laid = "\n".join(
        "  ".join(
            text.ljust(width) if column in {0, 5, 7} else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )
    notes = [f"{row.line.label}: {row.failure}" for row in rows if row.failure]
    return "\n".join([laid, *notes])


def show(value: float | None, unit: Unit) -> str:
    """Write a figure with its unit."""
    if value is None or math.isinf(value):
        return "–"
    match unit:
        case "us":
            return f"{value * 1e6:,.3g} µs" if value < 1e-5 else f"{value * 1e6:,.0f} µs"
        case "s":
            return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"
        case "bytes":
            return f"{value / 1e6:.2f} MB" if value >= 1e6 else f"{value / 1e3:.1f} KB"
        case "ratio":
            return f"{value:.2f}"
        case "number":
            return f"{value:g}"


def _figures(line: Line, cell: Cell, outcomes: Outcomes) -> tuple[float, ...]:
    found = [outcome.figures for outcome in outcomes.get(cell, ()) if not outcome.failure]
    return tuple(
        figures[line.metric] / (figures[line.per] if line.per else 1)
        for figures in found
        if line.metric in figures
    )


def _median(line: Line, cell: Cell | None, outcomes: Outcomes) -> float | None:
    figures = _figures(line, cell, outcomes) if cell is not None else ()
    return median(figures) if figures else None


def _fastest(line: Line, outcomes: Outcomes) -> Fastest | None:
    measured = [
        Fastest(peer.name, figure, recorded=False)
        for peer in line.peers
        if (figure := _median(line, peer.cell, outcomes)) is not None
    ]
    recorded = [
        Fastest(peer.name, peer.recorded, recorded=True)
        for peer in line.peers
        if peer.recorded is not None
    ]
    return min(measured or recorded, key=lambda peer: peer.figure, default=None)


def _limit(
    line: Line, floor: float | None, fastest: Fastest | None, outcomes: Outcomes
) -> float | None:
    match line.goal:
        case AtMost(limit):
            return limit
        case TimesFloor(times):
            return None if floor is None else times * floor
        case ShareOfPeers(share, beyond):
            if fastest is None:
                return None
            more, less = (_median(line, cell, outcomes) for cell in beyond or (None, None))
            return fastest.figure / share + max(0.0, (more or 0.0) - (less or 0.0))


def _goal(row: Row) -> str:
    unit = row.line.unit
    if row.limit is None or row.limit == math.inf:
        return "–"
    limit = f"≤ {show(row.limit, unit)}"
    match row.line.goal:
        case AtMost():
            return limit
        case TimesFloor(times):
            return f"{limit} = {times:g} × floor"
        case ShareOfPeers(share, beyond):
            hop = " + a thread hop" if beyond else ""
            return f"{limit} = peer / {share:g}{hop}"


def _shown(row: Row) -> tuple[str, ...]:
    unit, ours, fastest = row.line.unit, row.median, row.fastest
    spread = f"({show(min(row.ours), unit)}–{show(max(row.ours), unit)})" if row.ours else ""
    times = f"{ours / row.floor:.3g}" if ours is not None and row.floor else ""
    less = f"{fastest.figure / ours:.3g}" if ours and fastest else ""
    return (
        row.line.label,
        show(ours, unit),
        spread,
        show(row.floor, unit) if row.line.floor else "",
        times,
        f"{show(fastest.figure, unit)} {fastest}" if fastest else "",
        less,
        _goal(row),
        row.verdict,
    )
