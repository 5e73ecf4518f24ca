"""H. Accesses: agents over MCP, as a process and over HTTP, in both generations of the protocol."""

import json
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest

from tests.acceptance.project import ANSWER, Project, call, calling
from tests.access.mcp_server.clients import (
    GENERATIONS,
    KEY,
    over_http,
    over_stdio,
    served,
    text_of,
)
from tests.pictures import png

every_generation = pytest.mark.parametrize("mode", GENERATIONS)


@every_generation
async def test_h8_the_tools_that_are_listed(project: Project, mode: str) -> None:
    """H8. The agents that are exposed, graphs, and three tools about runs; nothing that decides."""
    project.write(
        "agents/cache.yaml",
        "name: cache\nexpose: {mcp: false}\nmain: {model: SIMULE, system: Bonjour.}\n",
    )
    project.write(
        "graphs/etapes.yaml",
        "name: etapes\ndescription: Deux étapes.\n"
        "steps:\n  a: {agent: devis, ask: Bonjour, into: output}\n",
    )
    project.agent = {"description": "Répond aux questions de prix."}
    project.tools = ["prix_ttc", "envoyer"]
    project.save()
    async with over_stdio(project, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["devis", "etapes", "run_status", "run_report", "cancel"]
    devis = tools["devis"]
    assert devis.description == "Répond aux questions de prix."
    assert devis.input_schema["required"] == ["message"]
    assert devis.input_schema["additionalProperties"] is False
    assert set(devis.input_schema["properties"]) == {"message", "session_id", "attachments"}
    assert set(tools["etapes"].input_schema["properties"]) == {"input", "session_id"}
    hints = {
        name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
        for name, tool in tools.items()
        if tool.annotations
    }
    assert hints == {
        "devis": (False, True),
        "etapes": (False, True),
        "run_status": (True, False),
        "run_report": (True, False),
        "cancel": (False, True),
    }


@every_generation
@pytest.mark.parametrize("asks", [True, False])
async def test_h9_approvals(project: Project, mode: str, *, asks: bool) -> None:
    """H9. A form where the client has one; elsewhere the run waits, which is no error."""
    project.tools = ["relancer"]
    project.script = [calling(call("relancer", texte="facture")), {"text": "Fini."}]
    project.save()

    async def agree(context: Any, params: Any) -> types.ElicitResult:
        del context
        assert "facture" in params.message
        return types.ElicitResult(action="accept", content={"decision": "accorder"})

    more: dict[str, Any] = {"elicitation_callback": agree} if asks else {}
    async with over_stdio(project, mode, **more) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
    assert not result.is_error
    assert result.structured_content["status"] == ("completed" if asks else "paused")
    assert project.effects() == (["relancer:facture"] if asks else [])
    assert asks or "paused" in text_of(result)


@every_generation
async def test_h10_progress(project: Project, mode: str) -> None:
    """H10. With a token, each call of a tool is told at least once, and the count only grows."""
    project.tools = ["lire"]
    cles = ["a", "b", "c"]
    project.script = [calling(*(call("lire", cle=cle) for cle in cles)), {"text": "Fini."}]
    project.save()
    told: list[tuple[float, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del total
        told.append((progress, message or ""))

    async with over_stdio(project, mode) as client:
        await client.call_tool("devis", {"message": "Lis"}, progress_callback=hear)
        before = len(told)
        await client.call_tool("devis", {"message": "Lis"})
    assert len([line for _, line in told if "lire is called" in line]) == len(cles)
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert len(told) == before
    assert not [line for _, line in told if '"a"' in line]


@every_generation
async def test_h11_files_outside(project: Project, mode: str) -> None:
    """H11. A file outside the roots, and a link inside that leads outside, are both refused."""
    folder, secret = project.folder / "photos", project.folder / "secret.png"
    folder.mkdir()
    secret.write_bytes(png())
    (folder / "lien.png").symlink_to(secret)
    project.root = {"server": {"mcp": {"file_roots": ["photos"]}}}
    project.save()
    async with over_stdio(project, mode) as client:
        for path in (secret, folder / "lien.png"):
            link = {"type": "resource_link", "uri": path.as_uri()}
            refused = await client.call_tool("devis", {"message": "Vois", "attachments": [link]})
            assert refused.is_error
            assert "file_roots" in text_of(refused)
    assert not project.data.exists() or not list(project.data.rglob("*.jsonl"))


@every_generation
async def test_h12_the_door_of_http(project: Project, mode: str) -> None:
    """H12. No key: 401; another origin: 403; another host: 421; before any of the protocol."""
    async with served(project) as url:
        async with httpx2.AsyncClient() as http:
            key = {"authorization": f"Bearer {KEY}"}
            for headers, status in (
                ({}, 401),
                ({**key, "origin": "https://evil.test"}, 403),
                ({**key, "host": "evil.test"}, 421),
            ):
                refused = await http.post(url, content=b"\0 no protocol", headers=headers)
                assert refused.status_code == status
                assert "jsonrpc" not in refused.text
        async with over_http(url, mode) as client:
            result = await client.call_tool("devis", {"message": "Quel prix ?"})
    assert text_of(result) == ANSWER


async def test_every_door_writes_the_same_events(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question leaves the same facts through Python, REST, MCP and the command line."""
    project.tools = ["prix_ttc", "lire"]
    seen: dict[str, list[str]] = {}

    def fresh(name: str) -> Project:
        found = Project(tmp_path / name, tools=project.tools)
        found.folder.mkdir()
        monkeypatch.chdir(found.folder)
        return found.save()

    def note(name: str, at: Project) -> None:
        (path,) = at.data.rglob("*.jsonl")
        seen[name] = [json.loads(line)["type"] for line in path.read_text().splitlines()]

    at = fresh("python")
    async with at.loom() as loom:
        await loom.run("devis", "Quel prix ?")
    note("python", at)
    at = fresh("commande")
    assert at.command("run", "devis", "Quel prix ?").returncode == 0
    note("commande", at)
    for mode in GENERATIONS:
        at = fresh(f"stdio-{mode}")
        async with over_stdio(at, mode) as client:
            await client.call_tool("devis", {"message": "Quel prix ?"})
        note(f"stdio-{mode}", at)
        at = fresh(f"http-{mode}")
        async with served(at) as url, over_http(url, mode) as client:
            await client.call_tool("devis", {"message": "Quel prix ?"})
        note(f"http-{mode}", at)
    at = fresh("rest")
    async with served(at) as url, httpx2.AsyncClient() as http:
        address = f"{url.removesuffix('/mcp')}/v1/agents/devis/runs"
        headers = {"authorization": f"Bearer {KEY}"}
        answer = await http.post(address, json={"message": "Quel prix ?"}, headers=headers)
        assert answer.status_code == 201
    note("rest", at)
    assert len(seen["python"]) > 8
    assert [name for name, types in seen.items() if types != seen["python"]] == []
