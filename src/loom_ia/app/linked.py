"""What a link leads to, and the decision that is taken there.

Law. Who holds a link may decide on its request and on nothing else, once, while it is open and
still shows what its notice showed. Everything else fails closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from loom_ia.app import approvals
from loom_ia.app.approvals import NO_ANSWER, Ruling
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.links import Claim
from loom_ia.core.errors import ApprovalStale, LinkRefused, UnknownRun
from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.state.questions import Asking, open_questions
from loom_ia.core.views.notice import shown_digest
from loom_ia.core.views.result import PendingApproval, pending_question
from loom_ia.engine.log import SessionLog

How: TypeAlias = Literal["granted", "refused", "answered", "expired", "closed"]

_LONGEST_NAME: Final = 100
_GONE: Final = "what this link is about is no longer kept here"


@dataclass(frozen=True, slots=True)
class Settled:
    """How a request ended; `closed` when its run was over before anybody decided."""

    how: How
    by: str = ""
    at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Linked:
    """What a link leads to: what waits, or how it ended (`settled`).

    `agent` is the one that asks. `pending` is what is shown; of a request that ended, little of it
    is left. `expires_at` is until when the link may be used. `irreversible` tells that
    what it would do cannot be undone. `read_at` is when it waited.
    """

    agent: str
    requested_at: datetime
    expires_at: datetime
    pending: PendingApproval
    settled: Settled | None = None
    irreversible: bool = False
    read_at: datetime | None = None


async def linked(instance: Instance, token: str) -> Linked:
    """Read what a link leads to; nothing changes. Raises `LinkRefused`."""
    return (await _opened(instance, token))[1]


async def decide(
    instance: Instance,
    token: str,
    *,
    granted: bool,
    name: str = "",
    reason: str = "",
    answer: object = NO_ANSWER,
) -> tuple[RunId, tuple[CallId, ...]]:
    """Decide by a link, which is signed in the journal with the `name` that is given.

    Returns the run at the top, and what was decided, nothing when it is over.

    Raises `LinkRefused`, `ApprovalStale` when it is decided or over, and as `approvals.approve`.
    """
    claim, found = await _opened(instance, token)
    if found.settled is not None:
        _refuse(found)
    said = " ".join(name.split())[:_LONGEST_NAME]
    ruling = Ruling(
        run_id=claim.run_id,
        by=f"{said} ({claim.author})" if said else claim.author,
        call_id=claim.request,
        reason=reason,
    )
    if not granted:
        return claim.run_id, await approvals.reject(instance, ruling)
    return claim.run_id, await approvals.approve(instance, ruling, answer=answer)


async def _opened(instance: Instance, token: str) -> tuple[Claim, Linked]:
    links, now = instance.outbox.links if instance.outbox else None, instance.clock.now()
    if links is None:
        raise LinkRefused("links are not served here (add secret_env under notices)")
    claim = links.read(token, now)
    if claim.tenant_id != DEFAULT_TENANT:
        raise LinkRefused(_GONE)
    try:
        log, run = await instance.find(claim.run_id)
    except UnknownRun as error:
        raise LinkRefused(_GONE) from error
    for asking in open_questions(run, log.state.runs):
        if asking.id == claim.request:
            return claim, _waiting(asking, claim, now)
    return claim, await _ended(log, claim)


def _waiting(asking: Asking, claim: Claim, now: datetime) -> Linked:
    if shown_digest(asking) != claim.shown:
        raise LinkRefused("what waits is no longer what the notice of this link showed")
    limit = asking.expire_at
    asked = asking.inquiry or asking.question
    return Linked(
        agent=asking.run.header.agent,
        requested_at=asked.asked_at if asked is not None else asking.run.header.started_at,
        expires_at=claim.expires_at,
        pending=pending_question(asking, claim.run_id),
        settled=Settled("expired", at=limit) if limit is not None and now >= limit else None,
        irreversible=_is_irreversible(asking),
        read_at=now,
    )


def _is_irreversible(asking: Asking) -> bool:
    act = asking.run.acts.get((asking.call.call_id, ""))
    return asking.kind != "input" and act is not None and act.side_effects == "irreversible"


async def _ended(log: SessionLog, claim: Claim) -> Linked:
    """Find how a request ended, in the journal."""
    events = await log.journal.read(log.tenant_id, log.session_id)
    request = next((e for e in events if e.event_id == claim.request), None)
    if request is None or not isinstance(asked := request.payload, ApprovalRequested):
        raise LinkRefused(_GONE)
    pending = PendingApproval(
        run_id=request.run_id,
        call_id=claim.request,
        tool_name=asked.tool or asked.tool_name,
        arguments=asked.arguments,
        kind=asked.kind,
        sentence=asked.notice,
    )
    settled = _settled(events, request, asked)
    return Linked(request.agent, request.ts, claim.expires_at, pending, settled)


def _settled(events: Sequence[Event], request: Event, asked: ApprovalRequested) -> Settled:
    question = request.event_id if asked.asked is not None else ""
    for event in events:
        if event.seq <= request.seq or event.run_id != request.run_id:
            continue
        match event.payload:
            case ApprovalGranted() as yes if (yes.call_id, yes.question) == (
                asked.call_id,
                question,
            ):
                how: How = "answered" if asked.kind == "input" else "granted"
                return Settled(how, yes.by, event.ts, yes.reason)
            case ApprovalRejected() as no if (no.call_id, no.question) == (asked.call_id, question):
                return Settled("refused", no.by, event.ts, no.reason)
            case ApprovalExpired() as late if late.call_id == asked.call_id:
                return Settled("expired", at=late.expire_at)
            case _:
                pass
    return Settled("closed")


def _refuse(found: Linked) -> None:
    call_id, settled = found.pending.call_id, found.settled
    if settled is None or settled.at is None:
        raise ApprovalStale("the request about {call_id} is closed", call_id=call_id)
    at = settled.at.isoformat(timespec="seconds")
    if settled.how == "expired":
        raise ApprovalStale(
            "the request about {call_id} expired at {expire_at}", call_id=call_id, expire_at=at
        )
    raise ApprovalStale(
        "the request about {call_id} was decided by {by} at {at}",
        call_id=call_id,
        by=settled.by,
        at=at,
    )
