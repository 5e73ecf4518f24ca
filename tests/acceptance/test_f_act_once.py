"""B13, F13 and F15: an action that is remembered, as the product page writes it."""

from typing import Any

import pytest

from tests.acceptance.project import Project, call, calling, wait_for

RELANCE = """

from loom_ia.tools import idempotent


@idempotent(key=lambda args: f"relance:{args['numero']}")
@tool(side_effects="irreversible")
async def envoyer_relance(numero: str, destinataire: str = "") -> str:
    \"\"\"Envoie la relance d'un devis au client.\"\"\"
    note(f"relance:{numero}")
    hang_if_asked()
    if os.path.exists("panne"):
        raise RuntimeError("le serveur de messagerie ne répond pas")
    return f"envoyé {numero}"
"""

KEYS: dict[str, Any] = {"backend": "sqlite", "path": "data/cles.db"}


@pytest.fixture
def relance(project: Project) -> Project:
    """The project, whose agent sends a reminder under a business key."""
    project.more_tools = RELANCE
    project.tools = ["envoyer_relance"]
    project.script = [calling(call("envoyer_relance", numero="D-042")), {"text": "Fini."}]
    project.root = {
        "storage": {"events": {"backend": "jsonl", "path": "data"}, "idempotency": KEYS}
    }
    return project.save()


def run(project: Project, run_id: str) -> list[str]:
    """Run the agent; give the types of what it wrote."""
    done = project.command("run", "devis", "Relance", "--run-id", run_id)
    assert done.returncode == 0, done.stderr
    return [line["type"] for line in project.lines(run_id)]


def result(project: Project, run_id: str) -> str:
    """Give what the model was told of the call."""
    (line,) = [line for line in project.lines(run_id) if line["type"] == "tool.completed"]
    return str(line["payload"])


def test_b13_a_key_in_the_journal(relance: Project) -> None:
    """A business key needs a durable store that runs share, and the message names them."""
    del relance.root["storage"]["idempotency"]
    relance.save()
    done = relance.command("validate")
    assert done.returncode == 2
    assert "agents/devis.yaml" in done.stderr + done.stdout
    for store in ("sqlite", "postgres", "redis"):
        assert store in done.stderr + done.stdout


def test_f13_two_runs(relance: Project) -> None:
    """Two runs in two processes send once, and the second says that it reused."""
    assert "idempotency.reused" not in run(relance, "r1")
    assert "idempotency.reused" in run(relance, "r2")
    assert relance.effects() == ["relance:D-042"]
    assert "envoyé D-042" in result(relance, "r2")


def test_f15_a_tool_that_raises(relance: Project) -> None:
    """A tool that raises frees its key, and the next run sends."""
    relance.write("panne", "")
    run(relance, "r1")
    assert "ne répond pas" in result(relance, "r1")
    (relance.folder / "panne").unlink()
    run(relance, "r2")
    assert "envoyé D-042" in result(relance, "r2")
    assert relance.effects() == ["relance:D-042"] * 2


def test_a_process_killed_in_the_middle(relance: Project) -> None:
    """After a kill nobody sends again: neither the run itself nor another."""
    relance.gate()
    with relance.start("run", "devis", "Relance", "--run-id", "r1", HANG="1") as process:
        wait_for(process, "hanging")
        process.kill()
    assert relance.command("resume", "r1").returncode == 0
    assert "unknown" in result(relance, "r1")
    run(relance, "r2")
    assert "being done by another call" in result(relance, "r2")
    assert relance.effects() == ["relance:D-042"]
