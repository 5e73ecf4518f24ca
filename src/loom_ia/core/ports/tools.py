"""A tool that can be called, and what it is told about its call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

from loom_ia.core.ids import CallId, RunId, SessionId, TenantId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import Assessment, ToolSpec
from loom_ia.core.ports.idempotency import CallMemory
from loom_ia.core.prompts import Language


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of its call; a parameter of this type is filled in and never shown.

    `idempotency_key` is the same each time the same call is launched again. `resumed` tells that
    the call was launched before and its end not seen. `should_stop` turns true when the run was
    cancelled or the time is over: a long tool asks it and leaves early. `language` is that of the
    texts put before the model.

    `state` is a copy of the state of the session as the run sees it, read-only; a tool writes there
    by `ToolOutput(state={…})`.

    A tool that remembers what it did asks `memory` before it acts. `may_act_again` tells it that
    an effect whose end nobody saw may happen now: it is declared harmless, or a human said so.
    """

    tenant_id: TenantId
    session_id: SessionId
    run_id: RunId
    call_id: CallId
    agent: str
    caller: CallerContext = field(default_factory=CallerContext)
    idempotency_key: str = ""
    resumed: bool = False
    should_stop: Callable[[], bool] = _never
    language: Language = "en"
    memory: CallMemory | None = None
    may_act_again: bool = False
    state: Mapping[str, JsonValue] = field(
        default_factory=lambda: MappingProxyType(dict[str, JsonValue]())
    )


@dataclass(frozen=True, slots=True)
class Done:
    """The effect happened, and `output` is what the call gives; None when that is not known.

    It is anything that a tool may return.
    """

    output: object = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """The effect did not happen, and will not happen by itself any more."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outside world cannot tell, for this reason; `on_unknown` decides."""

    reason: str = ""


Reconciliation: TypeAlias = Done | NotDone | Unknown


class Tool(Protocol):
    """One tool of an agent."""

    @property
    def spec(self) -> ToolSpec:
        """What decisions and models know of it."""
        ...

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell, path first, why `arguments` cannot run; None when they can. Has no effect."""
        ...

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Act.

        Raises `ToolError` to tell the model something, `UnknownEffect` when it cannot tell whether
        the effect happened, anything else to fail the call. Also raises `UnstorableValue` when the
        result cannot be kept.

        The timeout of the spec is applied by the caller of this method. A call that is cancelled
        ends only once the tool has really stopped: a function in a thread cannot be cut, so its
        result is still returned.
        """
        ...


@runtime_checkable
class Assessing(Protocol):
    """A tool whose spec says that it `assesses`."""

    async def assess(self, arguments: JsonObject) -> Assessment:
        """Say what a call with these arguments calls for. Has no effect.

        It is asked once, when the model asks for the call; raising asks for approval.
        """
        ...


@runtime_checkable
class Reconciling(Protocol):
    """A tool whose spec says that it `reconciles`."""

    async def reconcile(self, arguments: JsonObject, context: ToolContext) -> Reconciliation:
        """Tell whether the effect of a call happened, whose end nobody saw. Has no effect.

        Raising is the same as `Unknown`. The timeout of the spec is applied by the caller.
        """
        ...
