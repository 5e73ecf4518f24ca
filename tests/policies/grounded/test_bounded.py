"""The matcher takes a time that grows as what it is given, whatever that says."""

import importlib
import pkgutil
import re
import sys
from types import FrameType
from typing import Any

import pytest

from loom_ia.policies import grounded
from loom_ia.policies.grounded import Sources, claims, missing

HOSTILE = [
    "1 ", "1.", "1,", "1-", "1'", "1/", "12 345 ", "1 8 ", "a-", "a1-", "a.", "a@", "@", "€",
    "€ ", "%", "mille ", "cent-", "et ", "deux et ", "un ", "virgule ", "12 et ", "12, ", "12 à ",
    "€1-", "devis ", "n° ", "- ", "--", " ", "\n", "1.\n", "1) ", "''", "`", "**", "&", "&#",
    "<a ", "<", "(", "+33 ", "0033", "06 12 ", "FR76 ", "FR76", "ab12 3", "www.", "http://",
    "mars ", "12 mars ", "lundi ", "14:", "14h", "1/2/", "01/02/", "2026-", "k€", "½", "\u200b1",
    "\u4e94", "x1", "1x", "demi-", "a b@c.",
]  # fmt: skip


def _steps(text: str) -> int:
    """How many lines of the package are run to read `text`."""
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if "policies/grounded" not in frame.f_code.co_filename:
            return None
        steps += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        missing(text, Sources.of(texts=[]))
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("part", HOSTILE)
def test_the_steps_grow_as_the_length(part: str) -> None:
    """Twice the text takes twice the steps, and no more than four hundred for a character."""
    once, twice = _steps(part * 400), _steps(part * 800)
    assert twice <= 2.1 * once + 2_000
    assert once <= 400 * len(part) * 400 + 2_000


def test_every_pattern_is_bounded() -> None:
    """No pattern may look further than some thousand characters, nor begin where it ended."""
    found = [
        pattern
        for module in pkgutil.iter_modules(grounded.__path__)
        for pattern in vars(importlib.import_module(f"{grounded.__name__}.{module.name}")).values()
        if isinstance(pattern, re.Pattern)
    ]
    assert len(found) > 20
    parser: Any = importlib.import_module("re._parser")
    wide = [one.pattern for one in found if parser.parse(one.pattern).getwidth()[1] > 4_000]
    assert wide == []


@pytest.mark.parametrize("part", ["1 840 € le 12 mars, ", "1", "a", "1.", "mille "])
def test_a_long_text_is_read_whole(part: str) -> None:
    """Two hundred thousand characters are read to the end."""
    text = part * (200_000 // len(part)) + " soit 77 €"
    assert claims(text)[-1].text == "77 €"
