"""DBOS on a SQLite file, for whatever is made durable with it."""

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


def configured_dbos(folder: Path) -> Any:
    """Give the class `DBOS`, configured and not yet launched.

    It needs a newer SQLite than some interpreters have: the package pysqlite3 takes the place of
    `sqlite3` if it is installed.
    """
    with suppress(ImportError):
        newer = import_module("pysqlite3")
        sys.modules["sqlite3"] = newer
        sys.modules["sqlite3.dbapi2"] = newer.dbapi2
    dbos = import_module("dbos").DBOS
    database = f"sqlite:///{folder / 'dbos.db'}"
    dbos(config={"name": "bench", "system_database_url": database, "log_level": "CRITICAL"})
    return dbos
