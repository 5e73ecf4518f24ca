"""What the hooks of a graph say about a step, before it starts and after it ended.

They are asked in order, and each passes at most once: what one of them changed is not changed
again when a later one asks, stops or fails.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from loom_ia.core.errors import told
from loom_ia.core.ids import CallId
from loom_ia.core.json import storable_text
from loom_ia.core.model.changes import Change, applied
from loom_ia.core.model.decisions import Continue, Deny, Fail, Pause, Stop
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.flow import Line
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.program import Asked, Fault, Passed
from loom_ia.graph import errors
from loom_ia.graph.running import called
from loom_ia.graph.types import Refused

if TYPE_CHECKING:
    from loom_ia.graph.bindings import GraphBindings


class HookContext:
    """What a hook may know besides the step and the state.

    `unpriced` is what the host makes of tokens whose price is not known, under a limit in dollars.
    """

    def __init__(
        self, run: RunState, bindings: "GraphBindings", step: str, call_id: CallId, usage: Usage
    ) -> None:
        self.run_id = run.run_id
        self.graph = bindings.graph.name
        self.unpriced: str = getattr(bindings.host, "unpriced", "warn")
        self.step = step
        self.occurrence = int(call_id.rpartition("/")[2])
        self.usage = usage


async def reviewed(
    bindings: "GraphBindings",
    line: Line,
    call_id: CallId,
    run: RunState,
    usage: Usage,
    *,
    after: bool,
) -> Passed | Fault:
    """Ask the hooks that did not pass yet."""
    hooks = bindings.graph.hooks.after if after else bindings.graph.hooks.before
    context = HookContext(run, bindings, line.step, call_id, usage)
    changes: tuple[Change, ...] = ()
    for index in range(line.reviewed, len(hooks)):
        key = f"hook:{'after' if after else 'before'}:{index}"
        answer = _answer(run, call_id, key)
        if answer is not None:
            if answer.get("approved") is True:
                continue
            reason = str(answer.get("reason") or "refused")
            return Fault("Blocked", storable_text(reason), changes=changes)
        seen = line.but(values=applied(line.values, changes))
        said = await _said(hooks[index], bindings, seen, context)
        match said:
            case Fault():
                return Fault(said.error, said.text, said.key, said.cause, (*changes, *said.changes))
            case Pause():
                return Passed(index, changes, _question(said, key))
            case Stop():
                return Passed(len(hooks), changes, stops=True)
            case _:
                changes = (*changes, *said)
    return Passed(len(hooks), changes)


async def _said(
    hook: Callable[..., Any], bindings: "GraphBindings", line: Line, context: HookContext
) -> tuple[Change, ...] | Pause | Stop | Fault:
    """Ask one hook: what it changes, what it decides, or how it fails."""
    try:
        view = bindings.graph.state_type.view(line.values, line.extra)
        given = await called(hook, line.step, view, context)
        if isinstance(given, Pause | Stop):
            return given
        if given is None or isinstance(given, Continue):
            return ()
        if isinstance(given, Deny):
            return Fault("Blocked", storable_text(given.reason or "denied"))
        if isinstance(given, Fail):
            return Fault("HookAborted", storable_text(given.reason or "a hook failed the run"))
        if isinstance(given, Mapping):
            return bindings.changes(line, cast("Mapping[str, Any]", given))
        raise TypeError(f"a hook gives None, a mapping or a decision, not {type(given).__name__}")
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        return _fault(error, bindings, line)


def _fault(error: BaseException, bindings: "GraphBindings", line: Line) -> Fault:
    match error:
        case Refused():
            try:
                update = bindings.changes(line, error.update) if error.update else ()
            except Exception as problem:  # noqa: BLE001 -- what a hook writes fails the hook
                return Fault("HookAborted", storable_text(told(problem)), cause=problem)
            return Fault("Blocked", storable_text(error.reason), cause=error, changes=update)
        case errors.BudgetExhausted():
            return Fault("BudgetExhausted", storable_text(str(error)), cause=error)
        case _:
            return Fault("HookAborted", storable_text(told(error)), cause=error)


def _answer(run: RunState, call_id: CallId, key: str) -> Mapping[str, Any] | None:
    call = run.call(call_id)
    inquiry = call.inquiry(key) if call else None
    if inquiry is None or inquiry.is_open:
        return None
    return inquiry.answer if isinstance(inquiry.answer, dict) else {}


def _question(pause: Pause, key: str) -> Asked:
    return Asked(
        key=key,
        asked="hook",
        kind="approve",
        payload={"tool": "", "arguments": {}, "reason": pause.reason},
        expires_in=pause.expires_in,
        position=-1,
    )
