"""Leaving a failing model alone: one circuit for each model, shared by every run of an instance.

A circuit counts the calls that failed in a row for a cause on the provider's side. It opens at the
configured number, lets nothing through during the cooldown, and then one call at a time: one that
succeeds closes it, one that fails opens it again.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypeVar

from loom_ia.core.errors import ModelError, ModelErrorKind
from loom_ia.core.model.models import CircuitBreaker, ModelSpec
from loom_ia.core.spans import span

COUNTED: Final[frozenset[ModelErrorKind]] = frozenset(
    {"transient", "overloaded", "quota_exhausted"}
)
"""The kinds that tell that the provider is ill; after any other one it answered well enough."""

Passage: TypeAlias = Literal["free", "trial"]
OnOpened: TypeAlias = Callable[[int, float, ModelError], None]
"""Told of a circuit that opens: after how many failures, for how long, and the last of them."""

T = TypeVar("T")


class Circuit:
    """The circuit of one model."""

    def __init__(self, rule: CircuitBreaker | None) -> None:
        self._rule = rule
        self._failures = 0
        self._opened_at: datetime | None = None
        self._on_trial = False

    @property
    def failures(self) -> int:
        """How many calls failed in a row."""
        return self._failures

    def enter(self, now: datetime) -> Passage | None:
        """Ask whether a call may be made; None when it may not. Each passage must be left once."""
        rule, opened_at = self._rule, self._opened_at
        if rule is None or opened_at is None:
            return "free"
        if self._on_trial or now < opened_at + span(rule.cooldown):
            return None
        self._on_trial = True
        return "trial"

    def leave(self, passage: Passage, failure: ModelErrorKind | None, now: datetime) -> bool:
        """Tell how a call ended; True when this opens the circuit."""
        if passage == "trial":
            self._on_trial = False
        if failure not in COUNTED:
            if passage == "trial" or self._opened_at is None:  # an earlier call proves nothing now
                self._failures, self._opened_at = 0, None
            return False
        self._failures += 1
        rule = self._rule
        if rule is None or (passage == "free" and self._failures < rule.failures):
            return False
        is_news = passage == "trial" or self._opened_at is None
        self._opened_at = now if is_news else self._opened_at
        return is_news

    def abandon(self, passage: Passage) -> None:
        """Tell that a call was stopped from outside: it says nothing of the provider."""
        if passage == "trial":
            self._on_trial = False


class Circuits(dict[str, Circuit]):
    """The circuits of an instance, by the id of the model in the configuration."""

    def of(self, spec: ModelSpec) -> Circuit:
        """Give the circuit of a model."""
        circuit = self.get(spec.id)
        if circuit is None:
            circuit = self[spec.id] = Circuit(spec.circuit_breaker)
        return circuit


async def through(
    circuit: Circuit,
    spec: ModelSpec,
    now: Callable[[], datetime],
    call: Callable[[], Awaitable[T]],
    opened: OnOpened | None = None,
) -> T:
    """Call a model through its circuit, which learns how that ends.

    Raises `ModelError` of the kind `unavailable` when the model is left alone.
    """
    passage = circuit.enter(now())
    if passage is None:
        template = "{model} failed too often and is left alone for a while"
        raise ModelError("unavailable", template, model=spec.id)
    try:
        answered = await call()
    except ModelError as error:
        rule = spec.circuit_breaker
        if circuit.leave(passage, error.kind, now()) and rule and opened is not None:
            opened(circuit.failures, rule.cooldown, error)
        raise
    except BaseException:
        circuit.abandon(passage)
        raise
    circuit.leave(passage, None, now())
    return answered
