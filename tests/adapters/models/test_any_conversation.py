"""Whatever a conversation holds, the law of its turns holds, and every provider takes it."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.adapters.models.turns import turns_of
from loom_ia.core.model import (
    ArtifactBlock,
    Capabilities,
    JsonBlock,
    Message,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.encoders import refused
from tests.adapters.models.law import faults

SPEC = ModelSpec(id="M", sdk="openai", model="model-1")
PNG = b"\x89PNG\r\n\x1a\n----"

_TEXTS = st.sampled_from(["", " ", "\n", "Bonjour", "\ud83d", "a\x00b", "\u2028", "{}"]) | st.text(
    max_size=5
)
_IDS = st.sampled_from(
    ["call_1", "call_1", "call 1", "", "é" * 80, "a" * 40, "a" * 41, "\udc00", "call_1_2"]
)
_NAMES = st.sampled_from(["act", "list", "an odd name", "", "\ud83d", "a" * 70])
_KINDS = st.sampled_from(
    ["image/png", "IMAGE/PNG", "image/bmp", "text/plain", "application/pdf", "video/mp4", "", "/"]
)
_FILES = st.builds(
    ArtifactBlock,
    uri=st.sampled_from(["kept", "lost"]),
    media_type=_KINDS,
    size=st.just(9),
    name=_TEXTS,
)
_SAID = st.one_of(
    st.builds(TextBlock, text=_TEXTS),
    st.builds(JsonBlock, data=st.sampled_from([{"a": [1]}, None, "", "\ud83d"])),
    _FILES,
)
_META = st.sampled_from(
    [
        {},
        {"anthropic": {"signature": "s"}},
        {"anthropic": {"redacted_data": "d"}},
        {"responses": {"id": "rs_1", "encrypted_content": "e"}},
        {"responses": {"id": "rs_2"}},
    ]
)
_UTTERED = st.one_of(
    _SAID,
    st.builds(
        ReasoningBlock,
        text=_TEXTS,
        model=st.sampled_from(["M", "OTHER", ""]),
        model_id=st.sampled_from(["model-1", "other-1"]),
        provider_meta=_META,
    ),
    st.builds(ToolCallBlock, call_id=_IDS, name=_NAMES, arguments=st.sampled_from([{}, {"a": 1}])),
)
_RESULT = st.builds(
    ToolResultBlock,
    call_id=_IDS,
    output=st.builds(
        ToolOutput,
        blocks=st.lists(_SAID, max_size=2).map(tuple),
        data=st.sampled_from([None, 1, {"a": 1}]),
        is_error=st.booleans(),
    ),
)


def _messages(role: Any, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    some = st.lists(blocks, min_size=1, max_size=4).map(tuple)
    return st.builds(Message, role=st.just(role), blocks=some)


_USER = _messages("user", _SAID)
_TALK = st.lists(
    st.one_of(_USER, _messages("assistant", _UTTERED), _messages("tool", _RESULT)), max_size=7
).map(tuple)
_TOOLS = st.sampled_from(
    [(), (ToolSpec(name="act", description="", input_schema={"type": "object"}),)]
)
_REQUESTS = st.builds(
    ModelRequest,
    model=st.just("M"),
    system=_TEXTS,
    history=_TALK,
    messages=_TALK,
    notes=st.lists(_USER, max_size=1).map(tuple),
    tools=_TOOLS,
    tool_choice=st.sampled_from(["auto", "none"]),
    max_tokens=st.sampled_from([None, 100]),
    language=st.sampled_from(["en", "fr"]),
)
_CAN = st.builds(
    Capabilities,
    thinking=st.booleans(),
    vision=st.booleans(),
    documents=st.booleans(),
    tool_result_media=st.booleans(),
    streaming=st.booleans(),
)


class Kept(MemoryArtifacts):
    """A store that has one file."""

    async def get(self, uri: str) -> bytes:
        return PNG if uri == "kept" else await super().get(uri)


@settings(max_examples=300)
@given(_REQUESTS, _CAN)
def test_whatever_a_journal_holds_the_law_holds(request: ModelRequest, can: Capabilities) -> None:
    """Any messages in any order, with any ids, texts and files, give turns that follow the law."""
    spec = SPEC.model_copy(update={"capabilities": can})
    assert list(faults(turns_of(request, spec, "chat"))) == []


@settings(max_examples=300)
@given(_REQUESTS, _CAN)
async def test_whatever_a_journal_holds_every_provider_takes(
    request: ModelRequest, can: Capabilities
) -> None:
    """Written in each of the formats, it passes the rules of the provider."""
    assert await refused(request, can, ModelAccess(artifacts=Kept())) == {}


@settings(max_examples=100)
@given(_REQUESTS)
def test_a_conversation_that_grows_keeps_what_was_written(request: ModelRequest) -> None:
    """What comes later changes nothing before the end, so that a prompt cache is found again."""
    before = replace(request, messages=(), notes=())
    short, whole = turns_of(before, SPEC, "chat"), turns_of(request, SPEC, "chat")
    settled = short[:-2]  # the last answer and its results may still grow
    assert whole[: len(settled)] == settled
