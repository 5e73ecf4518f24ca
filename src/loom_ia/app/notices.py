"""Telling people that something waits for them: what is owed, sent until it is taken.

Law. A notice is owed for each request that is open, to each target that hears of its agent, until a
fact says what became of it. It is sent only for what the disk holds, at least once, and it is the
same each time: whoever receives it twice knows it by its id, and it makes no other request. What
was decided meanwhile is not sent. A notice that fails never touches the run.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from loom_ia.app.instance import Instance
from loom_ia.app.links import Claim
from loom_ia.app.outbox import Outbox
from loom_ia.core.errors import LoomError, NoticeNotSent
from loom_ia.core.events.approval import ApprovalNotified
from loom_ia.core.events.envelope import Payload
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.json import JsonObject, JsonValue, readable, storable_text
from loom_ia.core.ports.notices import Addressee
from loom_ia.core.state.questions import Asking, open_questions
from loom_ia.core.state.run import RunState
from loom_ia.core.views.notice import (
    Notice,
    delivery_id,
    sentence_of,
    shown_arguments,
    shown_digest,
)
from loom_ia.core.views.result import address_of
from loom_ia.engine.log import SessionLog

_log = logging.getLogger("loom_ia.app")

_MOST_ERROR: Final = 600
_MOST_SHOWN: Final = 32_768


@dataclass(frozen=True, slots=True)
class _Owed:
    """A notice that is owed: of a request below the run at the top, to a target."""

    root_id: RunId
    session_id: SessionId
    request: str
    to: Addressee


def tell(instance: Instance, log: SessionLog, run: RunState, *, patient: bool = False) -> None:
    """Begin to send, in the background, what is owed about a run that waits and those below it.

    `run` must be one at the top, as the disk holds it. The `patient` leave what was just asked to
    the process where it was. The instance waits for what this begins when it is drained or closed.
    """
    outbox, now = instance.outbox, instance.clock.now()
    if outbox is None or not outbox.addressees:
        return
    wait = outbox.patience if patient else timedelta(0)
    for owed, asking in _owed(outbox, run, log.state.runs, now):
        key = (owed.request, owed.to.name)
        if key in outbox.under_way or now < _asked_at(asking) + wait:
            continue
        outbox.under_way.add(key)
        job = asyncio.create_task(_deliver(instance, outbox, owed))
        job.add_done_callback(lambda _, key=key: outbox.under_way.discard(key))
        instance.start_job(job)


def _owed(
    outbox: Outbox, run: RunState, runs: Mapping[RunId, RunState], now: datetime
) -> Iterator[tuple[_Owed, Asking]]:
    for asking in open_questions(run, runs):
        if not asking.id or _is_late(asking, now):
            continue
        for to in outbox.addressees:
            named = {asking.run.header.agent, run.header.agent}
            if to.name not in _told(asking) and any(map(to.hears, named)):
                yield _Owed(run.run_id, run.header.session_id, asking.id, to), asking


async def _deliver(instance: Instance, outbox: Outbox, owed: _Owed) -> None:
    """Send a notice until it is taken, given up, or of no use; note how it ended."""
    attempts, delays = 0, outbox.delays(owed.to.max_attempts)
    try:
        while (found := await _still_owed(instance, owed)) is not None:
            body = _written(outbox, owed, *found, instance.clock.now())
            attempts += 1
            error = await _attempt(owed, body)
            delay = next(delays, None)
            if error is None or not error.again or delay is None:
                await _note(instance, owed, found[1], attempts, error)
                return
            await asyncio.sleep(delay)
    except LoomError as error:
        _log.warning(
            "notice %s: nothing could be noted of run %s (%s)",
            owed.to.name,
            owed.root_id,
            type(error).__name__,
        )


async def _attempt(owed: _Owed, body: bytes) -> NoticeNotSent | None:
    """Send once; gives what went wrong."""
    try:
        await owed.to.sender.send(body, delivery_id(owed.root_id, owed.request, owed.to.name))
    except NoticeNotSent as error:
        return error
    except Exception as error:  # noqa: BLE001 -- a sender is any code at all
        return NoticeNotSent("it could not be sent: {type}", type=type(error).__name__, again=False)
    return None


async def _still_owed(instance: Instance, owed: _Owed) -> tuple[RunState, Asking] | None:
    """Find the request as it is now; None once it is decided, late, told, or gone."""
    log, run = await instance.find(owed.root_id, owed.session_id)
    for asking in open_questions(run, log.state.runs):
        if asking.id == owed.request:
            over = _is_late(asking, instance.clock.now()) or owed.to.name in _told(asking)
            return None if over else (run, asking)
    return None


def _written(outbox: Outbox, owed: _Owed, run: RunState, asking: Asking, now: datetime) -> bytes:
    """Write a notice; only its link depends on the instant, which it needs to be of use."""
    arguments, payload = _bounded(asking)
    header = asking.run.header
    notice = Notice(
        id=delivery_id(owed.root_id, owed.request, owed.to.name),
        sentence=sentence_of(asking),
        kind=asking.kind,
        agent=header.agent,
        run_id=owed.root_id,
        call_id=address_of(asking, run.run_id),
        tool=(asking.inquiry.tool_name if asking.inquiry else "") or asking.call.name,
        arguments=arguments,
        payload=payload,
        reason=asking.question.reason if asking.question else "",
        requested_at=_asked_at(asking),
        expire_at=asking.expire_at,
        link=None
        if outbox.links is None
        else outbox.links.url(claim_of(outbox, owed, asking), now),
        language=header.language,
        shortened=(arguments, payload) != _shown(asking),
    )
    return notice.model_dump_json().encode()


def claim_of(outbox: Outbox, owed: _Owed, asking: Asking) -> Claim:
    """Say what the link of a notice is a permission for."""
    links = outbox.links
    until = (
        _asked_at(asking)
        if links is None
        else links.holds_until(_asked_at(asking), asking.expire_at)
    )
    return Claim(
        tenant_id=asking.run.header.tenant_id,
        run_id=owed.root_id,
        request=owed.request,
        shown=shown_digest(asking),
        expires_at=until,
        target=owed.to.name,
    )


async def _note(
    instance: Instance, owed: _Owed, asking: Asking, attempts: int, error: NoticeNotSent | None
) -> None:
    """Write how it ended, once, whoever else was sending the same."""
    if error is not None:
        _log.warning(
            "notice %s about run %s was not taken after %d attempt(s)",
            owed.to.name,
            owed.root_id,
            attempts,
        )
    fact = ApprovalNotified(
        call_id=asking.call.call_id,
        request=owed.request,
        target=owed.to.name,
        delivery_id=delivery_id(owed.root_id, owed.request, owed.to.name),
        attempts=attempts,
        outcome="sent" if error is None else "failed",
        error="" if error is None else storable_text(str(error))[:_MOST_ERROR],
    )

    def rule(run: RunState | None, _: datetime) -> tuple[Payload, ...]:
        call = None if run is None else run.call(asking.call.call_id)
        known = () if call is None else (call.question, *call.inquiries)
        told = any(q and q.id == owed.request and owed.to.name in q.told for q in known)
        return () if told else (fact,)

    log, _ = await instance.find(owed.root_id, owed.session_id)
    await log.append(asking.run.run_id, rule, sync=True)


def _asked_at(asking: Asking) -> datetime:
    asked = asking.inquiry or asking.question
    return asked.asked_at if asked is not None else asking.run.header.started_at


def _told(asking: Asking) -> tuple[str, ...]:
    asked = asking.inquiry or asking.question
    return asked.told if asked is not None else ()


def _is_late(asking: Asking, now: datetime) -> bool:
    return asking.expire_at is not None and now >= asking.expire_at


def _shown(asking: Asking) -> tuple[JsonObject, JsonValue]:
    return shown_arguments(asking), asking.inquiry.payload if asking.inquiry else None


def _bounded(asking: Asking) -> tuple[JsonObject, JsonValue]:
    arguments, payload = _shown(asking)
    short = {} if len(readable(arguments)) > _MOST_SHOWN else arguments
    return short, None if len(readable(payload)) > _MOST_SHOWN else payload
