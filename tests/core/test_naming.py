"""The names of tools that come from a source: legal, apart from each other, always the same."""

import re
from itertools import product

import pytest

from loom_ia.core.model.naming import LONGEST_NAME, prefix_of, shown_name

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_legal_name_is_kept() -> None:
    """It is the prefix, then the name."""
    assert shown_name("crm", "send_mail") == "crm__send_mail"
    assert prefix_of("crm__send__mail") == "crm"
    assert prefix_of("send_mail") == ""


@pytest.mark.parametrize(
    "own", ["", "a.b", "é", "a b", "x" * 90, "x" * 60 + "/é" * 20, "\ud800", "💥"]
)
def test_another_one_is_made_legal(own: str) -> None:
    """Whatever it is, also under the longest prefix, and by its prefix one knows it."""
    for prefix in ("c", "c" * 40):
        shown = shown_name(prefix, own)
        assert LEGAL.fullmatch(shown)
        assert prefix_of(shown) == prefix
        assert shown == shown_name(prefix, own)


def test_names_that_look_alike_stay_apart() -> None:
    """Those that only differ where they are changed, or cut, and their lookalikes."""
    owns = ["".join(each) for each in product("a./é_", repeat=4)]
    owns += [f"{'x' * length}{last}" for length in range(50, 90) for last in "12."]
    assert len({shown_name("crm", own) for own in owns}) == len(owns)


def test_the_longest_legal_name_is_kept() -> None:
    """64 characters are taken; one more is cut, with a mark."""
    own = "x" * (LONGEST_NAME - len("crm__"))
    assert shown_name("crm", own) == f"crm__{own}"
    assert len(shown_name("crm", own + "x")) == LONGEST_NAME
