"""A batch of calls: hooks before, the calls in order, hooks after.

Calls run in the order in which the model gave them. Consecutive calls of tools without side effects
overlap; a call of any other tool waits for all before it and holds all after it, so that a reading
sees what was written before it and nothing of what is written after.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

from loom_ia.core.errors import OutsideError, text_of, told
from loom_ia.core.json import storable_text
from loom_ia.core.prompts import prompt_text
from loom_ia.graph.errors import InvalidGraph
from loom_ia.graph.invocation import Invocation, Origin, arguments_of, asked, failed, refusal
from loom_ia.graph.tool_call import ToolCall, ToolResult
from loom_ia.graph.tools import ToolHook
from loom_ia.graph.toolset import Tools, Toolset, toolset

T = TypeVar("T")

_DENIED: Final = "The policy denies this call of {name!r}. Do not try it again."
_NOT_ALLOWED: Final = "This call of {name!r} is not among those that are allowed."
_NEEDS_APPROVAL: Final = "A human must approve this call, and none can be asked here."


async def dispatch(
    tools: Tools, calls: Sequence[ToolCall], *, hooks: Sequence[ToolHook] = ()
) -> list[ToolResult]:
    """Run a batch of calls and give their results, in the order of the calls.

    An id that is missing is generated, one that is repeated made distinct. Whatever a call does its
    siblings finish: its error is in its result, as `ToolResult` says. A call that needs a human is
    not made (`needs_approval`). Cancelling the caller cancels the tools.
    """
    given, hooks = toolset(tools), checked_hooks(hooks)
    launch = uuid4().hex
    prepared = await prepare(given, distinct(calls, set()), hooks)

    async def execute(call: ToolCall) -> ToolResult:
        tool = given.tools[call.name]
        return await Invocation(tool, call, Origin(), f"{launch}:{call.id}").result()

    known = [_settled(item) for item in prepared]
    free = [item.call for item, result in zip(prepared, known, strict=True) if result is None]
    made = iter(await in_order(given, free, execute))
    results = [result or next(made) for result in known]
    return await conclude([item.call for item in prepared], results, hooks)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call as the hooks made it: refused, or to be made, once a human approves if it `asks`."""

    call: ToolCall
    refusal: ToolResult | None = None
    asks: bool = False


def checked_hooks(hooks: Sequence[ToolHook]) -> tuple[ToolHook, ...]:
    """Give the hooks. Raises `InvalidGraph` for what is none."""
    for rank, hook in enumerate(hooks):
        if not isinstance(cast("object", hook), ToolHook):
            raise InvalidGraph(
                "hooks[{rank}] is {hook!r}: give a ToolHook(pre=…, post=…)", rank=rank, hook=hook
            )
    return tuple(hooks)


def distinct(calls: Iterable[ToolCall], taken: set[str]) -> list[ToolCall]:
    """Give each call an id that no other has, nor is in `taken`, which receives them.

    What a model gave stays when it can, whatever the order.
    """
    calls = list(calls)
    reserved = {call.id for call in calls if call.id} | taken
    found: list[ToolCall] = []
    for rank, call in enumerate(calls, 1):
        own = call.id or f"call_{rank}"
        if own in taken or (not call.id and own in reserved):
            own = next(f"{own}_{n}" for n in count(2) if f"{own}_{n}" not in reserved)
        taken.add(own)
        reserved.add(own)
        found.append(call if own == call.id else replace(call, id=own))
    return found


async def prepare(
    tools: Toolset, calls: Sequence[ToolCall], hooks: Sequence[ToolHook]
) -> list[Prepared]:
    """Ask the hooks before all the calls, in order, then see which calls can be made."""
    seen = [await _before(call, hooks) for call in calls]
    return [item if item.refusal else await judged(tools, item.call) for item in seen]


async def judged(tools: Toolset, call: ToolCall) -> Prepared:
    """See whether a call can be made: the tool, the rules, the arguments, in that order."""
    tool = tools.get(call.name)
    if tool is None:
        return Prepared(call, refusal(call, "unknown_tool", _unknown(tools, call.name)))
    verdict = tools.verdict(call.name, call.arguments)
    if verdict == "denied":
        return Prepared(call, refusal(call, "denied", _DENIED.format(name=call.name)))
    if verdict == "not_allowed":
        return Prepared(call, refusal(call, "not_allowed", _NOT_ALLOWED.format(name=call.name)))
    arguments, problem = await arguments_of(tool, call)
    if problem is not None:
        return Prepared(call, problem)
    asks = verdict == "ask" or tool.spec.approval == "always"
    return Prepared(replace(call, arguments=arguments), asks=asks)


async def in_order(
    tools: Toolset,
    calls: Sequence[ToolCall],
    execute: Callable[[ToolCall], Coroutine[Any, Any, ToolResult]],
) -> list[ToolResult]:
    """Execute calls that can be made, overlapping only consecutive ones without side effects."""
    results: list[ToolResult] = []

    def overlaps(ranked: tuple[int, ToolCall]) -> int:
        rank, call = ranked
        tool = tools.get(call.name)
        return -1 if tool is None or tool.spec.side_effects == "none" else rank

    for _, group in groupby(enumerate(calls), overlaps):
        results += await together([execute(call) for _, call in group])
    return results


async def together(work: Sequence[Coroutine[Any, Any, ToolResult]]) -> list[ToolResult]:
    """Run `work` at once, begun in order; what one raises stops the others, then is raised."""
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        faults = [fault for task in tasks if (fault := _fault_of(task)) is not None]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if faults:
        raise faults[0]
    return [task.result() for task in tasks]


async def conclude(
    calls: Sequence[ToolCall], results: Sequence[ToolResult], hooks: Sequence[ToolHook]
) -> list[ToolResult]:
    """Ask the hooks after the calls about every result, in order."""
    return [await _after(c, r, hooks) for c, r in zip(calls, results, strict=True)]


def _unknown(tools: Toolset, name: str) -> str:
    names = tools.names
    if not names:
        return prompt_text("en", "no_tools", name=name)
    return prompt_text("en", "unknown_tool", name=name, names=", ".join(names))


def _settled(item: Prepared) -> ToolResult | None:
    if item.refusal is None and item.asks:
        return refusal(item.call, "needs_approval", _NEEDS_APPROVAL)
    return item.refusal


async def _before(call: ToolCall, hooks: Sequence[ToolHook]) -> Prepared:
    for hook in hooks:
        if hook.pre is None:
            continue
        try:
            given = await asked(hook.pre, call) if hook.matches(call.name) else None
            if given is not None:
                call = replace(_of_type(given, ToolCall), id=call.id)
        except Exception as error:  # noqa: BLE001 -- raising is how a hook blocks a call
            text = storable_text(text_of(error) or told(error))
            return Prepared(call, refusal(call, "blocked", f"Blocked: {text}"))
    return Prepared(call)


async def _after(call: ToolCall, result: ToolResult, hooks: Sequence[ToolHook]) -> ToolResult:
    for hook in hooks:
        if hook.post is None:
            continue
        try:
            given = await asked(hook.post, call, result) if hook.matches(call.name) else None
            if given is not None:
                same = {"call_id": result.call_id, "name": result.name}
                result = replace(_of_type(given, ToolResult), **same)
        except Exception as error:  # noqa: BLE001 -- raising is how a hook refuses a result
            result = failed(call, storable_text(text_of(error) or told(error)))
    return result


def _fault_of(task: "asyncio.Future[Any]") -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _of_type(value: object, kind: type[T]) -> T:
    if isinstance(value, kind):
        return value
    raise OutsideError(
        "the hook gave {type}: it gives None or a {kind}",
        type=type(value).__name__,
        kind=kind.__name__,
    )
