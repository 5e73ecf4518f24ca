"""From the description of a graph to a graph: its expressions are read, its routers made.

Law. What a description names (functions, tools, other graphs) comes from outside: nothing is looked
up here. Whatever is at fault in a text is told with the path of that text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.json import JsonValue
from loom_ia.core.model.messages import Message
from loom_ia.core.ports.tools import Tool
from loom_ia.core.template import Template
from loom_ia.graph import combine
from loom_ia.graph.children import ChildGraph, agent_step
from loom_ia.graph.context import StepContext
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.expressions import Expression, ExpressionError
from loom_ia.graph.guards import ask_human, guard
from loom_ia.graph.routers import branch, condition, fan_out
from loom_ia.graph.spec import (
    END_WORD,
    AgentStep,
    AnyStep,
    BranchSpec,
    CheckSpec,
    ConditionSpec,
    FanOutSpec,
    GraphSpec,
    GraphStep,
    GuardStep,
    HumanStep,
    PythonStep,
    SetStep,
    ToolStep,
)
from loom_ia.graph.types import END, MISSING, Cache, Merge, Retry, Router, Step, Target

KeyPath: TypeAlias = tuple[str | int, ...]
Fault: TypeAlias = tuple[KeyPath, Problem]
"""Where a description is at fault, from the graph on, and what is wrong there."""


class Resolver(Protocol):
    """What the names of a description stand for; each raises when it stands for nothing."""

    def python(self, name: str) -> Step: ...
    def graph(self, name: str) -> GraphDefinition[Any]: ...
    def tool(self, name: str) -> Tool: ...


def definition_of(spec: GraphSpec, resolver: Resolver) -> GraphDefinition[Any]:
    """Build the graph; its texts were found sound. Raises `ValueError` for a wrong option."""
    limits = spec.limits
    graph = GraphDefinition[Any](
        spec.name,
        spec.entry,
        merge={key: _merge(name) for key, name in spec.merge.items()},
        max_iterations=limits.max_iterations,
        iterations_per=limits.iterations_per,
        step_budget=limits.step_budget,
        timeout=limits.timeout,
        version=spec.version,
    )
    for name, step in spec.steps.items():
        add_written(graph, name, step, resolver)
    return graph


def add_written(graph: GraphDefinition[Any], name: str, step: AnyStep, resolver: Resolver) -> None:
    """Add a step as it is described. Raises `ValueError` for a wrong name or option."""
    retry, cache = step.retry, step.cache
    graph.add_step(
        name,
        function_of(step, resolver),
        router(step),
        join=step.join,
        timeout=step.timeout,
        retry=None
        if retry is None
        else Retry(
            attempts=retry.attempts,
            delay=retry.delay,
            backoff=retry.backoff,
            max_delay=retry.max_delay,
        ),
        fallback=step.fallback,
        cache=None if cache is None else Cache(Expression.parse(cache.key).value, cache.ttl),
        side_effects=step.side_effects,
        idempotent=step.idempotent,
        on_unknown=step.on_unknown,
        version=step.version,
        detail=step.detail,
    )


def function_of(step: AnyStep, resolver: Resolver) -> Step:
    """Give what a step runs."""
    match step:
        case PythonStep(python=name):
            return resolver.python(name)
        case AgentStep():
            return agent_step(step.agent, ask=filler(step.ask), into=step.into)
        case GraphStep():
            child = resolver.graph(step.graph)
            return ChildGraph(child, step.inputs, step.outputs, step.on_yield)
        case ToolStep():
            from loom_ia.graph.tool_step import tool_step  # it runs things: only when one is there

            return tool_step(resolver.tool(step.tool), args=computed(step.args), into=step.into)
        case HumanStep():
            return _asking(step)
        case GuardStep():
            return guard(*map(_check, step.guard), into=step.into)
        case SetStep():
            return computed(step.values)


def router(step: AnyStep) -> Router | Target | None:
    """Give where a step leads. Raises `ValueError` for targets that cannot be."""
    then = step.then
    match then:
        case None:
            return None
        case BranchSpec():
            default = MISSING if then.default is None else _target(then.default)
            return branch(then.branch, {k: _target(to) for k, to in then.routes.items()}, default)
        case ConditionSpec():
            holds = Expression.parse(then.condition).holds
            return condition(holds, _target(then.if_true), _target(then.if_false))
        case FanOutSpec():
            return fan_out(
                then.fan_out,
                over=then.over,
                as_=then.as_,
                collect=then.collect,
                limit=then.limit,
                take=then.take,
                on_error=then.on_error,
            )
        case _:
            return _target(then)


def _target(written: str | Sequence[str]) -> Target:
    if isinstance(written, str):
        return END if is_end(written) else written
    return list(written)


def is_end(target: str) -> bool:
    """Whether the name of a target is that of the end."""
    return target in (END_WORD, "")


def leads(step: AnyStep) -> Iterator[tuple[KeyPath, str]]:
    """Give every name that a step leads to, with its path."""
    match step.then:
        case None:
            pass
        case BranchSpec(routes=routes, default=default):
            for key, to in routes.items():
                yield from _names(to, ("then", "routes", key))
            yield from _names(default, ("then", "default"))
        case ConditionSpec(if_true=first, if_false=second):
            yield from _names(first, ("then", "if_true"))
            yield from _names(second, ("then", "if_false"))
        case FanOutSpec(fan_out=name):
            yield ("then", "fan_out"), name
        case then:
            yield from _names(then, ("then",))
    if step.fallback is not None:
        yield ("fallback",), step.fallback


def _names(target: str | Sequence[str] | None, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if target is None:
        return
    if isinstance(target, str):
        yield path, target
    else:
        yield from (((*path, position), name) for position, name in enumerate(target))


def _merge(name: str) -> Merge:
    return cast("Merge", getattr(combine, name))


# -- texts ----------------------------------------------------------------------------------------


def faults(spec: GraphSpec) -> Iterator[Fault]:
    """Find every expression and template that cannot be read, and names that cannot be."""
    if END_WORD in spec.steps:
        template = "END is the end, and no step can be called so (choose another name)"
        yield ("steps", END_WORD), Problem("", None, "", template, {})
    for name, step in spec.steps.items():
        for path, text in expressions(step):
            try:
                Expression.parse(text)
            except ExpressionError as error:
                problem = Problem("", None, "", "{problem}", {"problem": error})
                yield ("steps", name, *path), problem
        for path, text in _templates(step):
            try:
                Template.parse(text)
            except ConfigError as error:
                yield from ((("steps", name, *path), fault) for fault in error.problems)


def expressions(step: AnyStep) -> Iterator[tuple[KeyPath, str]]:
    """Give the expressions of a step, with their paths."""
    match step:
        case ToolStep(args=values):
            yield from ((("args", key), text) for key, text in _texts(values))
        case SetStep(values=values):
            yield from ((("set", key), text) for key, text in _texts(values))
        case GuardStep(guard=checks):
            for position, check in enumerate(checks):
                if isinstance(check, CheckSpec):
                    yield ("guard", position, "check"), check.check
                else:
                    yield ("guard", position), check
        case _:
            pass
    if isinstance(step.then, ConditionSpec):
        yield ("then", "condition"), step.then.condition
    if step.cache is not None:
        yield ("cache", "key"), step.cache.key


def _texts(values: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in values.items() if isinstance(value, str))


def _templates(step: AnyStep) -> Iterator[tuple[KeyPath, str]]:
    match step:
        case AgentStep(ask=text):
            yield ("ask",), text
        case HumanStep(ask_human=asked):
            yield from _inside(asked.prompt, ("ask_human", "prompt"))
        case _:
            pass


def _inside(value: JsonValue, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    match value:
        case str():
            yield path, value
        case list():
            for position, item in enumerate(value):
                yield from _inside(item, (*path, position))
        case dict():
            for key, item in value.items():
                yield from _inside(item, (*path, key))
        case _:
            pass


# -- what steps do --------------------------------------------------------------------------------


def computed(values: Mapping[str, JsonValue]) -> Callable[[Any], dict[str, Any]]:
    """Give what computes values from a state: a text is an expression, another value is itself."""
    readings = {
        key: Expression.parse(value) if isinstance(value, str) else value
        for key, value in values.items()
    }

    def compute(state: Any) -> dict[str, Any]:
        return {
            key: value.value(state) if isinstance(value, Expression) else value
            for key, value in readings.items()
        }

    return compute


def filler(text: str) -> Callable[[Any], str]:
    """Give what fills a template from a state."""
    template = Template.parse(text)

    def fill(state: Any) -> str:
        return template.render(plain(state))

    return fill


def _asking(step: HumanStep) -> Step:
    asked = step.ask_human
    fill = _filling(asked.prompt)

    async def ask(state: Any, ctx: StepContext) -> Any:
        question = ask_human(
            fill(state),
            response=asked.response,
            into=asked.into,
            schema=asked.json_schema,
            expires_in=asked.expires_in,
        )
        return await question(state, ctx)

    return ask


def _filling(prompt: JsonValue) -> Callable[[Any], Any]:
    """Give what fills every text of a prompt."""
    match prompt:
        case str():
            return filler(prompt)
        case list():
            items = [_filling(item) for item in prompt]
            return lambda state: [fill(state) for fill in items]
        case dict():
            parts = {key: _filling(item) for key, item in prompt.items()}
            return lambda state: {key: fill(state) for key, fill in parts.items()}
        case _:
            return lambda _: prompt


def _check(written: str | CheckSpec) -> Callable[[Any], str | None]:
    text = written.check if isinstance(written, CheckSpec) else written
    reason = written.reason if isinstance(written, CheckSpec) else ""
    expression = Expression.parse(text)

    def check(state: Any) -> str | None:
        return None if expression.holds(state) else reason or f"{text} does not hold"

    return check


def plain(value: Any) -> Any:
    """Give a value of a state as JSON shows it, what JSON cannot hold as text."""
    match value:
        case Message():
            return value.as_text()
        case Mapping():
            return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple():
            return [plain(item) for item in cast("Sequence[Any]", value)]
        case set() | frozenset():
            return sorted((plain(item) for item in cast("set[Any]", value)), key=repr)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
