"""Whether the arguments of a call are complete, as they come in."""

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.models.openai_chat.arguments import Arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text('a"\\{}[]é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def is_json(text: str) -> bool:
    """Whether a text is a document."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(VALUES, st.lists(st.integers(0, 60), max_size=8), st.sampled_from(["", " ", "\n"]))
def test_a_document_is_whole_at_its_end_and_not_before(
    value: Any, cuts: list[int], blank: str
) -> None:
    """However it is cut, and however often one asks."""
    text = blank + json.dumps({"a": value}) + blank
    arguments, read = Arguments(), ""
    for start, end in pairwise(sorted({0, *cuts, len(text)} - set(range(len(text) + 1, 99)))):
        arguments.add(text[start:end])
        read += text[start:end]
        assert arguments.is_whole() == arguments.is_whole() == is_json(read)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", False),
        ("  ", False),
        ("null", True),
        ('"a"', True),
        ("12", True),
        ("nul", False),
        ("x" * 1000, False),
        ("{} {}", False),
        ("{}}", False),
        ("[1]", True),
        ('{"a": "}', False),
        ("[" * 100_000, False),
        ("[" * 100_000 + "]" * 100_000, True),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_is_no_object_may_be_whole(text: str, whole: bool) -> None:
    """A scalar that is JSON is; what goes on behind its end is not; depth breaks nothing."""
    arguments = Arguments()
    for piece in (text[:1], text[1:]):
        arguments.add(piece)
    assert arguments.is_whole() is whole


def test_asking_costs_no_more_than_what_is_new() -> None:
    """A megabyte in small pieces, each followed by the question, is read in one go."""
    arguments, began = Arguments(), time.process_time()
    arguments.add('{"a": "')
    for _ in range(50_000):
        arguments.add("x" * 18 + "]}")
        assert not arguments.is_whole()
    arguments.add('"}')
    assert arguments.is_whole()
    assert time.process_time() - began < 5
