"""What a crash test found: how many places were tried, and the shortest way to each difference.

Law. Values and text only; nothing is run or judged here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loom_ia.testing.crash_journal import CrashPoint
from loom_ia.testing.journals import CrashLevel

_MOST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Life:
    """What one host wrote. `point` is where it died, None when it came to its end.

    `writes` names the events of each write, the fatal one included; `lost` counts the events that
    had been written and did not survive.
    """

    writes: tuple[str, ...]
    point: CrashPoint | None = None
    lost: int = 0

    def lines(self) -> list[str]:
        """Tell the life, a line for each write."""
        if self.point is None:
            return [*self.writes, "(end)"]
        *earlier, last = self.writes
        if self.point.side == "before":
            mark = f"✗ crash before this lands: {last}"
        else:
            mark = f"✗ crash once this has landed: {last}"
        lost = [f"✗ {self.lost} unflushed event(s) lost"] if self.lost else []
        return [*earlier, mark, *lost]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Crashes after which things did not come to the same, and what was wrong."""

    points: tuple[CrashPoint, ...]
    problems: tuple[str, ...]
    lives: tuple[Life, ...]

    @property
    def trace(self) -> tuple[str, ...]:
        """What was written and where it crashed, a line for each write."""
        return tuple(line for life in self.lives for line in life.lines())

    def __str__(self) -> str:
        lines = [f"crash {', then '.join(str(point) for point in self.points)}:"]
        lines += [f"  - {problem}" for problem in self.problems]
        for number, life in enumerate(self.lives, 1):
            lines.append(f"  life {number}")
            lines += [f"    {line}" for line in life.lines()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class CrashReport:
    """The outcome of `crash_everywhere`; use it as `assert report.ok, report`.

    `points` counts the places where one crash was tried, `doubles` those where the resumed life
    crashed too. `writes` names what the undisturbed scenario wrote.
    """

    level: CrashLevel
    writes: tuple[str, ...]
    points: int
    doubles: int
    divergences: tuple[Divergence, ...]

    @property
    def ok(self) -> bool:
        """Whether every crash came to what the undisturbed scenario came to."""
        return not self.divergences

    @property
    def shortest(self) -> Divergence | None:
        """The divergence with the fewest crashes, then the fewest writes."""
        return min(self.divergences, key=_length, default=None)

    def __str__(self) -> str:
        tried = f"{self.points} crashes and {self.doubles} double crashes at level {self.level}"
        if self.shortest is None:
            return f"{tried}: each came to the same end"
        wrong = len(self.divergences)
        others = _listed([d for d in self.divergences if d is not self.shortest])
        return (
            f"{tried}: {wrong} did not come to the same end. The shortest,\n{self.shortest}{others}"
        )


def _length(divergence: Divergence) -> tuple[int, int]:
    return len(divergence.points), len(divergence.trace)


def _listed(divergences: Sequence[Divergence]) -> str:
    if not divergences:
        return ""
    shown = sorted(divergences, key=_length)[:_MOST_SHOWN]
    lines = [f"\n  {', then '.join(map(str, d.points))}: {d.problems[0]}" for d in shown]
    more = len(divergences) - len(shown)
    return "\nand," + "".join(lines) + (f"\n  and {more} more" if more else "")
