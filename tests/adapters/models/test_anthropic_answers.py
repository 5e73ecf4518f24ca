"""How the answers of the Messages API are read."""

from collections.abc import AsyncIterator

import pytest

from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.quirks import ANTHROPIC, Quirk
from tests.providers.server import Provider


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[AnthropicModel]:
    spec = ModelSpec(id="CLAUDE", sdk="anthropic", model="claude-m1", base_url=provider.url)
    client = AnthropicModel(spec, ModelAccess(api_key="sk-secret"))
    yield client
    await client.close()


@pytest.mark.parametrize("quirk", ANTHROPIC, ids=str)
async def test_a_quirk_is_understood(
    provider: Provider, model: AnthropicModel, quirk: Quirk
) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)
