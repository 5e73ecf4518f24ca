"""Giving a model its thoughts back, as each server wants them.

A model reads its thoughts again while it calls tools, and only then: what it thought before the
user asked is left out. They go back under the key that they came under. Some servers refuse a past
call that comes without that key, were it empty; the others may refuse a key that they do not know.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from loom_ia.adapters.models.turns import AssistantTurn, Thought, Turn, UserTurn
from loom_ia.core.json import JsonObject
from loom_ia.core.model.models import ModelSpec

KEYS: Final = ("reasoning_content", "reasoning")
"""The keys that servers have for thoughts; the first is the usual one."""

_WANT_THE_KEY: Final = frozenset({"api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn"})
"""The hosts that are known to want the usual key with every call."""


def meta_of(key: str) -> JsonObject:
    """Give what is kept beside a thought that came under `key`; nothing for the usual one."""
    return {} if key == KEYS[0] else {"key": key}


def thoughts_of(turns: list[Turn], spec: ModelSpec) -> Iterator[JsonObject]:
    """Give, for each turn, the keys of its message that hold thoughts."""
    asked = max(
        (rank for rank, turn in enumerate(turns) if isinstance(turn, UserTurn) and turn.asks),
        default=0,
    )
    wants_key = _wants_key(turns, spec)
    for rank, turn in enumerate(turns):
        told: JsonObject = {}
        if isinstance(turn, AssistantTurn) and spec.capabilities.thinking:
            text = "\n\n".join(thought.text for thought in turn.thoughts)
            if text and rank > asked:
                told = {_key_of(turn.thoughts[-1]): text}
            elif turn.calls and wants_key:
                told = {KEYS[0]: ""}
        yield told


def _wants_key(turns: list[Turn], spec: ModelSpec) -> bool:
    """Whether the server is known to want the usual key, or gave it."""
    thoughts = (t for turn in turns if isinstance(turn, AssistantTurn) for t in turn.thoughts)
    is_known = urlsplit(spec.base_url or "").hostname in _WANT_THE_KEY
    return is_known or any(_key_of(thought) == KEYS[0] for thought in thoughts)


def _key_of(thought: Thought) -> str:
    key = thought.meta.get("key")
    return key if isinstance(key, str) and key in KEYS else KEYS[0]
