"""One call of one tool, within its time: whatever the tool does, a result comes out.

Nothing that a tool raises passes for an order given to this process, and nothing of it stops its
siblings. Only a cancellation of the caller goes through; it cancels the tool.

A tool that was given up is told to stop and left to end by itself, for a thread cannot be cut.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from loom_ia.core.errors import (
    OutsideError,
    ToolError,
    UnknownEffect,
    UnstorableValue,
    text_of,
    told,
)
from loom_ia.core.json import JsonObject, storable, storable_text
from loom_ia.core.model.chunks import INVALID_ARGUMENTS
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.ports.tools import Tool, ToolContext
from loom_ia.core.prompts import prompt_text
from loom_ia.graph.tool_call import ToolCall, ToolResult

T = TypeVar("T")

GRACE: Final = 0.5
"""How many seconds a tool that is cancelled with its caller has to leave first."""

_TENANT: Final = "default"
_left: Final[set["asyncio.Future[ToolResult]"]] = set()
"""Calls that were given up; the event loop alone would not keep them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where calls come from: the run, and what makes their idempotency keys."""

    run_id: str = ""
    agent: str = ""

    @property
    def session_id(self) -> str:
        """The session of the run: its root."""
        return self.run_id.partition("/")[0]


@dataclass(slots=True)
class Stop:
    """Whether a call was told to stop; a flag that threads may read."""

    asked: bool = False


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of `tool`, of arguments that it takes; `key` is the same if it is launched again."""

    tool: Tool
    call: ToolCall
    origin: Origin
    key: str
    stop: Stop = field(default_factory=Stop)

    async def result(self) -> ToolResult:
        """Make the call, within the time that the tool declares."""
        task = asyncio.ensure_future(self._work())
        try:
            done, _ = await asyncio.wait((task,), timeout=self.tool.spec.timeout)
            if not done:
                self._leave(task)
                return self._timed_out()
        except asyncio.CancelledError:
            self._leave(task)
            await asyncio.wait((task,), timeout=GRACE)
            raise
        if task.cancelled():  # it cancelled itself
            return failed(self.call, prompt_text("en", "tool_failed", error="CancelledError"))
        return task.result()

    async def _work(self) -> ToolResult:
        call = self.call
        try:
            output = await held(self.tool.call(dict(call.arguments), self._context()))
            return _shown(call, output)
        except ToolError as error:
            return failed(call, storable_text(text_of(error)))
        except UnknownEffect as error:
            text = storable_text(text_of(error)) or prompt_text("en", "unknown_effect")
            return failed(call, text)
        except UnstorableValue as error:
            problem = storable_text(text_of(error))
            return failed(call, prompt_text("en", "tool_unstorable", problem=problem))
        except Exception as error:  # noqa: BLE001 -- a fault of a tool is a fact for the model
            return failed(call, prompt_text("en", "tool_failed", error=storable_text(told(error))))

    def _context(self) -> ToolContext:
        return ToolContext(
            tenant_id=_TENANT,
            session_id=self.origin.session_id,
            run_id=self.origin.run_id,
            call_id=self.call.id or "",
            agent=self.origin.agent,
            idempotency_key=self.key,
            should_stop=lambda: self.stop.asked,
            may_act_again=self.tool.spec.may_run_again,
        )

    def _timed_out(self) -> ToolResult:
        spec = self.tool.spec
        name = "tool_timed_out" if spec.may_run_again else "unknown_effect_timeout"
        return refusal(self.call, "timeout", prompt_text("en", name, seconds=f"{spec.timeout:g}"))

    def _leave(self, task: "asyncio.Future[ToolResult]") -> None:
        self.stop.asked = True
        task.cancel()
        _left.add(task)
        task.add_done_callback(_left.discard)


async def arguments_of(tool: Tool, call: ToolCall) -> tuple[JsonObject, ToolResult | None]:
    """Give the arguments of a call as JSON, and the error that they make, if they cannot run."""
    arguments: Any = call.arguments or {}
    if not isinstance(arguments, Mapping):
        text = prompt_text("en", "unreadable_arguments", text=storable_text(repr(arguments)))
        return {}, refusal(call, "invalid_arguments", text)
    arguments = dict(cast("Mapping[str, Any]", arguments))
    if INVALID_ARGUMENTS in arguments:
        text = prompt_text("en", "unreadable_arguments", text=arguments[INVALID_ARGUMENTS])
        return {}, refusal(call, "invalid_arguments", text)
    try:
        kept = cast("JsonObject", storable(arguments, "arguments")[0])
        problem = await held(tool.check(kept))
    except UnstorableValue as error:
        kept, problem = {}, text_of(error)
    except Exception as error:  # noqa: BLE001 -- a check is code of the user
        kept, problem = {}, told(error)
    if problem is None:
        return kept, None
    text = prompt_text("en", "invalid_arguments", problem=storable_text(problem))
    return {}, refusal(call, "invalid_arguments", text)


def refusal(call: ToolCall, error: str, text: str) -> ToolResult:
    """Give the result of a call that did not succeed; `error` is its kind."""
    return ToolResult(call.id or "", call.name, text, is_error=True, error=error)


def failed(call: ToolCall, text: str) -> ToolResult:
    """Give the result of a call that raised."""
    return refusal(call, "failed", text)


async def held(work: Awaitable[T]) -> T:
    """Await code of the user; an order to this process that it gave becomes a failure."""
    try:
        return await work
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        raise OutsideError("it raised {type}", type=type(error).__name__) from error


async def asked(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user, sync or async, as `held` does."""

    async def work() -> Any:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result

    return await held(work())


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _shown(call: ToolCall, output: object) -> ToolResult:
    if not isinstance(output, ToolOutput):
        raise OutsideError("it returned {type}, not a ToolOutput", type=type(output).__name__)
    lines = [output.text] if output.text else []
    lines += [f"(file {f.name}, {f.media_type}, {len(f.data)} bytes)" for f in output.files]
    files = [f.data for f in output.files]
    data: Any = storable(output.data, "data")[0]
    if files:
        data = files[0] if len(files) == 1 else files
    text = storable_text("\n".join(lines))
    if output.is_error:
        return ToolResult(call.id or "", call.name, text, is_error=True, error="failed", data=data)
    return ToolResult(call.id or "", call.name, text, data=data)
