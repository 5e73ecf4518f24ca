"""Real processes, really killed: what they left is taken up at once, and nothing is done twice.

Where a process dies is drawn at random, at one of the marks that it prints or a little after it.
A failure names its seed; `LOOM_KILL_SEED` draws the same again, as far as a machine repeats itself.
"""

import asyncio
import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.state.run import Status
from loom_ia.core.views.result import RunResult
from loom_ia.testing.crash_outcome import Ledger
from tests.durability.child import LEASE_S, Outside, make_loom, open_journal

ROOT = Path(__file__).parents[2]
RUNS = ("r1", "r2", "r3")
ROUNDS = 50
SOAK_ROUNDS = 500
AT_ONCE = 3
LAST_MARK = 95  # three runs print a little more
LONGEST_DELAY_S = 0.002
IRREVERSIBLE = ("send", "mail")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where one round happens."""

    backend: str
    folder: Path
    rng: random.Random

    @property
    def journal(self) -> Path:
        """The journal's file or folder."""
        return self.folder / "journal"

    @property
    def outside(self) -> Outside:
        """What was done for good."""
        return Outside(self.folder / "effects")


@dataclass
class Round:
    """What one round came to."""

    last_marks: list[str] = field(default_factory=list)
    results: dict[str, RunResult] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    taken_up: int = 0
    left_driven: int = 0
    failures: tuple[object, ...] = ()
    took_s: float = 0.0


def kill_somewhere(place: Place, what: str) -> str:
    """Start a process and kill it at a random instant; gives the last mark that it printed."""
    command = [sys.executable, "-m", "tests.durability.child", what, place.backend]
    command += [str(place.journal), str(place.outside.path), *(RUNS if what == "run" else ())]
    at, delay = place.rng.randint(1, LAST_MARK), place.rng.uniform(0, LONGEST_DELAY_S)
    if place.rng.random() < 0.5:
        delay = 0.0
    last = "nothing"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        for number, line in enumerate(child.stdout):
            last = line.strip()
            if number == at:
                time.sleep(delay)  # the instant of the death, not a wait for anything
                child.kill()
                break
        rest = child.stdout.read().split("\n")
    return next((line for line in reversed(rest) if line), last)


async def take_up(place: Place, found: Round) -> None:
    """Recover in a process that has nothing of the dead one but its files."""
    journal = open_journal(place.backend, place.journal)
    started = time.monotonic()
    async with make_loom(journal, place.outside) as loom:
        report = await loom.recover()
        found.took_s = time.monotonic() - started
        found.taken_up, found.left_driven = len(report), report.driven
        found.failures = report.failures
        for run_id in RUNS:
            if await journal.locate("default", run_id) is not None:
                found.results[run_id] = await loom.result(run_id)
                found.events += await loom.events(run_id)


def play(place: Place) -> Round:
    """Kill one process, sometimes kill the one that recovers too, and recover for good."""
    found = Round()
    found.last_marks.append(kill_somewhere(place, "run"))
    while place.rng.random() < 0.2:
        found.last_marks.append(kill_somewhere(place, "recover"))
    asyncio.run(take_up(place, found))
    return found


def check(place: Place, found: Round) -> None:
    """See that everything ended, at once, and that nothing was done twice."""
    assert not found.failures
    assert found.left_driven == 0, "a dead driver still kept others away"
    assert found.took_s < LEASE_S / 2, "a dead driver's lease was waited for"
    for result in found.results.values():
        assert result.status is Status.COMPLETED, result
        assert result.text == "All done."
    ledger = Ledger.of(found.events, {tool.spec.name: tool.spec for tool in place.outside.tools()})
    assert ledger.faults == []
    done = Counter(place.outside.effects())
    twice = {e: n for e, n in done.items() if n > 1 and e.split()[1].startswith(IRREVERSIBLE)}
    assert not twice
    for run_id in found.results:
        events = [event for event in found.events if event.run_id == run_id]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        for event in events:
            if isinstance(event.payload, ToolCompleted):
                _check_result(run_id, event.payload, done)


def _check_result(run_id: str, fact: ToolCompleted, done: Counter[str]) -> None:
    """A call that succeeded acted; one that is unknown says so to the model."""
    if fact.outcome == "unknown":
        assert fact.output.is_error
        assert fact.tool_name in IRREVERSIBLE
        return
    assert not fact.output.is_error
    what = fact.output.text.removeprefix(fact.tool_name).removesuffix("done").strip()
    effect = f"{run_id} {fact.tool_name}:{what}"
    assert done[effect] >= 1, f"{fact.call_id} of {run_id} succeeded without acting"


def rounds(backend: str, folder: Path, many: int, seed: int) -> Counter[str]:
    """Play many rounds, several at once; gives how often each last mark was the last."""

    def one(number: int) -> Round:
        place = Place(backend, folder / str(number), random.Random(f"{seed}:{number}"))
        place.folder.mkdir()
        found = play(place)
        try:
            check(place, found)
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, round {number}, killed after {found.last_marks}: {error}"
            ) from error
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = list(pool.map(one, range(many)))
    taken = sum(found.taken_up for found in played)
    _log.info("seed %d: %d runs taken up in %d rounds", seed, taken, many)
    return Counter(mark for found in played for mark in found.last_marks)


@pytest.fixture
def seed() -> int:
    """What decides where processes die."""
    chosen = os.environ.get("LOOM_KILL_SEED")
    return int(chosen) if chosen else random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("backend", ["sqlite", "jsonl"])
def test_kill_at_random(backend: str, tmp_path: Path, seed: int) -> None:
    """Wherever a process is killed, another goes on at once and no irreversible effect doubles."""
    marks = rounds(backend, tmp_path, ROUNDS, seed)
    _log.info("last marks: %s", dict(marks))
    assert marks["write begins"] > 0, "no process died in a write"
    assert marks["tool begins"] + marks["tool acts"] > 0, "no process died in a tool"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", ["sqlite", "jsonl"])
def test_kill_for_long(backend: str, tmp_path: Path, seed: int) -> None:
    """The same, many more times."""
    rounds(backend, tmp_path, SOAK_ROUNDS, seed)
