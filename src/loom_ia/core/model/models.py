"""A model as the configuration describes it."""

from typing import Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.pricing import Pricing

ANTHROPIC_MAX_TOKENS: Final = 4096
"""The longest answer that is asked of `sdk: anthropic` when nobody says one."""

Sdk: TypeAlias = Literal["anthropic", "openai", "fake"]
Api: TypeAlias = Literal["chat", "responses"]
CacheTtl: TypeAlias = Literal["5m", "1h"]
ImageInput: TypeAlias = Literal["base64", "url", "file_id"]
ImageFormat: TypeAlias = Literal["jpeg", "png", "gif", "webp"]


class _Section(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Timeouts(_Section):
    """How long a call may take, in seconds; None for no limit. A call that is late is retried."""

    first_token: float | None = Field(
        default=60.0, gt=0, description="Seconds until the first piece of the answer."
    )
    idle: float | None = Field(default=60.0, gt=0, description="Seconds between two pieces.")
    total: float | None = Field(default=300.0, gt=0, description="Seconds for the whole answer.")


class Retry(_Section):
    """How a passing error is retried.

    The wait before attempt n + 1 is `initial_delay` × `multiplier`^(n - 1), at most `max_delay`,
    times a random factor between a half and one. What the provider asks for replaces it, unless
    that is more than `max_delay`: then this model is given up.
    """

    max_attempts: int = Field(default=3, ge=1, description="Attempts in all; 1 never retries.")
    initial_delay: float = Field(default=1.0, ge=0, description="Seconds before the second.")
    multiplier: float = Field(default=2.0, ge=1, description="Growth of the wait each time.")
    max_delay: float = Field(default=30.0, ge=0, description="The longest wait, in seconds.")


class CircuitBreaker(_Section):
    """When a model that fails is left alone by every run of the instance."""

    failures: int = Field(default=5, ge=1, description="Failed calls in a row that open it.")
    cooldown: float = Field(
        default=60.0, gt=0, description="Seconds for which no call is made; then one is tried."
    )


class PromptCache(_Section):
    """What of a prompt the provider is asked to keep; `sdk: anthropic` only."""

    system: bool = Field(default=False, description="The system prompt.")
    tools: bool = Field(default=False, description="The descriptions of the tools.")
    messages: bool = Field(default=False, description="The conversation so far.")
    ttl: CacheTtl = Field(default="5m", description="How long it is kept.")


class Capabilities(_Section):
    """What the model can do. What it is asked for is checked against this at load."""

    tools: bool = Field(default=True, description="It calls tools.")
    thinking: bool = Field(
        default=False,
        description=(
            "It reasons before it answers. With `api: chat`, its reasoning is given back to it "
            "while it calls tools."
        ),
    )
    native_json: bool = Field(
        default=False, description="It follows a JSON Schema that is given with the request."
    )
    forced_tool_choice: bool = Field(default=True, description="It can be made to call a tool.")
    streaming: bool = Field(default=True, description="It streams; else each answer is one piece.")
    context_window: int | None = Field(
        default=None,
        gt=0,
        description="Tokens that a prompt and its answer may hold; a longer call is not made.",
    )
    vision: bool = Field(default=False, description="It sees images; else it reads their names.")
    documents: bool = Field(
        default=False, description="It reads PDF and text files; else it reads their names."
    )
    image_input: tuple[ImageInput, ...] = Field(
        default=("base64",),
        strict=False,
        description="How it takes images. Loom-IA gives `base64`, which vision needs.",
    )
    image_formats: tuple[ImageFormat, ...] = Field(
        default=("jpeg", "png", "gif", "webp"),
        strict=False,
        description="The images that it takes; it reads the names of others.",
    )
    max_image_bytes: int | None = Field(
        default=None,
        gt=0,
        description="The largest image that it takes, in bytes; it reads the names of others.",
    )
    tool_result_media: bool = Field(
        default=False,
        description="It takes images inside the result of a tool; else they follow it.",
    )


class ModelSpec(Value):
    """One entry of `models`: `id` is the name inside the configuration, `model` the provider's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(min_length=1, description="Its name in this configuration.")
    sdk: Sdk = Field(
        description=(
            "Who speaks to it: `anthropic` for Claude and what exposes the same API, `openai` for "
            "OpenAI and compatible servers, `fake` for a script."
        )
    )
    model: str = Field(min_length=1, description="Its name at the provider.")
    api: Api | None = Field(
        default=None,
        description="With `sdk: openai`, the API to use: `chat` (the default) or `responses`.",
    )
    base_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="The address of the provider; `null` is the official one.",
    )
    api_key_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="The variable that holds the key; `null` for a server that asks for none.",
    )
    max_tokens: int | None = Field(
        default=None,
        gt=0,
        description=(
            "The longest answer, reasoning included; an answer that reaches it is refused. "
            "`sdk: anthropic` takes 4096 for `null`."
        ),
    )
    params: JsonObject = Field(
        default_factory=dict, description="Given to the provider as they are."
    )
    timeouts: Timeouts = Field(default=Timeouts(), description="How long a call may take.")
    retry: Retry = Field(default=Retry(), description="How a passing error is retried.")
    circuit_breaker: CircuitBreaker | None = Field(
        default=CircuitBreaker(), description="When a failing model is left alone; `null`: never."
    )
    capabilities: Capabilities = Field(default=Capabilities(), description="What it can do.")
    cache: PromptCache | None = Field(
        default=None, description="What the provider keeps of a prompt; `sdk: anthropic` only."
    )
    pricing: Pricing | None = Field(
        default=None,
        description=(
            "Its prices, in dollars per million tokens; `null` takes those of the extra `prices` "
            "when it knows the model."
        ),
    )

    @property
    def longest_answer(self) -> int | None:
        """The tokens of the longest answer that it is asked for; None when it is not bounded."""
        if self.max_tokens is None and self.sdk == "anthropic":
            return ANTHROPIC_MAX_TOKENS
        return self.max_tokens
