"""Getting an answer from one model: attempts, the waits between them, and its circuit.

Each attempt that gives no answer is a fact, with what it consumed, before the next one is made.
Whoever was shown pieces of it is told to forget them. Which model is asked is not decided here:
when this one is given up, its error says why.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import cast

from loom_ia.core.decide.effects import CallModel
from loom_ia.core.decide.limits import must_stop
from loom_ia.core.decide.reserving import has_room
from loom_ia.core.errors import ModelError, text_of
from loom_ia.core.events.model import (
    CircuitOpened,
    FailureKind,
    ModelExchanged,
    ModelRetried,
)
from loom_ia.core.json import storable_text
from loom_ia.core.model.chunks import Answer, ModelChunk, Reset, TextDelta
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.pricing import Prices
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.models import ModelClient, WireModelClient
from loom_ia.engine.breaker import through
from loom_ia.engine.perform.attempt import (
    Attempt,
    check_window,
    refuse_stopped_short,
    refuse_unusable,
    wait_after,
)
from loom_ia.engine.perform.context import EffectContext


@dataclass(frozen=True, slots=True)
class Priced:
    """An answer, what it consumed, and what that costs."""

    answer: Answer
    usage: Usage
    prices: Prices | None
    attempts: int

    @property
    def cost(self) -> float:
        """The cost in dollars, 0 when no price is known."""
        return self.prices.cost(self.usage) if self.prices else 0.0


@dataclass(slots=True)
class ModelCall:
    """One call of one model, in as many attempts as its rule allows; `judge` when it is a judge's.

    Nobody follows what a judge says.
    """

    effect: CallModel
    context: EffectContext
    client: ModelClient
    judge: str = ""
    number: int = 0
    paid: bool = False
    """Whether an attempt that gave no answer consumed something."""
    _heard: Attempt = field(init=False)

    @property
    def spec(self) -> ModelSpec:
        """The model that is called."""
        return self.client.spec

    async def answer(self) -> Priced:
        """Call the model until it answers; raises `ModelError` when it is given up."""
        context, spec = self.context, self.spec
        check_window(spec, self.effect.request, self._prompt_tokens)
        circuit, now = context.agent.circuits.of(spec), context.pen.log.clock.now
        return await through(circuit, spec, now, self._attempts, self._opened)

    def is_too_dear(self, more: Usage | None = None) -> bool:
        """Whether attempts that gave nothing used the budget up, once `more` is counted too."""
        run = self.context.run
        if more is not None:
            prices = self._prices(more)
            run = run.paid(more, prices.cost(more) if prices else 0.0)
        if not self.paid:
            return False
        log = self.context.pen.log
        view = log.state.view(run)
        if must_stop(view, self.context.agent.plan):
            return True
        reserve = run.reserve
        return reserve is not None and not has_room(view, reserve, log.clock.now())

    def _opened(self, failures: int, cooldown: float, error: ModelError) -> None:
        self.context.stage(
            CircuitOpened(
                target=self.spec.id, failures=failures, cooldown_s=cooldown, error=_told(error)
            )
        )

    async def _attempts(self) -> Priced:
        while True:
            self.number += 1
            try:
                return await self._attempt()
            except ModelError as error:
                self._forget_shown()
                usage = self._heard.consumed()
                self.paid = self.paid or usage is not None
                delay = wait_after(self.spec.retry, self.number, error)
                if delay is not None and self.is_too_dear(usage):
                    delay = None
                if delay is not None or usage is not None:
                    self.context.stage(self._retried(error.kind, error, delay, usage))
                if delay is None:
                    raise
                await self.context.emit()
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                self._forget_shown()
                if (usage := self._heard.consumed()) is not None:
                    self.context.stage(self._retried("interrupted", None, None, usage))
                raise

    async def _attempt(self) -> Priced:
        heard = self._heard = Attempt(self.spec, self._prompt_tokens)
        answer = await heard.hear(self._stream(), self._listener)
        refuse_stopped_short(answer, self.spec.id)
        refuse_unusable(answer, self.spec.id)
        usage = heard.usage()
        return Priced(answer, usage, self._prices(usage), self.number)

    def _stream(self) -> AsyncGenerator[ModelChunk, None]:
        request = self.effect.request
        if self.context.agent.captures_exchanges and hasattr(self.client, "observed"):
            client = cast("WireModelClient", self.client)
            return client.observed(request, self._exchanged)
        return self.client.stream(request)

    def _exchanged(self, exchange: HttpExchange) -> None:
        spec = self.spec
        self.context.stage(
            ModelExchanged(
                model=spec.id,
                model_id=spec.model,
                provider=spec.sdk,
                judge=self.judge,
                attempt=self.number,
                **{name: getattr(exchange, name) for name in HttpExchange.model_fields},
            )
        )

    @property
    def _listener(self) -> Callable[[ModelChunk], None] | None:
        context = self.context
        if self.judge or not context.shows:
            return None
        return _silent(context.tell) if context.agent.plan.holds_text else context.tell

    def _forget_shown(self) -> None:
        if self._heard.begun and self._listener is not None:
            self._listener(Reset())

    def _prompt_tokens(self) -> int:
        sizes = Sizes() if self.judge else self.context.sizes
        return sizes.prompt_tokens(self.effect.request)

    def _prices(self, usage: Usage) -> Prices | None:
        pricing = self.spec.pricing
        return pricing.at(usage.prompt_tokens) if pricing else None

    def _retried(
        self,
        kind: FailureKind,
        error: ModelError | None,
        delay: float | None,
        usage: Usage | None,
    ) -> ModelRetried:
        spec = self.spec
        prices = self._prices(usage) if usage else None
        return ModelRetried(
            model=spec.id,
            model_id=spec.model,
            provider=spec.sdk,
            judge=self.judge,
            attempt=self.number,
            error_kind=kind,
            error=_told(error),
            http_status=error.http_status if error else None,
            delay_s=delay or 0.0,
            usage=usage,
            cost_usd=prices.cost(usage) if prices and usage else 0.0,
            prices=prices,
            final=delay is None,
        )


def _silent(chunk: Callable[[ModelChunk], None]) -> Callable[[ModelChunk], None]:
    """Show everything but the pieces of the text: that is shown once it passed its checks."""

    def tell(piece: ModelChunk) -> None:
        if not isinstance(piece, TextDelta):
            chunk(piece)

    return tell


def _told(error: ModelError | None) -> str:
    return storable_text(text_of(error)) if error else ""
