"""The assistant: two MCP servers, a role that sees, an agent below, and values with a source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.testing import FakeSource, Host, crash_everywhere
from loom_ia.tools import tool

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "assistant"
ASKED = "Combien pour 12,5 m² à 38 € ?"


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are started by `python`, which is the one that runs the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, which nothing was run in."""
    copy = tmp_path / "assistant"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("data", "__pycache__"))
    return copy


@pytest.mark.parametrize(("arguments", "sees"), [((), True), (("--sans-photo",), False)])
def test_the_script(folder: Path, arguments: tuple[str, ...], sees: bool) -> None:
    """The role that sees is called when there is a photo, and never offered without one."""
    done = subprocess.run(
        [sys.executable, "assistant.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert ("assistant appelle vision" in lines) is sees
    assert "assistant appelle heure__maintenant" in lines
    assert "verificateur appelle calcul__multiplier" in lines
    assert "475 €" in lines[-2]


async def test_the_parent_pays_for_what_is_below(folder: Path) -> None:
    """The cost of the run is that of its role, of its sub-agent and its own."""
    async with Loom.from_config(folder / "loom.yaml") as loom:
        result = await loom.run("assistant", ASKED, attachments=[folder / "photo.png"])
        events = await loom.events(result.run_id)
    paid = sum(float(str(e.facets.get("cost_usd", 0))) for e in events if e.category == "model")
    assert result.cost_usd == pytest.approx(paid)
    assert {e.role for e in events if e.type == "model.responded"} == {"main", "vision"}


async def test_it_survives_a_crash_at_each_write(folder: Path) -> None:
    """Parent, role and sub-agent go on where they were; so do the tools of servers."""

    @tool
    def maintenant() -> dict[str, str]:
        """Donne la date et l'heure."""
        return {"date": "2026-09-21", "heure": "09:30"}

    @tool
    def multiplier(a: float, b: float) -> dict[str, float]:
        """Multiplie deux nombres."""
        return {"produit": a * b}

    # Which of two programs answers first is chance: here, nothing is.
    sources = {"heure": FakeSource(maintenant), "calcul": FakeSource(multiplier)}

    async def scenario(host: Host) -> None:
        loom = host.loom(folder / "loom.yaml", sources=sources)
        await loom.run("assistant", ASKED, run_id="r1")

    report = await crash_everywhere(scenario, doubles=0)
    assert report.ok, report
