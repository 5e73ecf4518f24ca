"""Doubles and tools for the tests of this package and of what is built on it."""

from loom_ia.testing.journals import JournalCounts, JournalSpy, PowerLossJournal

__all__ = ["JournalCounts", "JournalSpy", "PowerLossJournal"]
