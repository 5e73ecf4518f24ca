"""One attempt to get an answer from one model, and whether another one is made after it.

Law. Nothing here knows of runs, journals or budgets: whoever calls a model, a run or a step of a
graph, does it by these rules, and there are no others.
"""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from loom_ia.core.errors import ModelError, ModelErrorKind, StreamInterrupted
from loom_ia.core.model.chunks import Answer, Assembler, ModelChunk, UsageReported
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.models import ModelSpec, Retry
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN
from loom_ia.core.model.usage import Usage
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.timers import Timers

MOST_CALLS: Final = 512
"""Calls that one answer may ask for: more of them is a model that ran wild."""

RETRIED: Final[frozenset[ModelErrorKind]] = frozenset({"transient", "overloaded"})


@dataclass(slots=True)
class Attempt:
    """One attempt, in which a stream is put together under the clocks of its model.

    `prompt_tokens` estimates what is read; it is asked when the provider does not say. `begun`
    tells whether the model had begun to answer.
    """

    spec: ModelSpec
    prompt_tokens: Callable[[], int]
    begun: bool = False
    _assembler: Assembler = field(init=False)

    def __post_init__(self) -> None:
        self._assembler = Assembler(self.spec.model, self.spec.id)

    async def hear(
        self,
        stream: AsyncGenerator[ModelChunk, None],
        listener: Callable[[ModelChunk], None] | None = None,
    ) -> Answer:
        """Take a stream to its end, telling each chunk; raises `ModelError`.

        A stream that ends without its mark is a `StreamInterrupted`.
        """
        assembler = self._assembler
        try:
            async with aclosing(stream) as chunks, Timers(self.spec) as timers:
                async for chunk in chunks:
                    assembler.feed(chunk)
                    if self.begun or not isinstance(chunk, UsageReported):
                        self.begun = True
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
        return answer

    def _cut(self) -> StreamInterrupted:
        template = "the answer of {model} was cut before its end"
        return StreamInterrupted("transient", template, model=self.spec.id)

    # -- what it consumed -------------------------------------------------------------------------

    def usage(self) -> Usage:
        """Give what an answer consumed: what the provider told, or else an estimate."""
        return self._reported() or self._estimated()

    def consumed(self) -> Usage | None:
        """Give what a failed attempt consumed: nothing when the model had not begun to answer."""
        assembler = self._assembler
        if assembler.answer is not None:
            return self.usage()
        if assembler.usage is None and not self.begun:
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
        known = self._known()
        read = known.prompt_tokens or self.prompt_tokens()
        written = math.ceil(self._assembler.written / CHARACTERS_PER_TOKEN)
        cached = known.cache_read_tokens + known.cache_write_tokens
        return known.model_copy(
            update={
                "input_tokens": read - cached,
                "output_tokens": max(known.output_tokens, written),
                "estimated": True,
            }
        )


def check_window(spec: ModelSpec, request: ModelRequest, prompt_tokens: Callable[[], int]) -> None:
    """Refuse a request that is longer than what the model is said to hold."""
    window = spec.capabilities.context_window
    if window is None:
        return
    needed = prompt_tokens() + (request.max_tokens or 0)
    if needed > window:
        raise ModelError(
            "context_overflow",
            "the request needs about {needed} tokens, and {model} holds {window} "
            "(capabilities.context_window)",
            needed=needed,
            model=spec.id,
            window=window,
        )


def refuse_stopped_short(answer: Answer, model: str) -> None:
    """Refuse an answer that its model did not end as it wanted to."""
    if answer.stop_reason == "max_tokens":
        template = "the answer of {model} reached its limit of tokens (max_tokens) and is cut"
        raise ModelError("truncated", template, model=model)
    if answer.stop_reason == "refusal":
        raise ModelError("content_filtered", "{model} refused to answer", model=model)


def refuse_unusable(answer: Answer, model: str) -> None:
    """Refuse an answer that is none: nothing in it, or calls without end."""
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


def wait_after(rule: Retry, attempt: int, error: ModelError) -> float | None:
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
