"""Going on with a run of a graph: what is checked, what is written, and in which order.

Checks come in this order, and nothing is written before they all pass: the run is found, its lease
is free, no reserved key is given, the graph is the one that it began with, the answers fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from loom_ia.app.graphs.checkpoints import mend
from loom_ia.app.graphs.driving import Manner, drive, locked_by, refused_to_write
from loom_ia.app.graphs.keeping import WriteFailed
from loom_ia.app.graphs.legacy import Checkpoint, checkpoint_of, go_on_from
from loom_ia.app.graphs.order import Order, naming
from loom_ia.app.graphs.reading import graph_of
from loom_ia.core.decide.limits import rebound
from loom_ia.core.errors import ClaimConflict, NewerJournal, UnknownRun
from loom_ia.core.events.approval import ApprovalGranted, ApprovalRejected
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunResumed
from loom_ia.core.ids import EventId, RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import Change
from loom_ia.core.state.questions import Asking, open_questions
from loom_ia.core.state.run import Cancelled, Completed, RunState
from loom_ia.core.state.session import SessionState, is_held
from loom_ia.engine.log import SessionLog
from loom_ia.engine.perform.approver import unknown_decided
from loom_ia.graph.answers import check_answer, told_answer
from loom_ia.graph.children import ChildGraph
from loom_ia.graph.combine import checked_key
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import (
    AmbiguousAnswer,
    DeltaError,
    ExpiredInterrupt,
    GraphChanged,
    InvalidAnswer,
    RunNotFound,
    UnknownInterrupt,
)
from loom_ia.graph.protocol import accepted
from loom_ia.graph.results import budget_left, result_of
from loom_ia.graph.surroundings import Surroundings, info_of
from loom_ia.graph.types import RunResult


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a caller says when he goes on with a run."""

    input: Mapping[str, Any] | None = None
    answers: Mapping[str, Any] | None = None
    allow_changed: bool = False
    take_over: bool = False
    by: str = "python"


async def found(order: Order, run_id: RunId) -> tuple[SessionLog, RunState]:
    """Find a root run of the graph; raises `RunNotFound`, `ValueError` for a run below another."""
    if "/" in run_id:
        raise ValueError(
            f"{run_id!r} is a run below another: go on with its root, {run_id.split('/')[0]!r}"
        )
    try:
        log, run = await order.instance.find(run_id, run_id)
    except UnknownRun as error:
        raise RunNotFound("there is no run {run_id} in this store", run_id=run_id) from error
    if run.flow is None:
        raise RunNotFound("run {run_id} is not one of a graph", run_id=run_id)
    return log, run


async def resume_graph(
    order: Order, run_id: RunId, said: Resumption, manner: Manner
) -> RunResult[Any]:
    """Go on with a run; see the table of `Graph.resume`."""
    said = replace(said, input=accepted(said.input, compat=order.graph.compat)[0])
    try:
        log, run = await found(order, run_id)
    except RunNotFound:
        checkpoint = await checkpoint_of(order, run_id)
        if checkpoint is None:
            raise
        return await _resume_checkpoint(order, checkpoint, said, manner)
    if not run.understood:
        raise NewerJournal(
            "run {run_id} holds events of a newer version: it can be read, not driven",
            run_id=run_id,
        )
    _require_free(order, run, said)
    _require_keys(order.graph, said.input, run_id)
    if isinstance(run.outcome, Completed | Cancelled):
        if said.answers:
            _refuse_unknown(next(iter(said.answers)), run_id)
        await mend(order, log, run)
        return _as_it_is(order, run, log.state)
    require_same_graph(order.graph, run, log.state, allow_changed=said.allow_changed)
    if _is_told_nothing(order, run, log.state, said):
        await mend(order, log, run)
        return _as_it_is(order, run, log.state)
    now = order.instance.clock.now()
    _changes(order.graph, run, said.input)  # refused before anything
    answered = _answers(order, run, log.state, said, now)
    given = dict(said.input or {})
    around = Surroundings(order.graph, info_of(order.graph, run_id, given, resumed=True))
    if _goes_on(order, run, log.state, len(answered), now):
        await around.begin()
    return await go_on(order, log, run_id, said, manner, around)


async def _resume_checkpoint(
    order: Order, checkpoint: Checkpoint, said: Resumption, manner: Manner
) -> RunResult[Any]:
    """Go on with a run of which only a checkpoint is left."""
    _require_keys(order.graph, said.input, checkpoint.run_id)
    if said.answers:
        _refuse_unknown(next(iter(said.answers)), checkpoint.run_id)
    return await go_on_from(order, checkpoint, said.input, manner, by=said.by)


async def go_on(
    order: Order,
    log: SessionLog,
    run_id: RunId,
    said: Resumption,
    manner: Manner,
    around: Surroundings,
) -> RunResult[Any]:
    """Write what the caller says, and drive the run unless it still waits."""
    run = log.state.runs[run_id]
    if _is_told_nothing(order, run, log.state, said):
        result = _as_it_is(order, run, log.state)
        await around.end(result)
        return result
    try:
        goes_on = await _write(order, log, run_id, said)
    except ClaimConflict as conflict:
        await around.leave(conflict)
        raise locked_by(conflict) from conflict
    except WriteFailed as error:
        return await refused_to_write(order, run, log, error, around, manner)
    except BaseException as error:
        await around.leave(error)
        raise
    run = log.state.runs[run_id]
    if not goes_on:
        await around.end(_as_it_is(order, run, log.state))
        return _as_it_is(order, run, log.state)
    if not around.is_entered:  # others answered the rest since
        await around.begin()
    program = order.program(run, log.state)
    before = run.flow.executed if run.flow else 0
    pen = log.pen(run_id, order.instance.pilot.may_write)
    return await drive(order, pen, program, around, manner, executed_before=before)


async def _write(order: Order, log: SessionLog, run_id: RunId, said: Resumption) -> bool:
    """Write what the caller says, and take the wheel when nothing is asked any more."""
    goes_on = False

    def facts(now: datetime) -> Sequence[tuple[RunId, Payload]]:
        nonlocal goes_on
        run = log.state.runs[run_id]
        _require_free(order, run, said)
        if isinstance(run.outcome, Completed | Cancelled):
            goes_on = False
            return ()
        answered = _answers(order, run, log.state, said, now)
        goes_on = _goes_on(order, run, log.state, len(answered), now)
        changes = _changes(order.graph, run, said.input)
        spoken = {question: _said(fact) for question, (_, fact) in answered.items()}
        own, of_session = rebound(run, order.plan())
        resumed = RunResumed(
            by=said.by,
            changes=changes,
            answers=spoken,
            budget=own,
            session_budget=of_session,
        )
        told = _told_below(order, run, log.state, said)
        written: list[tuple[RunId, Payload]] = [(run_id, resumed), *told, *answered.values()]
        if goes_on:
            written.append((run_id, order.instance.pilot.claim(now)))
        return written

    await log.append_all(facts, sync=True)
    return goes_on


def _said(answer: Payload) -> JsonValue:
    """Give what an answer says, in the form of the journal."""
    match answer:
        case ApprovalGranted(question="", arguments=None):
            return {"approved": True}
        case ApprovalGranted(question="", arguments=arguments):
            return {"approved": True, "arguments": arguments}
        case ApprovalGranted(answer=said):
            return said
        case _:
            return {"approved": False, "reason": getattr(answer, "reason", "")}


def _is_told_nothing(order: Order, run: RunState, state: SessionState, said: Resumption) -> bool:
    """Whether a run waits for answers, and is given nothing that could make it go on."""
    if said.input is not None or said.answers or order.approver is not None:
        return False
    return is_held(run, state.runs, order.instance.clock.now())


def _goes_on(
    order: Order, run: RunState, state: SessionState, answered: int, now: datetime
) -> bool:
    """Whether a run can advance once that many of its questions are answered."""
    if order.approver is not None or not is_held(run, state.runs, now):
        return True
    return answered == sum(1 for _ in open_questions(run, state.runs))


def _require_free(order: Order, run: RunState, said: Resumption) -> None:
    pilot, now = order.instance.pilot, order.instance.clock.now()
    try:
        (pilot.must_take if said.take_over else pilot.may_take)(run, now)
    except ClaimConflict as conflict:
        raise locked_by(conflict) from conflict


def _require_keys(
    graph: GraphDefinition[Any], given: Mapping[str, Any] | None, run_id: RunId
) -> None:
    if given is None:
        return
    if not isinstance(cast("object", given), Mapping):
        raise TypeError(f"input is a mapping, not a {type(given).__name__}")
    with naming(graph, run_id):
        for key in given:
            checked_key(key)


def require_same_graph(
    graph: GraphDefinition[Any], run: RunState, state: SessionState, *, allow_changed: bool
) -> None:
    """Refuse a run that began under another shape of the graph, or of one below it."""
    flow = run.flow
    if run.header.plan != graph.fingerprint():
        differences = graph.changes_since(run.header.parts)
        if differences and not allow_changed:
            raise GraphChanged(
                "graph {graph!r} changed since run {run_id} began ({what}): nothing was written; "
                "explain it with migrate, or pass allow_changed=True",
                graph=graph.name,
                run_id=run.run_id,
                what="; ".join(differences),
            )
    for line in flow.lines.values() if flow else ():
        if line.stage in ("due", "called", "done") and _named(graph, line.step) is None:
            raise GraphChanged(
                "run {run_id} stands at step {step!r}, which graph {graph!r} has no more: add it, "
                "or tell its new name with migrate",
                run_id=run.run_id,
                step=line.step,
                graph=graph.name,
            )
    for child in state.children(run.run_id):
        if child.outcome is None and child.flow is not None:
            name = child.header.parent_call_id.split("/")[-2]
            step = _named(graph, name)
            if step is not None and isinstance(step.child, ChildGraph):
                require_same_graph(step.child.graph, child, state, allow_changed=allow_changed)


def _named(graph: GraphDefinition[Any], name: str) -> Any:
    return graph.steps.get(graph.migrations.get(name, name))


def _answers(
    order: Order, run: RunState, state: SessionState, said: Resumption, now: datetime
) -> dict[EventId, tuple[RunId, Payload]]:
    """Give the fact of each answer, by its question; raises when an answer cannot be taken."""
    asked = {asking.id: asking for asking in open_questions(run, state.runs)}
    answers = said.answers
    if answers is None:
        if said.input is None or not asked:
            return {}
        if len(asked) > 1:
            raise AmbiguousAnswer(
                "{count} questions of run {run_id} are open: say which one is answered, "
                "answers={{id: …}}; the ids are {ids}",
                count=len(asked),
                run_id=run.run_id,
                ids=", ".join(asked),
            )
        (asking,) = asked.values()
        _check_given(asking, said.input)
        into = asking.inquiry.into if asking.inquiry else ""
        merged = into in said.input  # it is in its place already
        given = dict(said.input)
        return {asking.id: _fact(order, asking, given, said.by, now, merged=merged)}
    facts: dict[EventId, tuple[RunId, Payload]] = {}
    for question, answer in answers.items():
        if question not in asked:
            _refuse_unknown(question, run.run_id, asked)
        schema = asked[question].schema
        told = told_answer(answer, schema)
        check_answer(told, schema, question=question)
        facts[question] = _fact(order, asked[question], told, said.by, now)
    return facts


def _check_given(asking: Asking, given: Mapping[str, Any]) -> None:
    """Check an input that is also an answer: the value under the question's key, or all of it."""
    key = asking.inquiry.key if asking.inquiry else ""
    inquiry = asking.inquiry
    may_be_named = inquiry is not None and inquiry.kind == "input" and inquiry.asked != "inside"
    if may_be_named and key in given:
        check_answer(given[key], asking.schema, question=asking.id)
    else:
        check_answer(dict(given), asking.schema, question=asking.id)


def _fact(
    order: Order, asking: Asking, answer: Any, by: str, now: datetime, *, merged: bool = False
) -> tuple[RunId, Payload]:
    call, inquiry = asking.call, asking.inquiry
    expires = inquiry.expire_at if inquiry else asking.question and asking.question.expire_at
    if expires is not None and now >= expires:
        raise ExpiredInterrupt(
            "question {id} expired at {at}: nothing was written",
            id=asking.id,
            at=expires.isoformat(timespec="seconds"),
        )
    if inquiry is None:
        return asking.run.run_id, _decided(asking, answer, by)
    try:
        stored = order.graph.state_type.codec.to_json(answer, "answer")
    except DeltaError as error:
        raise InvalidAnswer(
            "the answer to question {id} cannot be kept: {reason}", id=asking.id, reason=str(error)
        ) from error
    granted = ApprovalGranted(
        call_id=call.call_id,
        tool_name=call.name,
        by=by,
        question=inquiry.id,
        answer=stored,
        merged=merged,
    )
    return asking.run.run_id, granted


def _decided(asking: Asking, answer: Any, by: str) -> ApprovalGranted | ApprovalRejected:
    """Give the decision about a call of a tool, or a step whose effect is not known."""
    fact = unknown_decided(asking.call, answer, by)
    arguments = cast("Mapping[str, Any]", answer).get("arguments")
    if arguments is not None and isinstance(fact, ApprovalGranted):
        return fact.model_copy(update={"arguments": dict(arguments)})
    return fact


def _refuse_unknown(
    question: str, run_id: RunId, asked: Mapping[str, Asking] | None = None
) -> None:
    raise UnknownInterrupt(
        "no question {id!r} of run {run_id} is open; open: {open}",
        id=question,
        run_id=run_id,
        open=", ".join(asked or ()) or "none",
    )


def _changes(
    graph: GraphDefinition[Any], run: RunState, given: Mapping[str, Any] | None
) -> tuple[Change, ...]:
    if not given or run.flow is None:
        return ()
    with naming(graph, run.run_id):
        return graph.state_type.merges.changes(run.flow.main.values, given, in_branch=False)


def _told_below(
    order: Order, run: RunState, state: SessionState, said: Resumption
) -> list[tuple[RunId, Payload]]:
    """Let the runs down to the one that asks hear the input which answers it, as the root does."""
    if said.answers is not None or not said.input:
        return []
    told: list[tuple[RunId, Payload]] = []
    asking = next(open_questions(run, state.runs), None)
    below = asking.run if asking is not None else run
    while below.run_id != run.run_id:
        if below.flow is not None:
            graph = graph_of(order.graph, below.run_id)
            keys = graph.state_type.keys
            given = {key: v for key, v in said.input.items() if keys is None or key in keys}
            told.append(
                (below.run_id, RunResumed(by=said.by, changes=_changes(graph, below, given)))
            )
        below = state.runs[below.header.parent_run_id or run.run_id]
    return told[::-1]


def _as_it_is(order: Order, run: RunState, state: SessionState) -> RunResult[Any]:
    return result_of(order.graph, run, state, budget_left=budget_left(run, state))


__all__ = [
    "Resumption",
    "found",
    "go_on",
    "require_same_graph",
    "resume_graph",
]
