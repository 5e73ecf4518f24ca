"""PUB-12, as its user types it: whoever must decide is not at a terminal, and is told in a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from loom_ia.core.state.run import Status
from tests.acceptance.project import Project, call, calling

SECRET = "drawn at random, long enough"
TELLS = """\
import json, os, sys

notice = json.load(sys.stdin)
with open("avis", "a") as file:
    file.write(json.dumps([os.environ["LOOM_DELIVERY"], notice]) + "\\n")
sys.exit(int(os.environ.get("REFUSES", "0")))
"""


@pytest.fixture
def bureau(project: Project) -> Project:
    """A project whose agent asks before it acts, and whose notices go to a program."""
    tool: dict[str, Any] = {"python": "relancer", "notice": "Relancer : {{ texte }}"}
    project.tools = [tool]
    project.script = [calling(call("relancer", texte="facture")), {"text": "Fini."}]
    project.root["notices"] = {
        "public_url": "https://agents.example.org",
        "secret_env": "LINKS",
        "targets": [{"name": "chef", "command": ["python3", "dire.py"], "max_attempts": 2}],
    }
    project.save()
    project.write("dire.py", TELLS)
    return project


def told(project: Project) -> list[tuple[str, dict[str, Any]]]:
    """Read what the program was told: the id of each delivery, and the notice."""
    file: Path = project.folder / "avis"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()]


async def test_pub12_told_outside_and_decided_by_the_link(bureau: Project) -> None:
    """One command asks and tells; the link decides in another process; nothing is told twice."""
    done = bureau.command("run", "devis", "Relance", "--run-id", "r1", LINKS=SECRET)
    assert done.returncode == 1, done.stderr
    ((delivery, notice),) = told(bureau)
    assert delivery == notice["id"]
    assert notice["sentence"] == "Relancer : facture"
    assert notice["arguments"] == {"texte": "facture"}
    assert (notice["agent"], notice["run_id"]) == ("devis", "r1")
    assert bureau.command("recover", LINKS=SECRET).returncode in (0, 1)
    assert len(told(bureau)) == 1
    token = notice["link"].rpartition("/")[2]
    async with bureau.loom(environ={"LINKS": SECRET}) as loom:
        await loom.decide_by_link(token, granted=True, name="Ana")
        await loom.drain()
        assert (await loom.result("r1")).ok
    assert bureau.effects() == ["relancer:facture"]
    (yes,) = [line for line in bureau.lines("r1") if line["type"] == "approval.granted"]
    assert yes["payload"]["by"] == "Ana (link:chef)"


def test_pub12_a_program_that_refuses_is_tried_again(bureau: Project) -> None:
    """Two attempts under one id make one request; the run waits, and can be decided by hand."""
    environ = {"LINKS": SECRET, "REFUSES": "3"}
    done = bureau.command("run", "devis", "Relance", "--run-id", "r1", **environ)
    assert done.returncode == 1, done.stderr
    assert len(told(bureau)) == 2
    assert len({delivery for delivery, _ in told(bureau)}) == 1
    types = [line["type"] for line in bureau.lines("r1")]
    assert types.count("approval.requested") == types.count("approval.notified") == 1
    assert bureau.command("approve", "r1", LINKS=SECRET).returncode == 0
    assert bureau.effects() == ["relancer:facture"]


async def test_pub12_what_an_agent_below_asks_is_told_of_the_run_at_the_top(
    bureau: Project,
) -> None:
    """The notice names who asks, and the link decides on the run at the top."""
    bureau.write(
        "agents/patron.yaml",
        "name: patron\nmain: {model: PATRON, system: Dirige.}\n"
        "subagents: [{agent: devis, description: Relance les clients.}]\n",
    )
    asks = {"name": "devis", "arguments": {"message": "Relance"}}
    script = [{"tool_calls": [asks]}, {"text": "Fini."}]
    models = [
        {"id": name, "sdk": "fake", "model": "fake-1", "params": {"script": said}}
        for name, said in (("SIMULE", bureau.script), ("PATRON", script))
    ]
    bureau.root["models"] = models
    bureau.save()
    async with bureau.loom(environ={"LINKS": SECRET}) as loom:
        result = await loom.run("patron", "Va", run_id="r1")
        assert result.status is not Status.COMPLETED
        await loom.drain()
        ((_, notice),) = told(bureau)
        assert (notice["agent"], notice["run_id"]) == ("devis", "r1")
        await loom.decide_by_link(notice["link"].rpartition("/")[2], granted=True)
        await loom.drain()
        assert (await loom.result("r1")).ok
    assert bureau.effects() == ["relancer:facture"]
