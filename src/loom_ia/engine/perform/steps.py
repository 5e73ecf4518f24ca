"""Running the steps of a graph: one in the driver's own task, several beside each other.

A step that runs beside others goes on while the driver decides about the rest; it is waited for
again at the next decision, and stopped with the drive.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from loom_ia.core.decide.closing import failed
from loom_ia.core.decide.effects import Meet, ReviewStep, Route, RunSteps, StopSteps
from loom_ia.core.events.approval import ApprovalRequested
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.graph import EffectRecorded, GraphRouted, MapOver
from loom_ia.core.events.policy import PolicyReviewed
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.json import JsonValue
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.model.usage import Usage
from loom_ia.core.spans import span
from loom_ia.core.state.calls import Call, EffectPhase
from loom_ia.core.state.flow import Line, path_of
from loom_ia.core.state.run import GRAPH_FAILURE, RunState
from loom_ia.engine.perform.children import drive_child, fault_facts
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.program import Asked, Done, Fault, Passed, Routing

Facts = tuple[Payload, ...]


async def run_steps(effect: RunSteps, context: EffectContext) -> None:
    """Run steps until one of them ends, and stage how it did."""
    flight = context.flight
    calls = effect.calls
    if len(calls) == 1 and not flight and effect.until is None:
        context.stage(*await _run(calls[0], context))
        await asyncio.sleep(0)  # a step that never awaits must not hold up the others, or a stop
        return
    for call in calls:
        if call.call_id not in flight:
            flight[call.call_id] = asyncio.create_task(_run(call, context))
    tasks = list(flight.values())
    wait = None if effect.until is None else _seconds_until(effect.until, context)
    if not tasks:
        await asyncio.sleep(wait or 0)
        return
    await asyncio.wait(tasks, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
    for call_id, task in list(flight.items()):
        if task.done():
            del flight[call_id]
            context.stage(*task.result())


async def stop_steps(effect: StopSteps, context: EffectContext) -> None:
    """Stop steps; what they did until then is not known."""
    for call in effect.calls:
        context.stage(*await _stopped(call, context))


async def land(context: EffectContext) -> None:
    """Stop every step that still runs, and stage the ends that are known."""
    flight = context.flight
    for task in flight.values():
        task.cancel()
    ends = await asyncio.gather(*flight.values(), return_exceptions=True)
    for end in ends:
        if not isinstance(end, BaseException):
            context.stage(*end)
    flight.clear()


async def settle(context: EffectContext) -> None:
    """Wait for every step that still runs, and write the end of each as it comes."""
    flight = context.flight
    while flight:
        await asyncio.wait(flight.values(), return_when=asyncio.FIRST_COMPLETED)
        for call_id, task in list(flight.items()):
            if task.done():
                del flight[call_id]
                await context.emit(*task.result())


async def _stopped(call: Call, context: EffectContext) -> Facts:
    task = context.flight.pop(call.call_id, None)
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            if facts := await task:
                return facts  # it ended all the same
    return (ToolCompleted(call_id=call.call_id, tool_name=call.name, outcome="stopped"),)


async def _run(call: Call, context: EffectContext) -> Facts:
    if call.child_run_id:
        return await drive_child(call, context)
    started = time.perf_counter()
    end = await context.graph.bindings.execute(_Work(call.call_id, context))
    latency = round((time.perf_counter() - started) * 1000)
    if isinstance(end, Fault):
        return fault_facts(end, call, context, latency)
    return _done(end, call, latency, context.pen.log.clock.now())


def _done(end: Done, call: Call, latency: int, now: datetime) -> Facts:
    asked = tuple(_request(question, call.call_id, call.name, now) for question in end.questions)
    if end.again:
        first, *others = asked
        return (first.model_copy(update={"changes": end.changes}), *others)
    completed = ToolCompleted.trusted(
        call_id=call.call_id,
        tool_name=call.name,
        output=_NOTHING,
        outcome=None,
        effect=None,
        latency_ms=latency,
        changes=end.changes,
        goto=end.goto,
        error_type="",
        key="",
        retry_at=None,
        usage=end.usage,
    )
    return (completed, *asked)


_NOTHING = ToolOutput()


def _request(asked: Asked, call_id: str, step: str, now: datetime) -> ApprovalRequested:
    expires = None if asked.expires_in is None else now + span(asked.expires_in)
    return ApprovalRequested(
        call_id=call_id,
        tool_name=step,
        kind=asked.kind,
        asked=asked.asked,
        key=asked.key,
        payload=asked.payload,
        answer_schema=asked.answer_schema,
        into=asked.into,
        expire_at=expires,
        tool=asked.tool,
        tool_call_id=asked.tool_call_id,
        position=asked.position,
        starts=asked.starts,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """What a running step may do."""

    call_id: str
    context: EffectContext

    @property
    def run(self) -> RunState:
        return self.context.run

    @property
    def call(self) -> Call:
        call = self.run.call(self.call_id)
        return call if call is not None else Call(self.call_id, self.call_id.split("/")[-2], {})

    @property
    def line(self) -> Line:
        flow = self.run.flow
        if flow is None:
            raise LookupError(self.call_id)
        return flow.lines[path_of(self.call_id)]

    @property
    def usage(self) -> Usage:
        return consumed(self.context)

    async def record(
        self,
        key: str,
        phase: EffectPhase,
        position: int,
        result: JsonValue = None,
        side_effects: SideEffects | None = None,
    ) -> None:
        fact = EffectRecorded(
            call_id=self.call_id,
            tool_name=self.call.name,
            key=key,
            phase=phase,
            position=position,
            result=result,
            side_effects=side_effects,
        )
        await self.context.pen.write(fact, sync=phase == "started")

    @property
    def is_followed(self) -> bool:
        return self.context.token is not None

    def token(self, text: str) -> None:
        if self.context.token is not None:
            self.context.token(self.run.run_id, self.call.name, text)


def consumed(context: EffectContext) -> Usage:
    """Give what the run and those below it consumed, in tokens and dollars."""
    spent = context.pen.view().spent
    return spent.usage.model_copy(update={"cost_usd": spent.cost or None})


async def route(effect: Route, context: EffectContext) -> None:
    """Ask where a line goes on, and stage the decision."""
    line, run = effect.line, context.run
    routing = await context.graph.bindings.route(line, run)
    if isinstance(routing, Fault):
        await _fail(routing, line.step, context)
        return
    context.stage(_routed(routing, line, run))


def _routed(routing: Routing, line: Line, run: RunState) -> GraphRouted:
    over = routing.over
    mapped = None
    if over is not None:
        mapped = MapOver(
            step=over.step,
            collect=over.collect,
            limit=over.limit,
            take=over.take,
            collects_errors=over.collects_errors,
        )
    return GraphRouted.trusted(
        n=(run.flow.routes if run.flow else 0) + 1,
        line=line.path,
        source=(line.step,),
        to=routing.to,
        label=routing.label,
        inputs=routing.inputs,
        over=mapped,
        gathered="",
        ended=False,
        error="",
        changes=routing.changes,
    )


async def meet(effect: Meet, context: EffectContext) -> None:
    """Merge what branches did, and send the line on."""
    line, branches, run = effect.line, effect.branches, context.run
    changes = context.graph.bindings.meet(line, branches)
    if isinstance(changes, Fault):
        await _fail(changes, line.step, context)
        return
    n = (run.flow.routes if run.flow else 0) + 1
    source = tuple(dict.fromkeys(branch.step for branch in branches if branch.stage == "ended"))
    if line.mapped is not None:
        step = line.mapped.step
        context.stage(
            GraphRouted(n=n, line=line.path, source=source, gathered=step, changes=tuple(changes))
        )
        return
    arrived = tuple(
        dict.fromkeys(b.ended_at for b in branches if b.stage == "ended" and b.ended_at)
    )
    if len(arrived) > 1:
        text = f"branches of {line.step!r} meet in different steps: {', '.join(arrived)}"
        await _fail(Fault("RouteError", text), line.step, context)
        return
    context.stage(
        GraphRouted(n=n, line=line.path, source=source, to=arrived, changes=tuple(changes))
    )


async def review_step(effect: ReviewStep, context: EffectContext) -> None:
    """Ask the hooks, and stage what they say."""
    line, after, call_id = effect.line, effect.after, effect.call_id
    verdict = await context.graph.bindings.review(
        line, call_id, context.run, consumed(context), after=after
    )
    if isinstance(verdict, Fault):
        if verdict.changes:
            context.stage(_reviewed(Passed(line.reviewed, verdict.changes), effect))
        await _fail(verdict, line.step, context)
        return
    context.stage(_reviewed(verdict, effect))
    if verdict.question is not None:
        now = context.pen.log.clock.now()
        context.stage(_request(verdict.question, call_id, line.step, now))


def _reviewed(passed: Passed, effect: ReviewStep) -> PolicyReviewed:
    return PolicyReviewed(
        point="after_step" if effect.after else "before_step",
        subject=effect.call_id,
        line=effect.line.path,
        passed=passed.passed,
        changes=passed.changes,
        stopped=passed.stops,
    )


async def _fail(fault: Fault, step: str, context: EffectContext) -> None:
    """End the run for a fault of a hook or a router, once what runs beside it is stopped."""
    if fault.cause is not None:
        context.causes[(context.run.run_id, step)] = fault.cause
    await land(context)
    for call in context.run.table:
        if call.output is None and call.launched_in == context.run.drive_id:
            stopped = ToolCompleted(call_id=call.call_id, tool_name=call.name, outcome="stopped")
            context.stage(stopped)
    error = f"{GRAPH_FAILURE}{fault.error}"
    context.stage(failed(context.run, error, fault.text, step=step, key=fault.key))


def _seconds_until(instant: datetime, context: EffectContext) -> float:
    wait: timedelta = instant - context.pen.log.clock.now()
    return max(wait.total_seconds(), 0.0)


__all__ = ["consumed", "land", "meet", "review_step", "route", "run_steps", "settle", "stop_steps"]
