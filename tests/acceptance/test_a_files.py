"""A. Files that tools make, and results too large to be shown whole."""

from hashlib import sha256

from loom_ia.access import Loom
from tests.acceptance.project import Project, call, calling
from tests.acceptance.recording import Recorder

TOOLS = '''

@tool
def longue(n: int) -> str:
    """Rend n caractères."""
    return "a" * (n - 1) + "z"


@tool
def liste(n: int) -> list[dict[str, int]]:
    """Rend n lignes."""
    return [{"ligne": i} for i in range(n)]


@tool
def fiche(n: int) -> dict[str, str]:
    """Rend n champs."""
    return {f"champ{i}": "v" * 1000 for i in range(n)}


@tool
def photo() -> bytes:
    """Rend une image."""
    return b"\\x89PNG\\r\\n\\x1a\\n" + b"0" * 100


@tool
def documents() -> list[File]:
    """Rend deux fichiers."""
    return [File(b"%PDF-1.7 ...", name="devis.pdf"), File(b"a;b", "lignes.csv", "text/csv")]
'''
IMPORT = "from loom_ia.tools import File, ToolError, tool"
NAMES = ["longue", "liste", "fiche", "photo", "documents"]


def project_with_files(project: Project) -> Project:
    """Give the agent tools whose results are files, or large."""
    project.more_tools = TOOLS
    project.tools = list(NAMES)
    project.save()
    outils = project.folder / "outils.py"
    source = outils.read_text().replace("from loom_ia.tools import ToolError, tool", IMPORT)
    outils.write_text(source)
    return project


async def test_a14_a_large_result_is_put_away(project: Project) -> None:
    """The model reads the beginning and an address, and may then read any part of the rest."""
    project_with_files(project)
    model = Recorder(
        calling(call("longue", n=60_000)),
        calling(call("artifact_read", ref="REF", offset=50_000)),
        {"text": "fini"},
    )
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Lis.")
        events = await loom.events(result.run_id)
        (stored,) = [event for event in events if event.type == "artifact.stored"]
        assert stored.facets["origin"] == "offload"
        assert [tool.name for tool in model.requests[0].tools] == NAMES
        assert [tool.name for tool in model.requests[1].tools] == [*NAMES, "artifact_read"]
        shown = model.results(1)[0]
        assert len(shown) < 5000
        assert result.artifacts[0].uri in shown
        assert await loom.artifact(result.artifacts[0].uri) == b"a" * 59_999 + b"z"
        assert "x" * 10 not in model.results(2)[1]


async def test_a14_the_rest_is_read_by_its_address(project: Project) -> None:
    """Reading from the fifty-thousandth character gives the ten thousand that remain."""
    project_with_files(project)
    digest = sha256(b"a" * 59_999 + b"z").hexdigest()
    model = Recorder(
        calling(call("longue", n=60_000)),
        calling(call("artifact_read", ref=f"artifact://default/s/{digest}.txt", offset=50_000)),
        {"text": "fini"},
    )
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Lis.", session_id="s")
        assert result.text == "fini", result.error
        assert model.results(2)[1] == "a" * 9_999 + "z"


async def test_a15_fifty_thousand_characters_are_shown_whole(project: Project) -> None:
    """The limit itself is not over the limit."""
    project_with_files(project)
    model = Recorder(calling(call("longue", n=50_000)), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Lis.")
        assert len(model.results(1)[0]) == 50_000
        assert result.artifacts == ()


async def test_large_documents_show_their_shape(project: Project) -> None:
    """Of a list the first three items are shown, of an object its first twenty keys."""
    project_with_files(project)
    model = Recorder(calling(call("liste", n=10_000), call("fiche", n=60)), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        await loom.run("devis", "Lis.")
    rows, fields = model.results(1)
    assert rows.startswith('[10000]\n{"ligne": 0}\n{"ligne": 1}\n{"ligne": 2}\n')
    assert "champ19: " in fields
    assert "champ20: " not in fields
    assert len(rows) < 5000
    assert len(fields) < 5000


async def test_the_limit_is_the_configuration_s(project: Project) -> None:
    """An agent's reference to a tool has the last word, the execution's setting the first."""
    project.tools = [{"python": "longue", "offload_over": 10}, "liste"]
    project.execution = {"tools": {"offload_over": 20}}
    project.more_tools = TOOLS.replace("list[File]", "str").replace("File(", "str(")
    project.save()
    model = Recorder(calling(call("longue", n=11), call("liste", n=1)), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Lis.")
    assert [artifact.name for artifact in result.artifacts] == ["longue.txt"]


async def test_files_are_kept_outside_the_journal(project: Project) -> None:
    """Files are stored, the model reads their address, and they go with their session."""
    project_with_files(project)
    model = Recorder(calling(call("photo"), call("documents")), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Fais.")
        kinds = sorted((a.media_type, a.name, a.origin) for a in result.artifacts)
        assert kinds == [
            ("application/pdf", "devis.pdf", "tool_output"),
            ("image/png", "", "tool_output"),
            ("text/csv", "lignes.csv", "tool_output"),
        ]
        journal = (project.data / "default" / f"{result.run_id}.jsonl").read_bytes()
        assert b"0" * 100 not in journal
        assert (await loom.delete_session(result.session_id)).artifacts == 3
        assert not list((project.data / ".artifacts" / "default").iterdir())


async def test_a_file_of_another_session_is_unknown(project: Project) -> None:
    """An address is no key: only the files of its own conversation can be read."""
    project_with_files(project)
    model = Recorder(calling(call("longue", n=60_000)), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        other = (await loom.run("devis", "Lis.")).artifacts[0].uri
    spy = Recorder(
        calling(call("longue", n=60_000)),
        calling(call("artifact_read", ref=other)),
        {"text": "fini"},
    )
    async with Loom.from_config(project.file, models={"SIMULE": spy}) as loom:
        await loom.run("devis", "Lis.")
    assert spy.results(2)[1] == f"There is no file {other} in this conversation."
