"""What was consumed, and what it costs when that is known."""

from typing import Any

import pytest

from loom_ia.core.model import Usage


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (None, None, None),
        (1.5, None, 1.5),
        (None, 1.5, 1.5),
        (1.5, 0.25, 1.75),
        (0.0, None, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_a_sum_costs_what_is_known_of_it(
    left: float | None, right: float | None, total: float | None
) -> None:
    """Nothing known is not zero."""
    summed = Usage(cost_usd=left) + Usage(cost_usd=right)
    assert summed.cost_usd == total
    assert (summed.cost_usd is None) == (total is None)


@pytest.mark.parametrize(
    ("usage", "written"),
    [
        (Usage(), "{}"),
        (Usage(input_tokens=1), '{"input_tokens":1}'),
        (Usage(cost_usd=0.0), '{"cost_usd":0.0}'),
        (Usage(cost_usd=1.5), '{"cost_usd":1.5}'),
    ],
)
def test_what_is_not_known_is_not_written(usage: Usage, written: str) -> None:
    """A call that cost nothing is known to, and stays so."""
    assert usage.model_dump_json() == written
    assert Usage.model_validate_json(written) == usage


def test_the_usual_numbers_go_by_their_place() -> None:
    """What was read, what was written, what it cost."""
    assert Usage(10, 5) == Usage(input_tokens=10, output_tokens=5)
    assert Usage(10, 5, 0.5) == Usage(input_tokens=10, output_tokens=5, cost_usd=0.5)
    assert Usage(10, cache_read_tokens=3) == Usage(input_tokens=10, cache_read_tokens=3)


@pytest.mark.parametrize(("args", "fields"), [((1, 2, 3.0, 4), {}), ((1,), {"input_tokens": 2})])
def test_a_number_has_one_place(args: tuple[Any, ...], fields: dict[str, Any]) -> None:
    """Too many of them, or one twice, is no usage."""
    with pytest.raises(TypeError, match="input_tokens"):
        Usage(*args, **fields)
