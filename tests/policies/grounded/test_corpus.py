"""Sentences written by somebody who had not seen the code.

`FALSE_ALARMS` are those that are stopped although their sources hold them, each with its reason:
they are listed in docs/explanation/grounding.md too.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from loom_ia.policies.grounded import Missing, Sources, missing

HERE = Path(__file__).parent
DOCS = HERE.parents[2] / "docs/explanation/grounding.md"
GROUNDED: list[dict[str, Any]] = json.loads((HERE / "grounded.json").read_text("utf-8"))
UNGROUNDED: list[dict[str, Any]] = json.loads((HERE / "ungrounded.json").read_text("utf-8"))

FALSE_ALARMS = {
    "No worries, I only need a minute of your time on the phone to clarify one thing.",
    "Half of it now – €920 – and the other €920 on completion.",
}


def _missing(entry: dict[str, Any]) -> tuple[Missing, ...]:
    texts = [one for one in entry["sources"] if isinstance(one, str)]
    values = [one for one in entry["sources"] if not isinstance(one, str)]
    return missing(entry["text"], Sources.of(texts=texts, values=values))


@pytest.mark.parametrize("entry", UNGROUNDED, ids=lambda entry: entry["form"])
def test_no_invented_value_passes(entry: dict[str, Any]) -> None:
    """Whatever its form, a value that no source holds is missing."""
    assert _missing(entry), entry["why"]


@pytest.mark.parametrize(
    "entry",
    [one for one in GROUNDED if one["text"] not in FALSE_ALARMS],
    ids=lambda one: one["form"],
)
def test_a_value_that_a_source_holds_passes(entry: dict[str, Any]) -> None:
    """Whatever its form, a value that a source holds is not missing."""
    assert [str(one) for one in _missing(entry)] == [], entry["why"]


def test_the_false_alarms_are_those_that_are_said() -> None:
    """The list of false alarms is exact, and the page for users has it."""
    stopped = {entry["text"] for entry in GROUNDED if _missing(entry)}
    assert stopped == FALSE_ALARMS
    page = DOCS.read_text("utf-8")
    assert [text for text in FALSE_ALARMS if text not in page] == []
