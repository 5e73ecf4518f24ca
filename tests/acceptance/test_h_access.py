"""H. Accesses."""

import json

import pytest

from tests.acceptance.project import Project, call, calling


@pytest.mark.parametrize(
    ("script", "words", "code", "status"),
    [
        ([{"text": "Oui."}], ("run", "devis", "Dis oui"), 0, "completed"),
        ([{"error": "auth"}], ("run", "devis", "Dis oui"), 1, "failed"),
        ([calling(call("relancer", texte="a"))], ("run", "devis", "Relance"), 1, "paused"),
        ([{"text": "Oui."}], ("run", "inconnu", "Dis oui"), 2, ""),
        ([{"text": "Oui."}], ("resume", "inconnu"), 2, ""),
        ([{"texte": "Oui."}], ("run", "devis", "Dis oui"), 2, ""),
        ([{"text": "Oui."}], ("run", "devis"), 2, ""),
    ],
    ids=["completed", "failed", "paused", "unknown agent", "unknown run", "bad config", "usage"],
)
def test_h16_exit_codes(
    project: Project, script: list, words: tuple[str, ...], code: int, status: str
) -> None:
    """The command ends with 0 when it completed, 1 when it did not, 2 when it refused."""
    project.script, project.tools = script, ["prix_ttc", "relancer"]
    project.save()
    done = project.command(*words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert status in done.stderr
    if code == 2:
        assert done.stdout == ""


def test_h16_json_tells_the_status(project: Project) -> None:
    """With --json the output is one document, whatever came of the run."""
    completed = project.command("run", "devis", "Prix ?", "--json")
    project.script = [{"error": "auth"}]
    project.save()
    failed = project.command("run", "devis", "Prix ?", "--json")
    assert json.loads(completed.stdout)["status"] == "completed"
    assert json.loads(failed.stdout)["status"] == "failed"
    assert json.loads(failed.stdout)["error_type"] == "model.auth"
    assert (completed.returncode, failed.returncode) == (0, 1)
