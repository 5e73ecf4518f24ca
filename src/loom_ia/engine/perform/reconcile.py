"""Asking the outside world whether an effect happened whose end nobody saw.

It is asked before the model is told and before a human is asked. What it says is a fact. It is code
of the user: it has the time that the tool has, and whatever goes wrong in it, nothing was learned.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from loom_ia.core.errors import OutsideError, text_of, told
from loom_ia.core.events.tool import EffectReconciled
from loom_ia.core.json import storable_text
from loom_ia.core.model.tooling import Reconciled
from loom_ia.core.ports.tools import (
    Done,
    NotDone,
    Reconciliation,
    Reconciling,
    Tool,
    ToolContext,
    Unknown,
)
from loom_ia.core.state.calls import Call

_PATIENCE_S: Final = 30.0
"""How long the outside world may take to answer when the tool itself may take any time."""

_log = logging.getLogger("loom_ia.engine.tools")


async def ask_outside(tool: Tool, call: Call, context: ToolContext) -> Reconciliation:
    """Ask what became of a call; never raises but when it is cancelled itself."""
    seconds = tool.spec.timeout or _PATIENCE_S
    task = asyncio.ensure_future(_answer(tool, call, replace(context, should_stop=lambda: False)))
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        answer: Reconciliation = Unknown(f"no answer in {seconds:g} s")
    elif task.cancelled():
        answer = Unknown("it cancelled itself")
    else:
        answer = task.result()
    if isinstance(answer, Unknown):
        _log.warning("what became of %s is not known: %s", call.name, answer.reason)
    return answer


async def _answer(tool: Tool, call: Call, context: ToolContext) -> Reconciliation:
    try:
        if not isinstance(tool, Reconciling):
            raise OutsideError("{tool} has no method reconcile", tool=call.name)
        return await tool.reconcile(call.arguments, context)
    except Exception as error:  # noqa: BLE001 -- whatever went wrong, nothing was learned
        text = text_of(error) if isinstance(error, OutsideError) else told(error)
        return Unknown(storable_text(text))


def reconciled(call: Call, answer: Reconciliation) -> EffectReconciled:
    """Give the fact of what the outside world told."""
    verdict: Reconciled = "unknown"
    if isinstance(answer, Done):
        verdict = "done"
    elif isinstance(answer, NotDone):
        verdict = "not_done"
    reason = storable_text(answer.reason) if isinstance(answer, Unknown) else ""
    return EffectReconciled(
        call_id=call.call_id, tool_name=call.name, verdict=verdict, reason=reason
    )
