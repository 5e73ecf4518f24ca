"""Opening, driving, resuming and reading runs.

A run is driven by one task at a time in an instance: whoever asks for a run that is being driven
waits for that drive instead of starting another.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias, cast

from loom_ia.app import notices
from loom_ia.app.instance import Instance
from loom_ia.app.session_state import require_state
from loom_ia.core.decide.limits import rebound
from loom_ia.core.errors import HandedBack, JudgeSkip, LoomError, NewerJournal, RunExists, RunMoved
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.run import RunResumed, RunStarted
from loom_ia.core.ids import RunId, SessionId, require_safe_id
from loom_ia.core.json import storable, storable_text
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.chunks import ModelChunk
from loom_ia.core.model.content import TextBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMode
from loom_ia.core.state.kept import present
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import is_held
from loom_ia.engine import attachments
from loom_ia.engine.attachments import AnyAttachment
from loom_ia.engine.driver import Drive, Meter
from loom_ia.engine.log import Pen, SessionLog
from loom_ia.engine.perform import LIVE, EffectContext, Performers
from loom_ia.engine.program import AnyProgram, Approver, Program
from loom_ia.engine.streaming import Feed, LiveItem

_logger = logging.getLogger("loom_ia.app")


Listener: TypeAlias = Callable[[ModelChunk], None]
"""Told each piece of a model's answer as it comes."""
Causes: TypeAlias = dict[tuple[RunId, str], BaseException]
"""The exceptions behind failures, by run and step."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a caller asks for when he opens a run."""

    agent: str
    message: str | Message
    session_id: SessionId | None = None
    run_id: RunId | None = None
    context: CallerContext | None = None
    approver: Approver | None = None
    state: Mapping[str, object] | None = None
    attachments: Sequence[AnyAttachment] = ()
    judges: JudgeMode = "auto"
    trigger: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that is about to begin; nothing is written yet."""

    log: SessionLog
    pen: Pen
    program: Program


async def open_run(instance: Instance, order: Order) -> Opened:
    """Prepare a run: check everything that can be refused, and stage its first facts.

    Raises `UnknownAgent`, `RunExists`, `UnusableId`, `UnstorableValue`, `StateRefused`,
    `JudgeSkip`, `AttachmentRefused`, and `ArtifactStoreError` when what is attached cannot be kept.
    Nothing is written to the journal before the run is driven, and its first facts go together;
    nothing is stored before every check.
    """
    program = _with_approver(instance.program(order.agent), order.approver)
    if order.judges == "skip" and program.keeps_judges:
        raise JudgeSkip("judges cannot be skipped in the profile prod: leave judges as it is")
    run_id = order.run_id or instance.clock.new_id()
    require_safe_id(run_id, "run id")
    session_id = order.session_id or run_id
    require_safe_id(session_id, "session id")
    context = _storable_context(order.context)
    said = _said(order.message)
    log = instance.log(session_id)
    if order.session_id is not None or order.run_id is not None:
        await log.catch_up()
    _require_new(instance, log, run_id)
    plan = program.plan
    state = require_state(order.state or {}, plan, present(log.state.kept))
    files = await attachments.admitted(order.attachments, instance.attachments)
    if files:
        _require_new(instance, log, run_id)  # time has passed
    kept = await attachments.keep(files, instance.artifacts, log.tenant_id, session_id)

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        if run is None:  # another run may have changed the session meanwhile
            require_state(state, plan, present(log.state.kept))
        return instance.pilot.may_write(run, now)

    pen = log.pen(run_id, rule)
    started = RunStarted(
        language=plan.language,
        plan=plan.digest,
        context=context,
        budget=plan.binding,
        session_budget=plan.session_binding,
        judges=order.judges,
        state=state,
        state_keys=plan.state.declared,
        trigger=order.trigger,
    )
    pen.begin(started, agent=order.agent, root_run_id=run_id)
    pen.stage(*kept, _with_files(said, kept), instance.pilot.claim(instance.clock.now()))
    return Opened(log, pen, program)


async def drive(
    instance: Instance,
    pen: Pen,
    program: AnyProgram,
    *,
    listener: Listener | None = None,
    performers: Performers = LIVE,
) -> RunState:
    """Drive a run whose lease is ours until it is over or waits; returns it as written."""
    instance.sit(pen.run_id, pen.log)
    try:
        return await drive_seated(instance, pen, program, listener=listener, performers=performers)
    finally:
        instance.leave(pen.run_id)


async def drive_seated(
    instance: Instance,
    pen: Pen,
    program: AnyProgram,
    *,
    listener: Listener | None = None,
    performers: Performers = LIVE,
    causes: Causes | None = None,
    meter: Meter | None = None,
    token: Callable[[RunId, str, str], None] | None = None,
) -> RunState:
    """Drive a run from the seat that was taken for it; returns it as written.

    `causes` is filled with the exceptions behind failures of steps, `meter` counts the steps that
    start, `token` is shown pieces of text of steps.
    """
    run_id, log = pen.run_id, pen.log
    seat = instance.driven[run_id]
    interrupt = seat.interrupt
    context = EffectContext(
        pen=pen,
        program=program,
        worker_id=instance.worker_id,
        chunk=listener,
        token=token,
        strays=instance.strays,
        causes={} if causes is None else causes,
        halt=seat.halt,
    )
    if not instance.alone:
        instance.heart.watch(run_id, log, interrupt)
    try:
        run = await Drive(context, instance.pilot, interrupt, performers, meter).run()
    except RunMoved:
        moved = log.run(run_id)
        if moved is None:
            raise
        return moved
    except BaseException:
        await _hand_back(instance, pen)
        raise
    finally:
        if not instance.alone:
            instance.heart.forget(run_id)
    notices.tell(instance, log, run)
    return run


async def resume(
    instance: Instance,
    run_id: RunId,
    *,
    session_id: SessionId | None = None,
    take_over: bool = False,
    approver: Approver | None = None,
    listener: Listener | None = None,
) -> RunState:
    """Go on with a run of an agent that was interrupted, decided upon, or failed in passing.

    A run that is over, or that still waits for a human, is returned as it is. Raises
    `ClaimConflict` when another driver holds it, unless `take_over`; `NewerJournal`,
    `UnknownRun`, `UnknownAgent`.
    """
    while True:
        log, run = await instance.find(run_id, session_id)
        seat = instance.driven.get(run_id)
        if seat is None:
            break
        await asyncio.shield(seat.ended)
    if not run.understood:
        raise NewerJournal(
            "run {run_id} holds events of a newer version: it can be read, not driven",
            run_id=run_id,
        )
    if run.outcome is not None and not run.is_resumable:
        return run
    if approver is None and is_held(run, log.state.runs, instance.clock.now()):
        return run
    program = _with_approver(instance.program(run.header.agent), approver)
    pilot = instance.pilot
    take = pilot.must_take if take_over else pilot.may_take

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        if run is None:
            return take(run, now)
        own, of_session = rebound(run, program.plan)
        resumed = RunResumed(budget=own, session_budget=of_session)
        if run.is_resumable:
            return (resumed, pilot.claim(now))
        taken = take(run, now)
        is_told = run.is_open and (own is not None or of_session is not None)
        return (resumed, *taken) if is_told else taken

    instance.sit(run_id, log)
    try:
        run = await log.append(run_id, rule, sync=False)
        if run.outcome is not None:
            return run
        pen = log.pen(run_id, pilot.may_write)
        return await drive_seated(instance, pen, program, listener=listener)
    finally:
        instance.leave(run_id)


async def submit(instance: Instance, order: Order) -> RunId:
    """Open a run and drive it in the background; it is written when this returns.

    Raises as `open_run`. The instance waits for it when it closes.
    """
    opened = await open_run(instance, order)
    await opened.pen.commit(sync=True)
    job = _drive_in_background(instance, opened)
    instance.start_job(asyncio.create_task(job))
    return opened.pen.run_id


async def _drive_in_background(instance: Instance, opened: Opened) -> None:
    try:
        await drive(instance, opened.pen, opened.program)
    except HandedBack:
        _logger.info("run %s handed back", opened.pen.run_id)
    except LoomError as error:
        _logger.warning("run %s stopped: %s", opened.pen.run_id, type(error).__name__)


async def stream(instance: Instance, order: Order) -> AsyncIterator[LiveItem]:
    """Open and drive a run, giving what happens as it does.

    What the drive raises is raised at the end of the items. Leaving the iteration cancels the
    drive, and the run can be resumed.
    """
    opened = await open_run(instance, order)
    feed = Feed(opened.log, opened.pen.run_id)
    feed.attach()
    task = asyncio.create_task(drive(instance, opened.pen, opened.program, listener=feed.chunk))
    task.add_done_callback(lambda _: feed.end())
    try:
        async for item in feed.items():
            yield item
        await task
    finally:
        feed.detach()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def careful(listener: Listener | None) -> Listener | None:
    """Keep what a caller's listener raises away from the run; it is told nothing more then."""
    if listener is None:
        return None
    told: Listener | None = listener

    def tell(chunk: ModelChunk) -> None:
        nonlocal told
        if told is None:
            return
        try:
            told(chunk)
        except Exception as error:  # noqa: BLE001 -- a listener is any code at all
            _logger.warning("a listener failed and is told nothing more: %s", type(error).__name__)
            told = None

    return tell


async def _hand_back(instance: Instance, pen: Pen) -> None:
    """Keep what really happened and let another driver take the run at once, if that can be."""

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        lease = run.lease if run and run.is_open else None
        mine = lease is not None and lease.worker_id == instance.worker_id
        return (instance.pilot.hand_back(now),) if mine else ()

    if pen.log.run(pen.run_id) is None:
        return
    with contextlib.suppress(LoomError, asyncio.CancelledError):
        await pen.abandon()
        await pen.log.append(pen.run_id, rule, sync=False)
        if instance.halting.is_set():
            instance.tell_handed_back(pen.run_id, pen.log.session_id)


def _with_approver(program: Program, approver: Approver | None) -> Program:
    if approver is None:
        return program
    plan = replace(program.plan, inline_approver=True)
    return replace(program, plan=plan, approver=approver)


def _require_new(instance: Instance, log: SessionLog, run_id: RunId) -> None:
    if log.run(run_id) is not None or run_id in instance.driven:
        raise RunExists("run {run_id} exists already", run_id=run_id)


def _with_files(said: UserMessage, kept: Sequence[ArtifactStored]) -> UserMessage:
    """Put files after what is said; a text that is empty is left out, as they say it all."""
    if not kept:
        return said
    spoken = tuple(
        block
        for block in said.message.blocks
        if not isinstance(block, TextBlock) or block.text.strip()
    )
    blocks = (*spoken, *attachments.blocks_of(kept))
    return said.model_copy(update={"message": said.message.model_copy(update={"blocks": blocks})})


def _said(message: str | Message) -> UserMessage:
    if isinstance(message, str):
        text = storable_text(message)
        mended = () if text == message else ("message",)
        return UserMessage(message=Message.text("user", text), mended=mended)
    if not isinstance(cast("object", message), Message):
        raise TypeError(f"a message is text or a Message, not {type(message).__name__}")
    safe, mended = storable(message.model_dump(mode="json"), "message")
    if not mended:
        return UserMessage(message=message)
    return UserMessage(message=Message.model_validate(safe), mended=mended)


def _storable_context(context: CallerContext | None) -> CallerContext:
    if context is None:
        return CallerContext()
    safe, _ = storable(context.model_dump(mode="json"), "context")
    return CallerContext.model_validate(safe)
