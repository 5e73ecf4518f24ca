"""Numbers of tokens, as providers write them and as they must not."""

import json
from typing import Any

import pytest

from loom_ia.adapters.models.counts import LARGEST, count, count_of
from loom_ia.core.model import Usage
from tests.adapters.models.contract import asking, hear
from tests.adapters.models.encoders import FORMATS, Format
from tests.providers.replies import Raw
from tests.providers.server import Provider

ABSURD: list[Any] = [
    *(-1, True, False, None, LARGEST + 1, 10**20, float("inf"), float("nan"), 1e300, 0.5),
    *("", "-1", "5000.0", "1e3", "٣", "9" * 25, [5000], {"a": 5000}),
]


@pytest.mark.parametrize(
    ("written", "read"),
    [(0, 0), (5000, 5000), (5000.0, 5000), ("5000", 5000), (LARGEST, LARGEST), ("0", 0)],
    ids=repr,
)
def test_a_count_is_read_in_each_way_to_write_it(written: object, read: int) -> None:
    """A whole number, also as a float or as digits."""
    assert count_of(written) == read
    assert count({"tokens": written}, "tokens") == read


@pytest.mark.parametrize("absurd", ABSURD, ids=lambda value: repr(value)[:30])
def test_what_is_no_count_is_not_told(absurd: object) -> None:
    """Nothing that an answer could not have gets into a cost."""
    assert count_of(absurd) is None
    assert count({"tokens": absurd}, "tokens") == 0


def answered(api: str, usage: dict[str, Any]) -> Raw:
    """Write an answer of a format, with its usage."""
    body: dict[str, Any] = {
        "anthropic": {"content": [], "stop_reason": "end_turn"},
        "chat": {"choices": [{"index": 0, "message": {"content": "Oui"}}]},
        "responses": {"status": "completed", "output": []},
    }[api]
    whole = json.dumps({**body, "usage": usage}).encode()
    return Raw([whole], headers={"content-type": "application/json"})


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.api)
@pytest.mark.parametrize("absurd", [10**400, -5, float("inf"), "many", True])
async def test_no_reader_takes_an_absurd_count(
    provider: Provider, form: Format, absurd: object
) -> None:
    """The counts beside it stand; what is written otherwise is read."""
    names = ("prompt", "completion") if form.api == "chat" else ("input", "output")
    read, written = (f"{name}_tokens" for name in names)
    details = {f"{read}_details": {"cached_tokens": absurd}}
    provider.reply(answered(form.api, {read: "12", written: absurd, **details}))
    provider.reply(answered(form.api, {read: 12.0, written: "7", **details}))
    spec = form.spec("M", "m-1").model_copy(update={"base_url": provider.url})
    model = form.model(spec)
    for output in (0, 7):
        answer = (await hear(model, asking(spec))).answer
        assert answer.usage == Usage(input_tokens=12, output_tokens=output)
    await model.close()
