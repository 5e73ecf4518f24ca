"""Graphs as they are built: options, problems, fingerprints."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from loom_ia.graph.children import agent_step
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import DuplicateStep, InvalidGraph, StepNotFound
from loom_ia.graph.fingerprint import differences, fingerprint_of
from loom_ia.graph.routers import always, branch, condition, fan_out
from loom_ia.graph.types import END, Cache, Durability, Hooks, Retry, Send
from tests.graph.random_graphs import graphs


def noop(state: Any) -> None:
    """Change nothing."""
    return


def graph(*steps: tuple[str, Any], entry: str | None = None) -> GraphDefinition[Any]:
    """Give a graph of some steps that do nothing."""
    made: GraphDefinition[Any] = GraphDefinition("g", entry)
    for name, then in steps:
        made.add_step(name, noop, then)
    return made


def codes(made: GraphDefinition[Any]) -> list[tuple[str, str | None, str | None]]:
    """Give what is wrong, in short."""
    return [(p.code, p.step, p.target) for p in made.validate()]


# ── Building ────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_begins_with_its_first_step_unless_told() -> None:
    """Without a name the entry is the first step added."""
    assert GraphDefinition("g").entry is None
    assert graph(("a", "b"), ("b", END)).entry == "a"
    assert graph(("a", "b"), ("b", END), entry="b").entry == "b"


def test_the_settings_have_their_defaults() -> None:
    """Durable, a hundred steps, a lease of a minute."""
    made: GraphDefinition[Any] = GraphDefinition("g")
    assert (made.max_iterations, made.iterations_per, made.step_budget) == (100, "run", None)
    assert (made.timeout, made.durability, made.hooks) == (None, Durability.REQUIRED, Hooks())
    assert (made.lease, made.snapshot_every, made.version, made.compat) == (60.0, 50, None, False)
    assert (made.state, dict(made.merge), made.types) == (None, {}, ())
    assert GraphDefinition("g", durability="none").durability is Durability.NONE  # pyright: ignore[reportArgumentType] -- its text is accepted


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_iterations", 0),
        ("max_iterations", True),
        ("iterations_per", "day"),
        ("step_budget", -1),
        ("timeout", 0),
        ("timeout", float("nan")),
        ("durability", "sometimes"),
        ("hooks", [noop]),
        ("lease", -1.0),
        ("snapshot_every", 0),
        ("entry", 3),
        ("merge", {"k": "append"}),
        ("merge", ["k"]),
        ("types", ["Money"]),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(option: str, value: Any) -> None:
    """The error names the setting at fault."""
    with pytest.raises(ValueError, match=f"Graph\\({option}="):
        GraphDefinition("g", **{option: value})


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_graph_needs_a_name(name: Any) -> None:
    """An empty name, or one that is no text, is refused."""
    with pytest.raises(ValueError, match="Graph\\(name="):
        GraphDefinition(name)


@pytest.mark.parametrize("name", ["", "  ", "a/b", "__a", None, END])
def test_a_step_needs_a_name(name: Any) -> None:
    """A name that ids or routes could not hold is refused."""
    with pytest.raises(ValueError, match="add_step"):
        graph().add_step(name, noop)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("join", "most"),
        ("join", 0),
        ("join", True),
        ("retry", 3),
        ("timeout", -1),
        ("fallback", ""),
        ("cache", 60),
        ("side_effects", "some"),
        ("idempotent", "yes"),
        ("on_unknown", "retry"),
        ("undo", noop),
        ("version", 2),
        ("detail", None),
        ("targets", "abc"),
        ("then", 3),
        ("then", []),
        ("then", ["a", END]),
    ],
)
def test_a_wrong_option_of_a_step_is_refused_by_its_name(option: str, value: Any) -> None:
    """The error names the option and the step, and nothing is added."""
    made = graph()
    with pytest.raises(ValueError, match=f"add_step\\('a', {option}="):
        made.add_step("a", noop, **{option: value})
    assert not made.steps


def test_a_step_is_a_function() -> None:
    """What cannot be called is refused."""
    with pytest.raises(ValueError, match="fn="):
        graph().add_step("a", {"output": 1})  # pyright: ignore[reportArgumentType] -- wrong


@pytest.mark.parametrize(
    "fn",
    [lambda: None, lambda s, c, more: None, lambda s, *, more: None],
    ids=["nothing", "a third", "a third by name"],
)
def test_a_step_takes_the_state_and_maybe_the_context(fn: Any) -> None:
    """A function that could not be called so is refused when it is added, and not when it runs."""
    with pytest.raises(ValueError, match=r"a step is f\(state\) or f\(state, ctx\)"):
        GraphDefinition[Any]("g").add_step("a", fn)


def test_what_runs_below_is_not_cached() -> None:
    """A cache on a step that runs an agent would serve nothing, so it is refused."""
    with pytest.raises(ValueError, match=r"add_step\('a', cache=…\)"):
        GraphDefinition[Any]("g").add_step(
            "a", agent_step("devis", ask=str, into="x"), cache=Cache(str)
        )


def test_the_end_in_quotes_is_told_apart() -> None:
    """The name of the end is no step; the error says what was meant."""
    graph = GraphDefinition[Any]("g").add_step("a", dict, then="END")
    with pytest.raises(StepNotFound, match=r"the end is END of loom_ia\.graph, without quotes"):
        graph.require_valid()


def test_a_definition_keeps_every_option() -> None:
    """What is given to `add_step` is read back from the step."""
    options: dict[str, Any] = {
        "join": 2,
        "retry": Retry(2),
        "timeout": 1.5,
        "fallback": "b",
        "cache": Cache(len),
        "side_effects": "irreversible",
        "idempotent": True,
        "on_unknown": "pause",
        "version": "3",
        "detail": "Does it",
    }
    step = graph().add_step("a", noop, "b", **options).steps["a"]
    assert {name: getattr(step, name) for name in options} == options
    assert (step.name, step.fn, step.router({})) == ("a", noop, "b")
    assert step.may_lead_to("b")
    assert not step.may_lead_to("c")
    assert step.child is None


def test_a_step_carries_the_graph_that_it_runs() -> None:
    """A function that runs a graph says so by an attribute."""

    def run_child(state: Any) -> None:
        return None

    child = object()
    setattr(run_child, "__loom_child__", child)  # noqa: B010 -- a function has no such attribute
    assert graph().add_step("a", run_child).steps["a"].child is child


def test_w49_a_name_is_added_once_unless_replaced_whole() -> None:
    """Adding again is refused; replacing leaves nothing of the former router and options."""
    made = graph().add_step("a", noop, "b", join="any", detail="old")
    with pytest.raises(DuplicateStep, match=r'"a".*"g"'):
        made.add_step("a", noop)
    assert issubclass(DuplicateStep, ValueError)
    assert made.steps["a"].detail == "old"
    assert made.add_step("a", len, replace=True) is made
    step = made.steps["a"]
    assert (step.fn, step.join, step.detail, step.router({})) == (len, None, "", END)
    assert made.add_step("new", noop, replace=True).steps["new"].fn is noop


def test_the_decorators_give_the_function_back() -> None:
    """A step is called as its function, or as told; the options are those of `add_step`."""
    made = graph()

    @made.step
    def first(state: Any) -> None: ...

    @made.step(then="third", detail="Goes on")
    def second(state: Any) -> None: ...

    @made.step("third", join="all")
    def other(state: Any, ctx: Any) -> None: ...

    assert list(made.steps) == ["first", "second", "third"]
    assert [step.fn for step in made.steps.values()] == [first, second, other]
    assert made.steps["second"].router({}) == "third"
    assert made.steps["third"].join == "all"
    with pytest.raises(ValueError, match="name of a step"):
        made.step()(functools.partial(noop))
    with pytest.raises(TypeError):
        made.step("x", no_such_option=1)(noop)


def test_hooks_are_added_after_those_that_were_given() -> None:
    """The decorators keep the order, and do not change the value that was given."""
    given_hooks = Hooks(before=(noop,))
    made: GraphDefinition[Any] = GraphDefinition("g", hooks=given_hooks)

    @made.before
    def look(step: str, state: Any) -> None: ...

    @made.after
    def check(step: str, state: Any) -> None: ...

    assert made.hooks.before == (noop, look)
    assert made.hooks.after == (check,)
    assert given_hooks.before == (noop,)
    with pytest.raises(ValueError, match="a hook is a function"):
        made.before("look")  # pyright: ignore[reportArgumentType] -- wrong


def test_the_steps_cannot_be_changed_from_outside() -> None:
    """The mapping of steps is a view to read."""
    steps: Any = graph(("a", END)).steps
    with pytest.raises(TypeError):
        steps["b"] = steps["a"]


class Stepper:
    def method(self, state: Any) -> None: ...

    def with_context(self, state: Any, ctx: Any) -> None: ...

    async def __call__(self, state: Any, ctx: Any) -> None: ...


def _wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any) -> Any:
        return fn(*args)

    return inner


def _two(state: Any, ctx: Any) -> None: ...


def _keyword(state: Any, *, ctx: Any = None) -> None: ...


def _optional(state: Any, ctx: Any = None) -> None: ...


def _many(*args: Any) -> None: ...


async def _async(state: Any, ctx: Any) -> None: ...


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (noop, False),
        (_two, True),
        (_async, True),
        (_optional, True),
        (_keyword, False),
        (_many, True),
        (Stepper().method, False),
        (Stepper().with_context, True),
        (Stepper(), True),
        (functools.partial(_two, ctx=1), False),
        (functools.partial(_two), True),
        pytest.param(_wrapped(noop), False, id="wrapped"),
        pytest.param(_wrapped(_two), True, id="wrapped-with-context"),
        (dict, False),
        (len, False),
        (lambda s: None, False),
        (lambda s, c: None, True),
    ],
)
def test_the_context_goes_to_a_second_positional_parameter(fn: Any, expected: bool) -> None:
    """The signature tells; one that cannot be read takes the state alone."""
    assert graph().add_step("a", fn).steps["a"].wants_context is expected


# ── Problems ────────────────────────────────────────────────────────────────────────────────────


def test_a_sound_graph_has_no_problem() -> None:
    """Branches that join, loops that end and fallbacks are all sound."""
    made = graph(
        ("split", ["legal", "tech"]),
        ("legal", condition(bool, "legal", "merge")),
        ("tech", "merge"),
    )
    made.add_step("merge", noop, fan_out("score", over="x", as_="i", collect="c"), join="all")
    made.add_step("score", noop, fallback="backup").add_step("backup", noop)
    assert made.validate() == []
    made.require_valid()


def test_w50_a_missing_entry_is_an_error() -> None:
    """So is a graph without any step."""
    assert codes(graph(entry="a")) == [("missing_entry", None, "a")]
    assert codes(graph()) == [("missing_entry", None, None)]
    assert codes(graph(("b", END), entry="a")) == [("missing_entry", None, "a")]
    with pytest.raises(StepNotFound, match='"a", the entry, not found in graph "g"') as caught:
        graph(entry="a").require_valid()
    assert caught.value.step == "a"
    assert caught.value.graph == "g"
    assert caught.value.result is None
    with pytest.raises(StepNotFound, match="no step found"):
        graph().require_valid()


@pytest.mark.parametrize(
    "then",
    [
        "ghost",
        always("ghost"),
        branch("k", {"x": "ghost"}, default=END),
        condition(bool, END, "ghost"),
        ["ghost", "a"],
        [Send("ghost", {}), Send("a", {})],
        fan_out("ghost", over="x", as_="i", collect="c"),
    ],
    ids=["name", "always", "branch", "condition", "list", "sends", "fan_out"],
)
def test_w50_an_unknown_target_is_an_error(then: Any) -> None:
    """Every kind of router tells its targets, and the missing one is named."""
    made = graph(("a", then))
    found = [(p.code, p.severity, p.step, p.target) for p in made.validate()]
    assert found == [("unknown_target", "error", "a", "ghost")]
    with pytest.raises(StepNotFound, match='"ghost" not found in graph "g"') as caught:
        made.require_valid()
    assert caught.value.step == "ghost"
    assert caught.value.problems == tuple(made.validate())


def test_an_unknown_fallback_and_an_unknown_declared_target_are_errors() -> None:
    """A fallback is a step's name; so is what `targets=` names."""
    made = graph().add_step("a", noop, lambda s: "b", targets=["b"], fallback="c")
    assert codes(made) == [("unknown_target", "a", "b"), ("unknown_target", "a", "c")]


def test_branches_that_meet_need_a_join() -> None:
    """Only the nearest step where they meet is named, and the graph is refused."""
    steps: list[tuple[str, Any]] = [
        ("split", ["a", "b", "c"]),
        ("a", "m"),
        ("b", "x"),
        ("x", "m"),
        ("c", END),
        ("m", "after"),
        ("after", END),
    ]
    made = graph(*steps)
    assert codes(made) == [("missing_join", "m", None)]
    with pytest.raises(InvalidGraph, match='meet in step "m"') as caught:
        made.require_valid()
    assert [p.code for p in caught.value.problems] == ["missing_join"]
    made.add_step("m", noop, "after", join=2, replace=True)
    assert made.validate() == []


def test_a_missing_step_is_told_before_a_missing_join() -> None:
    """Of several errors, the missing step decides the exception, which has them all."""
    made = graph(("split", ["a", "b"]), ("a", "m"), ("b", "m"), ("m", "ghost"))
    with pytest.raises(StepNotFound) as caught:
        made.require_valid()
    assert [p.code for p in caught.value.problems] == ["unknown_target", "missing_join"]


def test_ways_that_exclude_each_other_need_no_join() -> None:
    """Alternatives, several sends of one step, and fallbacks that branches share meet nobody."""
    made = graph(("a", branch("k", {"x": "b"}, default="c")), ("b", "d"), ("c", "d"), ("d", END))
    assert made.validate() == []
    sends = graph(("a", [Send("b", {"n": 1}), Send("b", {"n": 2})]), ("b", "c"), ("c", END))
    assert sends.validate() == []
    shared = graph(("split", ["a", "b"]), ("sorry", END))
    for name in ("a", "b"):
        shared.add_step(name, noop, END, fallback="sorry")
    assert shared.validate() == []


def test_a_split_inside_a_branch_has_its_own_join() -> None:
    """The inner join ends the inner branches only: the outer one goes on and may meet."""
    made = graph(("split", ["a", "b"]), ("a", ["a1", "a2"]), ("a1", "j"), ("a2", "j"), ("b", "m"))
    made.add_step("j", noop, "m", join="all").add_step("m", noop)
    assert codes(made) == [("missing_join", "m", None)]
    made.add_step("m", noop, join="all", replace=True)
    assert made.validate() == []


def test_a_loop_back_to_its_split_needs_a_join() -> None:
    """A branch that starts its own split again meets the other one."""
    made = graph(("split", ["a", "b"]), ("a", "split"), ("b", END))
    assert [p.code for p in made.validate()] == ["missing_join"]


def test_w50_unreachable_and_dead_end_are_warnings() -> None:
    """They are told and refuse nothing."""
    made = graph(("a", END), ("island", "loop"), ("loop", "loop"))
    found = [(p.code, p.severity, p.step) for p in made.validate()]
    assert found == [
        ("unreachable", "warning", "island"),
        ("unreachable", "warning", "loop"),
        ("dead_end", "warning", "island"),
        ("dead_end", "warning", "loop"),
    ]
    made.require_valid()


def test_a_router_with_unknown_targets_warns_of_nothing() -> None:
    """It may lead anywhere and may end, unless nobody reaches it either."""
    assert graph(("a", lambda s: "b"), ("b", "a")).validate() == []
    hidden = graph(("a", END), ("b", lambda s: "c"), ("c", END))
    assert [p.step for p in hidden.validate()] == ["b", "c"]
    named = graph().add_step("a", noop, lambda s: "b", targets=["b"]).add_step("b", noop)
    assert named.add_step("c", noop).validate()[0].step == "c"


@given(graphs())
def test_validate_never_raises(made: GraphDefinition[Any]) -> None:
    """Any graph gets a list of problems, the errors first, each naming what it is about."""
    problems = made.validate()
    severities = [p.severity for p in problems]
    assert severities == sorted(severities)
    for problem in problems:
        assert problem.message
        if problem.code == "unknown_target":
            assert problem.target not in made.steps
        elif problem.code != "missing_entry":
            assert problem.step in made.steps


# ── Identity ────────────────────────────────────────────────────────────────────────────────────


def test_the_fingerprint_is_of_the_shape_and_never_of_the_code() -> None:
    """Code, order, keys of routes and treatment of steps may change; names and ways may not."""
    base = graph(("a", branch("k", {"x": "b"}, default=END)), ("b", END))
    same = graph(entry="a").add_step("b", len, END, retry=Retry(), detail="new", fallback="a")
    same.add_step("a", len, condition(bool, END, "b"), timeout=3)
    assert len(base.fingerprint()) == 16
    assert int(base.fingerprint(), 16) >= 0
    assert same.fingerprint() == base.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.add_step("c", noop),
        lambda g: g.add_step("a", noop, "c", replace=True),
        lambda g: g.add_step("a", noop, lambda s: "b", replace=True),
        lambda g: g.add_step("a", noop, "b", join="all", replace=True),
        lambda g: g.add_step("a", noop, "b", version="2", replace=True),
        lambda g: g.add_step("a", noop, fan_out("b", over="x", as_="i", collect="c"), replace=True),
    ],
    ids=["step", "target", "unknown", "join", "version", "fan_out"],
)
def test_what_changes_the_shape_changes_the_fingerprint(change: Any) -> None:
    """Steps, ways, joins and versions are the shape."""
    base = graph(("a", "b"), ("b", END))
    before, parts = base.fingerprint(), base.fingerprint_parts()
    change(base)
    assert base.fingerprint() != before
    assert len(base.changes_since(parts)) == 1


def test_name_entry_and_version_are_of_the_fingerprint() -> None:
    """Each of the three makes another graph."""
    made: list[GraphDefinition[Any]] = [
        GraphDefinition("g"),
        GraphDefinition("h"),
        GraphDefinition("g", "b"),
        GraphDefinition("g", version="2"),
    ]
    for each in made:
        each.add_step("a", noop, "b").add_step("b", noop)
    assert len({each.fingerprint() for each in made}) == 4


def test_the_order_of_branches_is_of_the_shape() -> None:
    """It is the order of their merge, and of their places in ids."""
    steps: list[tuple[str, Any]] = [("b", END), ("c", END)]
    one = graph(("a", ["b", "c"]), *steps)
    two = graph(("a", ["c", "b"]), *steps)
    assert one.fingerprint() != two.fingerprint()


def test_changes_are_told_in_words() -> None:
    """What came, went and changed is named."""
    before = graph(("a", "b"), ("b", END)).fingerprint_parts()
    after = graph(("a", "c"), ("c", END), entry="c").fingerprint_parts()
    assert differences(before, after) == (
        "entry: 'a' is now 'c'",
        'step "a" changed: to',
        'step "b" is gone',
        'step "c" is new',
    )
    assert differences({"steps/a": "?"}, {"steps/a": "!"}) == ('step "a" changed: otherwise',)
    assert differences({"steps/a": "[]"}, {"steps/a": "[]"}) == ()


def test_migrate_explains_new_names() -> None:
    """A step that was renamed, entry included, is the same step to the paused run."""
    before = graph(("a", branch("k", {"x": "b"}, default="a")), ("b", END)).fingerprint_parts()
    made = graph(("start", branch("k", {"x": "finish"}, default="start")), ("finish", END))
    assert made.migrate({"a": "start"}) is made
    assert made.changes_since(before)
    made.migrate({"b": "finish"})
    assert made.changes_since(before) == ()
    assert dict(made.migrations) == {"a": "start", "b": "finish"}
    made.add_step("more", noop)
    assert made.changes_since(before) == ('step "more" is new',)


def test_migrate_may_lead_a_removed_step_to_one_that_stays() -> None:
    """The step that stays counts, and what leads to it is read again."""
    before = graph(("a", "b"), ("b", "c"), ("c", END)).fingerprint_parts()
    made = graph(("a", "c"), ("c", END)).migrate({"b": "c"})
    assert made.changes_since(before) == ()


def test_migrate_to_an_unknown_name_is_refused() -> None:
    """The new name must be a step; nothing is kept of a call that is refused."""
    made = graph(("a", END))
    with pytest.raises(ValueError, match="has no step 'c'; its steps are a"):
        made.migrate({"x": "a", "b": "c"})
    assert not made.migrations


@given(graphs())
def test_a_fingerprint_is_stable(made: GraphDefinition[Any]) -> None:
    """Asked twice it is the same, it is that of its parts, and nothing changed since."""
    parts = made.fingerprint_parts()
    assert made.fingerprint() == made.fingerprint() == fingerprint_of(parts)
    assert made.changes_since(parts) == ()
    assert all(isinstance(part, str) for part in parts.values())
