"""All the quirks of the compatible servers, by format.

@pytest.mark.parametrize("quirk", CHAT, ids=str)
async def test_a_quirk_is_understood(provider: Provider, quirk: Quirk) -> None:
    provider.reply(quirk.reply)
"""

from typing import Final

from tests.providers.quirk import Broken, Quirk, Understood
from tests.providers.quirks_anthropic import ANTHROPIC
from tests.providers.quirks_chat import ANSWERS
from tests.providers.quirks_chat_calls import CALLS
from tests.providers.quirks_responses import RESPONSES
from tests.providers.quirks_sse import EVENTS

__all__ = ["ANTHROPIC", "CHAT", "RESPONSES", "Broken", "Quirk", "Understood", "by_name"]

CHAT: Final[tuple[Quirk, ...]] = (*CALLS, *ANSWERS, *EVENTS)


def by_name(name: str) -> Quirk:
    """Find a quirk."""
    return next(quirk for quirk in (*CHAT, *ANTHROPIC, *RESPONSES) if quirk.name == name)
