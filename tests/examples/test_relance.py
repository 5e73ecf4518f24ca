"""The story of the quote, as a newcomer runs it, and whatever kills it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access import Loom
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN
from loom_ia.testing import Host, crash_everywhere
from loom_ia.testing.journals import CrashLevel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "relance"
ASKED = "Relance Mme Martin pour le devis D-2026-042, sur un ton cordial."

Script = Callable[..., list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, which nothing was run in."""
    copy = tmp_path / "relance"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("data", "__pycache__"))
    return copy


@pytest.fixture
def script(folder: Path) -> Script:
    """Run the script of the example in a process of its own; gives its lines."""

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "relance.py", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


def sent(folder: Path) -> list[dict[str, str]]:
    """Give the mails that left."""
    outbox = folder / "data" / "envois.jsonl"
    if not outbox.exists():
        return []
    return [json.loads(line) for line in outbox.read_text("utf-8").splitlines()]


def test_the_whole_story(folder: Path, script: Script) -> None:
    """Two drafts are refused, for an invention and for its tone; the third one leaves once."""
    lines = script()
    contract, judge = (line for line in lines if line.startswith("Refusé par"))
    assert "loom.contract" in contract
    assert "10 %" in contract
    assert "loom.judge.rediger_relance" in judge
    assert any(line.startswith("À approuver : envoyer_email") for line in lines)
    assert "Action : envoyer_email, done" in lines
    (mail,) = sent(folder)
    assert mail["destinataire"] == "martin@exemple.fr"
    assert "1 840 €" in mail["corps"]
    assert float(lines[-1].split()[2]) > 0


@pytest.mark.parametrize(("answer", "mails"), [("oui", 1), ("non", 0)])
def test_the_answer_comes_from_another_process(
    folder: Path, script: Script, answer: str, mails: int
) -> None:
    """Nothing leaves before it, and no process has to wait for it."""
    waiting = script("--attendre")
    run_id = next(line for line in waiting if "À approuver" in line).split()[-1]
    assert sent(folder) == []
    script("--repondre", run_id, answer)
    assert len(sent(folder)) == mails


def test_a_quote_is_followed_up_once(folder: Path, script: Script) -> None:
    """Asked again in another run, the mail does not leave a second time."""
    script()
    script()
    assert len(sent(folder)) == 1


@pytest.mark.parametrize("level", ["kill", "power"])
async def test_one_mail_whatever_the_crash(folder: Path, level: CrashLevel) -> None:
    """Killed at any write, one mail at most leaves, and no verdict that was kept is asked again."""
    verdicts: list[int] = []
    outbox = folder / "data" / "envois.jsonl"

    async def scenario(host: Host) -> None:
        if host.life == 1:
            shutil.rmtree(folder / "data", ignore_errors=True)
        loom = host.loom(folder / "loom.yaml")
        result = await loom.run("relance", ASKED, run_id="r1")
        if result.pending_approvals:
            await loom.approve("r1", by="artisan")
            result = await loom.resume("r1")
        assert len(sent(folder)) <= 1
        if result.ok:
            assert outbox.exists()
            events = await loom.events("r1")
            verdicts.append(sum(event.type == "judge.evaluated" for event in events))

    report = await crash_everywhere(scenario, level=level, doubles=0)
    assert report.ok, report
    assert set(verdicts) == {2}


async def test_a_long_quote_is_read_by_the_role_alone(folder: Path) -> None:
    """With a quote of 60,000 characters the orchestrator reads a twentieth of what a loop would."""
    quotes = json.loads((folder / "devis.json").read_text("utf-8"))
    quotes[0]["lignes"] = "Fourniture et pose, main d'œuvre comprise. " * 1400
    (folder / "devis.json").write_text(json.dumps(quotes, ensure_ascii=False), "utf-8")
    async with Loom.from_config(folder / "loom.yaml") as loom:
        result = await loom.run("relance", ASKED)
        events: list[Any] = await loom.events(result.run_id)
    answers = [e for e in events if e.type == "model.responded" and e.role == "main"]
    read = sum(event.payload.usage.prompt_tokens for event in answers)
    quote = len(json.dumps(quotes[0], ensure_ascii=False)) // CHARACTERS_PER_TOKEN
    # A loop that writes the three drafts itself reads the quote at each call but the first.
    naive = quote * (len(answers) + 1) + read
    assert len(answers) == 3  # up to the question whether the mail may leave
    assert read <= naive / 20
