"""The journal as documents: what each address gives, to whom."""

import json
from importlib import util

import pytest

from loom_ia.access.mcp_server import resources
from loom_ia.access.mcp_server.extra import require_mcp
from loom_ia.access.mcp_server.resources import NoSuchResource, TooLarge, read_resource
from loom_ia.access.portal import Portal, Wanted
from loom_ia.core.errors import CallerError, Forbidden
from loom_ia.core.model.scopes import SCOPES
from loom_ia.tenancy.visitor import Visitor
from tests.acceptance.project import ANSWER, Project
from tests.pictures import png

ALL = Visitor("essai", frozenset(SCOPES))
READS = Visitor("lecteur", frozenset({"read"}))


async def test_each_address_gives_its_document(project: Project) -> None:
    """Runs, events, traces, sessions and files are there under their addresses."""
    async with project.loom() as loom:
        portal = Portal(loom, ALL, "mcp")
        wanted = Wanted("devis", "Quel prix ?", "chantier", "r1", attachments=[png()])
        result = await portal.run(wanted)
        (file,) = result.artifacts

        async def read(uri: str) -> str:
            content = (await read_resource(portal, uri)).content
            assert isinstance(content, str)
            return content

        assert json.loads(await read("loom://runs"))["runs"][0]["run_id"] == "r1"
        assert json.loads(await read("loom://runs/r1"))["text"] == ANSWER
        assert json.loads(await read("loom://runs/r1?session_id=chantier"))["text"] == ANSWER
        events = (await read("loom://runs/r1/events")).splitlines()
        assert json.loads(events[-1])["type"] == "run.completed"
        assert await read("loom://sessions/chantier/events") == "\n".join([*events, ""])
        assert json.loads(await read("loom://traces/r1"))["run_id"] == "r1"
        assert json.loads(await read("loom://sessions"))[0]["session_id"] == "chantier"
        assert json.loads(await read("loom://sessions/chantier"))["runs"][0]["run_id"] == "r1"
        end = file.uri.partition("//")[2]
        for uri in (file.uri, f"loom://artifacts/{end}"):
            found = await read_resource(portal, uri)
            assert (found.content, found.mime_type) == (png(), "image/png")
        masked = Portal(loom, READS, "mcp")
        for uri in ("loom://runs/r1", "loom://runs/r1/events", "loom://sessions/chantier/events"):
            assert "1 375" not in str((await read_resource(masked, uri)).content)
        with pytest.raises(Forbidden):
            await read_resource(masked, file.uri)


@pytest.mark.parametrize(
    "uri",
    [
        "loom://runs/inconnu",
        "loom://runs/r1/autre",
        "loom://runs/r1/events/1",
        "loom://runs/r1?autre=1",
        "loom://runs/r1?session_id=a&session_id=b",
        "loom://runs/r1#a",
        "loom://runs/..%2f..%2fetc",
        "loom://runs/",
        "loom://traces",
        "loom://sessions/inconnue",
        "loom://sessions//events",
        "loom://sessions/%2fstore/events",
        "loom://autre",
        "loom:runs",
        "loom://artifacts/dupont/r1/a.png",
        "artifact://default/r1/../../x",
        "file:///etc/passwd",
        "http://[",
        "",
    ],
)
async def test_what_is_not_there_is_said_to_be_so(project: Project, uri: str) -> None:
    """An address that leads nowhere is no resource, whatever is wrong with it."""
    async with project.loom() as loom:
        portal = Portal(loom, ALL, "mcp")
        await portal.run(Wanted("devis", "Quel prix ?", run_id="r1"))
        with pytest.raises(NoSuchResource):
            await read_resource(portal, uri)


async def test_a_document_is_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than a client should be sent is refused, not cut."""
    monkeypatch.setattr(resources, "MAX_BYTES", 100)
    async with project.loom() as loom:
        portal = Portal(loom, ALL, "mcp")
        await portal.run(Wanted("devis", "Quel prix ?", run_id="r1"))
        with pytest.raises(TooLarge):
            await read_resource(portal, "loom://runs/r1/events")


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the protocol, what is to be installed is said."""
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    monkeypatch.setattr("loom_ia.access.mcp_server.extra.find_spec", lambda name: None)
    with pytest.raises(CallerError, match=r"loom-ia\[mcp\]"):
        require_mcp()
