"""What the facts of policies, contracts and judges do to a run.

All functions are total: a fact that no longer applies changes nothing. A decision that ends a
question is only noted here, as a ruling; the next decision of the run draws what follows from it.
"""

from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.content import ArtifactBlock, TextBlock, ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import DecisionKind, PolicyPoint, RequestChange, Verdict
from loom_ia.core.state.calls import Hold
from loom_ia.core.state.checks import Ruling
from loom_ia.core.state.run import RunState


def passed(run: RunState, point: PolicyPoint, subject: str, *, at_launch: bool) -> RunState:
    """Let a subject past a point: a call, or the present turn of the model."""
    if point.is_of_tools:
        call = run.call(subject)
        return run.with_call(call.past(point, at_launch=at_launch)) if call else run
    return run.but(checks=run.checks.past(point))


def ruled(run: RunState, ruling: Ruling) -> RunState:
    """Take a decision whose consequence the next decision of the run draws."""
    checks = run.checks.but(ruling=ruling)
    if ruling.decision is DecisionKind.RETRY:
        checks = checks.retried(ruling.policy)
    return run.but(checks=checks)


def request_changed(run: RunState, change: RequestChange) -> RunState:
    """Change the coming request."""
    return run.but(checks=run.checks.but(change=change.over(run.checks.change)))


def arguments_replaced(
    run: RunState, call_id: CallId, arguments: JsonObject, policy: str
) -> RunState:
    """Have a call made with other arguments, which the model reads as its own.

    What a human edited before is no longer what would run, so that no yes of his covers it.
    """
    call = run.call(call_id)
    if call is None:
        return run
    run = run.with_call(call.but(arguments=arguments, edited=(), replaced_by=policy))
    return run.but(conversation=run.conversation.with_arguments(call_id, arguments))


def result_replaced(run: RunState, call_id: CallId, output: ToolOutput) -> RunState:
    """Put something else in the place of what a call gave.

    What the call wrote in the state of the session was checked, and stays as it was.
    """
    call = run.call(call_id)
    if call is None or call.output is None:
        return run
    kept = {"state": call.output.state, "state_refused": call.output.state_refused}
    return run.with_call(call.but(output=output.model_copy(update=kept)))


def denied(run: RunState, call_id: CallId, reason: str) -> RunState:
    """Note that a call may not be made."""
    call = run.call(call_id)
    return run.with_call(call.but(denial=reason or "-")) if call else run


def held(run: RunState, call_id: CallId, hold: Hold) -> RunState:
    """Note that somebody must let a call go, because a policy says so."""
    call = run.call(call_id)
    return run.with_call(call.but(hold=hold)) if call else run


def answer_replaced(run: RunState, output: Message) -> RunState:
    """Put something else in the place of the answer; later turns read that."""
    if run.answer is None:  # that of a terminal tool
        blocks = tuple(b for b in output.blocks if isinstance(b, TextBlock | ArtifactBlock))
        said = ToolOutput(blocks=blocks)
        return run.but(table=tuple(c.but(output=said) if c.is_settled else c for c in run.table))
    return run.but(answer=output, conversation=run.conversation.with_last(output))


def guarded(
    run: RunState, policy: str, *, data: JsonValue, unverified: bool, fallback: bool
) -> RunState:
    """Note what a contract or a judge said of the answer."""
    checks = run.checks
    return run.but(
        checks=checks.but(
            heard=checks.heard | {policy},
            data=checks.data if data is None else data,
            unverified=checks.unverified or unverified,
            fallback=checks.fallback or fallback,
        )
    )


def judged(run: RunState, verdict: Verdict) -> RunState:
    """Note the marks that a judge gave."""
    return run.but(checks=run.checks.but(verdicts=(*run.checks.verdicts, verdict)))


def to_repair(run: RunState, message: Message, *, tools: bool) -> RunState:
    """Ask for another answer, in the same conversation.

    What the calls of this one wrote in the state of the session does not count.
    """
    kept = run.kept
    run = run.table_read()
    place = len(run.conversation.messages)
    return run.but(
        conversation=run.conversation.add(message),
        answer=None,
        kept=kept,
        checks=run.checks.but(
            repairs=(*run.checks.repairs, place), without_tools=not tools, ruling=None
        ),
    )
