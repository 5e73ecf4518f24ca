"""What a graph knows of each of its steps, checked once, when the step is added.

A definition is a value: it holds the author's function and never calls it.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from loom_ia.core.model.tooling import OnUnknown, SideEffects
from loom_ia.core.plan import Join
from loom_ia.graph.routers import KnownTargets
from loom_ia.graph.types import Cache, Retry, Router, Step


@dataclass(frozen=True, slots=True, eq=False)
class StepDefinition:
    """One step: its function, where it leads, and how it is treated. Wrong options: `ValueError`.

    `targets` is what is known of its router, None when nothing is. `wants_context` tells that the
    function takes the context besides the state, and `child` is what it runs as a graph below.
    """

    name: str
    fn: Step
    router: Router
    targets: KnownTargets | None
    join: Join | None = None
    retry: Retry | None = None
    timeout: float | None = None
    fallback: str | None = None
    cache: Cache | None = None
    side_effects: SideEffects = "none"
    idempotent: bool = False
    on_unknown: OnUnknown = "error"
    undo: Step | None = None
    version: str | None = None
    detail: str = ""
    wants_context: bool = field(init=False)
    child: object | None = field(init=False)
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        _require_name(self.name)
        _require_options(self)
        _require_callable_with_state(self)
        object.__setattr__(self, "wants_context", takes(self.fn, 2))
        object.__setattr__(self, "is_async", is_async(self.fn))
        object.__setattr__(self, "child", getattr(self.fn, "__loom_child__", None))
        if self.cache is not None and self.child is not None:
            raise ValueError(
                f"add_step({self.name!r}, cache=…): what a graph or an agent below gives is not"
                " cached (put cache on a step of that graph, which calls a function)"
            )

    def may_lead_to(self, name: str) -> bool:
        """Whether its router may answer that step, as far as is known; the end it always may."""
        return self.targets is None or name in self.targets.names

    def retry_in(self, error: BaseException, attempt: int) -> float | None:
        """Give the seconds until it is tried again after that attempt, None when it is not."""
        retry = self.retry
        if retry is None or attempt >= retry.attempts or not isinstance(error, retry.on):
            return None
        return retry.wait(attempt)


@runtime_checkable
class Shape(Protocol):
    """What can be checked, drawn and told apart: a graph without its settings."""

    @property
    def name(self) -> str: ...
    @property
    def entry(self) -> str | None: ...
    @property
    def version(self) -> str | None: ...
    @property
    def steps(self) -> Mapping[str, StepDefinition]: ...


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling a function gives a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 -- the method is wanted
    )


def takes(fn: Callable[..., Any], count: int) -> bool:
    """Whether `fn` takes `count` arguments by position; not when its signature cannot be read.

    A parameter with a default of its own, such as `i` of `lambda state, i=i: …`, is not for us;
    one whose default is None is.
    """
    return accepted(fn, count) >= count


def accepted(fn: Callable[..., Any], most: int) -> int:
    """Give how many arguments, `most` at most, `fn` takes from us by position."""
    try:
        known = _ACCEPTED.get(fn)
        if known is None:
            known = _ACCEPTED[fn] = _accepted(fn)
    except TypeError:  # it cannot be remembered
        known = _accepted(fn)
    return min(known, most)


_MANY = 1_000
_ACCEPTED: WeakKeyDictionary[Callable[..., Any], int] = WeakKeyDictionary()
"""Reading a signature costs more than running a small step."""


def _accepted(fn: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return 0
    count = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return _MANY
        placed = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if placed and (parameter.default is parameter.empty or parameter.default is None):
            count += 1
        else:
            break
    return count


def is_positive(value: object) -> bool:
    """Whether a value is a number of seconds that can pass."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value > 0 and not math.isnan(value)


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, `least` or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"add_step({name!r}): the name of a step is a text that is not empty")
    if "/" in name or name.startswith("__"):
        raise ValueError(f"add_step({name!r}): a step's name has no '/' and does not begin by '__'")


def _require_options(step: StepDefinition) -> None:
    """Refuse the first option whose value is not one that is accepted, naming those that are."""
    for option, is_right, accepted in (
        ("fn", callable(step.fn), "a function of the state"),
        ("join", _is_join(step.join), "'all', 'any', a whole number of at least 1, or None"),
        ("retry", _is(step.retry, Retry, None), "a Retry, or None"),
        ("timeout", step.timeout is None or is_positive(step.timeout), "seconds over 0, or None"),
        ("fallback", step.fallback is None or _is_name(step.fallback), "a step's name, or None"),
        ("cache", _is(step.cache, Cache, None), "a Cache, or None"),
        (
            "side_effects",
            step.side_effects in ("none", "reversible", "irreversible"),
            "'none', 'reversible' or 'irreversible'",
        ),
        ("idempotent", _is(step.idempotent, bool), "True or False"),
        ("on_unknown", step.on_unknown in ("error", "pause"), "'error' or 'pause'"),
        ("undo", step.undo is None, "None: undoing steps is not available yet"),
        ("version", _is(step.version, str, None), "a text, or None"),
        ("detail", _is(step.detail, str), "a text"),
    ):
        if not is_right:
            value = getattr(step, option)
            raise ValueError(f"add_step({step.name!r}, {option}={value!r}): it is {accepted}")


def _require_callable_with_state(step: StepDefinition) -> None:
    """Refuse a function that cannot be called with the state, or with the state and a context."""
    try:
        signature = inspect.signature(step.fn)
    except (TypeError, ValueError):
        return  # some callables of C tell nothing
    for given in (("state",), ("state", "ctx")):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return
    raise ValueError(
        f"add_step({step.name!r}, fn=…): a step is f(state) or f(state, ctx), not f{signature}"
    )


def _is(value: object, kind: type, *others: object) -> bool:
    return isinstance(value, kind) or any(value is other for other in others)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_join(join: object) -> bool:
    return join is None or is_whole(join, 1) or (isinstance(join, str) and join in ("all", "any"))
