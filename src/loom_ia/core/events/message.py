"""What people say to a run."""

from typing import Literal

from loom_ia.core.events.envelope import Facet, Fact, Payload
from loom_ia.core.model.base import sparse
from loom_ia.core.model.messages import Message
from loom_ia.core.state.rulings import to_repair
from loom_ia.core.state.run import RunState


class UserMessage(Payload):
    """The request, or why an answer must be made again (`repair`), and which `policy` says so.

    `mended` lists the paths whose text the journal could not hold as it was. With `tools`, some
    may be called for the new answer.
    """

    TYPE = "message.user"
    CATEGORY = "message"
    CONTENT = ("message",)

    message: Message
    mended: tuple[str, ...] = sparse(())
    kind: Literal["repair"] | None = sparse(None)
    policy: str = sparse("")
    tools: bool = sparse(False)

    def facets(self) -> dict[str, Facet]:
        return {"kind": self.kind} if self.kind else {}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        if self.kind == "repair":
            return to_repair(run, self.message, tools=self.tools)
        return run.heard(self.message)
