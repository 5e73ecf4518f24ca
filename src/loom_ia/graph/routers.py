"""How a graph chooses where to go: routers, and what is known of them beforehand.

A router is a function of the state that gives a target, and nothing else: it keeps nothing and
starts nothing. The ready-made ones tell their targets without being called, so that a graph can be
checked and drawn before it runs; a hand-written one tells nothing unless `targets=` names them.
`normalised` is the one reader of a target, whoever gave it: router, step or author.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from reprlib import Repr
from typing import Any, Final, TypeAlias, cast

from loom_ia.graph.errors import RouteError
from loom_ia.graph.types import END, MISSING, Router, Send, Sentinel, Target

Ends: TypeAlias = str | Sentinel
"""Where one edge leads: a step's name, or `END`."""

ROUTES: Final = "__loom_routes__"
"""The attribute of a router that has its `KnownTargets`."""

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that a router may answer: nothing in `to` is the end, several are branches.

    `label` is the route's key, or empty. `over` is the key of the list whose items each start the
    step, empty for any route but that of a `fan_out`.
    """

    to: tuple[str | Send, ...]
    label: str = ""
    over: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The steps, each once, in order."""
        return tuple(dict.fromkeys(step_of(target) for target in self.to))


@dataclass(frozen=True, slots=True)
class KnownTargets:
    """All that a router may answer, in the order of declaration."""

    routes: tuple[Route, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The steps that it may lead to, each once."""
        return tuple(dict.fromkeys(name for route in self.routes for name in route.names))

    @property
    def may_end(self) -> bool:
        """Whether one of the routes is the end."""
        return any(not route.to for route in self.routes)

    def edges(self) -> Iterator[tuple[Ends, str]]:
        """Give where each edge leads and its label, each pair once."""
        found: dict[tuple[Ends, str], None] = {}
        for route in self.routes:
            ends: tuple[Ends, ...] = route.names or (END,)
            found.update(((to, route.label), None) for to in ends)
        yield from found

    def and_also(self, other: "KnownTargets") -> "KnownTargets":
        """Add what another one knows."""
        return KnownTargets(tuple(dict.fromkeys((*self.routes, *other.routes))))


@dataclass(frozen=True, slots=True)
class FanOut:
    """The router that `fan_out` makes; called, it gives one `Send` for each item."""

    step: str
    over: str
    as_: str
    collect: str
    limit: int = 8
    take: str | None = None
    on_error: str = "fail"

    def __post_init__(self) -> None:
        for option in ("step", "over", "as_", "collect"):
            value: object = getattr(self, option)
            if not isinstance(value, str) or not value:
                raise ValueError(f"fan_out({option}={value!r}): it is a name, not empty")
        for key in (self.as_, self.collect):
            if key.startswith("__"):
                raise ValueError(f"fan_out: {key!r} is no key of a state, those in `__` are not")
        if not _is_count(self.limit):
            raise ValueError(f"fan_out(limit={self.limit!r}): it is a whole number, at least 1")
        if self.take is not None and not (_is_text(self.take) and self.take):
            raise ValueError(f"fan_out(take={self.take!r}): it is a key, or None")
        if self.on_error not in ("fail", "collect"):
            raise ValueError(f"fan_out(on_error={self.on_error!r}): it is 'fail' or 'collect'")

    def __call__(self, state: Any) -> list[Send]:
        """Give one `Send` for each item; raises `RouteError` when `over` is not a list."""
        items = read(state, self.over)
        if items is MISSING:
            raise RouteError(
                "fan_out to {step}: the state has no key {key}", step=self.step, key=repr(self.over)
            )
        if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
            raise RouteError(
                "fan_out to {step}: {key} is of the type {type}, and must be a list",
                step=self.step,
                key=repr(self.over),
                type=type(items).__name__,
            )
        return [Send(self.step, {self.as_: item}) for item in cast("Sequence[Any]", items)]


def always(name: Target) -> Router:
    """Go to `name`, whatever the state."""
    return _constant(name, "always")


def end() -> Router:
    """Halt."""
    return _constant(END, "end")


def branch(key: str, routes: Mapping[Any, Target], default: Target | Sentinel = MISSING) -> Router:
    """Choose by the value of the state's `key`.

    The value is looked up in `routes` as it is; then, for an int or a bool, by its text (`42` by
    "42", `True` by "true"). A state without the key goes by `routes[MISSING]`. What finds no route
    goes to `default`; without one, `RouteError`.
    """
    if not _is_text(key) or not key:
        raise ValueError(f"branch({key!r}): the key is a name, not empty")
    table = _Table.of("branch", repr(key), routes, default)

    def router(state: Any) -> Target:
        return table.target_of(read(state, key))

    return _known(router, table.known)


def branch_by(
    fn: Callable[[Any], Any], routes: Mapping[Any, Target], default: Target | Sentinel = MISSING
) -> Router:
    """Choose by what `fn(state)` gives, looked up as `branch` does; `MISSING` is a missing key."""
    _require_function(fn, "branch_by(fn=…)")
    table = _Table.of("branch_by", name_of(fn), routes, default)

    def router(state: Any) -> Target:
        return table.target_of(fn(state))

    return _known(router, table.known)


def condition(pred: Callable[[Any], bool], if_true: Target, if_false: Target) -> Router:
    """Go to `if_true` when `pred(state)` holds, otherwise to `if_false`."""
    _require_function(pred, "condition(pred=…)")
    routes = (
        Route(_checked(if_true, "condition(if_true=…)"), "true"),
        Route(_checked(if_false, "condition(if_false=…)"), "false"),
    )
    holds, fails = _own(if_true), _own(if_false)

    def router(state: Any) -> Target:
        return _own(holds if pred(state) else fails)

    return _known(router, KnownTargets(routes))


def fan_out(
    step: str,
    *,
    over: str,
    as_: str,
    collect: str,
    limit: int = 8,
    take: str | None = None,
    on_error: str = "fail",
) -> FanOut:
    """Run `step` once for each item of the list `over`, `limit` at once.

    Each item is put under `as_` in the state of its own execution; what they give, or only its key
    `take`, becomes the list `collect`, in the order of the items. An item that fails ends the run,
    or with `on_error="collect"` is told in the list, as `{"error": text, "index": i}`. The router
    of `step` is asked once, after the last item.
    """
    return FanOut(step, over, as_, collect, limit, take, on_error)


def router_of(then: "Router | Target | None", where: str = "then=…") -> Router:
    """Give the router that `then` means: a target is a constant one, None the end.

    Raises `ValueError`, beginning with `where`, for what is neither.
    """
    if callable(then):
        return then
    return _constant(END if then is None else then, where)


def targets_of(then: "Router | Target | None") -> KnownTargets | None:
    """Give what is known of a router, or of a target; None for one written by hand."""
    if isinstance(then, FanOut):
        return KnownTargets((Route((then.step,), over=then.over),))
    router = router_of(then)
    known = getattr(router, ROUTES, None)
    return known if isinstance(known, KnownTargets) else None


def declared(targets: Sequence[Target], where: str = "targets=…") -> KnownTargets:
    """Give the targets that an author names for a router of their own."""
    given = cast("object", targets)
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise ValueError(f"{where}: it is a list of the names of steps, not {given!r}")
    return KnownTargets(tuple(Route(_checked(target, where)) for target in targets))


def normalised(target: object) -> tuple[str | Send, ...]:
    """Read a target: nothing is the end, one is a step, several are branches.

    Raises `RouteError` for None, an empty list, the end or a list in a list, and any other type.
    """
    if target is END:
        return ()
    if isinstance(target, str):
        return (str.__str__(target),) if target else ()
    if not isinstance(target, Sequence) or isinstance(target, bytes | bytearray):
        raise RouteError(
            "{given} is no target: give the name of a step, END, or a list of names and Send",
            given=_SHORT.repr(target),
        )
    items = cast("Sequence[object]", target)
    if not items:
        raise RouteError("an empty list is no target: give END to halt, or at least one step")
    return tuple(_branch(item) for item in items)


def step_of(target: str | Send) -> str:
    """Give the step of one target of several."""
    return target.step if isinstance(target, Send) else target


def read(state: Any, key: str) -> Any:
    """Give the value of a key of a state, a mapping or an instance; `MISSING` without it."""
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key, MISSING)
    return getattr(state, key, MISSING)


def name_of(fn: object) -> str:
    """Give what a function is called, for a person."""
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


@dataclass(frozen=True, slots=True)
class _Table:
    """The routes of a `branch`: what is chosen by, and the target of each value."""

    subject: str
    routes: Mapping[Any, Target]
    default: Target | Sentinel
    known: KnownTargets

    @classmethod
    def of(
        cls, maker: str, subject: str, routes: Mapping[Any, Target], default: Target | Sentinel
    ) -> "_Table":
        given = cast("object", routes)
        if not isinstance(given, Mapping):
            raise ValueError(f"{maker}(routes=…): it is a mapping of values to targets")
        known = [
            Route(_checked(target, f"{maker}(routes={{{key!r}: …}})"), _label(key))
            for key, target in routes.items()
        ]
        if default is not MISSING:
            known.append(Route(_checked(default, f"{maker}(default=…)")))
        frozen = {key: _own(target) for key, target in routes.items()}
        return cls(subject, frozen, _own(default), KnownTargets(tuple(known)))

    def target_of(self, value: Any) -> Target:
        """Give the target of a value; raises `RouteError` when there is none."""
        for key in _keys(value):
            if key in self.routes:
                return _own(self.routes[key])
        if self.default is not MISSING:
            return _own(self.default)
        routes = ", ".join(map(repr, self.routes)) or "none"
        if value is MISSING:
            template = (
                "the state has no key {key}, and its routes are {routes}: add a route for MISSING,"
                " or a default"
            )
        else:
            template = "{key} is {value}, and its routes are {routes}: add a route, or a default"
        raise RouteError(template, key=self.subject, value=_SHORT.repr(value), routes=routes)


def _keys(value: Any) -> Iterator[Any]:
    """Give under which keys a value is looked up; none for one that cannot be a key."""
    try:
        hash(value)
    except TypeError:
        return
    yield value
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, int):
        yield str(int(value))


def _label(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _branch(item: object) -> str | Send:
    """Read one target of several."""
    if isinstance(item, Send):
        step, values = cast("tuple[object, object]", (item.step, item.input))
        if not isinstance(step, str) or not step:
            raise RouteError("{given} names no step: a Send needs one", given=_SHORT.repr(item))
        if not isinstance(values, Mapping):
            raise RouteError("the input of a Send to {step} is not a mapping", step=step)
        return item
    if item is END or (isinstance(item, str) and not item):
        raise RouteError("END cannot stand in a list of targets: a branch ends by its own router")
    if not isinstance(item, str):
        raise RouteError(
            "{given} cannot stand in a list of targets: only names of steps and Send can",
            given=_SHORT.repr(item),
        )
    return str.__str__(item)


def _constant(target: Target, where: str) -> Router:
    known = KnownTargets((Route(_checked(target, where)),))
    fixed = _own(target)

    def router(state: Any) -> Target:
        del state
        return _own(fixed)

    setattr(router, _FIXED, True)
    return _known(router, known)


def leads_of(router: Router) -> tuple[str, ...] | None:
    """Give where a router leads whatever the state, nothing for the end; None when it chooses."""
    if not getattr(router, _FIXED, False):
        return None
    (route,) = getattr(router, ROUTES).routes
    return None if any(isinstance(to, Send) for to in route.to) else route.to


_FIXED: Final = "__loom_fixed__"


def _known(router: Router, known: KnownTargets) -> Router:
    setattr(router, ROUTES, known)
    return router


def _own(target: Any) -> Any:
    """Give a target that its reader may change, without changing the router."""
    return list(cast("list[Any]", target)) if isinstance(target, list) else target


def _checked(target: object, where: str) -> tuple[str | Send, ...]:
    """Read a target while a graph is built, where a wrong one is a wrong option."""
    try:
        return normalised(target)
    except RouteError as fault:
        raise ValueError(f"{where}: {fault}") from None


def _require_function(fn: object, where: str) -> None:
    """Refuse what is no function, and an async one: its answer would be true, whatever it says."""
    if not callable(fn):
        raise ValueError(f"{where}: {fn!r} is not a function of the state")
    if inspect.iscoroutinefunction(fn):
        raise ValueError(f"{where}: {name_of(fn)} is async: write an async router instead")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
