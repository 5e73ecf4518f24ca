"""A policy: code that is asked at a point of a run, what it is shown, and what it may know.

Law. A policy decides; it changes nothing itself. What it wants changed it gives as a decision,
which is written before it has any effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from loom_ia.core.ids import CallId, RunId, SessionId, TenantId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import PolicyPoint, Verdict
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.prompts import Language
from loom_ia.core.state.acts import Act
from loom_ia.core.state.results import ToolResult, results_of
from loom_ia.core.state.run import RunState


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy may know besides what it looks at.

    `params` are those of its entry in the configuration. `attempt` counts, from 1, how often it is
    asked in the run, had it what it looks at made again. `messages` is the conversation of the run
    so far, `history` what was said before it in the session. `effects` are what the runs of the
    session did to the outside world, or may have done, those of this run and below it included.
    """

    name: str
    point: PolicyPoint
    run_id: RunId
    session_id: SessionId
    tenant_id: TenantId
    agent: str
    params: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    attempt: int = 1
    caller: CallerContext = field(default_factory=CallerContext)
    language: Language = "en"
    iteration: int = 0
    messages: tuple[Message, ...] = ()
    history: tuple[Message, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    effects: tuple[Act, ...] = ()
    run: RunState | None = field(default=None, repr=False)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """What the tools of the run gave, in the order in which the model asked for it."""
        return () if self.run is None else results_of(self.run)

    @property
    def user_input(self) -> str:
        """What the user said, word for word."""
        said = (m for m in self.messages if m.role == "user")
        first = next(said, None)
        return first.as_text() if first else ""


@dataclass(frozen=True, slots=True)
class _Subject:
    context: PolicyContext

    @property
    def params(self) -> Mapping[str, JsonValue]:
        """The params of the policy that is asked."""
        return self.context.params

    @property
    def run_id(self) -> RunId:
        """The run."""
        return self.context.run_id

    @property
    def session_id(self) -> SessionId:
        """Its session."""
        return self.context.session_id

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self.context.agent

    @property
    def tenant_id(self) -> TenantId:
        """Whose run it is."""
        return self.context.tenant_id

    @property
    def caller(self) -> CallerContext:
        """What the application says of its own user."""
        return self.context.caller


@dataclass(frozen=True, slots=True)
class BeforeModel(_Subject):
    """A call of the model that is about to be made. It may be replaced in part.

    `Replace` takes a request whose `system`, `tools` (fewer of them), `tool_choice`, `max_tokens`,
    `params` or `notes` (more texts of the user at the end) differ.
    """

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class AfterModel(_Subject):
    """What the model said, calls included, before anything follows from it."""

    message: Message

    @property
    def text(self) -> str:
        """The text of it."""
        return self.message.as_text()


@dataclass(frozen=True, slots=True)
class BeforeTool(_Subject):
    """A call that is about to be made; `Replace` takes other arguments."""

    spec: ToolSpec
    arguments: JsonObject
    call_id: CallId


@dataclass(frozen=True, slots=True)
class AfterTool(_Subject):
    """What a call gave, before the model reads it; `Replace` takes another `ToolOutput`."""

    spec: ToolSpec
    arguments: JsonObject
    output: ToolOutput
    call_id: CallId


@dataclass(frozen=True, slots=True)
class OnOutput(_Subject):
    """An answer, before anybody sees it; `Replace` takes a text or a `Message`.

    `data` is the document that the contract of the answer found in it, None without a schema.
    """

    message: Message
    data: JsonValue = None

    @property
    def text(self) -> str:
        """The text of it."""
        return self.message.as_text()


Subject: TypeAlias = BeforeModel | AfterModel | BeforeTool | AfterTool | OnOutput
"""What a policy is shown."""
