"""The public surface, frozen: names, schemas, shapes of results, help of the commands.

A change here is a change for users. When it is meant, write the files again with
`LOOM_GOLDEN=write python -m pytest tests/golden`, read the difference, and say it in the changelog.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loom_ia.core.events import event_schema
from loom_ia.core.views.report import UsageReport
from loom_ia.core.views.result import RunResult
from loom_ia.core.views.sessions import RunPage, SessionDeletion, SessionInfo
from loom_ia.core.views.trace import Trace

HERE = Path(__file__).parent
LOOM = Path(sys.executable).parent / "loom"

MODULES = (
    "loom_ia",
    "loom_ia.access",
    "loom_ia.access.http",
    "loom_ia.agents",
    "loom_ia.config",
    "loom_ia.core.events",
    "loom_ia.core.model",
    "loom_ia.core.ports",
    "loom_ia.telemetry",
    "loom_ia.testing",
    "loom_ia.tools",
)

SHAPES = (RunResult, Trace, UsageReport, SessionInfo, SessionDeletion, RunPage)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _names() -> str:
    found = {name: sorted(importlib.import_module(name).__all__) for name in MODULES}
    return _json(found)


def _shapes() -> str:
    return _json(
        {shape.__name__: shape.model_json_schema(mode="serialization") for shape in SHAPES}
    )


def _loom(*words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "LOOM_LANG": "en", "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        [LOOM, *words], capture_output=True, text=True, env=environ, check=True, cwd=HERE
    )
    return done.stdout


def _help() -> str:
    from loom_ia.access.cli.arguments import commands

    pages = [_loom("--help"), *(_loom(name, "--help") for name in commands())]
    # Versions of Python differ in where they wrap, and in whether `-a X, --all X` says X twice.
    return "\n".join(_unwrapped(page) for page in pages)


def _unwrapped(page: str) -> str:
    parts = (" ".join(part.split()) for part in page.split("\n\n"))
    return re.sub(r"(--[\w-]+) \S+, (?=--)", r"\1, ", "".join(f"{part}\n" for part in parts))


def _openapi() -> str:
    from loom_ia.access import Loom
    from loom_ia.access.http import create_app
    from loom_ia.config import LoomConfig

    document = create_app(Loom(LoomConfig(version=1))).openapi()
    del document["info"]["version"]
    return _json(document)


GOLDEN: dict[str, Callable[[], str]] = {
    "names.json": _names,
    "events.schema.json": lambda: _json(event_schema()),
    "shapes.schema.json": _shapes,
    "config.schema.json": lambda: _loom("schema"),
    "agent.schema.json": lambda: _loom("schema", "--agent"),
    "graph.schema.json": lambda: _loom("schema", "--graph"),
    "help.txt": _help,
    "openapi.json": _openapi,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_public_surface_is_what_was_agreed(name: str) -> None:
    """Names, schemas, shapes and help change only on purpose."""
    made = GOLDEN[name]()
    file = HERE / name
    if os.environ.get("LOOM_GOLDEN") == "write":
        file.write_text(made, encoding="utf-8")
    assert made == file.read_text(encoding="utf-8")


def test_importing_the_package_imports_nothing_heavy() -> None:
    """The names of `loom_ia` are there, and what they need is not until they are used."""
    heavy = ("pydantic", "yaml", "asyncio")
    code = f"import loom_ia, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_library_imports_no_more_than_it_needs() -> None:
    """`Loom` pulls neither a database, a terminal library, a schema checker nor an adapter in."""
    heavy = (
        "sqlite3",
        "yaml",
        "jsonschema",
        "rich",
        "fastapi",
        "httpx2",
        "anthropic",
        "openai",
        "mcp",
    )
    code = (
        "from loom_ia.access import Loom; import sys;"
        f" print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
