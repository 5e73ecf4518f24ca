"""The formats that requests are written in, each with what its provider says of them.

assert await refused(request) == {}
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.adapters.models.client import WireModel
from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.core.model import Capabilities, ModelRequest, ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.providers.rules import problems_of_chat, problems_of_messages, problems_of_responses


@dataclass(frozen=True)
class Format:
    """One format: who writes it, and who reads it strictly."""

    api: str
    model: type[WireModel]
    problems: Callable[[dict[str, Any]], list[str]]

    def spec(self, name: str, model: str, can: Capabilities | None = None) -> ModelSpec:
        """Give an entry of the configuration whose model speaks this format."""
        return ModelSpec(
            id=name,
            sdk="anthropic" if self.api == "anthropic" else "openai",
            api="responses" if self.api == "responses" else None,
            model=model,
            capabilities=can or Capabilities(),
        )


FORMATS = (
    Format("anthropic", AnthropicModel, problems_of_messages),
    Format("chat", ChatModel, lambda body: problems_of_chat(body, extra=("reasoning_content",))),
    Format("responses", ResponsesModel, problems_of_responses),
)


async def refused(
    request: ModelRequest,
    can: Capabilities | None = None,
    access: ModelAccess | None = None,
    *,
    model_id: str = "model-1",
) -> dict[str, list[str]]:
    """Write a request in each format, and give what the providers would say against it.

    The model that is asked has the thoughts of `model_id`, which is its name at the provider.
    """
    found: dict[str, list[str]] = {}
    for each in FORMATS:
        model = each.model(each.spec(request.model, model_id, can), access)
        body: Any = await model.body(request)
        sent = json.loads(json.dumps(body, ensure_ascii=False).encode())
        if problems := each.problems(sent):
            found[each.api] = problems
    return found
