"""Who takes over when a model is given up, and what fits in its window."""

import pytest

from loom_ia.app.runs import resume
from loom_ia.core.errors import ModelErrorKind
from loom_ia.core.events import ModelFellBack, ModelRetried
from loom_ia.core.model import Retry, TextDelta
from loom_ia.core.state import Status
from tests.engine.chain import Talker, asks, chain, course, down, of, windowed
from tests.engine.leaping import leaping
from tests.engine.world import Gate, Hand, World, run, running, text_of

# -- the chain -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [("transient", 3), ("overloaded", 3), ("quota_exhausted", 1)],
)
@leaping
async def test_the_next_model_takes_over_what_another_may_not_have(
    kind: ModelErrorKind, attempts: int
) -> None:
    """A used up quota at once, a passing error after its attempts."""
    world = World()
    model, other = Talker(*[down(kind)] * 3), Talker(model_id="B")
    state = await run(world.instance(chain(model, other)))
    assert text_of(state) == "done"
    assert course(await world.events("session-1"))[attempts - 1 :] == [
        f"A to B, {kind}",
        "B answers at 1",
    ]
    assert len(model.requests) == attempts


@pytest.mark.parametrize("kind", ["auth", "invalid_request", "content_filtered", "truncated"])
@leaping
async def test_nobody_takes_over_what_everybody_would_have(kind: ModelErrorKind) -> None:
    """The run fails at once, and says why."""
    world = World()
    other = Talker(model_id="B")
    await run(world.instance(chain(Talker(down(kind)), other)))
    assert course(await world.events("session-1")) == [f"run.failed model.{kind}"]
    assert other.requests == []


@leaping
async def test_a_chain_is_gone_through_in_its_order() -> None:
    """Each has its own attempts and its own rule; the last one's error is that of the run."""
    world = World()
    models = [
        Talker(*[down()] * 9),
        Talker(down("quota_exhausted"), model_id="B"),
        Talker(*[down("overloaded")] * 2, model_id="C", retry=Retry(max_attempts=1)),
    ]
    await run(world.instance(chain(*models)))
    assert course(await world.events("session-1")) == [
        "A 1 transient, again in 0",
        "A 2 transient, again in 0",
        "A to B, transient",
        "B to C, quota_exhausted",
        "run.failed model.overloaded",
    ]


@leaping
async def test_who_took_over_leads_until_the_run_is_over() -> None:
    """The others are not asked again, whatever it costs; the next run begins at the first."""
    world = World()
    first = Talker(down("quota_exhausted"))
    second = Talker(asks("c1"), asks("c2"), "done", model_id="B")
    instance = world.instance(chain(first, second, tools=[Hand()]))
    assert text_of(await run(instance)) == "done"
    assert (len(first.requests), len(second.requests)) == (1, 3)
    await run(instance, run_id="run-2")
    assert (len(first.requests), len(second.requests)) == (2, 3)


@leaping
async def test_who_took_over_leads_in_the_next_process_too() -> None:
    """A process dies during a call; the one that goes on asks the model that took over."""
    world = World()
    gate = Gate()
    dying = Talker(down("quota_exhausted")), Talker([gate], model_id="B")
    async with running(run(world.instance(chain(*dying)))):
        await gate.reached()
    world.clock.advance(61)
    first, second = Talker(), Talker("still here", model_id="B")
    other = world.instance(chain(first, second), "worker-2")
    assert text_of(await resume(other, "run-1")) == "still here"
    assert first.requests == []
    assert course(await world.events("session-1")) == [
        "A to B, quota_exhausted",
        "B answers at 1",
    ]


# -- the window -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "who"),
    [
        ((100, 50, 200), "C"),
        ((100, 100, 101), "C"),
        ((100, None, 200), "C"),
        ((100, 200, 300), "B"),
        ((None, None, 1), "C"),
        ((100, 50, None), None),
    ],
)
@leaping
async def test_a_prompt_that_is_too_long_goes_to_the_first_larger_window(
    windows: tuple[int | None, ...], who: str | None
) -> None:
    """One that is declared, and larger than the one that was too small; else the run fails."""
    world = World()
    models = [
        Talker(model_id=model_id, capabilities=windowed(window and window * 1000))
        for model_id, window in zip("ABC", windows, strict=True)
    ]
    models[0].attempts.append(down("context_overflow"))
    state = await run(world.instance(chain(*models)))
    told = course(await world.events("session-1"))
    if who is None:
        assert told == ["run.failed model.context_overflow"]
        assert state.status is Status.FAILED
    else:
        assert told == [f"A to {who}, context_overflow", f"{who} answers at 1"]


@leaping
async def test_a_window_is_looked_at_before_any_call() -> None:
    """A request that cannot fit is not sent, and its error says what it needs."""
    world = World()
    small = Talker(capabilities=windowed(100))
    large = Talker(model_id="B", capabilities=windowed(10_000))
    state = await run(world.instance(chain(small, large)), "go" * 400)
    assert text_of(state) == "done"
    assert small.requests == []
    events = await world.events("session-1")
    assert course(events) == ["A to B, context_overflow", "B answers at 1"]
    (fell_back,) = of(events, ModelFellBack)
    assert "A holds 100 (capabilities.context_window)" in fell_back.error


@pytest.mark.parametrize(("room", "fits"), [(0, True), (-1, False)])
@leaping
async def test_the_longest_answer_has_its_room_in_the_window(room: int, fits: bool) -> None:
    """To the last token: the prompt and `max_tokens` together."""
    world = World()
    probe = Talker([TextDelta("x"), down()], "done")
    await run(world.instance(chain(probe)))
    (retried,) = of(await world.events("session-1"), ModelRetried)
    needed = retried.usage.input_tokens + 50
    model = Talker(max_tokens=50, capabilities=windowed(needed + room))
    state = await run(world.instance(chain(model)), session_id="session-2", run_id="run-2")
    assert (text_of(state) == "done") is fits
    assert bool(model.requests) is fits
