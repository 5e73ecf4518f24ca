"""What to do next, decided from facts alone: pure functions, one for each kind of program."""

from loom_ia.core.decide.decide import decide
from loom_ia.core.decide.effects import (
    AskApprover,
    CallModel,
    Effect,
    Emit,
    Finished,
    Move,
    RunCalls,
    Wait,
)

__all__ = [
    "AskApprover",
    "CallModel",
    "Effect",
    "Emit",
    "Finished",
    "Move",
    "RunCalls",
    "Wait",
    "decide",
]
