"""How each effect is performed: a table from effect to coroutine.

Replacing the table replaces the world: replay and tests drive the same decisions with another one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import assert_never

from loom_ia.core.decide.effects import (
    AskApprover,
    AwaitRoom,
    CallModel,
    Effect,
    Meet,
    Review,
    ReviewStep,
    Route,
    RunCalls,
    RunSteps,
    StopSteps,
)
from loom_ia.engine.perform.approver import ask_approver
from loom_ia.engine.perform.calls import run_calls
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.perform.model import call_model
from loom_ia.engine.perform.review import review
from loom_ia.engine.perform.room import await_room
from loom_ia.engine.perform.steps import meet, review_step, route, run_steps, stop_steps


@dataclass(frozen=True, slots=True)
class Performers:
    """One coroutine for each kind of effect; each stages or emits the facts that result."""

    call_model: Callable[[CallModel, EffectContext], Awaitable[None]] = call_model
    await_room: Callable[[AwaitRoom, EffectContext], Awaitable[None]] = await_room
    run_calls: Callable[[RunCalls, EffectContext], Awaitable[None]] = run_calls
    ask_approver: Callable[[AskApprover, EffectContext], Awaitable[None]] = ask_approver
    run_steps: Callable[[RunSteps, EffectContext], Awaitable[None]] = run_steps
    stop_steps: Callable[[StopSteps, EffectContext], Awaitable[None]] = stop_steps
    review: Callable[[Review, EffectContext], Awaitable[None]] = review
    review_step: Callable[[ReviewStep, EffectContext], Awaitable[None]] = review_step
    route: Callable[[Route, EffectContext], Awaitable[None]] = route
    meet: Callable[[Meet, EffectContext], Awaitable[None]] = meet

    def perform(self, effect: Effect, context: EffectContext) -> Awaitable[None]:
        """Perform `effect`."""
        match effect:
            case CallModel():
                return self.call_model(effect, context)
            case AwaitRoom():
                return self.await_room(effect, context)
            case RunCalls():
                return self.run_calls(effect, context)
            case AskApprover():
                return self.ask_approver(effect, context)
            case RunSteps():
                return self.run_steps(effect, context)
            case StopSteps():
                return self.stop_steps(effect, context)
            case Review():
                return self.review(effect, context)
            case ReviewStep():
                return self.review_step(effect, context)
            case Route():
                return self.route(effect, context)
            case Meet():
                return self.meet(effect, context)
            case _:
                assert_never(effect)


LIVE = Performers()
"""The real world."""

__all__ = ["LIVE", "EffectContext", "Performers"]
