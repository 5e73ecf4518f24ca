"""The first facts of a run of an agent that another run opens."""

from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.run import RunStarted
from loom_ia.core.json import storable_text
from loom_ia.core.model.messages import Message
from loom_ia.engine.program import Program


def agent_opening(program: Program, message: str) -> tuple[RunStarted, tuple[Payload, ...]]:
    """Begin a run of an agent that is asked `message`."""
    plan = program.plan
    started = RunStarted(
        language=plan.language,
        plan=plan.digest,
        budget=plan.binding,
        state_keys=plan.state.declared,
    )
    return started, (UserMessage(message=Message.text("user", storable_text(message))),)
