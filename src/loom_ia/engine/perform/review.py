"""Asking the policies of a point, one after the other, until one of them ends the question.

Each answer is written before it has any effect. A stage that fails, is too slow, or answers what
its point does not allow, is treated as its author asked: the run fails, or goes on.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final, cast

from loom_ia.core.decide.answer import answer_of
from loom_ia.core.decide.effects import CallModel, Review
from loom_ia.core.decide.limits import must_stop
from loom_ia.core.decide.request import build_request
from loom_ia.core.errors import InvalidDecision, ModelError, text_of, told
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.model import FallbackReason, ModelFellBack, ModelResponded, judge_slot
from loom_ia.core.events.policy import PolicyDecided, PolicyReviewed
from loom_ia.core.json import JsonObject, JsonValue, digest, storable_text
from loom_ia.core.model.content import ToolCallBlock, ToolOutput
from loom_ia.core.model.decisions import (
    Continue,
    Decision,
    Deny,
    Fail,
    Pause,
    Replace,
    Retry,
    Stop,
)
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import DecisionKind, JudgeMode, PolicyPoint, is_allowed
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.plan import ModelFacts
from loom_ia.core.ports.policies import (
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    OnOutput,
    PolicyContext,
    Subject,
)
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.acting import acts_of
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView, shape_of
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.attempts import ModelCall
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.perform.model import Said, answer_fact, problem_of, successor_of
from loom_ia.engine.perform.replaced import new_arguments, new_message, new_output, new_request
from loom_ia.engine.program import Caller
from loom_ia.engine.stages import Asked, Chain, Heard, Stage

_log = logging.getLogger("loom_ia.engine.policies")
_MAX_QUESTIONS: Final = 8
"""How often a policy may change what a human let go, so that he is asked again."""

_KINDS: Mapping[type, DecisionKind] = {
    Continue: DecisionKind.CONTINUE,
    Replace: DecisionKind.REPLACE,
    Retry: DecisionKind.RETRY,
    Deny: DecisionKind.DENY,
    Pause: DecisionKind.PAUSE,
    Stop: DecisionKind.STOP,
    Fail: DecisionKind.FAIL,
}


async def review(effect: Review, context: EffectContext) -> None:
    """Ask everybody who looks at this point about each subject."""
    if effect.point.is_of_tools:
        for call in effect.calls:
            await _Asking(effect, context, call).run_through()
            if context.run.checks.ruling is not None:
                return
    else:
        await _Asking(effect, context, None).run_through()


@dataclass(slots=True)
class _Asking:
    """The chain of one subject."""

    effect: Review
    effect_context: EffectContext
    about: Call | None
    stage: Stage | None = None

    @property
    def run(self) -> RunState:
        """The run as it is now."""
        return self.effect_context.run

    @property
    def view(self) -> RunView:
        """What is known around it."""
        return self.effect_context.pen.view()

    @property
    def caller(self) -> Caller:
        """Where what a judge declares is read."""
        header, log = self.run.header, self.effect_context.pen.log
        above = log.run(header.parent_run_id or "") if header.role else None
        return Caller(above or self.run, log.state, self.effect_context.agent.artifacts)

    @property
    def judges(self) -> JudgeMode:
        """Whether judges look."""
        return self.run.header.judges

    @property
    def attempt(self) -> int:
        """How often the stage is asked."""
        name = self.stage.name if self.stage else ""
        return self.run.checks.retries_of(name) + 1

    @property
    def may_retry(self) -> bool:
        """Whether another answer may be paid for."""
        return not must_stop(self.view, self.effect_context.agent.plan)

    def context(self, name: str, params: Mapping[str, object] | None = None) -> PolicyContext:
        """Give what a policy may know."""
        run, header = self.run, self.run.header
        runs = {**self.view.runs, run.run_id: run}
        return PolicyContext(
            name=name,
            point=self.effect.point,
            run_id=header.run_id,
            session_id=header.session_id,
            tenant_id=header.tenant_id,
            agent=header.agent,
            params=cast("Mapping[str, JsonValue]", params or {}),
            attempt=self.attempt,
            caller=header.context,
            language=header.language,
            iteration=run.iterations,
            messages=run.conversation.messages,
            history=self.view.history,
            verdicts=run.checks.verdicts,
            effects=tuple(act for other in runs.values() for act in acts_of(other)),
            run=run,
        )

    async def run_through(self) -> None:
        """Ask each stage in turn; nobody is asked who said already what he has to say."""
        point = self.effect.point
        for stage in self.effect_context.agent.stages:
            if point not in stage.points or not self._concerns(stage):
                continue
            if stage.once and stage.name in self.run.checks.heard:
                continue
            self.stage = stage
            heard = await self._hear(stage)
            self.effect_context.stage(*heard.facts, *await self._decided(stage, heard))
            is_ruled = self.run.checks.ruling is not None
            is_over = heard.ends or not isinstance(heard.decision, Continue | Replace)
            if is_over and not is_ruled:  # in the same write: a crash asks nobody else
                self.effect_context.stage(self._passed())
            if any(isinstance(fact, ModelResponded) for fact in heard.facts):
                await self.effect_context.emit()  # what was paid for is kept at once
            if is_ruled or is_over:
                return
        self.effect_context.stage(self._passed())

    def _concerns(self, stage: Stage) -> bool:
        return self.about is None or stage.tools is None or self.about.name in stage.tools

    def _passed(self) -> PolicyReviewed:
        subject = self.about.call_id if self.about else str(self.run.iterations)
        return PolicyReviewed(
            point=self.effect.point, subject=subject, at_launch=self.effect.at_launch
        )

    async def _hear(self, stage: Stage) -> Heard:
        limit = asyncio.timeout(stage.timeout)
        try:
            subject = self._subject(stage)
            async with limit:
                heard = await stage.hear(subject, self)
            self._refuse_unfit(heard.decision)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return stage.failed("CancelledError")
        except Exception as error:  # noqa: BLE001 -- code of the user, whose fault is a decision
            _log.warning(
                "policy %s failed: %s",
                stage.name,
                type(error).__name__,
                extra={"run_id": self.run.run_id, "tenant_id": self.run.header.tenant_id},
            )
            late = f"it did not answer within {stage.timeout or 0:g} s"
            return stage.failed(late if limit.expired() else storable_text(told(error)))
        return self._softened(heard)

    def _refuse_unfit(self, decision: object) -> None:
        point = self.effect.point
        kind = _KINDS.get(type(decision))
        if kind is None:
            raise InvalidDecision(
                "it answered with {answer!r}, which is not a decision", answer=decision
            )
        if not is_allowed(point, kind):
            raise InvalidDecision(
                "it decided {decision} at {point}, which that point does not allow",
                decision=kind.value,
                point=point.value,
            )
        if isinstance(decision, Pause):
            _refuse_unusable_limit(decision.expires_in)

    def _softened(self, heard: Heard) -> Heard:
        """Leave out what makes no sense here: what was stopped already, what was let go already."""
        decision = heard.decision
        ended = self.run.finalizing is not None or self.run.answer is not None
        if isinstance(decision, Stop) and ended:
            return replace(heard, decision=Continue())
        if isinstance(decision, Pause) and self.effect.at_launch:
            return replace(heard, decision=Continue())
        return heard

    # -- what they look at ------------------------------------------------------------------------

    def _subject(self, stage: Stage) -> Subject:
        params = getattr(stage, "params", None)
        known = self.context(stage.name, params)
        run = self.run
        match self.effect.point:
            case PolicyPoint.BEFORE_MODEL:
                return BeforeModel(known, self._request())
            case PolicyPoint.AFTER_MODEL:
                return AfterModel(known, run.conversation.messages[-1])
            case PolicyPoint.ON_OUTPUT:
                answer = answer_of(run, self.effect_context.agent.plan)
                return OnOutput(known, answer or Message.text("assistant", ""), run.checks.data)
            case PolicyPoint.BEFORE_TOOL:
                call = self._call()
                spec = self.effect_context.agent.tools[call.name].spec
                return BeforeTool(known, spec, deepcopy(call.arguments), call.call_id)
            case PolicyPoint.AFTER_TOOL:
                call = self._call()
                tool = self.effect_context.agent.tools.get(call.name)
                spec = tool.spec if tool else _taken_away(call)
                output = call.output or ToolOutput()
                arguments = deepcopy(call.arguments)
                return AfterTool(known, spec, arguments, deepcopy(output), call.call_id)

    def _call(self) -> Call:
        about = self.about or Call("", "", {})
        return self.run.call(about.call_id) or about

    def _request(self) -> ModelRequest:
        view = self.view
        return build_request(view, self.effect_context.agent.plan.at(shape_of(view))).request

    # -- what follows -----------------------------------------------------------------------------

    async def _decided(self, stage: Stage, heard: Heard) -> tuple[Payload, ...]:
        decision = heard.decision
        if isinstance(decision, Continue) and not heard.is_error:
            return ()
        try:
            fact = self._fact(stage, heard)
            if fact is not None and fact.arguments is not None:
                await self._refuse_unusable(fact.arguments)
        except InvalidDecision as error:
            heard = stage.failed(storable_text(text_of(error)))
            fact = self._fact(stage, heard)
        except Exception as error:  # noqa: BLE001 -- a value of the user that no fact can hold
            heard = stage.failed(storable_text(told(error)))
            fact = self._fact(stage, heard)
        return () if fact is None else (fact,)

    def _fact(self, stage: Stage, heard: Heard) -> PolicyDecided | None:
        decision, point = heard.decision, self.effect.point
        fact = PolicyDecided(
            policy=stage.name,
            point=point,
            decision=_KINDS[type(decision)],
            reason=_reason(decision) or heard.reason,
            call_id=self.about.call_id if self.about else "",
            error_type=heard.error_type,
            error=heard.is_error,
        )
        match decision:
            case Replace(value=value):
                return self._replacing(fact, value)
            case Retry():
                return self._retrying(fact, heard)
            case Pause(expires_in=expires_in):
                return fact.model_copy(update={"expires_in": expires_in})
            case _:
                return fact

    async def _refuse_unusable(self, arguments: JsonObject) -> None:
        tool = self.effect_context.agent.tools[self._call().name]
        if problem := await problem_of(tool, arguments, self.effect_context):
            raise InvalidDecision(
                "it replaced the arguments by others that {tool} cannot take: {problem}",
                tool=tool.spec.name,
                problem=problem,
            )

    def _replacing(self, fact: PolicyDecided, value: object) -> PolicyDecided | None:
        match self.effect.point:
            case PolicyPoint.BEFORE_MODEL:
                change = new_request(self._request(), value)
                return fact.model_copy(update={"request": change}) if change else None
            case PolicyPoint.BEFORE_TOOL:
                arguments = new_arguments(value)
                if digest(arguments) == digest(self._call().arguments):
                    return None
                self._refuse_endless_changes()
                return fact.model_copy(update={"arguments": arguments})
            case PolicyPoint.AFTER_TOOL:
                return fact.model_copy(update={"result": new_output(value)})
            case _:
                return fact.model_copy(update={"output": new_message(value)})

    def _refuse_endless_changes(self) -> None:
        """Refuse to ask about the same call for ever, because it is never what was let go."""
        question = self._call().question
        if self.effect.at_launch and question is not None and question.number >= _MAX_QUESTIONS:
            raise InvalidDecision(
                "it replaced the arguments each of the {count} times that the call was let go",
                count=question.number,
            )

    def _retrying(self, fact: PolicyDecided, heard: Heard) -> PolicyDecided:
        attempt = self.attempt
        if self.effect.point is PolicyPoint.AFTER_TOOL:
            text = prompt_text(self.run.header.language, "refused_result", reason=fact.reason)
            return fact.model_copy(update={"result": ToolOutput.of_error(text)})
        return fact.model_copy(update={"attempt": attempt, "tools": heard.tools})

    # -- a model of its own -----------------------------------------------------------------------

    async def ask_model(
        self, judge: str, chain: Chain, request: Callable[[ModelFacts], ModelRequest]
    ) -> Asked:
        """Call the models of a judge until one answers. Raises `ModelError` when none does."""
        context, slot = self.effect_context, judge_slot(judge)
        taken = self.run.model_of(slot)
        facts = next((f for f in chain.facts if f.id == taken), chain.facts[0])
        while True:
            made = request(facts)
            parts: JsonObject = {"system": made.system, "said": made.messages[0].as_text()}
            effect = CallModel(made, {**facts.parts, "messages": digest(parts)[:16]}, digest(parts))
            call = ModelCall(effect, context, chain.clients[facts.id], judge)
            started = time.perf_counter()
            try:
                if (prepare := getattr(call.client, "prepare", None)) is not None:
                    await prepare()
                priced = await call.answer()
            except ModelError as error:
                successor = successor_of(chain.facts, facts.id, error)
                if successor is None or call.is_too_dear():
                    raise
                reason: FallbackReason = (
                    "circuit_open" if error.kind == "unavailable" else error.kind
                )
                context.stage(
                    ModelFellBack(
                        slot=slot,
                        from_model=facts.id,
                        to_model=successor.id,
                        reason=reason,
                        error=storable_text(text_of(error)),
                    )
                )
                facts = successor
                continue
            latency = round((time.perf_counter() - started) * 1000)
            message = priced.answer.message
            fact = answer_fact(effect, priced, message, Said(), call.spec, latency, judge=judge)
            return Asked(_arguments(message), (fact,), call.spec.id, call.spec.model)


def _arguments(message: Message) -> Mapping[str, object]:
    """Give what the first call of an answer says, nothing when it called nothing."""
    blocks = (block for block in message.blocks if isinstance(block, ToolCallBlock))
    call = next(blocks, None)
    return {} if call is None else call.arguments


def _refuse_unusable_limit(limit: object) -> None:
    """Refuse a time to answer that is not a number of seconds; what is past expires at once."""
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is None or (is_number and not math.isnan(cast("float", limit))):
        return
    raise InvalidDecision(
        "it pauses with expires_in={limit!r}, which is not a number of seconds", limit=limit
    )


def _reason(decision: Decision) -> str:
    text = getattr(decision, "reason", None) or getattr(decision, "feedback", None) or ""
    return storable_text(str(text))


def _taken_away(call: Call) -> ToolSpec:
    """Stand for a tool whose source is gone: what it gave before is still looked at."""
    return ToolSpec(name=call.name, description="", input_schema={})
