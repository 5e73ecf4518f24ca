"""Telling people, outside, that something waits for them."""

from dataclasses import dataclass
from typing import Protocol


class NoticeSender(Protocol):
    """Somewhere a notice goes. It may be sent the same one again: `delivery_id` tells it."""

    async def send(self, body: bytes, delivery_id: str) -> None:
        """Hand over a notice, JSON in UTF-8; raises `NoticeNotSent`.

        Returning means that it was taken. It gives up by itself after the timeout of its target.
        """
        ...


@dataclass(frozen=True, slots=True)
class Addressee:
    """A target of the configuration: `agents` whose requests it is told of, all without any.

    `timeout` is what one attempt takes at most, in seconds.
    """

    name: str
    sender: NoticeSender
    agents: frozenset[str] = frozenset()
    max_attempts: int = 5
    timeout: float = 10.0

    def hears(self, agent: str) -> bool:
        """Whether it is told of what that agent asks."""
        return not self.agents or agent in self.agents
