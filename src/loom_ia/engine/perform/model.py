"""Calling the main model: its stream becomes one answer, and the answer one fact.

The arguments of the calls that it asks for are checked here, once, and what is wrong with them is
part of the fact: no later reader needs the tools to know it.
"""

import asyncio
import logging
import time
from collections.abc import Set as AbstractSet
from contextlib import aclosing

from loom_ia.core.decide.closing import failed
from loom_ia.core.decide.effects import CallModel
from loom_ia.core.errors import ModelError, text_of
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.run import StepCompleted
from loom_ia.core.ids import CallId
from loom_ia.core.json import storable_text
from loom_ia.core.model.chunks import INVALID_ARGUMENTS, Answer, Assembler
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.messages import Message
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.program import Program

_log = logging.getLogger("loom_ia.engine.model")


async def call_model(effect: CallModel, context: EffectContext) -> None:
    """Perform a model call and stage its answer, or the failure of the run."""
    program = context.program
    started = time.perf_counter()
    try:
        answer = await _stream(effect, context)
        seen = context.seen_calls.of(context.run.conversation.messages)
        message = _with_unique_ids(answer.message, seen)
        problems = await _problems(message, program)
        responded = _fact(effect, answer, message, problems, program, _since(started))
    except ModelError as error:
        _fail(context, f"model.{error.kind}", text_of(error), started)
        return
    except Exception as error:  # noqa: BLE001 -- an adapter's fault must not keep the run open
        _fail(context, type(error).__name__, text_of(error), started)
        return
    context.stage(responded)
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "model %s: %s, %d ms",
            responded.model,
            responded.stop_reason,
            responded.latency_ms,
            extra=_tags(context),
        )


def _fact(
    effect: CallModel,
    answer: Answer,
    message: Message,
    problems: dict[str, str],
    program: Program,
    latency: int,
) -> ModelResponded:
    # Checked, not trusted: `usage` and `stop_reason` are what the adapter gave.
    spec = program.model.spec
    return ModelResponded(
        model=spec.id,
        model_id=spec.model,
        message=message,
        usage=answer.usage,
        cost_usd=spec.pricing.cost(answer.usage) if spec.pricing else 0.0,
        stop_reason=answer.stop_reason,
        latency_ms=latency,
        request_hash=effect.digest,
        request_parts=dict(effect.parts),
        problems=problems,
        mended=answer.mended,
    )


async def _stream(effect: CallModel, context: EffectContext) -> Answer:
    client = context.program.model
    assembler = Assembler(client.spec.model)
    listener = context.chunk
    try:
        async with aclosing(client.stream(effect.request)) as chunks:
            async for chunk in chunks:
                assembler.feed(chunk)
                if listener is not None:
                    listener(chunk)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise ModelError(
            "transient", "the answer of {model} was cut before its end", model=client.spec.id
        ) from error
    answer = assembler.answer
    if answer is None:
        raise ModelError(
            "transient", "the answer of {model} was cut before its end", model=client.spec.id
        )
    return answer


def _fail(context: EffectContext, error_type: str, error: str, started: float) -> None:
    run = context.run
    if run.step is not None:
        context.stage(
            StepCompleted(step_no=run.step.number, duration_ms=_since(started), outcome="error")
        )
    context.stage(failed(context.run, error_type, storable_text(error)))
    _log.warning(
        "model %s failed: %s", context.program.plan.model, error_type, extra=_tags(context)
    )


def _with_unique_ids(message: Message, earlier: AbstractSet[CallId]) -> Message:
    """Make call ids unique within a run: the second `x` becomes `x_2`, and so on.

    A decision and an idempotency key name a call by its id, and must never mean a later call.
    """
    seen: set[CallId] = set()
    blocks = list(message.blocks)
    for index, block in enumerate(blocks):
        if not isinstance(block, ToolCallBlock):
            continue
        name, number = block.call_id, 1
        while name in seen or name in earlier:
            number += 1
            name = f"{block.call_id}_{number}"
        seen.add(name)
        if name != block.call_id:
            blocks[index] = block.model_copy(update={"call_id": name})
    if all(new is old for new, old in zip(blocks, message.blocks, strict=True)):
        return message
    return message.model_copy(update={"blocks": tuple(blocks)})


async def _problems(message: Message, program: Program) -> dict[str, str]:
    problems: dict[str, str] = {}
    for call in message.calls:
        tool = program.tools.get(call.name)
        if tool is not None and INVALID_ARGUMENTS not in call.arguments:
            problem = await tool.check(call.arguments)
            if problem:
                problems[call.call_id] = storable_text(problem)
    return problems


def _tags(context: EffectContext) -> dict[str, str]:
    run = context.run
    span = run.step.span if run.step else run.run_id
    return {"run_id": run.run_id, "span_id": span, "tenant_id": run.header.tenant_id}


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
