"""Files that come with a call: what is read, and what never is."""

import asyncio
import json
import os
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access.mcp_server.arguments import AgentArguments, read_arguments
from loom_ia.access.mcp_server.attachments import Shelf, resolved_roots
from loom_ia.access.portal import Portal, Wanted
from loom_ia.core.errors import AttachmentRefused
from loom_ia.core.model.scopes import SCOPES
from loom_ia.tenancy.visitor import Visitor
from tests.acceptance.project import Project, call, calling
from tests.access.mcp_server.clients import GENERATIONS, content_of, over_stdio, text_of
from tests.pictures import png

PHOTO = png(3, 2)
OUTSIDE = "server.mcp.file_roots"
ALL = Visitor("essai", frozenset(SCOPES))


@pytest.fixture
def allowed(project: Project) -> Path:
    """A folder that the configuration allows, beside one that it does not."""
    folder = project.folder / "photos"
    folder.mkdir()
    (folder / "chantier.png").write_bytes(PHOTO)
    (project.folder / "secrets").mkdir()
    (project.folder / "secrets" / "privé.png").write_bytes(PHOTO)
    project.root = {"server": {"mcp": {"file_roots": ["photos"]}}}
    project.script = [{"text": "Vu."}] * 3
    project.save()
    return folder


def link(uri: str, **more: Any) -> dict[str, Any]:
    """Write a link as a client gives it."""
    return {"type": "resource_link", "uri": uri, **more}


async def gather(shelf: Shelf, *given: dict[str, Any]) -> list[bytes]:
    """Read attachments as a call does."""
    asked = read_arguments(AgentArguments, {"message": "m", "attachments": list(given)})
    found = await shelf.gather(asked.attachments)
    return [bytes(each.data or b"") for each in found]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_an_image_and_a_file_that_is_allowed_reach_the_run(
    project: Project, allowed: Path, mode: str
) -> None:
    """Bytes in base64, a file under a root and a file that was kept before are all attached."""
    image = {"type": "image", "data": b64encode(PHOTO).decode(), "mimeType": "image/png"}
    async with over_stdio(project, mode) as client:
        first = await client.call_tool(
            "devis",
            {"message": "Regarde", "attachments": [{**image, "name": "a.png"}]},
        )
        kept = first.structured_content["artifacts"][0]["uri"]
        ways = [kept, kept.replace("artifact://", "loom://artifacts/")]
        for uri in (*ways, (allowed / "chantier.png").as_uri()):
            seen = await client.call_tool("devis", {"message": "Et là", "attachments": [link(uri)]})
            assert text_of(seen) == "Vu.", uri
            (file,) = seen.structured_content["artifacts"]
            assert (file["size"], file["media_type"]) == (len(PHOTO), "image/png")
        again = await client.read_resource(ways[1])
        assert content_of(again) == b64encode(PHOTO).decode()


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_what_is_outside_is_never_read(project: Project, allowed: Path, mode: str) -> None:
    """Paths that lead outside are refused, in the words of those that are not there."""
    secret = project.folder / "secrets" / "privé.png"
    (allowed / "lien.png").symlink_to(secret)
    (allowed / "dossier").symlink_to(secret.parent)
    (allowed / "perdu.png").symlink_to(project.folder / "secrets" / "rien.png")
    outside = [
        secret.as_uri(),
        (project.folder / "secrets" / "rien.png").as_uri(),
        (allowed / "lien.png").as_uri(),
        (allowed / "dossier" / "privé.png").as_uri(),
        (allowed / "perdu.png").as_uri(),
        f"file://{allowed}/../secrets/priv%C3%A9.png",
        f"file://{allowed}/%2e%2e/secrets/priv%C3%A9.png",
        f"file://{allowed}",
        f"file://{allowed}-autre/a.png",
        "file:///etc/passwd",
        "file:///proc/self/environ",
        f"file://ailleurs{allowed}/chantier.png",
        f"file://{allowed}/chantier.png%00.png",
        f"file://{allowed}/chantier.png?a",
        "file:chantier.png",
        "FILE:///etc/passwd",
    ]
    async with over_stdio(project, mode) as client:
        told = set()
        for uri in outside:
            refused = await client.call_tool(
                "devis", {"message": "Regarde", "attachments": [link(uri)]}
            )
            assert refused.is_error, uri
            assert OUTSIDE in text_of(refused), uri
            told.add(text_of(refused).partition(": ")[2])
        runs = json.loads(content_of(await client.read_resource("loom://runs")))
    assert len(told) == 1
    assert runs["runs"] == []


async def test_a_link_that_stays_inside_is_followed(project: Project, allowed: Path) -> None:
    """A link from one allowed file to another one is the file; so is a root that is a link."""
    (allowed / "autre.png").symlink_to(allowed / "chantier.png")
    (project.folder / "racine").symlink_to(allowed)
    async with project.loom() as loom:
        portal = Portal(loom, ALL, "mcp")
        shelf = Shelf(portal, resolved_roots([project.folder / "racine"]), 1_000_000)
        assert await gather(shelf, link((allowed / "autre.png").as_uri())) == [PHOTO]
        by_link = (project.folder / "racine" / "chantier.png").as_uri()
        assert await gather(shelf, link(by_link)) == [PHOTO]
        none = Shelf(portal, (), 1_000_000)
        with pytest.raises(AttachmentRefused, match=OUTSIDE):
            await gather(none, link((allowed / "chantier.png").as_uri()))


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
async def test_what_is_no_plain_file_is_not_opened(
    project: Project, allowed: Path, kind: str
) -> None:
    """A pipe, a folder and a device under a root are refused at once."""
    path = allowed / "chose"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    async with project.loom() as loom:
        shelf = Shelf(Portal(loom, ALL, "mcp"), resolved_roots([allowed]), 1_000_000)
        with pytest.raises(AttachmentRefused):
            await asyncio.wait_for(gather(shelf, link(path.as_uri())), 10)


async def test_a_path_that_changes_meanwhile_leads_nowhere_else(
    project: Project, allowed: Path
) -> None:
    """While a folder and a link to a secret one are swapped, the secret is never read."""
    (project.folder / "secrets" / "photo.png").write_bytes(b"secret")
    inside, trap = allowed / "album", allowed / "album-piège"
    inside.mkdir()
    (inside / "photo.png").write_bytes(PHOTO)
    trap.symlink_to(project.folder / "secrets")
    over = threading.Event()

    def swap() -> None:
        spare = allowed / "tiers"
        while not over.is_set():
            for one, other in ((inside, spare), (trap, inside), (spare, trap)):
                one.rename(other)

    swapping = threading.Thread(target=swap)
    read: list[bytes] = []
    async with project.loom() as loom:
        shelf = Shelf(Portal(loom, ALL, "mcp"), resolved_roots([allowed]), 1_000_000)
        swapping.start()
        try:
            for _ in range(2_000):
                try:
                    read += await gather(shelf, link((inside / "photo.png").as_uri()))
                except AttachmentRefused:
                    continue
        finally:
            over.set()
            swapping.join()
    assert read
    assert set(read) == {PHOTO}


async def test_kept_files_are_those_of_the_visitor(project: Project, allowed: Path) -> None:
    """A file of another client, or of a session that he may not read, is not attached."""
    del allowed
    project.script = [{"text": "Vu."}]
    project.save()
    async with project.loom() as loom:
        mine = Portal(loom, ALL, "mcp")
        wanted = Wanted("devis", "Regarde", run_id="r1", attachments=[PHOTO])
        (file,) = (await mine.run(wanted)).artifacts
        end = file.uri.partition("default/")[2]
        shelf = Shelf(mine, (), 1_000_000)
        assert await gather(shelf, link(file.uri)) == [PHOTO]
        for uri in (
            f"artifact://dupont/{end}",
            file.uri.replace("/r1/", "/r2/"),
            f"artifact://default/r1/{'0' * 64}.png",
            "artifact://default/../r1",
            "artifact://",
        ):
            with pytest.raises(AttachmentRefused):
                await gather(shelf, link(uri))
        for visitor in (
            Visitor("k", frozenset({"run", "read"})),
            Visitor("k", frozenset(SCOPES), frozenset({"autre"})),
        ):
            with pytest.raises(AttachmentRefused):
                await gather(Shelf(Portal(loom, visitor, "mcp"), (), 1_000_000), link(file.uri))


@pytest.mark.parametrize(
    "uri", ["https://a.test/a.png", "http://127.0.0.1/a", "data:image/png;base64,AA", "loom://runs"]
)
async def test_nothing_is_fetched(project: Project, allowed: Path, uri: str) -> None:
    """Links of other kinds are refused, with what may be given instead."""
    del allowed
    async with project.loom() as loom:
        shelf = Shelf(Portal(loom, ALL, "mcp"), (), 1_000_000)
        with pytest.raises(AttachmentRefused, match="artifact://"):
            await gather(shelf, link(uri))


async def test_every_fault_is_told_at_once(project: Project, allowed: Path) -> None:
    """Three files that cannot be read give three lines."""
    async with over_stdio(project, "auto") as client:
        refused = await client.call_tool(
            "devis",
            {
                "message": "Regarde",
                "attachments": [
                    link("https://a.test/a.png"),
                    link((allowed / "rien.png").as_uri()),
                    {"type": "image", "data": "§", "name": "b.png"},
                ],
            },
        )
        text = await client.call_tool(
            "devis",
            {
                "message": "Regarde",
                "attachments": [{"type": "image", "data": b64encode(b"texte").decode()}],
            },
        )
    assert len(text_of(refused).splitlines()) == 3
    assert text.is_error
    assert "image" in text_of(text)


async def test_files_that_an_agent_makes_are_linked(project: Project) -> None:
    """What a tool makes comes as a link that the client can read."""
    project.more_tools = '''
from loom_ia.core.model.artifacts import NewFile
from loom_ia.core.model.content import ToolOutput


@tool
def dessine() -> ToolOutput:
    """Dessine."""
    plan = NewFile(data=b"%PDF-1", media_type="application/pdf", name="plan.pdf")
    return ToolOutput.of_text("fait").model_copy(update={"files": (plan,)})
'''
    project.tools = ["dessine"]
    project.script = [calling(call("dessine")), {"text": "Voilà."}]
    project.save()
    async with over_stdio(project, "auto") as client:
        result = await client.call_tool("devis", {"message": "Dessine"})
        assert text_of(result) == "Voilà.", result
        (linked,) = [c for c in result.content if c.type == "resource_link"]
        assert linked.uri.startswith("loom://artifacts/default/")
        assert linked.name == "plan.pdf"
        read = await client.read_resource(linked.uri)
    assert content_of(read) == b64encode(b"%PDF-1").decode()
