"""How the answers of Chat Completions are read."""

from collections.abc import AsyncIterator

import pytest

from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.quirks import CHAT, Quirk
from tests.providers.server import Provider


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ChatModel]:
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=f"{provider.url}/v1")
    client = ChatModel(spec, ModelAccess(api_key="sk-secret"))
    yield client
    await client.close()


@pytest.mark.parametrize("quirk", CHAT, ids=str)
async def test_a_quirk_is_understood(provider: Provider, model: ChatModel, quirk: Quirk) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)
