"""H. The same question through each door leaves the same facts."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters

from loom_ia.access.http import create_app
from tests.acceptance.project import LOOM, Project, call, calling

ASKED = "Quel prix TTC pour 1 250 € HT à 10 % ?"
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "a tool": [
        calling(call("prix_ttc", montant_ht=1250, taux_tva=10), text="Je calcule."),
        {"text": "1 375 €"},
    ],
    "two tools at once": [
        calling(call("prix_ttc", montant_ht=1250), call("lire", cle="a")),
        {"text": "Voilà."},
    ],
    "a fault of the model": [{"error": "auth"}],
    "arguments that are refused": [
        calling(call("prix_ttc", montant_ht="abc")),
        calling(call("prix_ttc", montant_ht=1250)),
        {"text": "1 500 €"},
    ],
    "a pause": [calling(call("relancer", texte="Mme Martin")), {"text": "Relancée."}],
}


async def by_python(project: Project) -> str:
    """Ask the library."""
    async with project.loom() as loom:
        return (await loom.run("devis", ASKED)).run_id


async def by_command(project: Project) -> str:
    """Ask the command."""
    project.command("run", "devis", ASKED, "--run-id", "by-command")
    return "by-command"


async def by_rest(project: Project) -> str:
    """Ask over HTTP."""
    async with project.loom() as loom:
        transport = httpx2.ASGITransport(app=create_app(loom))
        async with httpx2.AsyncClient(transport=transport, base_url="http://loom") as client:
            answer = await client.post("/v1/agents/devis/runs", json={"message": ASKED})
            assert answer.status_code == 201, answer.text
            return answer.json()["run_id"]


def by_mcp(mode: str) -> Callable[[Project], Awaitable[str]]:
    """Ask over MCP, in one of the generations of the protocol."""

    async def ask(project: Project) -> str:
        server = StdioServerParameters(
            command=str(LOOM), args=["--config", str(project.file), "mcp"], cwd=project.folder
        )
        async with Client(server, mode=mode) as client:
            answer = await client.call_tool("devis", {"message": ASKED})
            assert answer.structured_content is not None
            return answer.structured_content["run_id"]

    return ask


@pytest.mark.parametrize("script", SCRIPTS)
async def test_each_door_leaves_the_same_facts(project: Project, script: str) -> None:
    """Whoever asks, and through whatever door, the journal tells the same story."""
    project.script, project.tools = SCRIPTS[script], ["prix_ttc", "lire", "relancer"]
    project.save()
    doors = {
        "python": by_python,
        "command": by_command,
        "rest": by_rest,
        "mcp": by_mcp("auto"),
        "mcp, as before": by_mcp("legacy"),
    }
    told: dict[str, list[str]] = {}
    for name, ask in doors.items():
        run_id = await ask(project)
        async with project.loom() as loom:
            told[name] = [event.type for event in await loom.events(run_id)]
    assert all(types == told["python"] for types in told.values()), told
    assert len(told["python"]) > 3
