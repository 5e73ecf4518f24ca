"""Driving a run: decide, write, act, until it is over or waits for somebody.

This loop is the whole engine. It never acts on a fact that is not written, never goes on once the
run is not ours, and refuses to turn without advancing. Asked to halt, it begins nothing more, and
what is under way is a fact before the run is handed back.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from loom_ia.core.decide import decide
from loom_ia.core.decide.answer import answer_of
from loom_ia.core.decide.closing import timed_out
from loom_ia.core.decide.effects import (
    AskApprover,
    AwaitRoom,
    CallModel,
    Effect,
    Emit,
    Finished,
    RunCalls,
    RunSteps,
    StopSteps,
    Wait,
)
from loom_ia.core.errors import HandedBack, InternalError
from loom_ia.core.ids import RunId
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.plan import AgentPlan, Plan
from loom_ia.core.state.run import Completed, RunState
from loom_ia.core.state.session import RunView
from loom_ia.engine.interrupt import Interrupt
from loom_ia.engine.lease import Pilot
from loom_ia.engine.perform import LIVE, EffectContext, Performers, children
from loom_ia.engine.perform.approver import inheriting
from loom_ia.engine.perform.context import SeenCalls
from loom_ia.engine.perform.steps import land, settle, stop_steps
from loom_ia.engine.program import AnyProgram, Program
from loom_ia.engine.sources import Equipment, asking_for, equipped


@dataclass(frozen=True, slots=True)
class Drive:
    """One drive of one run, whose lease is already ours, and of the runs that it opens.

    `meter` is told of the steps that start, and gives how many more may.
    """

    context: EffectContext
    pilot: Pilot
    interrupt: Interrupt = field(default_factory=Interrupt)
    performers: Performers = LIVE
    meter: "Meter | None" = None

    async def run(self) -> RunState:
        """Advance the run until it is over or waits; returns it as written.

        Raises `ClaimConflict` when another driver took it, `RunMoved` when it was closed elsewhere,
        `HandedBack` when it was asked to halt and `InternalError` when it does not advance.
        """
        context = replace(self.context, drive_below=self.drive_below)
        drive = replace(self, context=context)
        try:
            if isinstance(context.program, Program) and context.program.sources:
                return await drive.turn_equipped(context.program)
            return await drive.turn()
        finally:
            if context.flight:
                await land(context)
            context.pen.log.voices.hush(context.pen.run_id)

    async def turn_equipped(self, program: Program) -> RunState:
        """Advance the run with the tools of its sources, which are opened for this drive.

        What stops the opening is looked at before anything is decided: a run whose tools are not
        known must not take them for unknown.
        """
        pen, run = self.context.pen, self.context.run
        if not run.is_open or not run.understood:
            return await self.turn()
        asked = asking_for(run, program)
        await pen.commit(sync=False)  # a source may take its time: the run can be seen meanwhile
        async with AsyncExitStack() as stack:
            found: list[Equipment] = []

            async def open_sources() -> None:
                opening = equipped(program, asked, self.context.strays)
                found.append(await stack.enter_async_context(opening))

            while not found:
                if self.context.halt.asked and await self._halted():
                    return pen.run
                deadline = self._time_left(program.plan)
                reason = await self.interrupt.run(open_sources, deadline=deadline)
                if reason == "deadline" and pen.run.is_open:
                    pen.stage(timed_out(pen.run, program.plan.timeout))
                if not pen.run.is_open:
                    return await self.turn()
                if reason is not None:
                    pen.confirm()
            pen.stage(*found[0].facts(self.context.run))
            context = replace(self.context, program=found[0].program)
            return await replace(self, context=context).turn()

    async def turn(self) -> RunState:
        """Decide, write, act, until the run is over or waits, or is asked to halt."""
        pen = self.context.pen
        plan = self.context.program.plan
        clock = pen.log.clock
        while True:
            view = pen.view()._replace(sizes=self.context.sizes)
            if self.meter is not None:
                view = view._replace(steps_left=self.meter.left)
            before = view.run
            move = decide(view, plan, clock.now())
            match move:
                case Finished():
                    await pen.commit(sync=not self._is_below)
                    self._show_held(plan)
                    return pen.run
                case Wait():
                    if not self._is_below:
                        pen.stage(self.pilot.hand_back(clock.now()))
                    await pen.commit(sync=not self._is_below)
                    return pen.run
                case Emit():
                    await self._emit(move)
                case _ if self.context.halt.asked:
                    if await self._halted():
                        return pen.run
                    continue
                case effect:
                    await pen.commit(sync=_must_flush(effect))
                    if not self._is_fresh(view):
                        continue  # somebody else wrote: decide again
                    await self._perform(effect, plan)
                    if isinstance(effect, RunSteps | RunCalls | AwaitRoom):
                        continue  # a run below that waits tells nothing, nor does what it waits for
            if pen.run is before:
                raise InternalError(
                    "run {run_id} does not advance on {move}",
                    run_id=pen.run_id,
                    move=type(move).__name__,
                )

    def _is_fresh(self, view: RunView) -> bool:
        """Whether nothing was written since that the decision could have seen."""
        pen = self.context.pen
        if pen.run is not view.run:
            return False
        return view.run.flow is not None or view.is_same(pen.view())

    @property
    def _is_below(self) -> bool:
        return self.context.run.header.parent_run_id is not None

    async def _emit(self, move: Emit) -> None:
        pen = self.context.pen
        if not move.opens:
            pen.stage(*move.facts)
        else:
            before = pen.run
            begun = await children.opened(move.opens, self.context)
            if pen.run is not before:
                return  # somebody else wrote: decide again
            pen.stage(*move.facts)
            children.stage(begun, self.context)
        if self.meter is not None:
            started = pen.run.flow.started if pen.run.flow else 0
            self.meter.read(self.context.run.run_id, started)

    async def _halted(self) -> bool:
        """Write the ends of what is under way; whether nothing is, and the run stops here.

        The run at the top raises `HandedBack`; one below it goes on with that one.
        """
        context, pen = self.context, self.context.pen
        if context.flight:
            halt = context.halt
            await pen.commit(sync=False)
            if halt.cut or await self.interrupt.run(lambda: settle(context)) is not None:
                await land(context)
            return False
        await pen.commit(sync=not self._is_below)
        if not self._is_below:
            raise HandedBack(pen.run_id)
        return True

    def _show_held(self, plan: Plan) -> None:
        """Show an answer that was held back until it passed its checks."""
        context = self.context
        if not context.shows or not isinstance(plan, AgentPlan) or not plan.holds_text:
            return
        end = context.run.outcome
        if isinstance(end, Completed) and (text := end.output.as_text()):
            context.tell_whole(text)

    async def drive_below(
        self, above: EffectContext, run_id: RunId, program: AnyProgram
    ) -> RunState:
        """Drive a run that this one opened."""
        pen = above.pen.log.pen(run_id, self.pilot.may_write)
        is_followed = above.shows and _is_followed(above, run_id)
        context = replace(
            above,
            pen=pen,
            program=inheriting(program, above.program),
            flight={},
            seen_calls=SeenCalls(),
            sizes=Sizes(),
            state_writes={},
            chunk=above.chunk if is_followed else None,
            shows=is_followed,
            drive_below=self.drive_below,
        )
        return await replace(self, context=context, interrupt=Interrupt()).run()

    async def _perform(self, effect: Effect, plan: Plan) -> None:
        pen = self.context.pen
        reason = await self.interrupt.run(
            lambda: self.performers.perform(effect, self.context), deadline=self._time_left(plan)
        )
        if reason == "deadline" and pen.run.is_open and not _has_answer(pen.run, plan):
            if pen.run.flow is None:
                pen.stage(timed_out(pen.run, plan.timeout))
            else:
                await self._end_late()
        elif reason is not None and pen.run.is_open:
            pen.confirm()

    def _time_left(self, plan: Plan) -> float | None:
        """Give the seconds for which the run may still be driven, None for no limit."""
        pen = self.context.pen
        if plan.timeout is None or _has_answer(pen.run, plan):
            return None
        return plan.timeout - pen.run.driven(pen.log.clock.now()).total_seconds()

    async def _end_late(self) -> None:
        """Stop the steps of a graph that is out of time; the next decision fails it."""
        context = self.context
        await land(context)
        run = context.run
        running = tuple(c for c in run.table if c.output is None and c.launched_in == run.drive_id)
        await stop_steps(StopSteps(running), context)


def _has_answer(run: RunState, plan: Plan) -> bool:
    """Whether only what follows from an answer is left, for which there is always time."""
    return isinstance(plan, AgentPlan) and answer_of(run, plan) is not None


def _is_followed(above: EffectContext, run_id: RunId) -> bool:
    """Whether pieces of what a run below says are shown: steps of a graph, and terminal roles."""
    if above.run.flow is not None:
        return True
    child = above.pen.log.run(run_id)
    call = above.run.call(child.header.parent_call_id) if child else None
    tool = above.agent.plan.tools.get(call.name) if call else None
    return tool is not None and tool.kind == "role" and tool.terminal


def _must_flush(effect: Effect) -> bool:
    """Whether the facts that justify the effect must survive a power cut before it starts."""
    match effect:
        case CallModel() | AskApprover():
            return True
        case RunCalls() | RunSteps():
            return effect.acts
        case _:
            return False


class Meter(Protocol):
    """Budgets of steps that runs of this process share."""

    @property
    def left(self) -> int | None:
        """How many steps may still be started, None for no limit."""
        ...

    def read(self, run_id: RunId, started: int) -> None:
        """Charge what a run started since the last time; `started` counts all of it."""
        ...
