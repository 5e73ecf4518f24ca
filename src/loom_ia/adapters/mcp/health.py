"""When a server that fails is tried again: after a growing delay, and not at all for a while.

Instants are in seconds, of any clock that only goes forward. Being told to wait is no failure.
"""

from dataclasses import dataclass
from typing import Final

from loom_ia.core.model.models import CircuitBreaker

DELAYS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(slots=True)
class Health:
    """What is known of a server's failures, which follow one another."""

    rule: CircuitBreaker | None
    failures: int = 0
    ready_at: float = 0.0
    opened: bool = False
    told: bool = False

    def news(self) -> tuple[int, float] | None:
        """Say, once, that the server is left alone: after how many failures, for how many seconds.

        None when it is not, or when it was said.
        """
        if self.rule is None or not self.opened or self.told:
            return None
        self.told = True
        return self.failures, self.rule.cooldown

    def wait(self, now: float) -> float:
        """Tell how long nothing is tried yet, in seconds; 0 when it may be tried now."""
        return max(0.0, self.ready_at - now)

    def unreachable(self, now: float) -> None:
        """Note that connecting failed."""
        self.failures += 1
        delay = DELAYS[min(self.failures, len(DELAYS)) - 1]
        self._leave(now, delay)

    def lost(self, now: float) -> None:
        """Note that a connection ended: the first time, another one may be made at once."""
        self.failures += 1
        delay = DELAYS[min(self.failures, len(DELAYS)) - 2] if self.failures > 1 else 0.0
        self._leave(now, delay)

    def _leave(self, now: float, delay: float) -> None:
        rule = self.rule
        self.opened = rule is not None and self.failures >= rule.failures
        if rule is not None and self.opened:
            delay = max(delay, rule.cooldown)
        self.ready_at = now + delay

    def well(self) -> None:
        """Note that the server did something for us."""
        self.failures, self.ready_at, self.opened, self.told = 0, 0.0, False, False
