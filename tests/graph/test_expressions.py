"""Expressions of graphs that are written: a small subset, whatever the text."""

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.graph.expressions import MOST_ITEMS, Expression, ExpressionError

STATE: dict[str, Any] = {
    "n": 5,
    "price": Decimal("12.50"),
    "name": "Durand",
    "items": [1, 2, 3],
    "client": {"city": "Lyon", "lines": [{"sum": 4}]},
    "none": None,
    "flag": True,
}
VALUES: dict[str, Any] = {
    "n + 1": 6,
    "-n": -5,
    "n * 2 - 1 / 4": 9.75,
    "n % 3": 2,
    "price + 1": Decimal("13.50"),
    "n > 3 and name == 'Durand'": True,
    "n > 9 or flag": True,
    "not flag": False,
    "1 < n <= 5": True,
    "'Du' in name": True,
    "n not in [1, 2]": True,
    "'missing' in state": False,
    "'missing' in state and missing > 1": False,
    "items[0] + items[-1]": 4,
    "client['lines'][0]['sum']": 4,
    "len(items) == 3": True,
    "name + '!'": "Durand!",
    "items + [4]": [1, 2, 3, 4],
    "none is None": True,
    "state['n']": 5,
    " n ": 5,
}


@pytest.mark.parametrize("text", VALUES)
def test_what_may_be_written(text: str) -> None:
    """Each form of the subset has the value that Python gives it."""
    assert Expression.parse(text).value(STATE) == VALUES[text]


HOSTILE = (
    "n ** 2",
    "client.city",
    "().__class__",
    "__import__('os')",
    "open('x')",
    "len(items, items)",
    "len(*items)",
    "lambda: 1",
    "[x for x in items]",
    "{1: 2}",
    "{1}",
    "f'{n}'",
    "n if flag else 1",
    "(n := 3)",
    "n @ 2",
    "n // 2",
    "n << 99",
    "~n",
    "items[n]",
    "items[0:2]",
    "b'x'",
    "1j",
    "...",
    "n is 5",
    "__class__",
    "(" * 400 + "n" + ")" * 400,
    "-" * 900 + "1",
    "not " * 240 + "n",
    "n" + "+n" * 400,
    "1e999",
    "9" * 100,
    "",
    "n\n+1",
    "n\0",
    "\ud800",
    "n; n",
    "yield",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_may_not_be_written(text: str) -> None:
    """Everything else is refused when it is read, with the expression in the message."""
    with pytest.raises(ExpressionError, match="in the expression"):
        Expression.parse(text)


FAILING = (
    "missing",
    "n / 0",
    "n % 0",
    "n < name",
    "name * 3",
    "items * 3",
    "'%s' % n",
    "name - 1",
    "items['a']",
    "items[9]",
    "client['zip']",
    "n[0]",
    "len(n)",
    "n in n",
    "none + 1",
    "-name",
    "price + 0.5",
)


@pytest.mark.parametrize("text", FAILING)
def test_what_has_no_value(text: str) -> None:
    """A value that cannot be computed is an error that names the column, never a guess."""
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text).value(STATE)
    assert caught.value.column > 0


def test_results_are_bounded() -> None:
    """Neither a number nor a text grows without end."""
    with pytest.raises(ExpressionError, match="too large"):
        Expression.parse("a * a").value({"a": 10**40})
    with pytest.raises(ExpressionError, match="too large"):
        Expression.parse("a - a").value({"a": 10**5_000})
    with pytest.raises(ExpressionError, match="too long"):
        Expression.parse("a + a").value({"a": "x" * MOST_ITEMS})
    with pytest.raises(ExpressionError, match="no number"):
        Expression.parse("a * a").value({"a": 1e300})


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text whatever makes anything else than a value or an `ExpressionError`."""
    with contextlib.suppress(ExpressionError):
        assert not callable(Expression.parse(text).value(STATE))


WORDS = (
    "state len ( ) [ ] + * % / - and not in is None 1 0 'a' . ** < == , __class__ lambda : { } if"
)
PIECES = st.sampled_from([*STATE, *WORDS.split()])


@given(st.lists(PIECES, min_size=1, max_size=12))
@settings(max_examples=500, deadline=None)
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    """Words of the subset in any order, with hostile ones among them, do nothing else either."""
    try:
        value = Expression.parse(" ".join(words)).value(STATE)
    except ExpressionError:
        return
    assert not callable(value)


@pytest.mark.parametrize(("source", "column"), [("n >", 4), ("  n > ", 6), ("n n", 3)])
def test_a_text_that_cannot_be_read_has_a_column(source: str, column: int) -> None:
    """The column counts from 1; a text that stops too early is at fault at its end."""
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(source)
    assert caught.value.column == column
