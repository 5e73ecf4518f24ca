"""A graph as its author builds it: steps, routers and settings, checked as they are given.

Nothing here runs a step. A definition tells what is wrong with it, how it is drawn and what
identifies it; whoever drives it reads it and never changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from loom_ia.core.model.tooling import OnUnknown, SideEffects
from loom_ia.core.plan import Join
from loom_ia.graph.errors import DuplicateStep, InvalidGraph, StepNotFound
from loom_ia.graph.fingerprint import differences, fingerprint_of, parts_of, renamed
from loom_ia.graph.routers import KnownTargets, declared, router_of, targets_of
from loom_ia.graph.step_definition import StepDefinition, is_positive, is_whole
from loom_ia.graph.topology import Topology, topology_of
from loom_ia.graph.types import Cache, Durability, Hook, Hooks, Merge, Retry, Router, Step, Target
from loom_ia.graph.validation import Problem, problems_of

if TYPE_CHECKING:
    from loom_ia.graph.state import StateType

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])


class GraphDefinition(Generic[S]):
    """The steps of a graph, where they lead, and how it is driven.

    `entry` is the first step added unless it is named. `state` types the state, `merge` says how
    keys are merged and `types` which classes of the author a value may be of. `max_iterations`
    counts steps over the run, or since the last resume with `iterations_per="segment"`;
    `step_budget` is shared with the graphs below. `timeout` and `lease` are in seconds. `version`
    is part of the fingerprint. With `compat`, protocol keys such as `__yield` are understood.
    A wrong value of an option is a `ValueError`.
    """

    def __init__(  # noqa: PLR0913 -- one keyword for each setting of a graph
        self,
        name: str,
        entry: str | None = None,
        *,
        state: type[S] | None = None,
        merge: Mapping[str, Merge] | None = None,
        types: Sequence[type] = (),
        max_iterations: int = 100,
        iterations_per: str = "run",
        step_budget: int | None = None,
        timeout: float | None = None,
        durability: Durability = Durability.REQUIRED,
        hooks: Hooks | None = None,
        lease: float = 60.0,
        snapshot_every: int = 50,
        version: str | None = None,
        compat: bool = False,
    ) -> None:
        self._name = name
        self._entry = entry
        self._steps: dict[str, StepDefinition] = {}
        self._migrations: dict[str, str] = {}
        self._valid: tuple[object, ...] | None = None
        self.state = state
        self.merge: Mapping[str, Merge] = _merge_table(merge)
        self.types = _classes(types)
        self.max_iterations = max_iterations
        self.iterations_per = iterations_per
        self.step_budget = step_budget
        self.timeout = timeout
        self.durability = _durability(durability)
        self._hooks = Hooks() if hooks is None else hooks
        self.lease = lease
        self.snapshot_every = snapshot_every
        self.version = version
        self.compat = compat
        _require_settings(self)

    @property
    def name(self) -> str:
        """The name of the graph; runs are kept under it."""
        return self._name

    @property
    def entry(self) -> str | None:
        """The step where a run begins; None while none is named and none was added."""
        return self._entry if self._entry is not None else next(iter(self._steps), None)

    @property
    def steps(self) -> Mapping[str, StepDefinition]:
        """The steps by name, in the order of declaration."""
        return MappingProxyType(self._steps)

    @property
    def hooks(self) -> Hooks:
        """What is called around the steps."""
        return self._hooks

    @property
    def migrations(self) -> Mapping[str, str]:
        """The names that steps had, and those that they have."""
        return MappingProxyType(self._migrations)

    @cached_property
    def state_type(self) -> "StateType":
        """How values of the state are typed, merged and written."""
        from loom_ia.graph.state import StateType

        return StateType(self.state, self.merge, self.types)

    def add_step(  # noqa: PLR0913 -- one keyword for each option of a step
        self,
        name: str,
        fn: Step,
        then: Router | Target | None = None,
        *,
        targets: Sequence[str] | None = None,
        join: str | int | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        fallback: str | None = None,
        cache: Cache | None = None,
        side_effects: str = "none",
        idempotent: bool = False,
        on_unknown: str = "error",
        undo: Step | None = None,
        version: str | None = None,
        detail: str = "",
        replace: bool = False,
    ) -> Self:
        """Add a step, and return the graph.

        `then` is a router or a target, None for the end; `targets` names what a router written by
        hand may answer. `fn` takes the state, or the state and a `StepContext`. Raises
        `DuplicateStep` for a name that was added, unless `replace`, which replaces step, router and
        options together; `ValueError` for a wrong name or option.
        """
        definition = StepDefinition(
            name,
            fn,
            router_of(then, f"add_step({name!r}, then=…)"),
            _known(name, then, targets),
            join=cast("Join | None", join),
            retry=retry,
            timeout=timeout,
            fallback=fallback,
            cache=cache,
            side_effects=cast("SideEffects", side_effects),
            idempotent=idempotent,
            on_unknown=cast("OnUnknown", on_unknown),
            undo=undo,
            version=version,
            detail=detail,
        )
        if name in self._steps and not replace:
            raise DuplicateStep(
                'step "{step}" was added to graph "{graph}" already: give another name,'
                " or replace=True",
                step=name,
                graph=self.name,
            )
        self._steps[name] = definition
        return self

    @overload
    def step(self, name: F) -> F: ...
    @overload
    def step(
        self, name: str | None = None, *, then: Router | Target | None = None, **options: Any
    ) -> Callable[[F], F]: ...
    def step(self, name: Any = None, *, then: Router | Target | None = None, **options: Any) -> Any:
        """Add the decorated function as a step, called as it is unless `name` is given.

        Takes the options of `add_step`, and gives the function back.
        """
        if callable(name):
            return self._add(None, name, then, options)

        def decorate(fn: F) -> F:
            return self._add(name, fn, then, options)

        return decorate

    def _add(self, name: str | None, fn: F, then: Any, options: Mapping[str, Any]) -> F:
        chosen = getattr(fn, "__name__", "") if name is None else name
        self.add_step(chosen, fn, then, **options)
        return fn

    def before(self, hook: F) -> F:
        """Call the decorated function before each step, after the hooks that are there."""
        _require_hook(hook, "before")
        self._hooks = replace(self._hooks, before=(*self._hooks.before, hook))
        return hook

    def after(self, hook: F) -> F:
        """Call the decorated function after each step, after the hooks that are there."""
        _require_hook(hook, "after")
        self._hooks = replace(self._hooks, after=(*self._hooks.after, hook))
        return hook

    def migrate(self, names: Mapping[str, str]) -> Self:
        """Tell under which names the steps of paused runs are found now, and return the graph.

        `names` gives the new name of each old one. Raises `ValueError` for a new name that is no
        step of this graph.
        """
        for old, new in names.items():
            if new not in self._steps:
                known = ", ".join(self._steps) or "none"
                raise ValueError(
                    f"migrate({{{old!r}: {new!r}}}): graph {self.name!r} has no step {new!r};"
                    f" its steps are {known}"
                )
        self._migrations.update(names)
        return self

    def validate(self) -> list[Problem]:
        """Find all that is wrong with the graph, errors first; see `validation`."""
        return problems_of(self)

    @property
    def build(self) -> tuple[object, ...]:
        """What was given to build the graph: two that are equal make the same plan."""
        return (
            self._name,
            self._entry,
            tuple(self._steps.values()),
            tuple(self._migrations.items()),
            self._hooks,
            self.max_iterations,
            self.iterations_per,
            self.step_budget,
            self.timeout,
            self.version,
        )

    def require_valid(self) -> None:
        """Refuse a graph with an error: `StepNotFound` for a missing step, else `InvalidGraph`."""
        if self._valid == (build := self.build):
            return
        self._require_valid()
        self._valid = build

    def _require_valid(self) -> None:
        problems = self.validate()
        errors = [problem for problem in problems if problem.severity == "error"]
        for fault in errors:
            if fault.code in ("missing_entry", "unknown_target"):
                refused = self._not_found(fault)
                refused.step = fault.target
                refused.graph = self.name
                refused.problems = tuple(problems)
                raise refused
        if errors:
            raise InvalidGraph(
                'graph "{graph}" cannot run: {why}',
                problems=problems,
                graph=self.name,
                why="; ".join(problem.message for problem in errors),
            )

    def _not_found(self, fault: Problem) -> StepNotFound:
        if fault.target is None:
            return StepNotFound(
                'no step found in graph "{graph}": add one with add_step', graph=self.name
            )
        if fault.step is None:
            return StepNotFound(
                'step "{step}", the entry, not found in graph "{graph}"',
                step=fault.target,
                graph=self.name,
            )
        if fault.target == "END":
            return StepNotFound(
                'step "END" not found in graph "{graph}": "{source}" leads to it;'
                " the end is END of loom_ia.graph, without quotes",
                graph=self.name,
                source=fault.step,
            )
        return StepNotFound(
            'step "{step}" not found in graph "{graph}": "{source}" leads to it',
            step=fault.target,
            graph=self.name,
            source=fault.step,
        )

    def topology(self) -> Topology:
        """Give the steps and where they lead, as the routers tell."""
        return topology_of(self)

    def fingerprint(self) -> str:
        """Identify the shape of the graph, never its code: 16 hexadecimal digits.

        It covers name, entry, names of steps, known targets, joins and declared versions.
        """
        return fingerprint_of(self.fingerprint_parts())

    def fingerprint_parts(self) -> dict[str, str]:
        """Give what the fingerprint covers, by part, to tell later what changed."""
        return parts_of(self)

    def changes_since(self, parts: Mapping[str, str]) -> tuple[str, ...]:
        """Tell what `migrate` does not explain between the shape of `parts` and this one."""
        return differences(renamed(parts, self._migrations), self.fingerprint_parts())


def _known(
    name: str, then: Router | Target | None, targets: Sequence[str] | None
) -> KnownTargets | None:
    """Give where a step leads: what its router tells, and what the author names besides."""
    known = targets_of(then)
    if targets is None:
        return known
    named = declared(targets, f"add_step({name!r}, targets=…)")
    return named if known is None else known.and_also(named)


def _merge_table(merge: Mapping[str, Merge] | None) -> Mapping[str, Merge]:
    given = cast("object", {} if merge is None else merge)
    if not isinstance(given, Mapping):
        raise ValueError(f"Graph(merge={merge!r}): it is a mapping of keys to functions")
    table = dict(cast("Mapping[str, Merge]", given))
    for key, function in table.items():
        if not callable(function):
            raise ValueError(f"Graph(merge=…): {key!r} has {function!r}, which is no function")
    return MappingProxyType(table)


def _classes(types: Sequence[type]) -> tuple[type, ...]:
    classes = tuple(types)
    for given in cast("tuple[object, ...]", classes):
        if not isinstance(given, type):
            raise ValueError(f"Graph(types=…): {given!r} is not a class")
    return classes


def _durability(given: Durability | str) -> Durability:
    try:
        return Durability(given)
    except ValueError:
        accepted = ", ".join(repr(str(each)) for each in Durability)
        raise ValueError(f"Graph(durability={given!r}): it is one of {accepted}") from None


def _require_settings(graph: GraphDefinition[Any]) -> None:
    """Refuse the first setting whose value is not one that is accepted, naming those that are."""
    name, entry, hooks = cast("tuple[object, ...]", (graph.name, graph.entry, graph.hooks))
    for option, value, is_right, accepted in (
        ("name", name, isinstance(name, str) and bool(name), "a text that is not empty"),
        ("entry", entry, entry is None or isinstance(entry, str), "the name of a step, or None"),
        (
            "max_iterations",
            graph.max_iterations,
            is_whole(graph.max_iterations, 1),
            "a whole number, at least 1",
        ),
        (
            "iterations_per",
            graph.iterations_per,
            graph.iterations_per in ("run", "segment"),
            "'run' or 'segment'",
        ),
        (
            "step_budget",
            graph.step_budget,
            graph.step_budget is None or is_whole(graph.step_budget, 0),
            "a whole number, at least 0, or None",
        ),
        (
            "timeout",
            graph.timeout,
            graph.timeout is None or is_positive(graph.timeout),
            "seconds over 0, or None",
        ),
        ("hooks", hooks, isinstance(hooks, Hooks), "a Hooks, or None"),
        ("lease", graph.lease, is_positive(graph.lease), "seconds over 0"),
        (
            "snapshot_every",
            graph.snapshot_every,
            is_whole(graph.snapshot_every, 1),
            "a whole number, at least 1",
        ),
    ):
        if not is_right:
            raise ValueError(f"Graph({option}={value!r}): it is {accepted}")


def _require_hook(hook: Hook, where: str) -> None:
    if not callable(hook):
        raise ValueError(f"{where}({hook!r}): a hook is a function of a step's name and the state")


__all__ = ["GraphDefinition", "Problem", "StepDefinition"]
