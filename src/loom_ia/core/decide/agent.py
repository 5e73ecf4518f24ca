"""What happens next in the run of an agent: read this one function.

An open step is performed, a finished one is closed. Then, in this order: what policies ruled has
its consequence, what the model said is looked at, an answer ends the run, calls on the table
advance, their results are looked at, and otherwise the model is called again, the last time
without tools.
The function is total: any prefix of any journal has a next move.
"""

from datetime import datetime

from loom_ia.core.decide.answer import answer_of, not_alone
from loom_ia.core.decide.calls import decide_calls, has_open_calls, run_calls
from loom_ia.core.decide.closing import close_step, completed, failed, is_out_of_time, timed_out
from loom_ia.core.decide.effects import AwaitRoom, Emit, Finished, Move, Review, Wait
from loom_ia.core.decide.limits import cut_short, must_stop, told, used_up
from loom_ia.core.decide.request import build_request
from loom_ia.core.decide.reserving import has_room, reserve_of
from loom_ia.core.decide.reviews import consequence, due_review, results_review
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.policy import PolicyDecided
from loom_ia.core.events.run import RunFinalizing, StepStarted
from loom_ia.core.model.budget import Reserve
from loom_ia.core.model.policy import DecisionKind, PolicyPoint
from loom_ia.core.plan import AgentPlan
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import BUDGET_FAILURE, RunState, Step
from loom_ia.core.state.session import RunView, is_held, shape_of


def decide_agent(view: RunView, plan: AgentPlan, now: datetime) -> Move:
    """Give the next move of a run of an agent."""
    run = view.run
    plan = plan.at(shape_of(view))
    if run.outcome is not None:
        return Finished()
    if not run.understood:  # a fact of a newer version: only read it
        return Wait(None)
    answer = answer_of(run, plan)
    if answer is None and is_out_of_time(run, plan.timeout, now):
        return Emit((timed_out(run, plan.timeout),))
    if run.checks.ruling is not None:
        return Emit(consequence(run, run.checks.ruling, plan, now))
    if run.step is not None:
        return _advance_step(view, run.step, plan, now)
    if (review := due_review(run, plan)) is not None:
        return review
    if answer is not None:
        return Emit((completed(run, answer),))
    if has_open_calls(run, plan):
        return decide_calls(view, plan, now)
    if (review := results_review(run, plan)) is not None:
        return review
    if (excess := cut_short(view)) is not None:
        return Emit((failed(run, BUDGET_FAILURE, used_up(excess, plan)),))
    reserve = reserve_of(view, plan)
    if reserve is not None and not has_room(view, reserve, now):
        return AwaitRoom(reserve)
    return Emit((*_beside_others(run, plan), *_next_turn(view, plan, reserve)))


def _beside_others(run: RunState, plan: AgentPlan) -> tuple[PolicyDecided, ...]:
    """Say of terminal calls that what they gave is no answer, for they were not alone."""
    return tuple(
        PolicyDecided(
            policy="loom.terminal",
            point=PolicyPoint.AFTER_TOOL,
            decision=DecisionKind.CONTINUE,
            reason=f"{call.name} was not called alone",
            call_id=call.call_id,
        )
        for call in not_alone(run, plan)
    )


def _next_turn(view: RunView, plan: AgentPlan, reserve: Reserve | None) -> tuple[Payload, ...]:
    """Call the model again, for the last time when iterations or budget are used up."""
    run = view.run
    numbered = bool(run.table) and plan.has_references
    step = StepStarted(
        step_no=run.steps + 1, effect="model_call", reserve=reserve, numbered=numbered
    )
    if run.finalizing or run.header.role:  # a role answers once, whoever pays for it
        return (step,)
    if run.table and run.iterations >= plan.max_iterations:
        return (RunFinalizing(reason="iterations"), step)
    if must_stop(view, plan):
        return (*told(view, plan), RunFinalizing(reason="budget"), step)
    return (*told(view, plan), step)


def _advance_step(view: RunView, step: Step, plan: AgentPlan, now: datetime) -> Move:
    if step.done:
        return Emit((close_step(step, now),))
    if step.effect == "model_call":
        before = PolicyPoint.BEFORE_MODEL
        if plan.is_reviewed(before) and before not in view.run.checks.passed:
            return Review(before)
        return build_request(view, plan)
    running = tuple(call for call in view.run.running() if not _is_held(call, view, now))
    return run_calls(running, plan) if running else Emit((close_step(step, now),))


def _is_held(call: Call, view: RunView, now: datetime) -> bool:
    child = view.runs.get(call.child_run_id) if call.child_run_id else None
    return child is not None and is_held(child, view.runs, now)
