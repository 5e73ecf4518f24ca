"""The limits of time of a model call, to the instant."""

from typing import Any

import pytest

from loom_ia.core.events import ModelRetried
from loom_ia.core.model import TextDelta, Timeouts, Usage, UsageReported
from tests.engine.chain import Talker, chain, down, of, says
from tests.engine.leaping import elapsed, leaping
from tests.engine.world import World, run, text_of

READ = Usage(input_tokens=7)


@pytest.mark.parametrize(
    ("limits", "attempt", "late_at", "says_what"),
    [
        ({"first_token": 5}, [60], 5, "first_token"),
        ({"first_token": 5}, [UsageReported(READ), 60], 5, "first_token"),
        ({"first_token": 5, "total": 3}, [60], 3, "total"),
        ({"first_token": 5, "idle": 1}, [4, TextDelta("a"), 60], 5, "idle"),
        ({"first_token": 5, "idle": 2}, [1, TextDelta("a"), 60], 3, "idle"),
        ({"first_token": 1, "idle": 5}, [TextDelta("a"), 60], 5, "idle"),
        ({"idle": 2}, [TextDelta("a"), 1, TextDelta("b"), 1.5, TextDelta("c"), 60], 4.5, "idle"),
        ({"idle": 2}, [TextDelta("a"), 1, UsageReported(READ), 60], 3, "idle"),
        ({"idle": 2, "total": 3}, [TextDelta("a"), 1.5, TextDelta("b"), 60], 3, "total"),
        ({"idle": 2, "total": 30}, [TextDelta("a"), *[1.9, TextDelta("b")] * 40], 30, "total"),
        ({"first_token": None, "total": 7}, [60], 7, "total"),
        ({"idle": None, "total": 7}, [TextDelta("a"), 60], 7, "total"),
        ({"total": None}, [60.5], 60, "first_token"),
        ({}, [TextDelta("a"), *[59, TextDelta("b")] * 40], 300, "total"),
    ],
    ids=str,
)
@leaping
async def test_the_first_limit_that_is_reached_ends_an_attempt(
    limits: dict[str, float | None], attempt: Any, late_at: float, says_what: str
) -> None:
    """At its very instant, as a passing error that names the limit."""
    world = World()
    model = Talker(attempt, "done", timeouts=Timeouts(**limits))
    assert text_of(await run(world.instance(chain(model)))) == "done"
    (retried,) = of(await world.events("session-1"), ModelRetried)
    assert retried.error_kind == "transient"
    assert f"(timeouts.{says_what})" in retried.error
    assert model.times == [0, late_at]


@leaping
async def test_without_limits_an_answer_takes_its_time() -> None:
    """`null` is no limit."""
    world = World()
    slow = [3600, TextDelta("a"), 3600, TextDelta("b"), 3600, *says("c")]
    none = Timeouts(first_token=None, idle=None, total=None)
    state = await run(world.instance(chain(Talker(slow, timeouts=none))))
    assert text_of(state) == "abc"
    assert elapsed() == 3 * 3600


@leaping
async def test_each_attempt_has_its_own_time() -> None:
    """The waits between attempts count in no limit."""
    world = World()
    model = Talker(
        [50, down(retry_after=30)],
        [50, *says("done")],
        timeouts=Timeouts(first_token=60, total=60),
    )
    assert text_of(await run(world.instance(chain(model)))) == "done"
    assert model.times == [0, 80]
