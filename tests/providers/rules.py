"""What a provider would say of a request: an empty list when it takes it.

    assert problems_of_messages(provider.requests[0].body) == []

Each format is checked against the types of the SDK that sends it and against the public rules of
its provider. A key that a caller passes through, which the SDK does not declare, is named in
`extra`.
"""

from collections.abc import Collection
from typing import Final

from anthropic.types import message_create_params as messages_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params

from tests.providers import rules_chat, rules_messages, rules_responses
from tests.providers.rules_common import Body, check

_MESSAGES: Final = (
    messages_params.MessageCreateParamsNonStreaming,
    messages_params.MessageCreateParamsStreaming,
)
_CHAT: Final = (
    chat_params.CompletionCreateParamsNonStreaming,
    chat_params.CompletionCreateParamsStreaming,
)
_RESPONSES: Final = (
    responses_params.ResponseCreateParamsNonStreaming,
    responses_params.ResponseCreateParamsStreaming,
)


def problems_of_messages(
    body: Body, *, extra: Collection[str] = (), prefill: bool = False
) -> list[str]:
    """Tell what Anthropic would refuse; `prefill` allows to begin the answer of the model."""
    rules = rules_messages.WITH_PREFILL if prefill else rules_messages.WITHOUT_PREFILL
    return check(body, _MESSAGES[bool(body.get("stream"))], rules, extra)


def problems_of_chat(body: Body, *, extra: Collection[str] = ()) -> list[str]:
    """Tell what OpenAI would refuse of a chat completion."""
    return check(body, _CHAT[bool(body.get("stream"))], rules_chat.RULES, extra)


def problems_of_responses(body: Body, *, extra: Collection[str] = ()) -> list[str]:
    """Tell what OpenAI would refuse of a response."""
    return check(body, _RESPONSES[bool(body.get("stream"))], rules_responses.RULES, extra)
