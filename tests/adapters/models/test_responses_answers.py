"""How the answers of the Responses API are read."""

from collections.abc import AsyncIterator

import pytest

from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.quirks import RESPONSES, Quirk
from tests.providers.server import Provider


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ResponsesModel]:
    spec = ModelSpec(
        id="GPT", sdk="openai", api="responses", model="gpt-m1", base_url=f"{provider.url}/v1"
    )
    client = ResponsesModel(spec, ModelAccess(api_key="sk-secret"))
    yield client
    await client.close()


@pytest.mark.parametrize("quirk", RESPONSES, ids=str)
async def test_a_quirk_is_understood(
    provider: Provider, model: ResponsesModel, quirk: Quirk
) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)
