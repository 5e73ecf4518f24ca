"""The calls of one answer of a model, made inside a step that may run again.

The order is fixed: what hooks and checks say of all the calls, the calls that need nobody, the
questions all at once, the calls that were approved, the hooks after. Each of these is recorded
under the number of the answer and the id of the call.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from loom_ia.core.json import canonical, storable_text
from loom_ia.core.prompts import prompt_text
from loom_ia.core.template import Template
from loom_ia.graph.context import StepContext
from loom_ia.graph.dispatch import Prepared, conclude, in_order, judged, prepare
from loom_ia.graph.invocation import Invocation, Origin, refusal
from loom_ia.graph.tool_call import ToolCall, ToolResult
from loom_ia.graph.tools import ToolHook
from loom_ia.graph.toolset import Toolset


@dataclass(frozen=True, slots=True)
class Made:
    """A call as the model must remember it, its one result, and what a human changed in it."""

    call: ToolCall
    result: ToolResult
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Approved:
    """A call that a human approved, with the arguments that he left or gave."""

    call: ToolCall
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The calls of the answer `n`; their ids differ from all others of the conversation."""

    n: int
    tools: Toolset
    hooks: tuple[ToolHook, ...]
    ctx: StepContext

    async def made(self, calls: Sequence[ToolCall]) -> list[Made]:
        """Make the calls, and give them with their results, in order."""
        prepared = await self._prepared(calls)
        results = {p.call.id: p.refusal for p in prepared if p.refusal is not None}
        free = [p.call for p in prepared if p.refusal is None and not p.asks]
        results |= _by_id(await in_order(self.tools, free, self._call))
        asking = [p.call for p in prepared if p.refusal is None and p.asks]
        answers = await self._answers(asking)
        results |= _by_id([answer for answer in answers if isinstance(answer, ToolResult)])
        approved = {a.call.id: a for a in answers if isinstance(a, _Approved)}
        edited = [a.call.id for a in approved.values() if a.edited]
        results |= _by_id(
            await in_order(
                self.tools,
                [a.call for a in approved.values()],
                lambda call: self._call(call, is_edited=call.id in edited),
            )
        )
        final = [approved[p.call.id].call if p.call.id in approved else p.call for p in prepared]
        concluded = await self._concluded(final, [results[call.id] for call in final])
        return [
            _made(call, result, approved.get(call.id))
            for call, result in zip(calls, concluded, strict=True)
        ]

    async def _prepared(self, calls: Sequence[ToolCall]) -> list[Prepared]:
        """Ask the hooks and check the calls; once, for neither needs to say the same again."""

        async def look() -> list[dict[str, Any]]:
            seen = await prepare(self.tools, calls, self.hooks)
            return [{"call": p.call, "refusal": p.refusal, "asks": p.asks} for p in seen]

        return [Prepared(**item) for item in await self.ctx.effect(f"calls:{self.n}", look)]

    async def _call(self, call: ToolCall, *, is_edited: bool = False) -> ToolResult:
        tool = self.tools.get(call.name)

        async def act(key: str) -> ToolResult:
            checked = Prepared(call)
            if is_edited or tool is None:  # a tool may be gone since the call was looked at
                checked = await judged(self.tools, call)
            if checked.refusal is not None or tool is None:
                return checked.refusal or refusal(call, "unknown_tool", call.name)
            origin = Origin(self.ctx.run_id, self.ctx.graph)
            return await Invocation(tool, checked.call, origin, key).result()

        return await self.ctx.effect(
            f"tool:{self.n}:{call.id}",
            act,
            side_effects=tool.spec.side_effects if tool else "none",
            idempotent=tool is not None and tool.spec.idempotent,
        )

    async def _answers(self, calls: Sequence[ToolCall]) -> list[_Approved | ToolResult]:
        """Ask a human about calls, all at once."""
        questions = [
            self.ctx.approval(
                call.name, dict(call.arguments), key=str(call.id), sentence=self._sentence(call)
            )
            for call in calls
        ]
        answers = await asyncio.gather(*questions)
        return [_answered(call, answer) for call, answer in zip(calls, answers, strict=True)]

    def _sentence(self, call: ToolCall) -> str:
        """Write what the tool says of a call to whoever decides."""
        tool = self.tools.get(call.name)
        notice = tool.spec.notice if tool is not None else ""
        return Template.parse(notice).render(call.arguments) if notice else ""

    async def _concluded(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> list[ToolResult]:
        if not any(hook.post for hook in self.hooks):
            return list(results)

        async def look() -> list[ToolResult]:
            return await conclude(calls, results, self.hooks)

        return await self.ctx.effect(f"after:{self.n}", look)


def _by_id(results: Sequence[ToolResult]) -> dict[str | None, ToolResult]:
    return {result.call_id: result for result in results}


def _answered(call: ToolCall, answer: Mapping[str, Any]) -> _Approved | ToolResult:
    if not answer.get("approved"):
        reason = storable_text(str(answer.get("reason") or ""))
        name = "rejected" if reason else "rejected_without_reason"
        text = prompt_text("en", name, reason=reason)
        return refusal(call, "denied", text)
    given = answer.get("arguments")
    if not isinstance(given, Mapping):
        return _Approved(call)
    arguments = dict(cast("Mapping[str, Any]", given))
    return _Approved(replace(call, arguments=arguments), _changed(call.arguments, arguments))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys((*before, *after))
    return tuple(name for name in names if not _same(before.get(name), after.get(name)))


def _same(left: Any, right: Any) -> bool:
    return canonical(left) == canonical(right)


def _made(call: ToolCall, result: ToolResult, approved: _Approved | None) -> Made:
    if approved is None or not approved.edited:
        return Made(call, result)
    return Made(replace(call, arguments=approved.call.arguments), result, approved.edited)
