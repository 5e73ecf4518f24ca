"""A run as one visitor follows it: up to the first thing that he may not see."""

from typing import Protocol

from loom_ia.app.following import Following
from loom_ia.core.errors import Forbidden
from loom_ia.core.events.envelope import Event
from loom_ia.engine.streaming import LiveItem


class Guard(Protocol):
    """Knows what a visitor may see."""

    def require(self, event: Event) -> None:
        """Raise `Forbidden` for an event that he may not."""
        ...


class Followed:
    """What is new in a run, for one visitor; `content` tells whether he may read what was said."""

    def __init__(self, following: Following, guard: Guard, *, content: bool) -> None:
        self._following = following
        self._guard = guard
        self._refused: Forbidden | None = None
        self.content = content

    @property
    def run_id(self) -> str:
        """The run that is followed."""
        return self._following.run_id

    @property
    def is_over(self) -> bool:
        """Whether the run is over and all of it was given."""
        return self._following.is_over

    async def next(self, timeout: float | None = None) -> tuple[LiveItem, ...] | None:
        """Give what is new, as `Following.next`; raises `Forbidden` where the rest is hidden."""
        if self._refused is not None:
            raise self._refused
        items = await self._following.next(timeout)
        for index, item in enumerate(items or ()):
            if not isinstance(item, Event):
                continue
            try:
                self._guard.require(item)
            except Forbidden as error:
                if index == 0 or items is None:
                    raise
                self._refused = error
                return items[:index]
        return items

    def end(self) -> None:
        """Say that nothing more is wanted."""
        self._following.end()

    def close(self) -> None:
        """Stop following; doing it twice does nothing."""
        self._following.close()
