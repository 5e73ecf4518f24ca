"""Leaving a failing model alone: when its circuit opens, who may try it, what closes it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.app.cancel import cancel
from loom_ia.core.errors import ModelErrorKind
from loom_ia.core.events import CircuitOpened, ModelFellBack
from loom_ia.core.model import CircuitBreaker, Retry
from loom_ia.core.state import Status
from loom_ia.engine.breaker import COUNTED, Circuit, Circuits
from tests.engine.chain import Talker, chain, course, down, of, says, windowed
from tests.engine.leaping import leaping
from tests.engine.world import Gate, World, run, running, settle, text_of

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
RULE = CircuitBreaker(failures=3, cooldown=60)
DOWN: Sequence[ModelErrorKind] = ("transient",) * RULE.failures
ONCE = Retry(max_attempts=1)
PROVIDERS: Sequence[ModelErrorKind] = ("transient", "overloaded", "quota_exhausted")
OTHERS: Sequence[ModelErrorKind] = (
    *("auth", "invalid_request", "context_overflow", "content_filtered", "truncated"),
    "unavailable",
)


def at(seconds: float) -> datetime:
    """Give an instant."""
    return DAWN + timedelta(seconds=seconds)


def fail(circuit: Circuit, *kinds: ModelErrorKind | None, now: float = 0) -> list[bool]:
    """Let calls fail in a row; tell of each whether it opened the circuit."""
    told: list[bool] = []
    for kind in kinds:
        passage = circuit.enter(at(now))
        assert passage is not None
        told.append(circuit.leave(passage, kind, at(now)))
    return told


def opened() -> Circuit:
    """Give a circuit that was opened at 0."""
    circuit = Circuit(RULE)
    assert fail(circuit, *DOWN)[-1]
    return circuit


# -- one circuit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROVIDERS)
def test_failures_in_a_row_open_it(kind: ModelErrorKind) -> None:
    """At the number that is configured, and it says so once."""
    circuit = Circuit(RULE)
    assert fail(circuit, kind, kind, kind) == [False, False, True]
    assert circuit.enter(at(0)) is None
    assert circuit.failures == 3


@pytest.mark.parametrize("kind", [None, *OTHERS])
def test_an_answer_of_any_kind_begins_the_count_again(kind: ModelErrorKind | None) -> None:
    """An answer, and an error that tells nothing of the provider's health."""
    circuit = Circuit(RULE)
    assert fail(circuit, "transient", "transient", kind, "transient", "transient") == [False] * 5
    assert circuit.enter(at(0)) == "free"


def test_every_kind_is_known() -> None:
    """Those that count are those of a provider that is ill."""
    assert frozenset(PROVIDERS) == COUNTED


def test_it_lets_nothing_through_during_the_cooldown() -> None:
    """To the instant."""
    circuit = opened()
    assert circuit.enter(at(59.999)) is None
    assert circuit.enter(at(60)) == "trial"


def test_one_call_is_tried_at_a_time() -> None:
    """The others are turned away until it is known how that one ended."""
    circuit = opened()
    assert [circuit.enter(at(60)) for _ in range(3)] == ["trial", None, None]
    assert circuit.enter(at(1000)) is None
    assert circuit.leave("trial", None, at(1000)) is False
    assert [circuit.enter(at(1000)) for _ in range(3)] == ["free"] * 3


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_trial_that_fails_opens_it_again(kind: ModelErrorKind) -> None:
    """For a whole cooldown more, and it says so each time."""
    circuit = opened()
    for start in (60, 120, 180):
        assert circuit.enter(at(start)) == "trial"
        assert circuit.leave("trial", kind, at(start)) is True
        assert circuit.enter(at(start + 59)) is None


@pytest.mark.parametrize("kind", [None, *OTHERS])
def test_a_trial_that_is_answered_closes_it(kind: ModelErrorKind | None) -> None:
    """Also by a refusal: a wrong key is answered well enough."""
    circuit = opened()
    assert circuit.enter(at(60)) == "trial"
    assert circuit.leave("trial", kind, at(60)) is False
    assert fail(circuit, "transient", "transient", "transient", now=61) == [False, False, True]


def test_a_trial_that_was_stopped_tells_nothing() -> None:
    """Another one is made at once."""
    circuit = opened()
    assert circuit.enter(at(60)) == "trial"
    circuit.abandon("trial")
    assert circuit.failures == 3
    assert circuit.enter(at(60)) == "trial"


def test_a_call_that_was_stopped_tells_nothing() -> None:
    """It neither counts nor begins the count again."""
    circuit = Circuit(RULE)
    fail(circuit, "transient", "transient")
    assert circuit.enter(at(0)) == "free"
    circuit.abandon("free")
    assert fail(circuit, "transient") == [True]


def test_calls_that_were_under_way_do_not_open_it_twice() -> None:
    """The cooldown begins with the failure that opened it."""
    circuit = Circuit(RULE)
    assert [circuit.enter(at(0)) for _ in range(5)] == ["free"] * 5
    news = [circuit.leave("free", "transient", at(second)) for second in range(5)]
    assert news == [False, False, True, False, False]
    assert circuit.enter(at(61.9)) is None
    assert circuit.enter(at(62)) == "trial"


def test_an_answer_that_was_under_way_does_not_close_it() -> None:
    """It was asked for before the circuit opened: only a trial says how the provider is now."""
    circuit = Circuit(RULE)
    assert circuit.enter(at(0)) == "free"
    fail(circuit, *DOWN)
    assert circuit.leave("free", None, at(1)) is False
    assert circuit.enter(at(1)) is None


def test_without_a_rule_it_never_opens() -> None:
    """`circuit_breaker: null`."""
    circuit = Circuit(None)
    assert fail(circuit, *DOWN, *DOWN) == [False] * 6


_ENDS = st.sampled_from([None, "transient", "auth", "abandoned"])


@given(st.lists(st.tuples(_ENDS, st.floats(0, 100), st.booleans()), max_size=40))
def test_whatever_happens_it_is_never_stuck(story: list[tuple[Any, float, bool]]) -> None:
    """After a cooldown with no call under way, one is let through; never two trials at once."""
    circuit, now, held = Circuit(RULE), 0.0, list[Any]()
    for end, passing, keep in story:
        now += passing
        if (passage := circuit.enter(at(now))) is not None:
            held.append(passage)
        assert held.count("trial") <= 1
        if held and not keep:
            passage = held.pop(0)
            if end == "abandoned":
                circuit.abandon(passage)
            else:
                circuit.leave(passage, end, at(now))
    for passage in held:
        circuit.leave(passage, "transient", at(now))
    assert circuit.enter(at(now + 60)) is not None


# -- the runs of an instance ----------------------------------------------------------------------


def ill(**settings: Any) -> Talker:
    """Make a model that is down for long, tried once by each call."""
    return Talker(*[down()] * 20, retry=ONCE, circuit_breaker=RULE, **settings)


async def runs_of(world: World, instance: Any, *numbers: int) -> list[list[str]]:
    """Run so often, and tell what became of each."""
    for number in numbers:
        await run(instance, run_id=f"run-{number}", session_id=f"session-{number}")
    return [course(await world.events(f"session-{number}")) for number in numbers]


@leaping
async def test_a_circuit_is_shared_by_all_the_runs_of_an_instance() -> None:
    """Three runs open it; the fourth makes no call, and fails because nobody is left to ask."""
    world = World()
    model = ill()
    told = await runs_of(world, world.instance(chain(model)), 1, 2, 3, 4)
    assert told == [
        ["run.failed model.transient"],
        ["run.failed model.transient"],
        ["circuit.opened A", "run.failed model.transient"],
        ["run.failed model.unavailable"],
    ]
    assert len(model.requests) == 3
    (fact,) = of(await world.events("session-3"), CircuitOpened)
    assert (fact.target_kind, fact.target, fact.failures) == ("model", "A", 3)
    assert (fact.cooldown_s, fact.error) == (60, "transient it is")


@leaping
async def test_agents_share_the_circuits_of_an_instance_and_others_do_not() -> None:
    """What one agent learned serves the others; another instance begins anew."""
    world = World()
    circuits = Circuits()
    first, second, elsewhere = ill(), ill(), ill()
    await runs_of(world, world.instance(chain(first, circuits=circuits)), 1, 2, 3)
    told = await runs_of(world, world.instance(chain(second, circuits=circuits), "worker-2"), 4)
    assert told == [["run.failed model.unavailable"]]
    await runs_of(world, world.instance(chain(elsewhere), "worker-3"), 5)
    assert (len(second.requests), len(elsewhere.requests)) == (0, 1)


@leaping
async def test_each_call_counts_once_however_many_its_attempts() -> None:
    """A circuit counts calls that were given up."""
    world = World()
    model = Talker(*[down()] * 20, retry=Retry(max_attempts=3, initial_delay=0))
    model.spec = model.spec.model_copy(update={"circuit_breaker": CircuitBreaker(failures=2)})
    told = await runs_of(world, world.instance(chain(model)), 1, 2, 3)
    assert [fact[-1] for fact in told] == [
        "run.failed model.transient",
        "run.failed model.transient",
        "run.failed model.unavailable",
    ]
    assert len(model.requests) == 6


@leaping
async def test_a_model_whose_circuit_is_open_is_skipped() -> None:
    """The next one answers at once, and the run says why."""
    world = World()
    model, other = ill(), Talker(model_id="B")
    instance = world.instance(chain(model, other))
    told = await runs_of(world, instance, 1, 2, 3, 4)
    assert told[2:] == [
        ["circuit.opened A", "A to B, transient", "B answers at 1"],
        ["A to B, circuit_open", "B answers at 1"],
    ]
    (fact,) = of(await world.events("session-4"), ModelFellBack)
    assert fact.error == "A failed too often and is left alone for a while"


@leaping
async def test_when_all_are_skipped_the_run_fails() -> None:
    """Without a call of anybody."""
    world = World()
    models = ill(), ill(model_id="B")
    instance = world.instance(chain(*models))
    await runs_of(world, instance, 1, 2, 3)
    (told,) = await runs_of(world, instance, 4)
    assert told == ["A to B, circuit_open", "run.failed model.unavailable"]
    assert [len(model.requests) for model in models] == [3, 3]


@leaping
async def test_after_the_cooldown_one_run_tries_and_the_others_are_skipped() -> None:
    """Until its answer closes the circuit for all."""
    world = World()
    gate = Gate()
    again = [gate, *says("up again")]
    model = Talker(*[down()] * 3, again, retry=ONCE, circuit_breaker=RULE)
    instance = world.instance(chain(model, Talker(model_id="B")))
    await runs_of(world, instance, 1, 2, 3)
    world.clock.advance(61)
    async with running(run(instance, run_id="run-4", session_id="session-4")) as trial:
        await gate.reached()
        assert (
            await runs_of(world, instance, 5, 6) == [["A to B, circuit_open", "B answers at 1"]] * 2
        )
        gate.open()
        assert text_of(await trial) == "up again"
    assert await runs_of(world, instance, 7) == [["A answers at 1"]]


@leaping
async def test_a_trial_that_is_cancelled_leaves_the_next_one_to_try() -> None:
    """It gives no verdict."""
    world = World()
    gate = Gate()
    model = Talker(*[down()] * 3, [gate], retry=ONCE, circuit_breaker=RULE)
    instance = world.instance(chain(model))
    await runs_of(world, instance, 1, 2, 3)
    world.clock.advance(61)
    async with running(run(instance, run_id="run-4", session_id="session-4")) as trial:
        await gate.reached()
        await cancel(instance, "run-4", by="ada")
        assert (await trial).status is Status.CANCELLED
    assert await runs_of(world, instance, 5) == [["A answers at 1"]]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        pytest.param(down("auth"), "model.auth", id="a wrong key"),
        pytest.param(KeyError("x"), "KeyError", id="a fault of the adapter"),
    ],
)
@leaping
async def test_a_trial_that_ends_otherwise_leaves_the_model_free(
    error: Exception, failure: str
) -> None:
    """A refused key closes the circuit; a fault of the adapter lets the next one try."""
    world = World()
    model = Talker(*[down()] * 3, error, retry=ONCE, circuit_breaker=RULE)
    instance = world.instance(chain(model))
    await runs_of(world, instance, 1, 2, 3)
    world.clock.advance(61)
    assert await runs_of(world, instance, 4, 5) == [[f"run.failed {failure}"], ["A answers at 1"]]


@leaping
async def test_a_prompt_that_does_not_fit_is_no_fault_of_the_model() -> None:
    """It is told before the circuit is asked, and counts for nothing."""
    world = World()
    model = ill(capabilities=windowed(100))
    instance = world.instance(chain(model))
    await runs_of(world, instance, 1, 2)
    await run(instance, "go" * 400, run_id="run-3", session_id="session-3")
    assert course(await world.events("session-3")) == ["run.failed model.context_overflow"]
    (told,) = await runs_of(world, instance, 4)
    assert told[0] == "circuit.opened A"


@leaping
async def test_runs_at_once_open_it_once() -> None:
    """Ten failures that were under way together are one piece of news."""
    world = World()
    gate = Gate()
    model = Talker(*[[gate, down()] for _ in range(10)], retry=ONCE, circuit_breaker=RULE)
    instance = world.instance(chain(model))

    async def one(number: int) -> list[str]:
        await run(instance, run_id=f"run-{number}", session_id=f"session-{number}")
        return course(await world.events(f"session-{number}"))

    async with running(*(one(number) for number in range(10))) as tasks:
        for _ in range(10):
            await settle()
        assert gate.reached_by == 10
        gate.open()
        told = await asyncio.gather(*tasks)
    assert sum("circuit.opened A" in each for each in told) == 1
    assert await runs_of(world, instance, 10) == [["run.failed model.unavailable"]]
