"""What people say to a run."""

from loom_ia.core.events.envelope import Fact, Payload
from loom_ia.core.model.base import sparse
from loom_ia.core.model.messages import Message
from loom_ia.core.state.run import RunState


class UserMessage(Payload):
    """The request. `mended` lists the paths whose text the journal could not hold as it was."""

    TYPE = "message.user"
    CATEGORY = "message"
    CONTENT = ("message",)

    message: Message
    mended: tuple[str, ...] = sparse(())

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.heard(self.message)
