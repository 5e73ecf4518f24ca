"""The work itself: what is run, and what is noted of it. Times are in seconds, sizes in bytes."""

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final, Self, TypeAlias

from bench.script import ANSWER, Script
from bench.systems import CountingGraph, System

Figures: TypeAlias = dict[str, float]

TURNS: Final = 10
CALLS: Final = TURNS + 1
LONG_TURNS: Final = 300
RUNS_OF_A_CONVERSATION: Final = 200
RUNS_AT_ONCE: Final = 200
STEPS: Final = 300
FEW_STEPS: Final = 3
THINKING: Final = 0.02
_COUNTED_RUNS: Final = 20
_MOST_SHORT_RUNS: Final = 40
_MOST_GRAPH_RUNS: Final = 20
_PATIENCE: Final = 2.5
_PATIENCE_WITH_A_GRAPH: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bench:
    """One system at work. `scale` shrinks every workload; 1 is the size that goals are about."""

    system: System
    script: Script
    scale: float = 1.0

    def sized(self, number: int, *, least: int = 2) -> int:
        """Shrink a number of runs or turns."""
        return max(least, round(number * self.scale))

    async def timed_run(self, conversation: str | None = None) -> float:
        """Run once, make sure that it was done, and give how long it took."""
        start = time.perf_counter()
        said = await self.system.run(conversation)
        elapsed = time.perf_counter() - start
        if said != ANSWER:
            raise RuntimeError(f"the run gave {said!r}")
        return elapsed

    async def warm_up(self, runs: int = 3) -> None:
        """Run a few times unmeasured."""
        self.script.turns = TURNS
        for _ in range(runs):
            await self.timed_run()


async def short_runs(bench: Bench) -> Figures:
    """W1: runs of ten tool turns, one after the other."""
    await bench.warm_up()
    runs: list[float] = []
    cpu: list[float] = []
    stop = time.perf_counter() + _PATIENCE
    most = bench.sized(_MOST_SHORT_RUNS)
    while len(runs) < most and (len(runs) < 3 or time.perf_counter() < stop):
        gc.collect()
        before = time.process_time()
        runs.append(await bench.timed_run())
        cpu.append(time.process_time() - before)
    return {"per_call": median(runs) / CALLS, "cpu_per_call": median(cpu) / CALLS}


async def counted_runs(bench: Bench) -> Figures:
    """W1 again, counting the flushes that the process asks of the system."""
    await bench.warm_up(1)
    runs = bench.sized(_COUNTED_RUNS)
    with _Flushes() as flushes:
        for _ in range(runs):
            await bench.timed_run()
    return {"flushes": flushes.count / runs, "runs": runs + 1}


async def conversation(bench: Bench) -> Figures:
    """W2: many runs of two model calls in one conversation."""
    await bench.warm_up()
    bench.script.turns = 1
    number = bench.sized(RUNS_OF_A_CONVERSATION, least=20)
    runs = [await bench.timed_run("long") for _ in range(number)]
    first, last = median(runs[1:11]), median(runs[-10:])
    return {"first": first, "last": last, "growth": last / first, "total": sum(runs)}


async def long_run(bench: Bench) -> Figures:
    """W3: one run of many tool turns."""
    await bench.warm_up(1)
    turns = bench.script.turns = bench.sized(LONG_TURNS, least=40)
    bench.script.marks.clear()
    gc.collect()
    total = await bench.timed_run()
    marks = bench.script.marks
    gaps = [after - before for before, after in pairwise(marks)]
    first, last = median(gaps[2:22]), median(gaps[-20:])
    return {
        "first": first,
        "last": last,
        "growth": last / first,
        "total": total,
        "turns": turns,
    }


async def runs_at_once(bench: Bench) -> Figures:
    """W4: many runs of ten tool turns at the same time, with a model that thinks."""
    await bench.warm_up(2)
    bench.script.sleep = THINKING
    gc.collect()
    number = bench.sized(RUNS_AT_ONCE)
    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(bench.timed_run() for _ in range(number)))
    return {"total": time.perf_counter() - start, "cpu": time.process_time() - cpu}


Workload: TypeAlias = Callable[[Bench], Awaitable[Figures]]

WORKLOADS: Final[dict[str, Workload]] = {
    "W1": short_runs,
    "count": counted_runs,
    "W2": conversation,
    "W3": long_run,
    "W4": runs_at_once,
}


async def graph_runs(graph: CountingGraph, scale: float) -> Figures:
    """G: runs of a graph, of many steps each and then of a few."""
    steps = max(FEW_STEPS, round(STEPS * scale))
    for _ in range(3):
        await _counted(graph, FEW_STEPS)
    await _counted(graph, steps)
    many: list[float] = []
    few: list[float] = []
    stop = time.perf_counter() + _PATIENCE_WITH_A_GRAPH
    while len(many) < _MOST_GRAPH_RUNS and (len(many) < 3 or time.perf_counter() < stop):
        gc.collect()
        many.append(await _counted(graph, steps))
        few.append(await _counted(graph, FEW_STEPS))
    return {"per_step": median(many) / steps, "few_steps": median(few)}


async def _counted(graph: CountingGraph, steps: int) -> float:
    start = time.perf_counter()
    ended = await graph.run(steps)
    elapsed = time.perf_counter() - start
    if ended != 0:
        raise RuntimeError(f"the graph of {steps} steps counted up to {ended}")
    return elapsed


GraphWorkload: TypeAlias = Callable[[CountingGraph, float], Awaitable[Figures]]

GRAPH_WORKLOADS: Final[dict[str, GraphWorkload]] = {"G": graph_runs}


class _Flushes:
    """Counts `fsync` and `fdatasync` while it is entered; those inside SQLite are not seen."""

    def __init__(self) -> None:
        self.count = 0
        self._real: dict[str, Any] = {}

    def __enter__(self) -> Self:
        for name in ("fsync", "fdatasync"):
            self._real[name] = getattr(os, name)
            setattr(os, name, self._counting(self._real[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _counting(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def counted(descriptor: int) -> None:
            self.count += 1
            real(descriptor)

        return counted
