"""What a client is told while a run goes on: a line for each notable event.

Law. A line names agents, tools and models, never what was said or given: a key that may not read
content is told the same.
"""

from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.model import ModelFellBack, ModelResponded, ModelRetried
from loom_ia.core.events.policy import JudgeEvaluated
from loom_ia.core.events.run import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunFinalizing,
    RunResumed,
    RunStarted,
)
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.i18n import translate as _


def progress_line(event: Event) -> str:
    """Say an event in a line; nothing for one that is not told."""
    agent = event.agent
    match event.payload:
        case RunStarted():
            return _("{agent}: run {run_id} began", agent=agent, run_id=event.run_id)
        case RunResumed():
            return _("{agent}: the run goes on", agent=agent)
        case RunCompleted():
            return _("{agent}: the run is completed", agent=agent)
        case RunFailed() as payload:
            return _("{agent}: the run failed ({error})", agent=agent, error=payload.error_type)
        case RunCancelled():
            return _("{agent}: the run was cancelled", agent=agent)
        case RunFinalizing() as payload:
            return _("{agent}: concludes ({reason})", agent=agent, reason=payload.reason)
        case _:
            return _within(event)


def _within(event: Event) -> str:
    agent = event.agent
    match event.payload:
        case ModelResponded():
            return _("{agent}: the model answered", agent=agent)
        case ModelRetried() as payload if not payload.final:
            return _("{agent}: {model} is asked again", agent=agent, model=payload.model)
        case ModelFellBack() as payload:
            return _("{agent}: {model} takes over", agent=agent, model=payload.to_model)
        case ToolCalled() as payload:
            return _("{agent}: {tool} is called", agent=agent, tool=payload.tool_name)
        case ToolCompleted() as payload if payload.output.is_error:
            return _("{agent}: {tool} gave an error", agent=agent, tool=payload.tool_name)
        case ToolCompleted() as payload:
            return _("{agent}: {tool} answered", agent=agent, tool=payload.tool_name)
        case JudgeEvaluated():
            return _("{agent}: a judge looked at the answer", agent=agent)
        case BudgetExceeded():
            return _("{agent}: a budget is used up", agent=agent)
        case _:
            return _decided(event)


def _decided(event: Event) -> str:
    agent = event.agent
    match event.payload:
        case ApprovalRequested() as payload:
            return _("{agent}: {tool} waits for a human", agent=agent, tool=payload.tool_name)
        case ApprovalGranted() as payload:
            return _("{agent}: {tool} was granted", agent=agent, tool=payload.tool_name)
        case ApprovalRejected() as payload:
            return _("{agent}: {tool} was refused", agent=agent, tool=payload.tool_name)
        case ApprovalExpired() as payload:
            tool = payload.tool_name
            return _("{agent}: nobody decided on {tool} in time", agent=agent, tool=tool)
        case _:
            return ""
