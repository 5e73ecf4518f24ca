"""Waiting until the budget that runs beside each other share has room for one more call."""

from loom_ia.core.decide.effects import AwaitRoom
from loom_ia.core.decide.reserving import has_room
from loom_ia.engine.perform.context import EffectContext


async def await_room(effect: AwaitRoom, context: EffectContext) -> None:
    """Wait for the next fact of the session, unless there is room already."""
    log = context.pen.log
    if not has_room(context.pen.view(), effect.reserve, log.clock.now()):
        await log.written()
