"""Running a batch of calls together; each result is a fact as soon as it is known.

A call that is stopped, by its time or with its run, may still be acting: when it is neither free of
effects nor idempotent its outcome is unknown. It is told to stop and left to end by itself; what it
really did, if that is learned, is written as a late fact.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import Final, TypeAlias

from loom_ia.core.decide.effects import RunCalls
from loom_ia.core.errors import (
    LoomError,
    ToolError,
    UnknownEffect,
    UnstorableValue,
    text_of,
    told,
)
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.json import storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import Done, NotDone, Tool, ToolContext, Unknown
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.acting import Known, call_key
from loom_ia.core.state.calls import Call, Granted
from loom_ia.core.state.run import RunState
from loom_ia.engine.perform.children import drive_child
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.perform.keep import Keeper
from loom_ia.engine.perform.memory import call_memory
from loom_ia.engine.perform.reconcile import ask_outside, reconciled
from loom_ia.engine.perform.session_state import readable_state, settled

_GRACE_S: Final = 5.0
"""How long a call that was told to stop is waited for, before the outside world is asked."""

_log = logging.getLogger("loom_ia.engine.tools")


async def run_calls(effect: RunCalls, context: EffectContext) -> None:
    """Run every call of the batch; the last results are staged, the others written as they come.

    Whatever stops the batch, the results that were known by then are staged.
    """
    calls = effect.calls
    if len(calls) == 1:
        context.stage(*await _result(calls[0], context))
        return
    tasks = [asyncio.ensure_future(_result(call, context)) for call in calls]
    running = set(tasks)
    try:
        while running:
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            facts = [fact for task in tasks if task in ended for fact in task.result()]
            if running:
                await context.emit(*facts)
            else:
                context.stage(*facts)
    finally:
        known = [task for task in tasks if task in running and task.done()]
        context.stage(*(fact for task in known for fact in task.result()))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


Facts: TypeAlias = tuple[Payload, ...]


async def _result(call: Call, context: EffectContext) -> Facts:
    if call.child_run_id:
        return await drive_child(call, context)
    return await _Invocation(call, context).result()


class _Stop:
    """Whether a call was told to stop; a flag that threads may read."""

    asked = False


@dataclass(slots=True)
class _Invocation:
    """One call of one tool."""

    call: Call
    context: EffectContext
    started: float = 0.0

    @property
    def spec(self) -> ToolSpec:
        """What holds for this very call."""
        return self.call.declared(self.context.agent.tools[self.call.name].spec)

    async def result(self) -> Facts:
        """Run the call within its time and give the facts of its end."""
        tool = self.context.agent.tools[self.call.name]
        stop = _Stop()
        context = self._context(tool, stop)
        self.started = time.perf_counter()
        if self._only_asks(tool, context):
            text = prompt_text(context.language, "unknown_effect")
            unknown = self._fact(ToolOutput.of_error(text), unknown=True)
            return await self._reconciled(tool, context, (unknown,))
        task = asyncio.ensure_future(self._work(tool, context))
        try:
            done, _ = await asyncio.wait((task,), timeout=self.spec.timeout)
        except asyncio.CancelledError:
            stop.asked = True
            task.cancel()
            self._leave(task)
            raise
        if not done:
            stop.asked = True
            task.cancel()
            return await self._given_up(tool, context, task)
        facts = self._ended(task)
        if self.spec.reconciles and _is_unknown(facts):
            return await self._reconciled(tool, context, facts)
        return facts

    def _only_asks(self, tool: Tool, context: ToolContext) -> bool:
        """Whether this launch must not act before the outside world was asked about the last one.

        A tool that remembers finds that out by itself, and says `UnknownEffect`.
        """
        spec = self.spec
        asks = spec.reconciles and spec.remembers == "nothing"
        return asks and context.resumed and not context.may_act_again

    async def _given_up(
        self, tool: Tool, context: ToolContext, task: "asyncio.Future[Facts]"
    ) -> Facts:
        """Say what becomes of a call whose time is over."""
        facts = self._timed_out(tool)
        if not self.spec.reconciles or not _is_unknown(facts):
            self._leave(task)
            return facts
        try:
            await asyncio.wait((task,), timeout=_GRACE_S)
            if task.done() and not task.cancelled() and not _is_failure(task.result()):
                return task.result()  # it ended all the same
            return await self._reconciled(tool, context, facts, may_be_acting=not task.done())
        finally:
            if not task.done():
                self._leave(task)

    async def _reconciled(
        self, tool: Tool, context: ToolContext, facts: Facts, *, may_be_acting: bool = False
    ) -> Facts:
        """Ask what became of an effect before `facts` tell that it is unknown.

        A call that did not act is launched again, unless it was already for that reason.
        """
        call = self.call
        answer = await ask_outside(tool, call, context)
        may_be_acting |= self.context.strays.has(self.context.run.run_id, call.call_id)
        if isinstance(answer, NotDone) and may_be_acting:
            answer = Unknown("not by then, and it may still be acting")
        fact = reconciled(call, answer)
        match answer:
            case Unknown():
                return (fact, *facts)
            case NotDone() if not _was_undone(call):
                return (fact,)
            case NotDone():
                text = prompt_text(context.language, "not_done")
                return (fact, self._fact(ToolOutput.of_error(text)))
            case Done(output):
                if not isinstance(output, ToolOutput):
                    output = ToolOutput.of_text(prompt_text(context.language, "done_before"))
                return (fact, *await self._kept(output, tool, "done"))

    def _context(self, tool: Tool, stop: _Stop) -> ToolContext:
        call, run = self.call, self.context.run
        header = run.header
        key = call_key(run, call.call_id)
        return ToolContext(
            tenant_id=header.tenant_id,
            session_id=header.session_id,
            run_id=header.run_id,
            call_id=call.call_id,
            agent=header.agent,
            caller=header.context,
            idempotency_key=key,
            resumed=call.launches > 1,
            should_stop=lambda: stop.asked,
            language=self.context.agent.plan.language,
            memory=call_memory(call, self.spec, key, self.context),
            may_act_again=self.spec.may_run_again or _was_undone(call) or _was_allowed_again(call),
            state=readable_state(self.context),
        )

    def _ended(self, task: "asyncio.Future[Facts]") -> Facts:
        if not task.cancelled():
            return task.result()
        language = self.context.agent.plan.language
        text = prompt_text(language, "tool_failed", error="CancelledError")
        return (self._fact(ToolOutput.of_error(text)),)

    async def _work(self, tool: Tool, context: ToolContext) -> Facts:
        """Call the tool and put away what must be; what it did is never lost by a cancellation."""
        try:
            output, effect = await self._output(tool, context)
        except UnknownEffect as error:
            text = storable_text(text_of(error)) or prompt_text(context.language, "unknown_effect")
            return (self._fact(ToolOutput.of_error(text), unknown=True),)
        return await self._kept(output, tool, effect)

    async def _kept(self, output: ToolOutput, tool: Tool, effect: Known | None = None) -> Facts:
        """Give the facts of a result, put away if it must be."""
        output = settled(output, self.call, self.context)
        completed = self._fact(output, effect=effect)
        limit = self.spec.offload_over
        if not output.files and (limit is None or len(output.text) <= limit):
            return (completed,)
        keeper = Keeper(self.context.agent.artifacts, self.context.run.header)
        keeping = asyncio.ensure_future(keeper.keep(output, self.spec, self.call.call_id))
        while not keeping.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(keeping)
        kept, stored = keeping.result()
        return (*stored, completed.model_copy(update={"output": kept}))

    async def _output(self, tool: Tool, context: ToolContext) -> tuple[ToolOutput, Known | None]:
        """Give the result, and what is known of the effect when that is an error.

        A tool that says itself what went wrong did nothing, and so did one that remembers, whose
        contract that is; any other one that raises may have acted before.
        """
        language = self.context.agent.plan.language
        try:
            output = await tool.call(self.call.arguments, context)
        except UnknownEffect:
            raise
        except ToolError as error:
            output = ToolOutput.of_error(storable_text(text_of(error)))
        except UnstorableValue as error:
            problem = storable_text(text_of(error))
            text = prompt_text(language, "tool_unstorable", problem=problem)
            return ToolOutput.of_error(text), self._if_it_acts(tool, "done")
        except Exception as error:  # noqa: BLE001 -- a fault of a tool is a fact for the model
            text = storable_text(told(error))
            failed = ToolOutput.of_error(prompt_text(language, "tool_failed", error=text))
            if self.spec.remembers == "nothing" or context.should_stop():
                return failed, None
            return failed, self._if_it_acts(tool, "not_done")
        if not output.is_error or context.should_stop():
            return output, None
        return output, self._if_it_acts(tool, "not_done")

    def _if_it_acts(self, tool: Tool, known: Known) -> Known | None:
        return None if self.spec.side_effects == "none" else known

    def _timed_out(self, tool: Tool) -> Facts:
        spec, language = self.spec, self.context.agent.plan.language
        seconds = f"{spec.timeout:g}"
        if spec.may_run_again:
            text = prompt_text(language, "tool_timed_out", seconds=seconds)
            return (self._fact(ToolOutput.of_error(text)),)
        text = prompt_text(language, "unknown_effect_timeout", seconds=seconds)
        return (self._fact(ToolOutput.of_error(text), unknown=True),)

    def _fact(
        self, output: ToolOutput, *, unknown: bool = False, effect: Known | None = None
    ) -> ToolCompleted:
        latency = round((time.perf_counter() - self.started) * 1000)
        call, run = self.call, self.context.run
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "tool %s: %s, %d ms",
                call.name,
                "error" if output.is_error else "ok",
                latency,
                extra={
                    "run_id": run.run_id,
                    "span_id": call.span,
                    "tenant_id": run.header.tenant_id,
                },
            )
        return ToolCompleted(
            call_id=call.call_id,
            tool_name=call.name,
            output=output,
            outcome="unknown" if unknown else None,
            effect=effect if output.is_error else None,
            latency_ms=latency,
        )

    def _leave(self, task: "asyncio.Future[Facts]") -> None:
        """Let a call that was told to stop end by itself, and write what it did if it matters."""
        late = asyncio.ensure_future(self._write_late(task))
        self.context.strays.keep(late, self.context.run.run_id, self.call.call_id)

    async def _write_late(self, task: "asyncio.Future[Facts]") -> None:
        await asyncio.wait((task,))
        if task.cancelled():
            return
        facts = task.result()
        pen = self.context.pen
        try:
            await pen.log.append(pen.run_id, lambda run, _: self._if_unknown(run, facts), sync=True)
        except LoomError as error:
            _log.warning("late result of %s not kept: %s", self.call.name, type(error).__name__)

    def _if_unknown(self, run: RunState | None, facts: Facts) -> Facts:
        """Rule of a late result: nobody took the run, nor launched or settled the call since."""
        call = run.call(self.call.call_id) if run else None
        lease = run.lease if run else None
        if call is None or lease is None or lease.worker_id != self.context.worker_id:
            return ()
        known = call.is_settled and not call.unknown
        return () if known or call.span != self.call.span else facts


def _is_unknown(facts: Facts) -> bool:
    return any(isinstance(fact, ToolCompleted) and fact.outcome == "unknown" for fact in facts)


def _is_failure(facts: Facts) -> bool:
    return any(isinstance(fact, ToolCompleted) and fact.output.is_error for fact in facts)


def _was_undone(call: Call) -> bool:
    """Whether the outside world told that nothing had happened before this launch."""
    return 0 < call.undone == call.launches - 1


def _was_allowed_again(call: Call) -> bool:
    """Whether this launch was granted although an earlier one may have taken effect."""
    question = call.question
    return (
        question is not None
        and question.kind == "unknown_effect"
        and isinstance(question.verdict, Granted)
        and question.launches == call.launches - 1
    )
