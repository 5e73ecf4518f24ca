"""What is asked at a point of a run: stages, one after the other.

A contract, a judge and a policy of the user are stages alike. A stage answers with a decision and
with the facts that tell why; who performs the review writes them together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from loom_ia.core.events.envelope import Payload
from loom_ia.core.model.decisions import CONTINUE, Decision
from loom_ia.core.model.policy import JudgeMode, PolicyPoint
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.plan import ModelFacts
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.policies import PolicyContext, Subject
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView

if TYPE_CHECKING:
    from loom_ia.engine.program import Caller


@dataclass(frozen=True, slots=True)
class Heard:
    """What a stage said: its decision, and the facts that go with it.

    `error_type` is how the run fails, when it does. With `tools`, what is to be made again may be
    made with tools. `ends` tells that nobody else is asked. `is_error` tells that the stage itself
    failed, for this `reason`, and that the decision is what is to be done then.
    """

    decision: Decision = CONTINUE
    facts: tuple[Payload, ...] = ()
    error_type: str = ""
    tools: bool = True
    ends: bool = False
    is_error: bool = False
    reason: str = ""


class Asking(Protocol):
    """What a stage may use: what is known of the run, and a model when it has one of its own."""

    @property
    def run(self) -> RunState:
        """The run as it is now."""
        ...

    @property
    def view(self) -> RunView:
        """What is known around it."""
        ...

    @property
    def caller(self) -> "Caller":
        """Where what a judge declares is read: the run, or that of who called its role."""
        ...

    @property
    def attempt(self) -> int:
        """How often the stage is asked, from 1 on, had it what it looks at made again."""
        ...

    @property
    def may_retry(self) -> bool:
        """Whether what it looks at can be made again at all: a spent budget forbids it."""
        ...

    @property
    def judges(self) -> JudgeMode:
        """Whether judges look."""
        ...

    def context(self, name: str, params: Mapping[str, object] | None = None) -> PolicyContext:
        """Give what a policy may know."""
        ...

    async def ask_model(
        self, judge: str, chain: "Chain", request: Callable[[ModelFacts], ModelRequest]
    ) -> "Asked":
        """Call the models of a judge until one answers. Raises `ModelError` when none does."""
        ...


class Stage(Protocol):
    """One of those who are asked at a point. `name` is what the journal calls it.

    `once` tells that what it said of an answer is a fact of its own, so that it is not asked twice.
    `timeout` is in seconds, None for none.
    """

    @property
    def name(self) -> str: ...
    @property
    def points(self) -> frozenset[PolicyPoint]: ...
    @property
    def once(self) -> bool: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def tools(self) -> frozenset[str] | None:
        """The tools whose calls it looks at, None for all."""
        ...

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Look at a subject. What it raises is a failure of the stage."""
        ...

    def failed(self, error: str) -> Heard:
        """Say what is to be done when the stage itself failed."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a judge's model answered: its call's arguments, and the facts of the call."""

    arguments: Mapping[str, object]
    facts: tuple[Payload, ...]
    model: str
    model_id: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The models of a judge: what a decision knows of them, and what speaks to them."""

    facts: tuple[ModelFacts, ...]
    clients: Mapping[str, ModelClient] = field(default_factory=dict[str, ModelClient])


Stages: TypeAlias = tuple[Stage, ...]


def reviews_of(stages: Stages) -> dict[PolicyPoint, frozenset[str] | None]:
    """Give the points where somebody looks, and at the calls of which tools, None for all."""
    found: dict[PolicyPoint, frozenset[str] | None] = {}
    for stage in stages:
        for point in stage.points:
            before, own = found.get(point, frozenset[str]()), stage.tools
            found[point] = None if before is None or own is None else before | own
    return found
