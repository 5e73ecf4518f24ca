"""Calling the main model: its answer is one fact, and so is what takes over when there is none.

The arguments of the calls that it asks for are checked and assessed here, once, and what is found
is part of the fact: no later reader needs the tools to know it.
"""

import logging
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from loom_ia.core.decide.closing import failed
from loom_ia.core.decide.effects import CallModel
from loom_ia.core.decide.limits import told
from loom_ia.core.errors import ModelError, ToolError, text_of
from loom_ia.core.events.model import FallbackReason, ModelFellBack, ModelResponded
from loom_ia.core.events.run import StepCompleted
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, storable_text
from loom_ia.core.model.chunks import INVALID_ARGUMENTS
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.tooling import Assessment
from loom_ia.core.plan import ModelFacts, successor_in
from loom_ia.core.ports.tools import Tool
from loom_ia.engine.perform.assess import assessed
from loom_ia.engine.perform.attempts import ModelCall, Priced
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.references import resolved

_log = logging.getLogger("loom_ia.engine.model")


async def call_model(effect: CallModel, context: EffectContext) -> None:
    """Perform a model call and stage its answer, what takes over, or the failure of the run."""
    program, request = context.agent, effect.request
    client = program.models[request.model]
    call = ModelCall(effect, context, client)
    started = time.perf_counter()
    try:
        if (prepare := getattr(client, "prepare", None)) is not None:
            await prepare()
            started = time.perf_counter()  # what this takes is not the provider's
        priced = await call.answer()
        seen = context.seen_calls.of(context.run.conversation.messages)
        message = _with_unique_ids(priced.answer.message, seen)
        problems = await _problems(message, context)
        said = Said(problems, await assessed(message, problems, program.tools))
        responded = answer_fact(effect, priced, message, said, client.spec, _since(started))
    except ModelError as error:
        _give_up(call, error, started)
        return
    except Exception as error:  # noqa: BLE001 -- an adapter's fault must not keep the run open
        _fail(context, request.model, type(error).__name__, error, started)
        return
    context.stage(responded)
    _show_held(context, message)
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "model %s: %s, %d ms",
            responded.model,
            responded.stop_reason,
            responded.latency_ms,
            extra=_tags(context),
        )


def _show_held(context: EffectContext, message: Message) -> None:
    """Show the text that goes with calls, now that it is whole, where text is held back."""
    text = message.as_text() if message.calls else ""
    if text and context.shows and context.agent.plan.holds_text:
        context.tell_whole(text)


@dataclass(frozen=True, slots=True)
class Said:
    """What tools said of the calls that are asked for."""

    problems: dict[CallId, str] = field(default_factory=dict[CallId, str])
    assessments: dict[CallId, Assessment] = field(default_factory=dict[CallId, Assessment])


def answer_fact(
    effect: CallModel,
    priced: Priced,
    message: Message,
    said: Said,
    spec: ModelSpec,
    latency: int,
    *,
    judge: str = "",
) -> ModelResponded:
    """Say that a model answered."""
    # Checked, not trusted: `usage` and `stop_reason` are what the adapter gave.
    return ModelResponded(
        model=spec.id,
        model_id=spec.model,
        provider=spec.sdk,
        judge=judge,
        message=message,
        usage=priced.usage,
        cost_usd=priced.cost,
        prices=priced.prices,
        stop_reason=priced.answer.stop_reason,
        latency_ms=latency,
        attempts=priced.attempts,
        request_hash=effect.digest,
        request_parts=dict(effect.parts),
        problems=said.problems,
        assessments=said.assessments,
        mended=priced.answer.mended,
    )


def _give_up(call: ModelCall, error: ModelError, started: float) -> None:
    """Let the next model of the chain answer, if the error is one that another may not have."""
    context, model = call.context, call.spec.id
    plan = context.agent.plan
    successor = successor_of(plan.chain, model, error)
    if call.is_too_dear():
        context.stage(*told(context.pen.view(), plan))
        successor = None
    if successor is None:
        _fail(context, model, f"model.{error.kind}", error, started)
        return
    reason: FallbackReason = "circuit_open" if error.kind == "unavailable" else error.kind
    context.stage(
        ModelFellBack(
            from_model=model,
            to_model=successor.id,
            reason=reason,
            error=storable_text(text_of(error)),
        )
    )
    _log.warning("model %s: %s, %s takes over", model, reason, successor.id, extra=_tags(context))


def successor_of(chain: tuple[ModelFacts, ...], model: str, error: ModelError) -> ModelFacts | None:
    """Give the model that takes over from one that failed, None when the error would stay."""
    match error.kind:
        case "transient" | "overloaded" | "quota_exhausted" | "unavailable":
            return successor_in(chain, model)
        case "context_overflow":
            return successor_in(chain, model, larger=True)
        case _:
            return None


def _fail(
    context: EffectContext, model: str, error_type: str, error: Exception, started: float
) -> None:
    run = context.run
    if run.step is not None:
        context.stage(
            StepCompleted(step_no=run.step.number, duration_ms=_since(started), outcome="error")
        )
    context.stage(failed(context.run, error_type, storable_text(text_of(error))))
    _log.warning("model %s failed: %s", model, error_type, extra=_tags(context))


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


async def _problems(message: Message, context: EffectContext) -> dict[str, str]:
    problems: dict[str, str] = {}
    for call in message.calls:
        tool = context.agent.tools.get(call.name)
        if tool is not None and INVALID_ARGUMENTS not in call.arguments:
            problem = await problem_of(tool, call.arguments, context)
            if problem:
                problems[call.call_id] = storable_text(problem)
    return problems


async def problem_of(tool: Tool, arguments: JsonObject, context: EffectContext) -> str | None:
    """Tell why the arguments of a call cannot run, once results stand where they are meant."""
    program, past = context.agent, context.run.past
    language = program.plan.language
    try:
        arguments = await resolved(arguments, tool.spec, past, program.artifacts, language)
    except ToolError as error:
        return text_of(error)
    return await tool.check(arguments)


def _tags(context: EffectContext) -> dict[str, str]:
    run = context.run
    span = run.step.span if run.step else run.run_id
    return {"run_id": run.run_id, "span_id": span, "tenant_id": run.header.tenant_id}


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
