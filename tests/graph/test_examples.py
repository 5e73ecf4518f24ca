"""The examples: each runs as a newcomer would run it, and survives a crash at each write."""

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from loom_ia.graph import Graph, Interrupt, Message, Retry
from loom_ia.testing import CrashReport, crash_everywhere
from tests.docs.shown import matches
from tests.providers.server import Provider, Says

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "graphs"
PRINTED = Path(__file__).resolve().parent / "printed"
SCRIPTS = [*sorted(EXAMPLES.glob("*.py")), EXAMPLES / "triage" / "triage.py"]

Values: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[Interrupt], Any]


def run_script(script: Path, *arguments: str) -> list[str]:
    """Run a script as a newcomer would, and give the lines that it prints."""
    done = subprocess.run(
        [sys.executable, script.name, *arguments],
        cwd=script.parent,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def load(script: Path) -> ModuleType:
    """Import an example under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"example_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name: str) -> ModuleType:
    """Import one of the examples that are one file."""
    return load(EXAMPLES / f"{name}.py")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_prints_what_it_shows(script: Path) -> None:
    """Each example runs from a clone, without a key, and prints what its readers are told."""
    shown = (PRINTED / f"{script.stem}.txt").read_text("utf-8").splitlines()
    assert matches(shown, run_script(script), {})


def test_every_example_has_what_it_prints() -> None:
    """No example is without its expected text, and no text is without its example."""
    assert sorted(file.stem for file in PRINTED.iterdir()) == sorted(s.stem for s in SCRIPTS)


# The triage, from one command to the next


@pytest.fixture
def triage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the triage, whose modules can be imported, and are forgotten after."""
    folder = EXAMPLES / "triage"
    monkeypatch.syspath_prepend(folder)
    yield folder
    for file in folder.glob("*.py"):
        sys.modules.pop(file.stem, None)


def test_a_request_waits_between_two_processes(triage: Path, tmp_path: Path) -> None:
    """Each command is a process of its own; the answer that was rewritten leaves, and once."""
    script, kept = triage / "triage.py", ("--dossier", str(tmp_path))
    asked = run_script(script, *kept, "demande", "Une fuite au plafond", "--client", "zoe@ex.fr")
    run_id = asked[0].partition(" ")[0]
    assert asked[0] == f"{run_id} : attend une décision"
    assert run_script(script, *kept, "attente") == asked
    answer = (*kept, "repondre", run_id, "oui", "--texte", "On arrive.")
    assert run_script(script, *answer) == [f"{run_id} : envoyé (message 1)"]
    assert run_script(script, *answer) == [f"{run_id} n'attend rien : envoyé (message 1)"]
    assert run_script(script, *kept, "attente") == []
    (sent,) = (tmp_path / "envois.jsonl").read_text("utf-8").splitlines()
    assert '"texte": "On arrive."' in sent


async def test_a_real_model_takes_the_place_of_the_simulated_one(
    triage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--real` asks the server that is named, and nothing else changes."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    async with Provider() as provider:
        provider.reply(Says('{"sujet": "autre", "urgent": false, "travaux": ""}'))
        lines = await asyncio.to_thread(
            run_script,
            triage / "triage.py",
            *("--real", "m1", "--base-url", provider.url, "demande", "Bonjour"),
        )
        assert lines[0].endswith(": transmis à l'accueil")
        assert provider.requests[0].body["model"] == "m1"


# A crash at each write


@dataclass(frozen=True)
class Trial:
    """A graph of an example, what it is given, and how its questions are answered."""

    graph: Graph[Any]
    given: Values
    answer: Answer = lambda _: {"approved": True}

    async def crash_everywhere(self) -> CrashReport:
        """Crash at each write; every end is that of an undisturbed run."""
        report = await crash_everywhere(self.graph, self.given, answer=self.answer, doubles=0)
        assert report.ok, report
        return report


def retried_at_once(module: ModuleType) -> Graph[Any]:
    """Let a step be tried again without a wait: the clock of crash tests stands still."""
    retry = Retry(attempts=4, delay=0, on=(ConnectionError,))
    return module.g.add_step("catalogue", module.catalogue, "stock", retry=retry, replace=True)


def trials() -> dict[str, Trial]:
    """Give the graph of each example that has a store to crash."""
    map_reduce, devis = example("map_reduce"), example("composition")
    tools, approval = example("tool_agent"), example("approval")
    policy, agents = example("permissions_and_budgets"), example("ten_agents")
    three = agents.chantier(500, agents.METIERS[:3])
    ask = [Message("user", "Combien ?")]
    return {
        "quickstart": Trial(example("quickstart").g, {"nom": "Mme Durand"}),
        "tool_agent": Trial(tools.g, tools.question("Prix ?")),
        "approval": Trial(approval.g, {"lignes": approval.LIGNES}),
        "ten_agents": Trial(three, {"surface": 120, "jours": 0}),
        "crash_and_resume": Trial(example("crash_and_resume").g, {"client": "Durand"}),
        "permissions_and_budgets": Trial(policy.g, policy.DEMANDE),
        "branches": Trial(example("branches").g, {"surface": 84}),
        "map_reduce": Trial(map_reduce.g, {"surface": 84}),
        "map_reduce_send": Trial(map_reduce.courrier, {"clients": ["a@b", "c", "d@e"]}),
        "streaming": Trial(example("streaming").g, {"client": "Mme Durand"}),
        "drawing": Trial(example("drawing").g, {"message": "Quel prix ?"}),
        "time_travel": Trial(example("time_travel").g, {"facture": "F-118"}),
        "retry_and_cache": Trial(retried_at_once(example("retry_and_cache")), {}),
        "composition": Trial(devis.devis, {"client": "Durand", "surface": 84}),
        "composition_tool": Trial(devis.g, {"messages": ask}),
    }


TRIALS = trials()


@pytest.mark.parametrize("name", TRIALS)
async def test_an_example_survives_a_crash_at_each_write(name: str) -> None:
    """Killed on either side of any of its writes, an example ends as if nothing had happened."""
    report = await TRIALS[name].crash_everywhere()
    assert len(report.writes) > 1


async def test_the_effects_of_an_example_are_not_repeated() -> None:
    """Whatever the crash, the mail server is asked under one key, so that one message leaves."""
    module = example("effects")
    trial = Trial(module.g, {"client": "Mme Durand"}, lambda _: {"ok": True})
    await trial.crash_everywhere()
    (key,) = module.partis
    assert key.endswith(":envoyer/1:envoi")


async def test_the_triage_sends_once(triage: Path, tmp_path: Path) -> None:
    """Killed at any write, the triage ends the same, and its client gets one message."""
    built = load(triage / "graphe.py")
    outbox = load(triage / "boite_d_envoi.py").BoiteDEnvoi(tmp_path / "envois.jsonl")
    graph = built.construire(load(triage / "modele_simule.py").modele, outbox)
    given = {"client": "ana@exemple.fr", "demande": "Une fuite !"}
    await Trial(graph, given, lambda _: {"ok": True}).crash_everywhere()
    assert len(outbox.partis()) == 1
