"""Doubles and tools for the tests of this package and of what is built on it."""

from loom_ia.testing.clock import ManualClock
from loom_ia.testing.crash import NotRepeatable, Scenario, crash_everywhere
from loom_ia.testing.crash_host import Host, RepeatableLoom
from loom_ia.testing.crash_journal import Crash, CrashJournal, CrashPoint
from loom_ia.testing.crash_outcome import Outcome
from loom_ia.testing.crash_report import CrashReport, Divergence, Life
from loom_ia.testing.journals import JournalCounts, JournalSpy, PowerLossJournal
from loom_ia.testing.sources import FakeSource

__all__ = [
    "Crash",
    "CrashJournal",
    "CrashPoint",
    "CrashReport",
    "Divergence",
    "FakeSource",
    "Host",
    "JournalCounts",
    "JournalSpy",
    "Life",
    "ManualClock",
    "NotRepeatable",
    "Outcome",
    "PowerLossJournal",
    "RepeatableLoom",
    "Scenario",
    "crash_everywhere",
]
