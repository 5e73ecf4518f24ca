"""The code of a graph as the engine calls it: steps, hooks, routers, merges.

Values come in the form of the journal and go back in it; everything that an author wrote is called
here and nowhere else, and whatever it raises becomes a value that says how it failed.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loom_ia.core.errors import InternalError, told
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, JsonValue, storable_text
from loom_ia.core.model.changes import Change, applied
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.store import Store
from loom_ia.core.state.calls import Call, Inquiry
from loom_ia.core.state.flow import Line, Mapped
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.program import Asked, Done, Fault, Passed, Routing, StepDelegate, StepWork
from loom_ia.graph import errors
from loom_ia.graph.answers import schema_of
from loom_ia.graph.appended import Appended
from loom_ia.graph.budget import StepBudget
from loom_ia.graph.caching import Kept
from loom_ia.graph.combine import checked_key
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.delegates import delegate_of
from loom_ia.graph.protocol import understood
from loom_ia.graph.routers import FanOut, normalised, step_of
from loom_ia.graph.running import Execution, Host, Paused, called
from loom_ia.graph.step_definition import StepDefinition
from loom_ia.graph.types import DELETE, Ask, Goto, Refused, Send

Approver = Callable[[RunState, Call, Inquiry | None], Any]


_ENDS: Final = (Exception, asyncio.CancelledError, Paused)
"""What ends a step; anything else that it raises is an order to this process."""


@dataclass(slots=True)
class GraphBindings:
    """The live side of one graph, for one drive.

    `answers` asks the function that answers in line. `checks` are the budget hooks that bind the
    run, those of the graphs above included.
    """

    graph: GraphDefinition[Any]
    store: Store | None = None
    host: Host | None = None
    budget: StepBudget | None = None
    answers: Approver | None = None
    checks: tuple[Callable[[Usage], object], ...] = ()
    _delegates: dict[str, StepDelegate | None] = field(
        default_factory=dict[str, StepDelegate | None]
    )

    # -- steps ------------------------------------------------------------------------------------

    async def execute(self, work: StepWork) -> Done | Fault:
        """Run a step once; see `Bindings`."""
        call, line = work.call, work.line
        step = self._step(call.name)
        types = self.graph.state_type
        context = self._context(step, work) if step.wants_context else None
        try:
            view = types.view(line.values, line.extra)
            kept = None
            if step.cache is not None:
                kept = Kept.of(step, self.graph, self.store, types.codec)
            if kept is not None and (found := await kept.find(view)) is not None:
                return self._done({**found}, view, line)
            given = await self._call(step, view, context)
            if context is not None:
                _require_written(context)
                if context.pending:
                    return Done(questions=tuple(context.pending), again=True)
            end = self._end(given, view, line)
            if kept is not None and not end.questions:
                await kept.keep(view, given)
        except (*_ENDS, BaseExceptionGroup) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            if isinstance(error, BaseExceptionGroup) and error.split(_ENDS)[1] is not None:
                raise
            if context is not None:
                _require_written(context)
                if context.pending:
                    return Done(questions=tuple(context.pending), again=True)
            return self._fault(error, step, call, line)
        return end

    def _context(self, step: StepDefinition, work: StepWork) -> Execution:
        return Execution(
            work,
            self.graph.state_type.codec,
            graph=self.graph.name,
            on_unknown=step.on_unknown,
            store=self.store,
            budget=self.budget,
            host=self.host,
            checks=self.checks,
        )

    async def _call(self, step: StepDefinition, view: Any, context: Execution | None) -> Any:
        fn = step.fn
        given = (view, context) if step.wants_context else (view,)
        if step.timeout is None:
            return await (fn(*given) if step.is_async else called(fn, *given))
        limit = asyncio.timeout(step.timeout)
        try:
            async with limit:
                return await called(fn, *given)
        except TimeoutError as error:
            if not limit.expired():
                raise
            text = f"the step took more than {step.timeout:g} s"
            raise _TooLong(text) from error

    def _end(self, given: Any, view: Any, line: Line) -> Done:
        """Read what a step gave: a delta, a question or a route."""
        if self.graph.compat:
            given = understood(given)
        if isinstance(given, Ask):
            return self._asked(given, view, line)
        if isinstance(given, Goto):
            done = self._done(given.update, view, line)
            return Done(done.changes, self._stored_target(given.to), done.usage)
        return self._done(given, view, line)

    def _done(self, given: Any, view: Any, line: Line) -> Done:
        types = self.graph.state_type
        seen = {**line.values, **line.extra} if line.extra else line.values
        delta = types.delta_of(given, view, seen)
        if not delta:
            return Done()
        usage = delta.get("usage")
        changes = self.changes(line, delta)
        return Done(changes, usage=usage if isinstance(usage, Usage) else None)

    def changes(self, line: Line, delta: Mapping[str, Any]) -> tuple[Change, ...]:
        """Give what a delta does to the values of a line."""
        types = self.graph.state_type
        added = {key: value for key, value in delta.items() if isinstance(value, Appended)}
        if not added:
            return types.merges.changes(line.values, delta, in_branch=bool(line.path))
        types.merges.changes({}, dict.fromkeys(added, DELETE), in_branch=False)
        plain = {key: value for key, value in delta.items() if key not in added}
        changes = types.merges.changes(line.values, plain, in_branch=bool(line.path))
        more = (
            Change.of("append", key, types.codec.to_json(list(value.items), key))
            for key, value in added.items()
        )
        return (*changes, *more)

    def _asked(self, ask: Ask, view: Any, line: Line) -> Done:
        done = self._done(ask.update, view, line)
        if ask.into:
            self.graph.state_type.merges.check((ask.into,))
        question = Asked(
            key=ask.key,
            asked=ask.phase,
            payload=self.graph.state_type.codec.to_json(ask.prompt, "prompt"),
            answer_schema=schema_of(ask.schema),
            into=ask.into or "",
            expires_in=ask.expires_in,
            position=-1,
        )
        return Done(done.changes, None, done.usage, (question,), again=ask.phase == "mid")

    def _fault(self, error: BaseException, step: StepDefinition, call: Call, line: Line) -> Fault:
        text = storable_text(told(error))
        match error:
            case Refused():
                return self._refused(error, step, call, line)
            case errors.BudgetExhausted():
                return Fault("BudgetExhausted", storable_text(str(error)), cause=error)
            case errors.UnknownEffect():
                key = error.key or ""
                return Fault("UnknownEffect", str(error), key, error, is_unknown=False)
            case errors.NonDeterministicStep():
                return Fault("NonDeterministicStep", str(error), cause=error)
            case errors.NotSerializable():
                return Fault("NotSerializable", str(error), error.key_path, error)
            case errors.DeltaError() if type(error) is not errors.DeltaError:
                return Fault(type(error).__name__, str(error), error.key or "", error)
            case _:
                pass
        if isinstance(error, _TooLong):
            error = TimeoutError(str(error))
            text = storable_text(told(error))
            if step.side_effects != "none" and not step.idempotent:
                return Fault("UnknownEffect", text, cause=error, is_unknown=True)
        return Fault("StepFailed", text, cause=error, retry_in=step.retry_in(error, call.attempt))

    def _refused(self, error: Refused, step: StepDefinition, call: Call, line: Line) -> Fault:
        try:
            changes = self._done(error.update, None, line).changes
        except Exception as problem:  # noqa: BLE001 -- a delta that cannot be written fails the step
            return self._fault(problem, step, call, line)
        return Fault("Blocked", storable_text(error.reason), cause=error, changes=changes)

    # -- routes -----------------------------------------------------------------------------------

    async def route(self, line: Line, run: RunState) -> Routing | Fault:
        """Ask where a line goes on; see `Bindings`."""
        del run
        step = self._step(line.step)
        types = self.graph.state_type
        try:
            if line.goto is not None:
                return self._routing(self._target_read(line.goto), "")
            view = types.view(line.values, line.extra)
            if isinstance(step.router, FanOut):
                return self._spread(step.router, step.router(view), line)
            target = step.router(view)
            if inspect.isawaitable(target):
                target = await target
            return self._routing(target, "")
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            text = f"the router of step {step.name!r}: {storable_text(told(error))}"
            if isinstance(error, errors.RouteError):
                text = f"the router of step {step.name!r}: {error}"
            return Fault("RouteError", text, cause=error)

    def _routing(self, target: Any, label: str) -> Routing | Fault:
        targets = normalised(target)
        for wanted in map(step_of, targets):
            if wanted not in self.graph.steps:
                text = f'step "{wanted}" not found in graph "{self.graph.name}"'
                return Fault("StepNotFound", text, wanted)
        inputs: tuple[JsonObject, ...] = ()
        if any(isinstance(one, Send) for one in targets):
            inputs = tuple(self._sent(one) for one in targets)
        return Routing(tuple(map(step_of, targets)), inputs, label)

    def _sent(self, target: str | Send) -> JsonObject:
        if not isinstance(target, Send):
            return {}
        codec = self.graph.state_type.codec
        return {checked_key(key): codec.to_json(value, key) for key, value in target.input.items()}

    def _spread(self, router: FanOut, sends: Sequence[Send], line: Line) -> Routing | Fault:
        if router.step not in self.graph.steps:
            return self._routing(router.step, "")
        collects = router.on_error == "collect"
        over = Mapped(router.step, router.collect, router.limit, router.take or "", collects)
        return Routing((router.step,) * len(sends), tuple(map(self._sent, sends)), "", over)

    def _stored_target(self, target: Any) -> JsonValue:
        codec = self.graph.state_type.codec
        stored: list[JsonValue] = []
        for one in normalised(target):
            if isinstance(one, Send):
                sent = {checked_key(key): value for key, value in one.input.items()}
                stored.append({"step": one.step, "input": codec.to_json(sent, one.step)})
            else:
                stored.append(one)
        return stored

    def _target_read(self, stored: JsonValue) -> Any:
        codec = self.graph.state_type.codec
        read = [
            Send(str(item["step"]), codec.from_json(item["input"]))
            if isinstance(item, dict)
            else str(item)
            for item in (stored if isinstance(stored, list) else [])
        ]
        return "" if not read else read[0] if len(read) == 1 and isinstance(read[0], str) else read

    # -- hooks ------------------------------------------------------------------------------------

    async def review(
        self, line: Line, call_id: CallId, run: RunState, usage: Usage, *, after: bool
    ) -> Passed | Fault:
        """Ask the hooks about a step that is due, or that ended; see `Bindings`."""
        from loom_ia.graph.reviewing import reviewed

        return await reviewed(self, line, call_id, run, usage, after=after)

    # -- branches ---------------------------------------------------------------------------------

    def meet(self, line: Line, branches: Sequence[Line]) -> Sequence[Change] | Fault:
        """Merge what branches did, or list what the items of a list gave; see `Bindings`."""
        types = self.graph.state_type
        try:
            if line.mapped is not None:
                given = [_item(branch, index, line.mapped) for index, branch in enumerate(branches)]
                delta = {line.mapped.collect: types.codec.from_json(given)}
                return self.changes(line, delta)
            ended = [(b.path, b.changes) for b in branches if b.stage == "ended"]
            return types.merges.joined(line.values, ended, in_branch=bool(line.path))
        except errors.DeltaError as error:
            return Fault(type(error).__name__, str(error), error.key or "", error)

    # -- runs below -------------------------------------------------------------------------------

    def delegate(self, step: str) -> StepDelegate | None:
        """Give what a step opens; see `Bindings`."""
        if step not in self._delegates:
            self._delegates[step] = delegate_of(self, self._step(step))
        return self._delegates[step]

    async def answer(self, run: RunState, call: Call, inquiry: Inquiry | None) -> JsonValue:
        """Ask the function that answers in line; see `Bindings`."""
        if self.answers is None:
            raise InternalError("nobody answers in line")
        return cast("JsonValue", await self.answers(run, call, inquiry))

    def _step(self, name: str) -> StepDefinition:
        name = self.graph.migrations.get(name, name)
        step = self.graph.steps.get(name)
        if step is None:
            raise InternalError("there is no step {name}", name=name)
        return step


def _require_written(context: Execution) -> None:
    """Let a fact of the step that could not be written stop the drive, whatever the step did."""
    if context.unwritten is not None:
        raise context.unwritten


class _TooLong(Exception):
    """A step was cut for its time."""


def _item(branch: Line, index: int, mapped: Mapped) -> JsonValue:
    """Give what one item of a list gave, as the step returned it."""
    if branch.failed:
        return {"error": branch.failed, "index": index}
    given: JsonObject = {}
    for change in branch.changes:
        if change.op == "remove":
            given.pop(change.key, None)
        elif change.incoming:
            given[change.key] = change.incoming[0]
        else:
            given.update(applied({}, (change,)))
    return given.get(mapped.take) if mapped.take else cast("JsonValue", given)
