"""Getting an answer from one model: attempts, the waits between them, and its circuit.

Each attempt that gives no answer is a fact, with what it consumed, before the next one is made.
Whoever was shown pieces of it is told to forget them. Which model is asked is not decided here:
when this one is given up, its error says why.
"""

import asyncio
import math
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

from loom_ia.core.decide.effects import CallModel
from loom_ia.core.decide.limits import must_stop
from loom_ia.core.errors import ModelError, ModelErrorKind, text_of
from loom_ia.core.events.model import (
    CircuitOpened,
    FailureKind,
    ModelExchanged,
    ModelRetried,
)
from loom_ia.core.json import storable_text
from loom_ia.core.model.chunks import Answer, Assembler, ModelChunk, Reset, UsageReported
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.models import ModelSpec, Retry
from loom_ia.core.model.pricing import Prices
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.models import ModelClient, WireModelClient
from loom_ia.engine.breaker import Passage
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.perform.timers import Timers

MOST_CALLS: Final = 512
"""Calls that one answer may ask for: more of them is a model that ran wild."""

RETRIED: Final[frozenset[ModelErrorKind]] = frozenset({"transient", "overloaded"})


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
    """One call of one model, in as many attempts as its rule allows."""

    effect: CallModel
    context: EffectContext
    client: ModelClient
    number: int = 0
    paid: bool = False
    """Whether an attempt that gave no answer consumed something."""
    _assembler: Assembler = field(init=False)
    _begun: bool = False

    @property
    def spec(self) -> ModelSpec:
        """The model that is called."""
        return self.client.spec

    async def answer(self) -> Priced:
        """Call the model until it answers; raises `ModelError` when it is given up."""
        clock = self.context.pen.log.clock
        circuit = self.context.program.circuits.of(self.spec)
        self._check_window()
        passage = circuit.enter(clock.now())
        if passage is None:
            template = "{model} failed too often and is left alone for a while"
            raise ModelError("unavailable", template, model=self.spec.id)
        try:
            answered = await self._attempts()
        except ModelError as error:
            self._left(passage, error)
            raise
        except BaseException:
            circuit.abandon(passage)
            raise
        self._left(passage, None)
        return answered

    def is_too_dear(self, more: Usage | None = None) -> bool:
        """Whether attempts that gave nothing used the budget up, once `more` is counted too."""
        run = self.context.run
        if more is not None:
            prices = self._prices(more)
            run = run.paid(more, prices.cost(more) if prices else 0.0)
        if not self.paid:
            return False
        view = self.context.pen.log.state.view(run)
        return must_stop(view, self.context.program.plan)

    def _left(self, passage: Passage, error: ModelError | None) -> None:
        context, spec = self.context, self.spec
        circuit = context.program.circuits.of(spec)
        kind = error.kind if error else None
        if circuit.leave(passage, kind, context.pen.log.clock.now()) and spec.circuit_breaker:
            context.stage(
                CircuitOpened(
                    target=spec.id,
                    failures=circuit.failures,
                    cooldown_s=spec.circuit_breaker.cooldown,
                    error=_told(error),
                )
            )

    async def _attempts(self) -> Priced:
        while True:
            self.number += 1
            try:
                return await self._attempt()
            except ModelError as error:
                self._forget_shown()
                usage = self._consumed()
                self.paid = self.paid or usage is not None
                delay = _delay(self.spec.retry, self.number, error)
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
                if (usage := self._consumed()) is not None:
                    self.context.stage(self._retried("interrupted", None, None, usage))
                raise

    async def _attempt(self) -> Priced:
        spec, listener = self.spec, self.context.chunk
        assembler = self._assembler = Assembler(spec.model, spec.id)
        self._begun = False
        try:
            async with aclosing(self._stream()) as chunks, Timers(spec) as timers:
                async for chunk in chunks:
                    assembler.feed(chunk)
                    if self._begun or not isinstance(chunk, UsageReported):
                        self._begun = True
                        timers.heard()
                    if listener is not None:
                        listener(chunk)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise self._cut() from error
        answer = assembler.answer
        if answer is None:
            raise self._cut()
        self._refuse_unusable(answer)
        usage = self._reported() or self._estimated()
        return Priced(answer, usage, self._prices(usage), self.number)

    def _stream(self) -> AsyncGenerator[ModelChunk, None]:
        request = self.effect.request
        if self.context.program.captures_exchanges and hasattr(self.client, "observed"):
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
                attempt=self.number,
                **{name: getattr(exchange, name) for name in HttpExchange.model_fields},
            )
        )

    def _check_window(self) -> None:
        window, request = self.spec.capabilities.context_window, self.effect.request
        if window is None:
            return
        needed = self.context.sizes.prompt_tokens(request) + (request.max_tokens or 0)
        if needed > window:
            raise ModelError(
                "context_overflow",
                "the request needs about {needed} tokens, and {model} holds {window} "
                "(capabilities.context_window)",
                needed=needed,
                model=self.spec.id,
                window=window,
            )

    def _refuse_unusable(self, answer: Answer) -> None:
        """Refuse an answer that must not be taken for one."""
        model = self.spec.id
        if answer.stop_reason == "max_tokens":
            template = "the answer of {model} reached its limit of tokens (max_tokens) and is cut"
            raise ModelError("truncated", template, model=model)
        if answer.stop_reason == "refusal":
            raise ModelError("content_filtered", "{model} refused to answer", model=model)
        if answer.is_empty:
            raise ModelError("transient", "the answer of {model} is empty", model=model)
        asked = sum(isinstance(block, ToolCallBlock) for block in answer.blocks)
        if asked > MOST_CALLS:
            raise ModelError(
                "transient",
                "the answer of {model} asks for {count} calls, and {most} are made at most",
                model=model,
                count=asked,
                most=MOST_CALLS,
            )

    def _cut(self) -> ModelError:
        template = "the answer of {model} was cut before its end"
        return ModelError("transient", template, model=self.spec.id)

    def _forget_shown(self) -> None:
        if self._begun and self.context.chunk is not None:
            self.context.chunk(Reset())

    # -- what it consumed -------------------------------------------------------------------------

    def _consumed(self) -> Usage | None:
        """Give what a failed attempt consumed: nothing when the model had not begun to answer."""
        assembler = self._assembler
        if assembler.answer is not None:
            return self._reported() or self._estimated()
        if assembler.usage is None and not self._begun:
            return None
        return self._estimated()

    def _known(self) -> Usage:
        """Give what the provider counted, nothing when nobody can have consumed that."""
        usage = self._assembler.usage
        return usage if usage is not None and usage.is_plausible else Usage()

    def _reported(self) -> Usage | None:
        """Give what the provider counted, None when it left out what was read or written."""
        usage = self._known()
        is_whole = usage.prompt_tokens and (usage.output_tokens or not self._assembler.written)
        return usage if is_whole else None

    def _estimated(self) -> Usage:
        """Count what the provider did not say."""
        assembler = self._assembler
        known = self._known()
        read = known.prompt_tokens or self.context.sizes.prompt_tokens(self.effect.request)
        written = math.ceil(assembler.written / CHARACTERS_PER_TOKEN)
        cached = known.cache_read_tokens + known.cache_write_tokens
        return known.model_copy(
            update={
                "input_tokens": read - cached,
                "output_tokens": max(known.output_tokens, written),
                "estimated": True,
            }
        )

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


def _delay(rule: Retry, attempt: int, error: ModelError) -> float | None:
    """Give the seconds to wait before the next attempt, or None when there must be none.

    A wait that is asked for and longer than the rule allows gives the model up.
    """
    if error.kind not in RETRIED or attempt >= rule.max_attempts:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= rule.max_delay else None
    try:
        grown = rule.initial_delay * rule.multiplier ** (attempt - 1)
    except OverflowError:
        grown = rule.max_delay if rule.initial_delay else 0.0
    jitter = random.random()  # noqa: S311 -- it spreads retries, it protects nothing
    return round(min(rule.max_delay, grown) * (0.5 + jitter / 2), 3)


def _told(error: ModelError | None) -> str:
    return storable_text(text_of(error)) if error else ""
