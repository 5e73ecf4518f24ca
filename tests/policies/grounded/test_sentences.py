"""Over a hundred sentences that sources hold, and as many that they do not."""

import pytest

from loom_ia.policies.grounded import Sources, missing
from tests.policies.grounded.sentences import PAIRS, REFUSED


def _sources(held: list[object]) -> Sources:
    texts = [one for one in held if isinstance(one, str)]
    return Sources.of(texts=texts, values=[one for one in held if not isinstance(one, str)])


@pytest.mark.parametrize(("form", "held", "text", "_"), PAIRS, ids=[row[0] for row in PAIRS])
def test_a_value_that_a_source_holds_passes(
    form: str, held: list[object], text: str, _: str
) -> None:
    """A value passes in any writing, whatever the writing of the source."""
    assert [str(one) for one in missing(text, _sources(held))] == []


@pytest.mark.parametrize(("form", "held", "_", "text"), PAIRS, ids=[row[0] for row in PAIRS])
def test_an_invented_value_never_passes(form: str, held: list[object], _: str, text: str) -> None:
    """The same sentence with another value is stopped."""
    assert missing(text, _sources(held))


@pytest.mark.parametrize(("form", "text"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_writing_made_to_mislead_is_refused(form: str, text: str) -> None:
    """An amount that cannot be read is missing, even where every number is known."""
    everything = Sources.of(values=[list(range(1000)), 1840, 840, "0 €", "40 €", "840 €", "cent"])
    found = missing(text, everything)
    assert any(one.kind in {"amount", "percentage"} for one in found)


def test_there_are_enough_of_them() -> None:
    """A hundred pairs at least, in thirty forms at least."""
    assert len(PAIRS) >= 100
    assert len({form for form, *_ in PAIRS}) >= 30
