"""How the files of a conversation are given to a model, seen from Chat Completions."""

from base64 import b64encode
from typing import Any

import pytest

from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.adapters.models.files import MAX_TEXT
from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.core.model import (
    AnyBlock,
    ArtifactBlock,
    Capabilities,
    Message,
    ModelSpec,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import ASKED, asking
from tests.providers.rules import problems_of_chat

PNG = b"\x89PNG\r\n\x1a\n----"
PDF = b"%PDF-1.7 ----"
SEES = {"vision": True, "documents": True}
IMAGE = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"},
}
PAPER = {
    "type": "file",
    "file": {
        "filename": "devis.pdf",
        "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}",
    },
}


class Shelf:
    """A store of files, and the blocks that refer to them."""

    def __init__(self) -> None:
        self.store = MemoryArtifacts()
        self.access = ModelAccess(artifacts=self.store)

    async def put(self, data: bytes, kind: str, name: str) -> ArtifactBlock:
        """Keep a file, and refer to it."""
        uri = await self.store.put("acme", "s1", data, kind)
        return ArtifactBlock(uri=uri, media_type=kind, size=len(data), name=name)

    async def read(self, spec: ModelSpec, *blocks: AnyBlock) -> Any:
        """Give the content of the message with which the user shows them."""
        message = Message(role="user", blocks=(TextBlock(text="Lis."), *blocks))
        return (await self.messages(spec, message))[0]["content"]

    async def messages(self, spec: ModelSpec, *talk: Message) -> Any:
        """Give the messages of a request, which OpenAI takes."""
        body: Any = await ChatModel(spec, self.access).body(asking(spec, *talk))
        assert problems_of_chat(body) == []
        return body["messages"]


def able(**can: Any) -> ModelSpec:
    """Give a model that can do that, and nothing more."""
    return ModelSpec(id="CHAT", sdk="openai", model="chat-m1", capabilities=Capabilities(**can))


def text(written: str) -> dict[str, Any]:
    """Write a part that is text."""
    return {"type": "text", "text": written}


async def test_files_are_given_as_the_api_takes_them() -> None:
    """Images and PDF in data URLs, texts as they are with their name."""
    shelf = Shelf()
    files = (
        await shelf.put(PNG, "image/png", "plan.png"),
        await shelf.put(PDF, "application/pdf", "devis.pdf"),
        await shelf.put("é;1\n".encode(), "Text/CSV; charset=utf-8", "note.csv"),
        ArtifactBlock(uri="artifact://acme/s1/x", media_type="video/mp4", size=9, name="film.mp4"),
    )
    film = "(file film.mp4, video/mp4, 9 bytes: this model cannot read it)"
    assert await shelf.read(able(**SEES), *files) == [
        text("Lis."),
        IMAGE,
        PAPER,
        text("note.csv:\né;1"),
        text(film),
    ]


async def test_a_model_that_cannot_see_reads_names() -> None:
    """The whole is then one text."""
    shelf = Shelf()
    files = (
        await shelf.put(PNG, "image/png", "plan.png"),
        await shelf.put(b"1;2", "text/csv", "note.csv"),
    )
    assert await shelf.read(able(), *files) == (
        "Lis.\n\n(file plan.png, image/png, 12 bytes: this model cannot read it)"
        "\n\n(file note.csv, text/csv, 3 bytes: this model cannot read it)"
    )


async def test_what_a_file_is_counts_and_not_what_it_is_called() -> None:
    """An image is known by its first bytes, however its type was written."""
    shelf = Shelf()
    spec = able(**SEES)
    for kind in ("image/jpeg", "IMAGE/PNG", "image/jpg", "image/webp; q=1"):
        assert await shelf.read(spec, await shelf.put(PNG, kind, "x")) == [text("Lis."), IMAGE]
    named = await shelf.put(PDF, "text/plain", "devis.pdf")
    assert await shelf.read(spec, named) == [text("Lis."), PAPER]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"<svg/>", "image/png", id="no image"),
        pytest.param(b"", "image/png", id="an empty image"),
        pytest.param(b"BM----", "image/bmp", id="an image that it does not take"),
        pytest.param(b"hello", "application/pdf", id="no PDF"),
        pytest.param(PNG, "text/plain", id="an image called a text"),
        pytest.param(b"a" * (MAX_TEXT + 1), "text/plain", id="a text that is too long"),
        pytest.param(b"\xff\xd8\xff" + b"-" * 30, "image/jpeg", id="an image that is too large"),
    ],
)
async def test_what_cannot_be_given_is_named(data: bytes, kind: str) -> None:
    """The model is told that there is a file, and that it cannot read it."""
    shelf = Shelf()
    spec = able(**SEES, max_image_bytes=20)
    content = await shelf.read(spec, await shelf.put(data, kind, "x.y"))
    mention = f"(file x.y, {kind}, {len(data)} bytes: this model cannot read it)"
    assert content == f"Lis.\n\n{mention}"


async def test_a_text_file_is_sent_without_nul() -> None:
    """One is common where two characters of eight bits were one of sixteen."""
    shelf = Shelf()
    file = await shelf.put(b"a\0b", "text/plain", "n\0tes.txt")
    content = await shelf.read(able(**SEES), file)
    assert content == "Lis.\n\nn\ufffdtes.txt:\na\ufffdb"


async def test_an_image_of_another_format_is_named() -> None:
    """`image_formats` says which ones the model takes."""
    shelf = Shelf()
    spec = able(**SEES, image_formats=("jpeg",))
    content = await shelf.read(spec, await shelf.put(PNG, "image/png", "plan.png"))
    assert "plan.png" in content
    mistaken = await shelf.read(spec, await shelf.put(PNG, "image/jpeg", "plan.jpg"))
    assert "plan.jpg" in mistaken


async def test_a_file_that_is_lost_is_told() -> None:
    """A call is still made when a store gave one up, or when there is no store."""
    shelf = Shelf()
    image = await shelf.put(PNG, "image/png", "plan.png")
    await shelf.store.delete("acme", "s1")
    lost = "Lis.\n\n(file plan.png, image/png: it is no longer kept)"
    assert await shelf.read(able(**SEES), image) == lost
    shelf.access = ModelAccess()
    assert await shelf.read(able(**SEES), image) == lost


@pytest.mark.parametrize("inside", [False, True])
async def test_the_image_of_a_result_follows_all_the_results(inside: bool) -> None:
    """A result is a text: also for a model that takes images there, under another API."""
    shelf = Shelf()
    spec = able(**SEES, tool_result_media=inside)
    image = await shelf.put(PNG, "image/png", "plan.png")
    film = ArtifactBlock(uri="artifact://acme/s1/x", media_type="video/mp4", size=9, name="film")
    output = ToolOutput(blocks=(TextBlock(text="Voici."), image, film))
    asked = [ToolCallBlock(call_id=call_id, name="draw") for call_id in "ab"]
    given = [
        ToolResultBlock(call_id="a", output=output),
        ToolResultBlock(call_id="b", output=ToolOutput.of_text("3")),
    ]
    messages = await shelf.messages(
        spec,
        ASKED,
        Message(role="assistant", blocks=tuple(asked)),
        Message(role="tool", blocks=tuple(given)),
    )
    told = (
        "Voici.\nplan.png (image/png)\n(file film, video/mp4, 9 bytes: this model cannot read it)"
    )
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": told},
        {"role": "tool", "tool_call_id": "b", "content": "3"},
        {"role": "user", "content": [text("Files given by the call a:"), IMAGE]},
    ]
