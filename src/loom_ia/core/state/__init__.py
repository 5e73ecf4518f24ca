"""What a run and a session are now: folds of their facts, never stored."""

from loom_ia.core.state.calls import Call, Expired, Granted, Question, Rejected, Verdict
from loom_ia.core.state.conversation import Conversation
from loom_ia.core.state.run import (
    Cancelled,
    Completed,
    Failed,
    Header,
    Lease,
    Outcome,
    RunState,
    Spent,
    Status,
    Step,
)
from loom_ia.core.state.session import PendingAction, RunView, SessionState
from loom_ia.core.state.turns import Turn, turn_of

__all__ = [
    "Call",
    "Cancelled",
    "Completed",
    "Conversation",
    "Expired",
    "Failed",
    "Granted",
    "Header",
    "Lease",
    "Outcome",
    "PendingAction",
    "Question",
    "Rejected",
    "RunState",
    "RunView",
    "SessionState",
    "Spent",
    "Status",
    "Step",
    "Turn",
    "Verdict",
    "turn_of",
]
