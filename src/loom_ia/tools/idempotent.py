"""A tool that remembers what it did, so that the same thing is not done twice.

It asks the memory of its call before it acts, and tells it after. Nothing of it is known to the
engine but the port: a tool of yours that is no Python function can do the same with
`ToolContext.memory`, once its `ToolSpec.remembers` says so.

Law. An effect is repeated only when it is known not to have happened, or when a person, or the
tool's own declaration, says that it may be. An exception of the function says that it did not
happen; a cancellation, a time that is over and a crash say nothing.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast, overload

from loom_ia.core.errors import LoomError, OutsideError, UnknownEffect, UnstorableValue
from loom_ia.core.json import JsonObject, canonical, digest, storable_text
from loom_ia.core.model.content import TextBlock, ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.idempotency import Busy, CallMemory, Remembered, Reserved, Unknown
from loom_ia.core.ports.tools import Done, Reconciliation, ToolContext
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.tools.python import MAKES_TOOL, PythonTool, contained
from loom_ia.tools.results import to_output
from loom_ia.tools.signature import Faults

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

Values: TypeAlias = dict[str, Any]
"""The arguments of a call as the function gets them, defaults included."""

Key: TypeAlias = Callable[[Values], str] | Sequence[str]

_TTL_S: Final = 86_400.0
_MOST_KEPT: Final = 50_000
_MOST_SHOWN: Final = 2_000
_LONGEST_KEY: Final = 200

_log = logging.getLogger("loom_ia.tools")


@dataclass(frozen=True, slots=True)
class Memo:
    """Under what a tool remembers, and for how long; see `idempotent`."""

    key: Key | None = None
    ttl: float = _TTL_S
    reservation: float | None = None

    def check(self, parameters: Sequence[str], faults: Faults) -> None:
        """Note what is wrong, the tool having these parameters."""
        if isinstance(self.key, str):
            template = "key is {key!r}: give a list of parameters, or a function"
            faults.add("", template, key=self.key)
        elif self.key is not None and not callable(self.key):
            for name in self.key:
                if name not in parameters:
                    known = ", ".join(parameters)
                    template = "key names {name}, which is none of its parameters ({known})"
                    faults.add("", template, name=name, known=known)
            if not self.key:
                faults.add("", "key names no parameter: leave it out to remember each call")
        for name, seconds in (("ttl", self.ttl), ("reservation", self.reservation)):
            if seconds is not None and not seconds > 0:  # NaN is not
                faults.add("", "{name} is in seconds, more than 0", name=name)


@dataclass(frozen=True, eq=False, repr=False)
class IdempotentTool(PythonTool[P, R_co]):
    """A Python tool that remembers; see `idempotent`, which makes it."""

    memo: Memo = Memo()

    @property
    def spec(self) -> ToolSpec:
        """What decisions and models know of it. Raises `ToolDefinitionError` with every fault."""
        return self._remembering

    @cached_property
    def _remembering(self) -> ToolSpec:
        spec = super().spec
        faults = Faults(spec.name, self.function.call)
        self.memo.check(tuple(_properties(spec)), faults)
        faults.check()
        changes: dict[str, Any] = {"remembers": "call" if self.memo.key is None else "key"}
        if "side_effects" not in self.declared:
            changes["side_effects"] = "irreversible"  # there is something not to do twice
        return spec.model_copy(update=changes)

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Act, unless it was done before. Raises `UnknownEffect` when nobody can tell."""
        memory = context.memory
        if memory is None:  # called by hand
            return await super().call(arguments, context)
        values = await self.values(arguments)
        key, context = await contained(self._keyed(values, context))
        again = context.may_act_again
        claim = await memory.claim(key, seconds=self.memo.reservation, again=again)
        match claim:
            case Reserved():
                return await self._act(key, arguments, context, memory)
            case Remembered(output):
                return output
            case Busy():
                return ToolOutput.of_error(prompt_text(context.language, "busy"))
            case Unknown():
                raise UnknownEffect

    async def _act(
        self, key: str, arguments: JsonObject, context: ToolContext, memory: CallMemory
    ) -> ToolOutput:
        try:
            output = await super().call(arguments, context)
        except UnknownEffect:
            raise
        except UnstorableValue:  # it returned, so it acted
            note = ToolOutput.of_text(prompt_text(context.language, "done_before"))
            await _to_its_end(memory.complete(key, note, keep=self.memo.ttl))
            raise
        except Exception:
            await self._release(key, context, memory)
            raise
        if output.is_error:
            await self._release(key, context, memory)
        else:
            kept = _kept(output, context.language)
            await _to_its_end(memory.complete(key, kept, keep=self.memo.ttl))
        return output

    async def _release(self, key: str, context: ToolContext, memory: CallMemory) -> None:
        """Free the key, unless the failure may come of the call having been cut."""
        if not context.should_stop():
            await _to_its_end(memory.release(key))

    async def reconcile(self, arguments: JsonObject, context: ToolContext) -> Reconciliation:
        """Ask the function that was declared, under the key; what happened is remembered."""
        values = await self.values(arguments)
        key, context = await contained(self._keyed(values, context))
        answer = await super().reconcile(arguments, context)
        memory = context.memory
        if not isinstance(answer, Done) or memory is None:
            return answer
        match await memory.claim(key, seconds=self.memo.reservation, again=True):
            case Remembered(output):
                return Done(output)
            case Reserved():
                output = answer.output
                if not isinstance(output, ToolOutput):
                    output = ToolOutput.of_text(prompt_text(context.language, "done_before"))
                kept = _kept(output, context.language)
                await _to_its_end(memory.complete(key, kept, keep=self.memo.ttl))
                return Done(output)
            case Busy() | Unknown():
                return answer

    async def _keyed(self, values: Values, context: ToolContext) -> tuple[str, ToolContext]:
        """Give the key to remember under, and the context that tells the function the same."""
        chosen = self.memo.key
        if chosen is None:
            word = context.idempotency_key
        elif callable(chosen):
            word = cast("object", chosen(values))
        else:
            word = canonical(to_output({name: values[name] for name in chosen}).data)
        if not isinstance(word, str) or not word:
            raise OutsideError(
                "the key of {tool} is {word!r}, not a text", tool=self._name, word=word
            )
        word = storable_text(word)
        if len(word) > _LONGEST_KEY:
            word = digest(word)
        key = f"{context.tenant_id}:{self._name}:{word}"
        return key, context if chosen is None else replace(context, idempotency_key=key)


@overload
def idempotent(target: Decorated, /) -> Decorated: ...
@overload
def idempotent(
    *,
    key: Key | None = None,
    ttl: float = _TTL_S,
    reservation: float | None = None,
) -> Callable[[Decorated], Decorated]: ...
def idempotent(target: Any = None, /, **memo: Any) -> Any:
    """Let a tool remember what it did; above or below `@tool`.

        @idempotent(key=lambda args: f"reminder:{args['number']}")
        @tool(side_effects="irreversible", approval="always")
        async def send_reminder(number: str, body: str) -> str:
            '''Send the customer a reminder.'''

    Without `key`, each call is remembered: one that was interrupted is not made twice. With `key`,
    a function of the arguments or a list of parameters, so is what two runs ask for under the same
    key; that needs a store that they share. The function reads its key in `ToolContext`.

    `ttl` is for how long a result is kept, `reservation` for how long nobody else may act while a
    call is under way, by default as long as the call may take; both in seconds. What the memory
    does not know is asked of the outside world, if the tool has a `reconcile` (see `tool`), which
    reads the same key.
    """
    if target is None:
        return lambda target: _remembering(target, Memo(**memo))  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    return _remembering(target, Memo(**memo))


def _remembering(target: Any, memo: Memo) -> Any:
    if isinstance(target, PythonTool):
        made = cast("PythonTool[..., Any]", target)
        return IdempotentTool[..., Any](made.function, made.declared, memo)
    if not inspect.isfunction(target):
        faults = Faults(repr(target), target)
        template = "@idempotent goes above or below @tool, not on a {type}"
        faults.add("", template, type=type(target).__name__)
        faults.check()
    setattr(target, MAKES_TOOL, lambda made: _remembering(made, memo))  # pyright: ignore[reportUnknownLambdaType]
    return target


def _properties(spec: ToolSpec) -> JsonObject:
    return cast("JsonObject", spec.input_schema.get("properties", {}))


def _kept(output: ToolOutput, language: Language) -> ToolOutput:
    """Give what is remembered of a result: no files, and no more than 50,000 characters."""
    if output.files:
        names = ", ".join(file.name or file.media_type for file in output.files)
        note = TextBlock(text=prompt_text(language, "done_files", names=names))
        output = output.model_copy(update={"files": (), "blocks": (*output.shown, note)})
    if len(output.model_dump_json()) <= _MOST_KEPT:
        return output
    text = output.text
    note = prompt_text(language, "done_in_part", size=len(text))
    return ToolOutput.of_text(f"{text[:_MOST_SHOWN]}…\n\n{note}")


async def _to_its_end(telling: Coroutine[Any, Any, None]) -> None:
    """Tell the memory, whatever cancels the call: what happened outside is known only here.

    A memory that fails leaves the key as it is: the next one who asks is told that the effect is
    unknown. This call's own result is not lost for that.
    """
    task = asyncio.ensure_future(telling)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    try:
        task.result()
    except LoomError as error:
        _log.warning("what a call did is not remembered: %s", error)
