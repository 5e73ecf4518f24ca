"""A model that plays a script and remembers what it was asked."""

from typing import Any

from loom_ia.adapters.models.fake import FakeModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.content import ToolResultBlock
from loom_ia.core.model.request import ModelRequest


class Recorder(FakeModel):
    """The model SIMULE, whose requests are kept."""

    def __init__(self, *script: dict[str, Any]) -> None:
        super().__init__(
            ModelSpec(id="SIMULE", sdk="fake", model="fake-1", params={"script": list(script)})
        )
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest):
        """Remember, then play."""
        self.requests.append(request)
        async for chunk in super().stream(request):
            yield chunk

    def results(self, request: int = -1) -> list[str]:
        """Give the texts of the tool results that a request shows, in order."""
        return [
            block.output.text
            for message in self.requests[request].conversation()
            for block in message.blocks
            if isinstance(block, ToolResultBlock)
        ]
