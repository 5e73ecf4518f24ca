"""What a step may use while it runs: recorded effects, questions, recorded lots.

This is the contract; the engine gives the object that keeps it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.store import Store
from loom_ia.graph.budget import StepBudget


class StepContext(Protocol):
    """The surroundings of one execution of a step.

    `occurrence` is the how-manieth time the run reached the step, from 1, and `attempt` counts its
    executions that were tried again. `idempotency_key` is the same for every execution of this
    occurrence. `answer` is what answered this step's last `Ask`, None on the first execution.
    `usage` sums what the run's steps wrote as `usage`, its children's included.
    """

    run_id: str
    graph: str
    step: str
    occurrence: int
    attempt: int
    idempotency_key: str
    store: Store | None
    budget: StepBudget | None
    answer: Any

    @property
    def answered(self) -> bool:
        """Whether an `Ask` of this occurrence was answered, if only by None."""
        ...

    @property
    def usage(self) -> Usage: ...

    async def effect(
        self,
        key: str,
        fn: Callable[..., Any],
        *,
        side_effects: SideEffects = "none",
        idempotent: bool = False,
    ) -> Any:
        """Call `fn`, or give back what it gave when this occurrence of the step called it before.

        `fn` takes nothing, or the idempotency key of the effect; it may be async. Its result must
        be serialisable. A key is used once in an execution (`DuplicateKey`).
        """
        ...

    async def interrupt(
        self,
        payload: Any = None,
        *,
        key: str = "ask",
        schema: Any = None,
        expires_in: float | None = None,
    ) -> Any:
        """Pause the step here until somebody answers; the step then runs from its top.

        Returns the answer. It must fit `schema`; it is refused after `expires_in` seconds.
        """
        ...

    async def approval(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        key: str,
        reason: str = "",
        sentence: str = "",
    ) -> Mapping[str, Any]:
        """Ask whether a call may be made: a question of the kind "approve", under `key`.

        `sentence` says it to a person in a line, in the place of a name and arguments.
        Returns `{"approved": bool, "reason": str?, "arguments": dict?}`.
        """
        ...

    async def now(self) -> datetime:
        """Give the present instant, in UTC; the same when the step runs again."""
        ...

    async def random(self) -> float:
        """Draw a number from 0 to 1; the same when the step runs again."""
        ...

    async def uuid(self) -> str:
        """Draw a UUID; the same when the step runs again."""
        ...

    def token(self, text: str) -> None:
        """Show a piece of text to whoever follows the run; it is not written."""
        ...

    def model(self, name: str) -> Any:
        """Give the client of a model that the host declares; raises `LoomError` without a host."""
        ...
