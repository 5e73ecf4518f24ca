"""A model that calls tools until it answers, as one step.

Whatever comes from outside is an effect of the step, under a key that says its place in the loop:
what a model answered, what the hooks and the checks made of its calls, what each tool gave. A loop
that is run again reads them back and goes on where it was, so that it may not decide anything from
anything else.
"""

import inspect
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from loom_ia.core.json import storable_text
from loom_ia.core.model.messages import Message
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.model.usage import Usage
from loom_ia.core.prompts import prompt_text
from loom_ia.graph.appended import Appended
from loom_ia.graph.batch import Batch
from loom_ia.graph.compaction import Compaction
from loom_ia.graph.context import StepContext
from loom_ia.graph.dispatch import checked_hooks, distinct
from loom_ia.graph.errors import MaxIterationsExceeded, StreamInterrupted
from loom_ia.graph.models import ChatModel, ChatRequest, Reply, as_chat
from loom_ia.graph.structured import Shape, shape
from loom_ia.graph.tool_call import ToolCall
from loom_ia.graph.tools import ToolHook
from loom_ia.graph.toolset import Tools, Toolset, toolset
from loom_ia.graph.transcript import conversation, value_of
from loom_ia.graph.types import Step


def tool_loop(  # noqa: PLR0913 (every option of a loop has a name and a default)
    model: Any,
    tools: Tools = (),
    *,
    system: str | None = None,
    max_iterations: int = 20,
    max_repeats: int = 3,
    max_tokens: int | None = None,
    temperature: float | None = None,
    effort: str = "medium",
    output_schema: Any = None,
    hooks: Sequence[ToolHook] = (),
    compaction: Compaction | None = None,
    transcript: bool = True,
) -> Step:
    """Make a step that lets `model` call `tools` until it answers.

    It reads `messages` from the state, and `system_prompt`, which replaces `system` unless it is
    empty. It gives `output`, the last text (what it says, with an `output_schema`), `usage`, the
    sum over the loop, and adds what was said to `messages`, unless `transcript` is False.

    A call that needs a human is a question of the kind "approve" whose key is the id of the call;
    the other calls of its batch are made first. After `max_iterations` answers, or `max_repeats`
    identical batches in a row, the model is asked a last time without tools; one that calls a tool
    all the same fails the step with `MaxIterationsExceeded`. An answer that does not fit the schema
    fails it with `InvalidAnswer`.

    Run again, it goes on where it was: no model and no tool is called twice for one call.
    """
    for name, value in (("max_iterations", max_iterations), ("max_repeats", max_repeats)):
        if value < 1:
            raise ValueError(f"tool_loop({name}={value}): it is at least 1")
    answer = None if output_schema is None else shape(output_schema)
    plan = _Plan(
        model=model if isinstance(model, str) else as_chat(model),
        tools=toolset(tools),
        system=system or "",
        max_iterations=max_iterations,
        max_repeats=max_repeats,
        request=ChatRequest(
            (),
            max_tokens=max_tokens,
            temperature=temperature,
            effort=effort,
            output_schema=answer.schema if answer else None,
        ),
        shape=answer,
        hooks=checked_hooks(hooks),
        compaction=compaction,
        transcript=transcript,
    )

    async def tool_loop(state: Any, ctx: StepContext) -> dict[str, Any]:
        return await _Loop.begun(plan, state, ctx).run()

    return tool_loop


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was asked of `tool_loop`; `model` may be a name in the host.

    `request` has what all the requests have in common.
    """

    model: ChatModel | str
    tools: Toolset
    system: str
    max_iterations: int
    max_repeats: int
    request: ChatRequest
    shape: Shape | None
    hooks: tuple[ToolHook, ...]
    compaction: Compaction | None
    transcript: bool


@dataclass(slots=True)
class _Loop:
    """One execution of the step: what the model reads, what is new, what was spent."""

    plan: _Plan
    ctx: StepContext
    chat: ChatModel
    system: str
    messages: list[Message]
    taken: set[str]
    new: list[Message] = field(default_factory=list[Message])
    usage: Usage = field(default_factory=Usage)
    may_compact: bool = True
    last_batch: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    repeats: int = 0
    sizes: Sizes = field(default_factory=Sizes)

    @classmethod
    def begun(cls, plan: _Plan, state: Any, ctx: StepContext) -> "_Loop":
        """Begin from a state."""
        given = conversation(value_of(state, "messages"))
        return cls(
            plan=plan,
            ctx=ctx,
            chat=as_chat(ctx.model(plan.model)) if isinstance(plan.model, str) else plan.model,
            system=value_of(state, "system_prompt") or plan.system or given.system,
            messages=list(given.messages),
            taken={call.call_id for message in given.messages for call in message.calls},
        )

    async def run(self) -> dict[str, Any]:
        """Go round until the model answers, and give the delta."""
        plan = self.plan
        for n in count(1):
            is_last = n > plan.max_iterations or self.repeats >= plan.max_repeats
            await self._compact(n)
            reply = await self._answer(n, is_last=is_last)
            if not reply.tool_calls:
                return self._delta(reply)
            if is_last:
                raise MaxIterationsExceeded(
                    "the model still calls tools after {n} answers, asked to conclude: raise"
                    " max_iterations ({max}), or look at what it repeats",
                    n=n,
                    max=plan.max_iterations,
                )
            await self._batch(n, reply)
        raise AssertionError("the loop ends by itself")

    # What the model is asked, and answers

    async def _answer(self, n: int, *, is_last: bool) -> Reply:
        async def call() -> dict[str, Any]:
            await self._check_budgets()
            reply = await self._asked(self._request(is_last=is_last))
            return {
                "text": storable_text(reply.text),
                "tool_calls": [
                    ToolCall(call.id, call.name, dict(call.arguments or {}))
                    for call in reply.tool_calls
                ],
                "usage": reply.usage,
                "stop_reason": reply.stop_reason,
            }

        reply = Reply(**await self.ctx.effect(f"model:{n}", call))
        self.usage += reply.usage or Usage()
        return reply

    def _request(self, *, is_last: bool) -> ChatRequest:
        notes = [Message("user", prompt_text("en", "conclude"))] if is_last else []
        return replace(
            self.plan.request,
            messages=[*self.messages, *notes],
            system=self.system or None,
            tools=() if is_last else self.plan.tools.specs,
        )

    async def _asked(self, request: ChatRequest) -> Reply:
        """Ask the model, in pieces when somebody may read them: those are never asked for again."""
        if not getattr(self.ctx, "is_followed", True):
            return await self.chat(request)
        text: list[str] = []
        async with aclosing(self.chat.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    text.append(chunk.text)
                    self.ctx.token(chunk.text)
                if chunk.done:
                    end = chunk.stop_reason or "end"
                    return Reply("".join(text), chunk.tool_calls, chunk.usage, end)
        raise StreamInterrupted("transient", "the answer of the model broke off before its end")

    async def _check_budgets(self) -> None:
        check = getattr(self.ctx, "check_budgets", None)
        # Not in a thread: it only compares numbers, and branches should not race through it.
        checked = None if check is None else check(self.usage)
        if inspect.isawaitable(checked):
            await checked

    def _say(self, *messages: Message) -> None:
        self.messages += messages
        self.new += messages

    def _delta(self, reply: Reply) -> dict[str, Any]:
        self._say(Message("assistant", reply.text))
        shape = self.plan.shape
        output = reply.text if shape is None else shape.read(reply.text)
        said = {"messages": Appended(tuple(self.new))} if self.plan.transcript else {}
        return {"output": output, "usage": self.usage, **said}

    # A conversation that grew too long

    async def _compact(self, n: int) -> None:
        compaction = self.plan.compaction
        if compaction is None or not self.may_compact:
            return
        replaced = list(self.messages)

        async def compact() -> list[Message] | None:
            """Give None when there is no need, and nothing when there is no gain."""
            before = self._tokens(replaced)
            if before <= compaction.over_tokens:
                return None
            given = await compaction.compacted(replaced)
            return list(given) if self._tokens(given) < before else []

        async def archive() -> None:
            await compaction.archived(replaced)

        given: list[Message] | None = await self.ctx.effect(f"compact:{n}", compact)
        if given is None:
            return
        if not given:
            self.may_compact = False
            return
        if compaction.archive is not None:
            await self.ctx.effect(f"archive:{n}", archive)
        self.messages = given

    def _tokens(self, messages: Sequence[Message]) -> int:
        return self.sizes.prompt_tokens(
            ModelRequest(
                model="",
                system=self.system,
                history=(),
                messages=tuple(messages),
                tools=self.plan.tools.specs,
            )
        )

    # What tools gave

    async def _batch(self, n: int, reply: Reply) -> None:
        plan = self.plan
        calls = distinct(reply.tool_calls, self.taken)
        self._count_repeats(calls)
        made = await Batch(n, plan.tools, plan.hooks, self.ctx).made(calls)
        self._say(Message("assistant", reply.text, [item.call for item in made]))
        for item in made:
            result = item.result
            content = storable_text(result.content)
            self._say(Message("tool", content, (), result.call_id, result.is_error))
        edited = sorted({name for item in made for name in item.edited})
        if edited:  # for the model alone: the conversation has the arguments that were used
            note = prompt_text("en", "edited", fields=", ".join(edited))
            self.messages.append(Message("user", note))

    def _count_repeats(self, calls: Sequence[ToolCall]) -> None:
        batch = [(call.name, dict(call.arguments)) for call in calls]
        self.repeats = self.repeats + 1 if batch == self.last_batch else 1
        self.last_batch = batch
