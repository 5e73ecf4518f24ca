"""A run with a role and an agent below ends the same, wherever its process dies."""

from collections import Counter
from pathlib import Path

import pytest

from loom_ia.agents import AgentSpec, MainRole, PythonTool, RoleSpec, SubagentRef
from loom_ia.config import LoomConfig
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.context import ToolResults
from loom_ia.testing import Host, crash_everywhere
from loom_ia.testing.journals import CrashLevel
from loom_ia.tools import tool
from tests.roles.studio import call, calling

SENT: Counter[str] = Counter()


@tool
async def prix(montant: float) -> float:
    """Calcule."""
    return montant * 1.2


@tool(side_effects="irreversible", approval="always")
async def envoyer(texte: str) -> str:
    """Envoie."""
    SENT[texte] += 1
    return f"envoyé {texte}"


def model(name: str, *script: dict[str, object]) -> ModelSpec:
    """Give a model that plays a script."""
    fields = {"id": name, "sdk": "fake", "model": name.lower(), "params": {"script": list(script)}}
    return ModelSpec.model_validate(fields)


def config() -> LoomConfig:
    """Give an agent that has a role write what another agent sends, once a human agrees."""
    return LoomConfig(
        version=1,
        models=(
            model(
                "CHEF",
                calling(call("prix", montant=100)),
                calling(call("rediger")),
                calling(call("facteur", message={"$ref": "result:2"}), call("rediger")),
                {"text": "fini"},
            ),
            model("PLUME", {"text": "Bonjour"}),
            model("POSTE", calling(call("envoyer", texte="Bonjour")), {"text": "parti"}),
        ),
        agents=(
            AgentSpec(
                name="devis",
                main=MainRole(model="CHEF", system="."),
                tools=(PythonTool(python="prix"),),
                roles=(
                    RoleSpec(
                        name="rediger",
                        description="Rédige.",
                        model="PLUME",
                        system=".",
                        context=("user_input", ToolResults(tool_results=("prix",))),
                    ),
                ),
                subagents=(SubagentRef(agent="facteur"),),
            ),
            AgentSpec(
                name="facteur",
                description="Envoie.",
                main=MainRole(model="POSTE", system="."),
                tools=(PythonTool(python="envoyer"),),
            ),
        ),
    )


async def scenario(host: Host) -> None:
    """Run it, and let the letter go."""
    loom = host.loom(config(), tools=[prix, envoyer])
    result = await loom.run("devis", "Écris.", run_id="r1")
    if result.pending_approvals:
        await loom.approve("r1", by="anna")
        await loom.resume("r1")


@pytest.mark.parametrize("level", ["kill", "power"])
async def test_a_death_anywhere_changes_nothing(
    level: CrashLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs below are found again, never opened twice, and the letter leaves at most once."""
    monkeypatch.chdir(tmp_path)
    SENT.clear()
    report = await crash_everywhere(scenario, effects=lambda: SENT, level=level)
    assert report.ok, report
