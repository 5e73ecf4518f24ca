"""D. Files that come with a request."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access import Attachment, Loom
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.core.errors import AttachmentRefused, RunExists
from loom_ia.core.events import Event
from loom_ia.core.events.message import UserMessage
from loom_ia.core.model.content import ArtifactBlock, TextBlock
from loom_ia.core.state.run import Status
from tests.acceptance.project import Project, call, calling
from tests.acceptance.provided import APIS, Api, entry, loom_of, of, provided
from tests.acceptance.recording import Recorder
from tests.pictures import gif, jpeg, png
from tests.providers.server import Called, Fails, Provider, Says

SEES: dict[str, Any] = {"capabilities": {"vision": True}}
PHOTO = png(3, 2)
PHOTO_64 = b64encode(PHOTO).decode()
every_api = pytest.mark.parametrize("api", APIS)


def stored(project: Project) -> list[Path]:
    """List all that is on the disk of the project."""
    return [path for path in project.data.rglob("*") if path.is_file()]


def images(body: Any) -> list[str]:
    """Give the images that a request shows, wherever its format puts them, in base64."""
    match body:
        case {"type": "image", "source": {"data": data}}:
            return [data]
        case {"type": "image_url", "image_url": {"url": url}}:
            return [url.partition("base64,")[2]]
        case {"type": "input_image", "image_url": url}:
            return [url.partition("base64,")[2]]
        case dict():
            return [found for value in body.values() for found in images(value)]
        case list():
            return [found for value in body for found in images(value)]
        case _:
            return []


@every_api
async def test_d8_a_model_that_sees_is_given_the_photo(
    project: Project, provider: Provider, api: Api
) -> None:
    """The request holds the bytes of the image in base64, beside what was asked."""
    provided(project, entry(api, provider, **SEES))
    provider.reply(Says("Un chantier."), Says("Trois pixels."))
    async with loom_of(project) as loom:
        photo = Attachment(PHOTO, "chantier.png")
        result = await loom.run("devis", "Décris.", session_id="s", attachments=[photo])
        assert result.text == "Un chantier.", result.error
        await loom.run("devis", "Et sa largeur ?", session_id="s")
    first, second = provider.requests
    assert images(first.body) == [PHOTO_64]
    assert "Décris." in first.raw.decode("unicode_escape", "replace") or "Décris." in str(
        first.body
    )
    assert images(second.body) == [PHOTO_64]


@every_api
async def test_a_model_that_does_not_see_reads_the_name(
    project: Project, provider: Provider, api: Api
) -> None:
    """A model without vision, or whose limit is lower, is told that there is a file."""
    provided(project, entry(api, provider))
    provider.reply(Says("Je ne vois rien."), Says("Rien non plus."))
    async with loom_of(project) as loom:
        await loom.run("devis", "Décris.", attachments=[Attachment(PHOTO, "chantier.png")])
    small: dict[str, Any] = {"capabilities": {"vision": True, "max_image_bytes": 10}}
    provided(project, entry(api, provider, **small))
    async with loom_of(project) as loom:
        await loom.run("devis", "Décris.", attachments=[Attachment(PHOTO, "chantier.png")])
    for request in provider.requests:
        assert images(request.body) == []
        assert "chantier.png" in str(request.body)
        assert PHOTO_64 not in str(request.body)


async def test_a_fallback_is_given_what_it_can_read(project: Project, provider: Provider) -> None:
    """When a model that sees gives way to one that does not, the run goes on with the name."""
    provided(
        project,
        entry("anthropic", provider, **SEES, retry={"max_attempts": 1}),
        entry("chat", provider, model_id="AUTRE"),
    )
    provider.reply(Fails(500), Says("Je lis un nom."))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Décris.", attachments=[Attachment(PHOTO, "p.png")])
    assert result.text == "Je lis un nom.", result.error
    assert [len(images(request.body)) for request in provider.requests] == [1, 0]


async def test_an_attachment_opens_the_run_with_it(project: Project) -> None:
    """The files stand before the message that shows them, and their bytes nowhere."""
    photo = project.folder / "chantier.png"
    photo.write_bytes(PHOTO)
    async with project.loom() as loom:
        given = [photo, Attachment(jpeg(), "vue.jpg"), Attachment(PHOTO, "encore.png")]
        result = await loom.run("devis", "Décris.", run_id="r", session_id="s", attachments=given)
        events = await loom.events("r")
        info = await loom.session("s")
    assert [event.type for event in events[:5]] == [
        *("run.started", "artifact.stored", "artifact.stored", "message.user", "run.claimed"),
    ]
    uri = f"artifact://default/s/{sha256(PHOTO).hexdigest()}.png"
    assert [event.facets["origin"] for event in events[1:3]] == ["attachment", "attachment"]
    assert {event.span_id for event in events[1:3]} == {"r"}
    (asked,) = of(events, UserMessage)
    text, first, second = asked.message.blocks
    assert text == TextBlock(text="Décris.")
    assert first == ArtifactBlock(
        uri=uri, media_type="image/png", size=len(PHOTO), name="chantier.png"
    )
    assert isinstance(second, ArtifactBlock)
    assert second.name == "vue.jpg"
    assert [(a.uri, a.origin) for a in result.artifacts] == [
        (uri, "attachment"),
        (second.uri, "attachment"),
    ]
    assert info.artifacts == result.artifacts
    assert PHOTO not in (project.data / "default" / "s.jsonl").read_bytes()


class Batches(MemoryJournal):
    """A journal that remembers what was written together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def append(self, batch: Sequence[Event], *, expected: int, sync: bool):
        """Remember, then write."""
        self.batches.append([event.type for event in batch])
        return await super().append(batch, expected=expected, sync=sync)


async def test_what_opens_a_run_is_one_batch(project: Project) -> None:
    """The files, the message and the lease are written together or not at all."""
    store = Batches()
    async with project.loom(store=store) as loom:
        await loom.submit("devis", "Décris.", attachments=[PHOTO, jpeg()])
        assert store.batches[0] == [
            *("run.started", "artifact.stored", "artifact.stored", "message.user", "run.claimed")
        ]


async def test_a_file_says_it_all(project: Project) -> None:
    """Without a word, what is asked is the file alone: no empty text goes anywhere."""
    model = Recorder({"text": "Un point."})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "  ", attachments=[PHOTO])
    (message,) = model.requests[0].messages
    assert [type(block) for block in message.blocks] == [ArtifactBlock]
    assert result.status is Status.COMPLETED


async def test_attachments_are_read_where_the_run_is(project: Project) -> None:
    """The trace, the list of files and the deletion of a session know what was attached."""
    async with project.loom() as loom:
        photo = Attachment(PHOTO, "chantier.png")
        run_id = await loom.submit("devis", "Décris.", session_id="s", attachments=[photo])
        await loom.drain()
        (file,) = (await loom.result(run_id)).artifacts
        assert await loom.artifact(file.uri) == PHOTO
        trace = await loom.trace(run_id)
        assert trace.artifacts == (file,)
        line = f"  attached  : chantier.png (image/png, {len(PHOTO)} bytes)"
        assert str(trace).splitlines()[1] == line
    listed = project.command("sessions", "files", "s", "--origin", "attachment")
    assert "chantier.png" in listed.stdout
    copied = project.command("sessions", "files", "s", "--out", "copie")
    assert copied.returncode == 0, copied.stderr
    assert (project.folder / "copie" / "chantier.png").read_bytes() == PHOTO
    async with project.loom() as loom:
        assert (await loom.delete_session("s")).artifacts == 1
    assert stored(project) == []


async def test_a_stream_takes_attachments(project: Project) -> None:
    """What is followed as it happens is opened in the same way."""
    async with project.loom() as loom:
        items = [item async for item in loom.stream("devis", "Décris.", attachments=[PHOTO])]
    (asked,) = of(items, UserMessage)
    assert isinstance(asked.message.blocks[-1], ArtifactBlock)


async def test_a_run_that_goes_on_still_has_its_photo(project: Project, provider: Provider) -> None:
    """A run that waits, and is resumed by another instance, shows the same image again."""
    project.tools = ["relancer"]
    provided(project, entry("anthropic", provider, **SEES), tools=[{"python": "relancer"}])
    provider.reply(Says(calls=[Called("relancer", {"texte": "x"})]), Says("Relancé."))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Décris.", run_id="r", attachments=[PHOTO])
        assert result.status is Status.PAUSED
    async with loom_of(project) as loom:
        await loom.approve("r", resume=False)
        result = await loom.resume("r")
        assert result.text == "Relancé.", result.error
        assert [a.origin for a in result.artifacts] == ["attachment"]
    assert [images(request.body) for request in provider.requests] == [[PHOTO_64], [PHOTO_64]]


FALSE = Attachment(b"Bonjour, je suis un texte.", "lettre.png")
LARGE = Attachment(png(size=6 * 1024 * 1024), "grande.png")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([FALSE], ["lettre.png: its first bytes are those of no known image"]),
        ([LARGE], ["grande.png: it has 6291456 bytes, and at most 5242880 are accepted"]),
        ([png(n + 1) for n in range(11)], ["attachments: there are 11 files, and at most 10"]),
        (
            [PHOTO, FALSE, LARGE],
            ["lettre.png: its first bytes", "grande.png: it has 6291456 bytes"],
        ),
    ],
    ids=["a text renamed", "six mebibytes", "eleven files", "one of each, after a good one"],
)
async def test_d9_a_refused_attachment_writes_nothing(
    project: Project, given: list[Attachment], told: list[str]
) -> None:
    """Nothing is in the journal nor in the store of files, and each file is named."""
    async with project.loom() as loom:
        for open_run in (loom.run, loom.submit):
            with pytest.raises(AttachmentRefused) as refused:
                await open_run("devis", "Décris.", session_id="s", attachments=given)
            lines = str(refused.value).splitlines()
            assert len(lines) == len(told)
            assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))
        with pytest.raises(AttachmentRefused):
            await anext(loom.stream("devis", "Décris.", attachments=given))
        assert await loom.sessions() == ()
    assert stored(project) == []


async def test_a_run_that_exists_leaves_no_file(project: Project) -> None:
    """What is refused for another reason keeps nothing of what was attached either."""
    async with project.loom() as loom:
        await loom.run("devis", "Bonjour.", run_id="r")
        with pytest.raises(RunExists):
            await loom.run("devis", "Décris.", run_id="r", attachments=[PHOTO])
        assert (await loom.session("r")).artifacts == ()
    assert not (project.data / ".artifacts").exists()


async def test_the_limits_are_those_of_the_configuration(project: Project) -> None:
    """`execution.attachments` says what is accepted."""
    project.execution = {"attachments": {"max_bytes": 200, "types": ["image/gif"], "max_files": 1}}
    project.save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Décris.", attachments=[gif()])
        assert [a.media_type for a in result.artifacts] == ["image/gif"]
        for given in ([PHOTO], [gif(), gif(b"GIF87a")], [gif() + bytes(200)]):
            with pytest.raises(AttachmentRefused):
                await loom.run("devis", "Décris.", attachments=given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"types": ["image/bmp"]},
        {"types": []},
        {"max_bytes": 0},
        {"max_files": -1},
        {"max_file": 3},
    ],
)
def test_limits_that_cannot_be_are_refused_at_load(project: Project, wrong: dict[str, Any]) -> None:
    """Only the known images may be listed, and numbers are of something."""
    project.execution = {"attachments": wrong}
    project.save()
    checked = project.command("validate")
    assert checked.returncode != 0
    assert f"execution.attachments.{next(iter(wrong))}" in checked.stderr + checked.stdout


def test_the_command_attaches(project: Project) -> None:
    """`--attach` may be given again; a refusal names the file and exits with 2."""
    (project.folder / "a.png").write_bytes(PHOTO)
    (project.folder / "b.jpg").write_bytes(jpeg())
    (project.folder / "faux.png").write_text("texte")
    project.script = [calling(call("prix_ttc", montant_ht=1.0)), {"text": "Vu."}]
    project.save()
    words = ("run", "devis", "", "--attach", "a.png", "--attach", "b.jpg", "--run-id", "r")
    seen = project.command(*words, "--json")
    assert seen.returncode == 0, seen.stderr
    assert '"origin": "attachment"' in seen.stdout
    read = project.command("inspect", "r")
    assert "attached  : a.png (image/png" in read.stdout
    assert "attached  : b.jpg (image/jpeg" in read.stdout
    streamed = project.command("run", "devis", "Décris.", "--attach", "a.png", "--stream")
    assert streamed.returncode == 0, streamed.stderr
    refused = project.command(
        *("run", "devis", "Décris.", "--attach", "faux.png", "--attach", "absent.png"),
        *("--run-id", "r2"),
    )
    assert refused.returncode == 2
    assert "Error      : faux.png: its first bytes are those of no known image" in refused.stderr
    assert "Error      : absent.png: there is no such file" in refused.stderr
    assert project.command("inspect", "r2").returncode == 2
    assert len([p for p in stored(project) if ".artifacts" in p.parts]) == 3
    assert project.command("run", "devis", "  ").returncode == 2
