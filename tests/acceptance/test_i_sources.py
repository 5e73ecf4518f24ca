"""I. Tools of MCP servers and of installed packages."""

import sys
from pathlib import Path

import pytest

from loom_ia.core.errors import ConfigError
from loom_ia.core.events import SourceUnavailable, ToolCompleted, ToolWithheld
from loom_ia.core.state.run import Status
from tests.acceptance.project import Project, call, calling
from tests.acceptance.sources import Server, definition, install, unreachable

CARNET = '''\
from pathlib import Path

from loom_ia.tools import tool


def make(*, name, params, secrets, base_dir):
    """Makes the tools of a notebook."""
    file = Path(base_dir) / params["fichier"]

    @tool(side_effects="reversible")
    def noter(texte: str) -> str:
        """Note un texte."""
        file.write_text(texte)
        return f"{name}: {secrets['CARNET_CLE']}"

    return [noter]
'''


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """A server of its own for the test."""
    return Server(tmp_path / "serveur")


def using(project: Project, server: dict, **reference: object) -> Project:
    """Have the agent use a server."""
    project.root["mcp_servers"] = [server]
    project.tools = [{"mcp": server["name"], **reference}]
    return project


@pytest.mark.parametrize(("scope", "starts"), [("shared", 1), ("tenant", 1), ("run", 2)])
async def test_i15_scope(project: Project, server: Server, scope: str, starts: int) -> None:
    """Two runs: one connection for all, or one for each."""
    project.script = [calling(call("crm__chercher")), {"text": "Fait."}]
    using(project, server.entry(scope=scope)).save()
    async with project.loom() as loom:
        for _ in range(2):
            result = await loom.run("devis", "Cherche.")
            assert (result.status, result.text) == (Status.COMPLETED, "Fait.")
    assert len(server.noted("calls")) == 2
    assert len(server.noted("starts")) == starts


@pytest.mark.parametrize("required", [False, True])
async def test_i16_unreachable(project: Project, required: bool) -> None:
    """The run goes on without its tools, or fails and says so; the session stays as it was."""
    project.script = [{"text": "Fait."}]
    project.save()
    async with project.loom() as loom:
        before = await loom.run("devis", "Bonjour.", session_id="s")
        history = await loom.events(before.run_id)
    using(project, unreachable(), required=required).save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Encore.", session_id="s")
        events = await loom.events(result.run_id)
        assert await loom.events(before.run_id) == history
    (lost,) = [e.payload for e in events if isinstance(e.payload, SourceUnavailable)]
    assert (lost.source, lost.required) == ("crm", required)
    assert "no-such-program-at-all" in lost.error
    assert result.status is (Status.FAILED if required else Status.COMPLETED)
    if required:
        assert result.error_type == "tool.source_unavailable"


async def test_i16_the_server_is_back(project: Project, server: Server) -> None:
    """A run that failed for want of a server is resumed once it is there."""
    project.script = [calling(call("crm__chercher")), {"text": "Fait."}]
    using(project, unreachable(), required=True).save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Cherche.")
    using(project, server.entry(), required=True).save()
    async with project.loom() as loom:
        result = await loom.resume(result.run_id)
    assert (result.status, result.text) == (Status.COMPLETED, "Fait.")


async def test_i18_entry_point(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package is imported when an agent uses it, and not before; its tools are like others."""
    install(tmp_path, monkeypatch, "carnet_i18", CARNET, entry_point="carnet")
    monkeypatch.setenv("CARNET_CLE", "clé")
    source = {"name": "notes", "entry_point": "carnet", "params": {"fichier": "carnet.txt"}}
    project.root["tool_sources"] = [source]
    project.save()
    async with project.loom() as loom:
        await loom.run("devis", "Combien ?")
    assert "carnet_i18" not in sys.modules

    project.tools = [{"source": "notes"}]
    project.script = [calling(call("notes__noter", texte="lundi")), {"text": "Noté."}]
    project.save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Note.")
        events = await loom.events(result.run_id)
        called = [e.payload for e in events if isinstance(e.payload, ToolCompleted)]
    assert result.text == "Noté."
    assert called[0].output.text == "notes: clé"
    assert (tmp_path / "carnet.txt").read_text() == "lundi"
    assert "carnet_i18" in sys.modules


def test_i18_validate_lists(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed is told, and the tools of what is used."""
    install(tmp_path, monkeypatch, "carnet_v", CARNET, entry_point="carnet")
    path = str(tmp_path / "site-packages")
    said = project.command("validate", PYTHONPATH=path).stdout
    assert "Sources    : carnet (carnet_v, not used)\n" in said
    project.root["tool_sources"] = [
        {"name": "notes", "entry_point": "carnet", "params": {"fichier": "c"}}
    ]
    project.tools = [{"source": "notes"}]
    project.save()
    done = project.command("validate", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "Sources    : carnet → notes (carnet_v)\n" in said
    assert "notes__noter — reversible\n" in said


@pytest.mark.parametrize(
    ("text", "entry_point", "said"),
    [
        (CARNET, "autre", "no installed package has the entry point carnet in loom_ia.tools"),
        ("import nothing_like_it\n", "carnet", "ModuleNotFoundError: No module named"),
        ("def make(**_):\n    raise ValueError('params')\n", "carnet", "ValueError: params"),
        ("def make(**_):\n    return 3\n", "carnet", "gave a int, not a source of tools"),
        ("make = 3\n", "carnet", "is no function that makes a source"),
    ],
)
def test_i18_a_package_that_is_wrong_is_told(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    entry_point: str,
    said: str,
) -> None:
    """At the place of its entry point, when the agents are made ready."""
    install(tmp_path, monkeypatch, "carnet_w", text, entry_point=entry_point)
    project.root["tool_sources"] = [{"name": "notes", "entry_point": "carnet"}]
    project.tools = [{"source": "notes"}]
    project.save()
    with pytest.raises(ConfigError) as caught:
        project.loom().mount()
    assert "tool_sources[notes].entry_point" in str(caught.value)
    assert said in str(caught.value)


async def test_pub_30_names_that_no_provider_takes(project: Project, server: Server) -> None:
    """They are made legal, are the same after a restart, and lead to the right tool."""
    long = "dossier/facture.été-" + "x" * 70
    server.define(definition(long + "1"), definition(long + "2"), definition("a.b"))
    using(project, server.entry(), alias="c").save()
    shown = []
    for _ in range(2):
        done = project.command("validate", "--connect")
        assert done.returncode == 0, done.stderr
        said = done.stdout
        lines = [line.strip() for line in said.splitlines() if " ← " in line]
        shown.append([tuple(line.split(" — ")[0].split(" ← ")) for line in lines])
    assert shown[0] == shown[1]
    assert [own for _, own in shown[0]] == [long + "1", long + "2", "a.b"]
    names = [name for name, _ in shown[0]]
    assert len(set(names)) == 3
    assert all(len(name) <= 64 and name.isascii() and "." not in name for name in names)
    project.script = [calling(call(names[1])), {"text": "Fait."}]
    project.save()
    async with project.loom() as loom:
        assert (await loom.run("devis", "Va.")).status is Status.COMPLETED
    assert [each["name"] for each in server.noted("calls")] == [long + "2"]


async def test_pub_31_one_bad_tool_hides_no_other(project: Project, server: Server) -> None:
    """A schema that cannot be used keeps one tool away, and the journal says so."""
    bad = {"name": "mauvais", "description": "d", "inputSchema": {"type": "array"}}
    server.define(bad, definition("chercher"))
    project.script = [calling(call("crm__chercher")), {"text": "Fait."}]
    using(project, server.entry()).save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Cherche.")
        events = await loom.events(result.run_id)
    assert result.status is Status.COMPLETED
    assert len(server.noted("calls")) == 1
    (kept_back,) = [e.payload for e in events if isinstance(e.payload, ToolWithheld)]
    assert (kept_back.source, kept_back.tool) == ("crm", "mauvais")


async def test_pub_45_one_broken_server_among_others(project: Project, server: Server) -> None:
    """The others are used, and the run ends well."""
    project.script = [calling(call("crm__chercher")), {"text": "Fait."}]
    project.root["mcp_servers"] = [unreachable("casse"), server.entry()]
    project.tools = [{"mcp": "casse"}, {"mcp": "crm"}]
    project.save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Cherche.")
    assert (result.status, result.text) == (Status.COMPLETED, "Fait.")
    assert len(server.noted("calls")) == 1


async def test_a_contract_holds_for_a_tool_of_a_server(project: Project, server: Server) -> None:
    """What it gives is looked at, under the contract of its server's entry."""
    entry = server.entry(tools={"chercher": {"output": {"must_match": "jamais"}}})
    project.script = [calling(call("crm__chercher")), {"text": "Fait."}]
    using(project, entry).save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Cherche.")
        events = await loom.events(result.run_id)
    assert any(event.type == "guard.checked" for event in events)


def test_a_secret_that_is_missing_is_named(project: Project, server: Server) -> None:
    """With its server, before anything is started."""
    using(project, server.entry(env_from={"TOKEN": "CRM_TOKEN"})).save()
    with pytest.raises(ConfigError, match=r"CRM_TOKEN is not defined.*server crm"):
        project.loom().mount()
    assert server.noted("starts") == []
