"""A model behind the Responses API."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from loom_ia.adapters.models.client import Reader
from loom_ia.adapters.models.faults import fault_of, model_error
from loom_ia.adapters.models.files import Contents
from loom_ia.adapters.models.openai_responses.request import (
    SHARED_KEYS,
    Encoder,
    completed,
    with_effort,
)
from loom_ia.adapters.models.openai_responses.stream import ResponsesReader
from loom_ia.adapters.models.openai_sdk import OpenAIModel
from loom_ia.adapters.models.turns import Turn
from loom_ia.core.errors import ModelError
from loom_ia.core.json import JsonObject
from loom_ia.core.model.request import ModelRequest


class ResponsesModel(OpenAIModel):
    """OpenAI, or a server that has the same API. The whole conversation goes with each call."""

    API: ClassVar[str] = "responses"
    PATH: ClassVar[str] = "/responses"
    OWN_KEYS: ClassVar[frozenset[str]] = frozenset(
        {
            "background",
            "conversation",
            "input",
            "instructions",
            "max_output_tokens",
            "model",
            "previous_response_id",
            "store",
            "stream",
            "tool_choice",
            "tools",
        }
    )

    async def body(self, request: ModelRequest) -> JsonObject:
        """Write the body that a request is sent as, `params` completing what it has of ours."""
        shared = {key: value for key, value in request.params.items() if key in SHARED_KEYS}
        rest = {key: value for key, value in request.params.items() if key not in SHARED_KEYS}
        body = completed(await super().body(replace(request, params=rest)), shared)
        return body if request.effort is None else with_effort(body, request.effort)

    def write(self, request: ModelRequest, turns: list[Turn], contents: Contents) -> JsonObject:
        """Write the body of a request."""
        return Encoder(self.spec, request, contents).body(turns)

    def reader(self) -> Reader:
        """Give what reads the next answer."""
        return ResponsesReader(self.API, self.fault)

    def fault(self, error: Mapping[str, Any]) -> ModelError:
        """Give what an error inside an answer means."""
        return model_error(self.spec, fault_of(dict(error)), secret=self._access.api_key)
