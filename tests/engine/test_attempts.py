"""Getting an answer: attempts, the waits between them, and who takes over."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.app.runs import Order, resume
from loom_ia.core.errors import ModelErrorKind
from loom_ia.core.events import Event, ModelRetried
from loom_ia.core.model import (
    Reset,
    Retry,
    Stopped,
    TextDelta,
    Usage,
    UsageReported,
)
from loom_ia.core.model.budget import Budget
from loom_ia.core.state import Status
from loom_ia.engine.perform.attempt import wait_after
from tests.engine.chain import Talker, asks, chain, course, down, of
from tests.engine.leaping import elapsed, leaping
from tests.engine.world import Gate, Hand, Told, World, run, running, settle, text_of

# -- the wait -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "drawn", "seconds"),
    [
        *((1, 0.0, 0.5), (1, 0.5, 0.75), (1, 1.0, 1.0)),
        *((2, 0.0, 1.0), (2, 1.0, 2.0), (3, 1.0, 4.0)),
        *((4, 0.0, 3.5), (4, 1.0, 7.0), (9, 1.0, 7.0), (9, 0.0, 3.5)),
    ],
)
def test_the_wait_grows_up_to_its_limit_and_is_drawn_in_its_upper_half(
    monkeypatch: pytest.MonkeyPatch, attempt: int, drawn: float, seconds: float
) -> None:
    """`initial_delay` × `multiplier`^(n - 1), at most `max_delay`, times a half to one."""
    monkeypatch.setattr(random, "random", lambda: drawn)
    rule = Retry(max_attempts=10, initial_delay=1, multiplier=2, max_delay=7)
    assert wait_after(rule, attempt, down()) == seconds


_RULES = st.builds(
    Retry,
    max_attempts=st.integers(1, 1000),
    initial_delay=st.floats(0, 1e6),
    multiplier=st.floats(1, 1e9),
    max_delay=st.floats(0, 1e6),
)


@given(_RULES, st.integers(1, 1000))
def test_no_rule_gives_a_wait_out_of_its_bounds(rule: Retry, attempt: int) -> None:
    """However large the numbers, between half of what is due and the limit."""
    delay = wait_after(rule, attempt, down())
    if attempt >= rule.max_attempts:
        assert delay is None
        return
    assert delay is not None
    assert min(rule.initial_delay, rule.max_delay) / 2 - 0.001 <= delay <= rule.max_delay + 0.001
    assert rule.initial_delay or not delay


@pytest.mark.parametrize(
    ("asked", "delay"), [(0.0, 0.0), (0.2, 0.2), (7.0, 7.0), (7.1, None), (3600.0, None)]
)
def test_what_the_provider_asks_for_replaces_the_wait(asked: float, delay: float | None) -> None:
    """As it is, without a draw; a wait that is longer than `max_delay` gives the model up."""
    rule = Retry(initial_delay=1, max_delay=7)
    assert wait_after(rule, 1, down(retry_after=asked)) == delay


@pytest.mark.parametrize(
    ("kind", "is_retried"),
    [
        ("transient", True),
        ("overloaded", True),
        *(
            (kind, False)
            for kind in (
                *("quota_exhausted", "context_overflow", "auth", "invalid_request"),
                *("content_filtered", "truncated", "unavailable"),
            )
        ),
    ],
)
def test_only_what_may_pass_is_retried(kind: ModelErrorKind, is_retried: bool) -> None:
    """Also when the provider names a wait."""
    for retry_after in (None, 1.0):
        delay = wait_after(Retry(), 1, down(kind, retry_after=retry_after))
        assert (delay is not None) is is_retried


# -- attempts -------------------------------------------------------------------------------------


@leaping
async def test_attempts_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure is a fact that is written before the wait, and the answer counts them all."""
    monkeypatch.setattr(random, "random", lambda: 1.0)
    world = World()
    model = Talker(down(), down("overloaded", http_status=529), "done", retry=Retry())
    state = await run(world.instance(chain(model)))
    events = await world.events("session-1")
    assert text_of(state) == "done"
    assert course(events) == [
        "A 1 transient, again in 1",
        "A 2 overloaded, again in 2",
        "A answers at 3",
    ]
    assert model.times == [0, 1, 3]
    assert [fact.http_status for fact in of(events, ModelRetried)] == [None, 529]
    assert [fact.usage for fact in of(events, ModelRetried)] == [None, None]


@leaping
async def test_a_wait_that_is_asked_for_is_waited() -> None:
    """The whole of it, and no longer."""
    world = World()
    model = Talker(down(retry_after=7), down(retry_after=0), "done")
    await run(world.instance(chain(model)))
    assert model.times == [0, 7, 7]


@leaping
async def test_a_wait_that_is_too_long_gives_the_model_up() -> None:
    """No attempt is made, nothing is waited, and the next model answers."""
    world = World()
    model, other = Talker(down(retry_after=3600)), Talker(model_id="B")
    state = await run(world.instance(chain(model, other)))
    assert text_of(state) == "done"
    assert course(await world.events("session-1")) == [
        "A to B, transient",
        "B answers at 1",
    ]
    assert elapsed() == 0


@leaping
async def test_the_last_attempt_gives_the_model_up() -> None:
    """`max_attempts` are made in all; the run fails with the last error."""
    world = World()
    model = Talker(*[down()] * 5, retry=Retry(max_attempts=2, initial_delay=0))
    state = await run(world.instance(chain(model)))
    assert course(await world.events("session-1")) == [
        "A 1 transient, again in 0",
        "run.failed model.transient",
    ]
    assert state.status is Status.FAILED
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param([], id="nothing"),
        pytest.param([TextDelta("do")], id="a piece"),
        pytest.param([TextDelta(" \n"), Stopped("end")], id="a blank"),
        pytest.param([Stopped("end")], id="an end alone"),
        pytest.param([asyncio.CancelledError()], id="a cancellation that is not ours"),
    ],
)
@leaping
async def test_what_is_no_answer_is_asked_again(cut: Any) -> None:
    """A stream that was cut, and an answer in which there is nothing to read."""
    world = World()
    model = Talker(cut, "done")
    assert text_of(await run(world.instance(chain(model)))) == "done"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("stop", "kind"), [("max_tokens", "truncated"), ("refusal", "content_filtered")]
)
@leaping
async def test_an_answer_that_must_not_be_taken_for_one_is_an_error(stop: Any, kind: str) -> None:
    """It is not asked for again, nor elsewhere, and it was paid."""
    world = World()
    used = UsageReported(Usage(input_tokens=10, output_tokens=2))
    model, other = Talker([TextDelta("do"), used, Stopped(stop)]), Talker(model_id="B")
    state = await run(world.instance(chain(model, other)))
    assert course(await world.events("session-1")) == [
        f"A 1 {kind}, given up",
        f"run.failed model.{kind}",
    ]
    assert state.spent.usage.total_tokens == 12
    assert other.requests == []


@leaping
async def test_a_fault_of_an_adapter_fails_the_run() -> None:
    """It is told by its type, and nobody takes over: it is no error of a provider."""
    world = World()
    model, other = Talker(KeyError("x")), Talker(model_id="B")
    await run(world.instance(chain(model, other)))
    assert course(await world.events("session-1")) == ["run.failed KeyError"]


# -- what it consumed -----------------------------------------------------------------------------

READ = Usage(input_tokens=7, cache_read_tokens=3, cache_write_tokens=2)


@pytest.mark.parametrize(
    ("attempt", "usage"),
    [
        pytest.param([down()], None, id="nothing came"),
        pytest.param(
            [UsageReported(READ), down()],
            READ.model_copy(update={"estimated": True}),
            id="the prompt was counted",
        ),
        pytest.param(
            [UsageReported(READ), TextDelta("12345"), down()],
            READ.model_copy(update={"output_tokens": 2, "estimated": True}),
            id="a piece came",
        ),
        pytest.param(
            [TextDelta("1"), UsageReported(Usage(input_tokens=7, output_tokens=9)), down()],
            Usage(input_tokens=7, output_tokens=9, estimated=True),
            id="all was counted",
        ),
        pytest.param(
            [TextDelta(" "), UsageReported(Usage(input_tokens=7, output_tokens=9)), Stopped("end")],
            Usage(input_tokens=7, output_tokens=9),
            id="an answer of nothing",
        ),
    ],
)
@leaping
async def test_an_attempt_that_failed_is_counted(attempt: Any, usage: Usage | None) -> None:
    """By what the provider told, and what it wrote; nothing when it had not begun."""
    world = World()
    state = await run(world.instance(chain(Talker(attempt, "done"))))
    (retried,) = of(await world.events("session-1"), ModelRetried)
    assert retried.usage == usage
    spent = usage.total_tokens if usage else 0
    assert state.spent.usage.total_tokens == spent + 12


@leaping
async def test_an_attempt_whose_prompt_nobody_counted_is_estimated() -> None:
    """Four characters are a token, of what was sent and of what came."""
    world = World()
    await run(world.instance(chain(Talker([TextDelta("12345"), down()], "done"))), "go" * 400)
    (retried,) = of(await world.events("session-1"), ModelRetried)
    assert retried.usage.estimated
    assert 200 < retried.usage.input_tokens < 260
    assert retried.usage.output_tokens == 2


@leaping
async def test_a_budget_counts_the_attempts_that_failed() -> None:
    """What they consumed brings the run to its end as an answer would."""
    world = World()
    lost = [TextDelta("do"), UsageReported(Usage(input_tokens=990, output_tokens=9)), down()]
    model = Talker(lost, asks(), "done")
    program = chain(model, tools=[Hand()], budget=Budget(max_tokens=1000))
    state = await run(world.instance(program))
    assert text_of(state) == "done"
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert (await world.count("session-1"))["budget.exceeded"] == 1
    assert state.spent.usage.total_tokens == 999 + 24
    assert state.spent.calls == 2


# -- who listens ----------------------------------------------------------------------------------


async def heard(world: World, *models: Talker) -> list[str]:
    """Listen to a run: pieces of text, resets, facts about attempts."""
    order = Order("clerk", "go", "session-1", "run-1")
    found: list[str] = []
    async for item in runs.stream(world.instance(chain(*models)), order):
        match item:
            case TextDelta():
                found.append(item.text)
            case Reset():
                found.append("RESET")
            case Event():
                found += [f"[{told}]" for told in course([item])]
            case _:
                pass
    return found


@leaping
async def test_what_was_shown_is_taken_back_before_it_is_said_again() -> None:
    """Of each attempt that had begun; one of which nothing was shown takes nothing back."""
    used = UsageReported(READ)
    model = Talker([TextDelta("do"), down()], [used, down()], "done")
    assert await heard(World(), model) == [
        *("do", "RESET", "[A 1 transient, again in 0]", "[A 2 transient, again in 0]"),
        *("done", "[A answers at 3]"),
    ]


@leaping
async def test_what_was_shown_is_taken_back_before_another_model_speaks() -> None:
    """Also when the attempt was the last one, and when the run then fails."""
    once = Retry(max_attempts=1)
    first = Talker([TextDelta("do"), down()], retry=once)
    second = Talker([TextDelta("no"), down("auth")], model_id="B", retry=once)
    assert await heard(World(), first, second) == [
        *("do", "RESET", "[A 1 transient, given up]", "[A to B, transient]"),
        *("no", "RESET", "[B 1 auth, given up]", "[run.failed model.auth]"),
    ]


# -- being stopped --------------------------------------------------------------------------------


@leaping
async def test_a_cancel_ends_the_wait_between_two_attempts() -> None:
    """At once, and no other attempt is made."""
    world = World()
    model = Talker([TextDelta("do"), down(retry_after=20)])
    instance = world.instance(chain(model))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    told = Told(opened.log, "model.retried")
    async with running(runs.drive(instance, opened.pen, opened.program)) as driving:
        await told()
        await settle()
        await cancel(instance, "run-1", by="ada")
        state = await driving
    assert state.status is Status.CANCELLED
    assert elapsed() == 0
    assert len(model.requests) == 1
    assert course(await world.events("session-1")) == [
        "A 1 transient, again in 20",
        "run.cancelled",
    ]


@pytest.mark.parametrize(
    ("attempt", "counted"),
    [
        pytest.param([10], [], id="before anything came"),
        pytest.param(
            [TextDelta("do"), 10], ["A 1 interrupted, given up"], id="in the middle of an answer"
        ),
        pytest.param(
            [TextDelta("do"), down(retry_after=10)], ["A 1 transient, again in 10"], id="in a wait"
        ),
    ],
)
@leaping
async def test_the_time_of_a_run_bounds_its_calls(attempt: Any, counted: list[str]) -> None:
    """A run out of time stops its call, keeps what it consumed, and can be resumed."""
    world = World()
    model = Talker(attempt, "done")
    instance = world.instance(chain(model, timeout=5.0))
    state = await run(instance)
    assert elapsed() == 5
    assert state.status is Status.FAILED
    assert course(await world.events("session-1")) == [*counted, "run.failed timeout"]
    assert (state.spent.usage.total_tokens > 0) is bool(counted)
    assert text_of(await resume(instance, "run-1")) == "done"


@leaping
async def test_a_cancelled_answer_is_taken_back_and_counted() -> None:
    """Whoever listened forgets it, and the journal keeps what it consumed."""
    world = World()
    gate = Gate()
    model = Talker([TextDelta("123456789"), gate])
    instance = world.instance(chain(model))
    shown: list[Any] = []
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    driving = runs.drive(instance, opened.pen, opened.program, listener=shown.append)
    async with running(driving) as task:
        await gate.reached()
        await cancel(instance, "run-1", by="ada")
        await task
    (retried,) = of(await world.events("session-1"), ModelRetried)
    assert (retried.error_kind, retried.final, retried.usage.output_tokens) == (
        "interrupted",
        True,
        3,
    )
    assert retried.usage.estimated
    assert [type(item).__name__ for item in shown] == ["TextDelta", "Reset"]
