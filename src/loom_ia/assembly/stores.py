"""The stores of values that need no host: one line to have one, in memory or in a file."""

from pathlib import Path

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.engine.values import JournalStore


class MemoryStore(JournalStore):
    """Keep values, and the runs that are given this store, as long as the object lives."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal(), name="the store in memory")


class SQLiteStore(JournalStore):
    """Keep values, and the runs that are given this store, in the SQLite file `path`.

    Any number of instances and of processes of one host may share the file, which is created with
    its folder at the first use, or by `open`. A file that cannot be opened is a `StoreError`.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(SqliteJournal(path), name=f"the store {path}")
