"""A number of steps that runs share in one process, whoever started them."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Self


class StepBudget:
    """A limit of steps; enter it around any number of runs, which are all charged to it.

    It is one object shared by reference, so that tasks and `asyncio.to_thread` see the same; other
    threads and processes do not. Entered inside another one, both are charged.
    """

    def __init__(self, limit: int, *, used: int = 0) -> None:
        if limit < 0:
            raise ValueError(f"StepBudget({limit}): a limit is not negative")
        self.limit = limit
        self.used = used
        self._tokens: list[Token[tuple[StepBudget, ...]]] = []

    @property
    def left(self) -> int:
        """How many steps may still be started."""
        return max(self.limit - self.used, 0)

    def __enter__(self) -> Self:
        self._tokens.append(_AROUND.set((*_AROUND.get(), self)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _AROUND.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"StepBudget({self.limit}, used={self.used})"


_AROUND: Final[ContextVar[tuple[StepBudget, ...]]] = ContextVar("loom_step_budgets", default=())


def budgets_around() -> tuple[StepBudget, ...]:
    """Give the budgets that were entered around the caller, the outermost first."""
    return _AROUND.get()
