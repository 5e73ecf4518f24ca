"""What a webhook begins: one run for each delivery, however often it is delivered.

Law. The id of a delivery makes the id of its run, so that the journal itself refuses a second one,
from whichever process it comes. What was posted is only ever a value: it is put in the templates of
the trigger in one pass, and nothing in it is read as a template, a name or a setting.
"""

from typing import Final

from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.runs import Order, submit
from loom_ia.core.errors import DeliveryMissing, DeliveryRefused, RunExists, UnknownRun
from loom_ia.core.ids import RunId, SessionId, TenantId, require_safe_id
from loom_ia.core.json import JsonValue, digest, storable, storable_text
from loom_ia.core.model.base import Value
from loom_ia.core.model.triggers import LONGEST_DELIVERY, Trigger
from loom_ia.core.state.run import RunState, Status

LONGEST_MESSAGE: Final = 100_000
"""Characters that a message may have once its template is filled."""

_DIGITS: Final = 40


class Triggered(Value):
    """What a call of a trigger came to: the run that it began, or began before (`repeated`)."""

    trigger: str
    run_id: RunId
    session_id: SessionId
    status: Status
    repeated: bool


def run_id_of(trigger: str, delivery: str, tenant_id: TenantId = DEFAULT_TENANT) -> RunId:
    """Give the id of the run of a delivery: always the same, and of one client and one trigger."""
    return f"hook-{digest([tenant_id, trigger, delivery])[:_DIGITS]}"


async def trigger(
    instance: Instance, door: Trigger, payload: object, *, delivery_id: str | None = None
) -> Triggered:
    """Begin, in the background, the run that a payload asks for; it is written when this returns.

    A delivery that was seen before gives its run again, whatever it holds now. Without
    `delivery_id`, every call begins a run. Raises `DeliveryRefused`, `DeliveryMissing`,
    `UnstorableValue`, `UnusableId` for a session that cannot be named so, and as `open_run`.
    """
    delivery = _delivery(door, delivery_id)
    run_id = run_id_of(door.name, delivery) if delivery else instance.clock.new_id()
    if delivery and (run := await _begun(instance, door, run_id)) is not None:
        return _told(door, run, repeated=True)
    safe, _ = storable(payload, "payload")
    order = _order(door, safe, delivery, run_id)
    try:
        await submit(instance, order)
    except RunExists:
        run = await _begun(instance, door, run_id) if delivery else None
        if run is None:
            raise
        return _told(door, run, repeated=True)
    _, run = await instance.find(run_id, order.session_id or run_id)
    return _told(door, run, repeated=False)


def _delivery(door: Trigger, delivery_id: str | None) -> str:
    delivery = storable_text(delivery_id or "").strip(" \t")
    if len(delivery) > LONGEST_DELIVERY:
        raise DeliveryRefused(
            "the id of a delivery has at most {most} characters, not {count}",
            most=LONGEST_DELIVERY,
            count=len(delivery),
        )
    if door.needs_delivery and not delivery:
        raise DeliveryMissing(
            "the trigger {trigger!r} needs the id of the delivery, so that it is taken once",
            trigger=door.name,
        )
    return delivery


def _order(door: Trigger, payload: JsonValue, delivery: str, run_id: RunId) -> Order:
    context = {"payload": payload, "trigger": door.name, "delivery": delivery}
    message = door.message.render(context)
    if not message.strip():
        raise DeliveryRefused(
            "the message of the trigger {trigger!r} is empty: what was posted has nothing of what "
            "its template asks for",
            trigger=door.name,
        )
    if len(message) > LONGEST_MESSAGE:
        raise DeliveryRefused(
            "the message of the trigger {trigger!r} would have {count} characters, and {most} are "
            "allowed",
            trigger=door.name,
            count=len(message),
            most=LONGEST_MESSAGE,
        )
    session_id = None
    if door.session is not None:
        session_id = require_safe_id(door.session.render(context), "session id")
    return Order(door.agent, message, session_id, run_id, trigger=door.name)


async def _begun(instance: Instance, door: Trigger, run_id: RunId) -> RunState | None:
    """Find the run of a delivery; raises `RunExists` when somebody else took its id."""
    try:
        _, run = await instance.find(run_id)
    except UnknownRun:
        return None
    if run.header.trigger != door.name:
        raise RunExists("run {run_id} exists already", run_id=run_id)
    return run


def _told(door: Trigger, run: RunState, *, repeated: bool) -> Triggered:
    return Triggered(
        trigger=door.name,
        run_id=run.run_id,
        session_id=run.header.session_id,
        status=run.status,
        repeated=repeated,
    )
