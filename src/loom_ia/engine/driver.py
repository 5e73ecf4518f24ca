"""Driving a run: decide, write, act, until it is over or waits for somebody.

This loop is the whole engine. It never acts on a fact that is not written, never goes on once the
run is not ours, and refuses to turn without advancing.
"""

from dataclasses import dataclass, field

from loom_ia.core.decide import decide
from loom_ia.core.decide.closing import timed_out
from loom_ia.core.decide.effects import (
    AskApprover,
    CallModel,
    Effect,
    Emit,
    Finished,
    RunCalls,
    Wait,
)
from loom_ia.core.errors import InternalError
from loom_ia.core.plan import AgentPlan
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import Interrupt
from loom_ia.engine.lease import Pilot
from loom_ia.engine.perform import LIVE, EffectContext, Performers


@dataclass(frozen=True, slots=True)
class Drive:
    """One drive of one run, whose lease is already ours."""

    context: EffectContext
    pilot: Pilot
    interrupt: Interrupt = field(default_factory=Interrupt)
    performers: Performers = LIVE

    async def run(self) -> RunState:
        """Advance the run until it is over or waits; returns it as written.

        Raises `ClaimConflict` when another driver took it, `RunMoved` when it was closed elsewhere
        and `InternalError` when it does not advance.
        """
        pen = self.context.pen
        plan = self.context.program.plan
        clock = pen.log.clock
        while True:
            view = pen.view()
            before = view.run
            move = decide(view, plan, clock.now())
            match move:
                case Finished():
                    await pen.commit(sync=True)
                    return pen.run
                case Wait():
                    pen.stage(self.pilot.hand_back(clock.now()))
                    await pen.commit(sync=True)
                    return pen.run
                case Emit(facts):
                    pen.stage(*facts)
                case CallModel() | RunCalls() | AskApprover():
                    await pen.commit(sync=_must_flush(move))
                    if not view.is_same(pen.view()):
                        continue  # somebody else wrote: decide again
                    await self._perform(move, plan)
            if pen.run is before:
                raise InternalError(
                    "run {run_id} does not advance on {move}",
                    run_id=pen.run_id,
                    move=type(move).__name__,
                )

    async def _perform(self, effect: Effect, plan: AgentPlan) -> None:
        pen = self.context.pen
        deadline = None
        if plan.timeout is not None:
            driven = pen.run.driven(pen.log.clock.now()).total_seconds()
            deadline = plan.timeout - driven
        reason = await self.interrupt.run(
            lambda: self.performers.perform(effect, self.context), deadline=deadline
        )
        if reason == "deadline" and pen.run.is_open and pen.run.answer is None:
            pen.stage(timed_out(pen.run, plan.timeout))
        elif reason is not None and pen.run.is_open:
            pen.confirm()


def _must_flush(effect: Effect) -> bool:
    """Whether the facts that justify the effect must survive a power cut before it starts."""
    match effect:
        case CallModel() | AskApprover():
            return True
        case RunCalls():
            return effect.acts
