"""The table of adapters: which name of the configuration is served by which code.

Adapters are named as text, so that nothing is imported before it is asked for. A row may name the
extra that brings what the adapter needs; its absence is told here, and nowhere else.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

BackendKind: TypeAlias = Literal[
    "journal", "artifacts", "idempotency", "model", "prices", "source", "notice"
]


class Backend(NamedTuple):
    """`target` is `module:factory`; `extra` brings the `package` that it imports when it works."""

    target: str
    extra: str = ""
    package: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether what it needs is there; nothing is imported to know it."""
        return not self.package or find_spec(self.package) is not None


BACKENDS: Final[Mapping[tuple[BackendKind, str], Backend]] = MappingProxyType(
    {
        ("journal", "memory"): Backend("loom_ia.adapters.journals.memory:MemoryJournal"),
        ("journal", "jsonl"): Backend("loom_ia.adapters.journals.jsonl:JsonlJournal"),
        ("journal", "sqlite"): Backend("loom_ia.adapters.journals.sqlite:SqliteJournal"),
        ("artifacts", "local"): Backend("loom_ia.adapters.artifacts.local:LocalArtifacts"),
        ("artifacts", "memory"): Backend("loom_ia.adapters.artifacts.memory:MemoryArtifacts"),
        ("idempotency", "memory"): Backend("loom_ia.adapters.idempotency.memory:MemoryIdempotency"),
        ("idempotency", "sqlite"): Backend("loom_ia.adapters.idempotency.sqlite:SqliteIdempotency"),
        ("model", "fake"): Backend("loom_ia.adapters.models.fake:FakeModel"),
        ("model", "anthropic"): Backend(
            "loom_ia.adapters.models.anthropic.client:AnthropicModel", "anthropic", "anthropic"
        ),
        ("model", "openai"): Backend(
            "loom_ia.adapters.models.openai_chat.client:ChatModel", "openai", "openai"
        ),
        ("model", "openai/responses"): Backend(
            "loom_ia.adapters.models.openai_responses.client:ResponsesModel", "openai", "openai"
        ),
        ("source", "mcp"): Backend("loom_ia.adapters.mcp.source:McpSource", "mcp", "mcp"),
        ("notice", "webhook"): Backend(
            "loom_ia.adapters.notices.webhook:WebhookSender", "http", "httpx2"
        ),
        ("notice", "command"): Backend("loom_ia.adapters.notices.command:CommandSender"),
        ("prices", "genai"): Backend(
            "loom_ia.adapters.prices.genai:listed_pricing", "prices", "genai_prices"
        ),
    }
)
"""Backends by kind and by the name that the configuration uses."""


def factory(kind: BackendKind, name: str) -> Callable[..., Any]:
    """Import the code that serves `name`."""
    module, _, attribute = BACKENDS[kind, name].target.partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), attribute))
