"""Measure and print the table: `python -m bench [--quick] [--only W1] [--json FILE]`."""

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.cells import Cell, Machine, Outcome
from bench.lines import LINES, Line
from bench.report import MISSED, judge, table

_ROUNDS: Final = {
    "W1": 5,
    "count": 1,
    "W2": 3,
    "W3": 5,
    "W4": 3,
    "W5": 5,
    "M1": 3,
    "G": 3,
    "T1": 1,
    "A1": 3,
}
_PEER_ROUNDS: Final = {"W1": 3, "W2": 1, "W3": 3, "W4": 1, "W5": 3, "G": 3}
_MORE_ON_DISK: Final = 2
_MOST_QUICK_ROUNDS: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked and print it; a goal that is missed is no failure."""
    options = _parser().parse_args(arguments)
    lines = _chosen(options.only)
    if not lines:
        print(f"no line begins with {options.only}; lines: {', '.join(x.label for x in LINES)}")
        return 2
    machine = Machine.here(os.environ)
    started, before = time.perf_counter(), os.getloadavg()[0]
    outcomes: dict[Cell, list[Outcome]] = {}
    loads = [before]
    for number, cell in enumerate(planned(lines, machine, quick=options.quick), 1):
        _tell(f"{number}: {cell}")
        outcomes.setdefault(cell, []).append(machine.run(cell))
        loads.append(os.getloadavg()[0])
    _tell("")
    rows = [judge(line, outcomes) for line in lines]
    elapsed = time.perf_counter() - started
    context = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_before": before,
        "load_most": max(loads),
        "seconds": round(elapsed, 1),
        "peers": "measured here" if machine.peers else "recorded elsewhere, not scaled",
    }
    print(_heading(context))
    print(table(rows))
    missed = sum(row.verdict == MISSED for row in rows)
    print(f"{missed} of {sum(bool(row.verdict) for row in rows)} goals missed")
    if options.json:
        raw = {str(cell): [o.figures for o in found] for cell, found in outcomes.items()}
        told = {**context, "rows": [row.told() for row in rows], "cells": raw}
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return 0


def planned(lines: Sequence[Line], machine: Machine, *, quick: bool) -> Iterator[Cell]:
    """Give the cells in rounds, each round in another order, so that all see the same noise.

    A cell stands beside its floor, for a disk may be ten times slower a minute later.
    """
    groups: dict[tuple[str, str, str], dict[Cell, None]] = {}
    for cell in (cell for line in lines for cell in line.cells):
        if machine.python(cell) is not None:
            key = (cell.workload, cell.api or cell.store, cell.medium)
            groups.setdefault(key, {})[cell] = None
    for number in range(max(_ROUNDS.values()) + _MORE_ON_DISK):
        turn = list(groups.values())
        random.Random(number).shuffle(turn)
        for cell in (cell for group in turn for cell in group):
            if number < _rounds(cell, quick=quick):
                yield cell


def _rounds(cell: Cell, *, quick: bool) -> int:
    rounds = (_PEER_ROUNDS if cell.is_peer else _ROUNDS)[cell.workload]
    if cell.medium == "disk" and not cell.is_peer:
        rounds += _MORE_ON_DISK
    return min(rounds, _MOST_QUICK_ROUNDS) if quick else rounds


def _chosen(prefixes: Sequence[str]) -> list[Line]:
    starts = tuple(prefix.lower() for prefix in prefixes)
    return [line for line in LINES if not starts or line.label.lower().startswith(starts)]


def _heading(context: dict[str, object]) -> str:
    return (
        "Python {python}, {machine}; load average {load_before:.2f} before, {load_most:.2f} at most"
        "; {seconds:g} s; peers {peers}.\n"
        "Medians of fresh processes, rounds interleaved. Flush-free: files in memory.\n"
    ).format(**context)


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds at most")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="LINE",
        help="only the lines that begin so, such as W1 or 'W1 sqlite'; may be given again",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
