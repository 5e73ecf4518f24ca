"""Comparing what is shown with what came out."""

import pytest

from tests.docs.shown import matches, with_real_ids

ONE = "01a11f47-ae95-7161-91ab-ee7c2558ef41"
TWO = "01a11f47-ae95-7161-91ab-ee7c2558ef42"
THREE = "01a11f47-ae95-7161-91ab-ee7c2558ef43"


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ("took 80 ms", "took 9 ms"),
        ("at 2026-01-01T00:00:00Z", "at 2027-02-03T04:05:06.789Z"),
        ("at 2026-01-01 00:00:00", "at 2027-02-03 04:05:06"),
        ("by worker-0123456789ab", "by worker-ba9876543210"),
        ("Run : … done", "Run : anything, done"),
        ("a\n…\nz", "a\nb\nc\nz"),
        ("a\n…\nz", "a\nz"),
        ("a\n…", "a"),
    ],
)
def test_what_varies_may_differ(shown: str, real: str) -> None:
    """Durations, instants, workers and what `…` stands for may be others."""
    assert matches(shown.splitlines(), real.splitlines(), {})


@pytest.mark.parametrize(
    ("shown", "real"),
    [("paid 80 euros", "paid 9 euros"), ("a", "a\nb"), ("a\nb", "a"), ("a\n…\nz", "a\nb")],
)
def test_what_does_not_vary_must_agree(shown: str, real: str) -> None:
    """Any other word or line that differs is a lie of the page."""
    assert not matches(shown.splitlines(), real.splitlines(), {})


def test_an_id_stands_for_one_id() -> None:
    """The id that a page shows is learnt where it first comes out, and is the same from then on."""
    ids: dict[str, str] = {}
    assert matches([f"Run : {ONE}"], [f"Run : {TWO}"], ids)
    assert ids == {ONE: TWO}
    assert with_real_ids(f"loom inspect {ONE}", ids) == f"loom inspect {TWO}"
    assert not matches([f"again {ONE}"], [f"again {THREE}"], ids)


def test_a_mismatch_teaches_nothing() -> None:
    """Lines that do not agree in the end leave what is known of ids as it was."""
    ids: dict[str, str] = {}
    assert not matches([f"Run : {ONE}", "z"], [f"Run : {TWO}", "y"], ids)
    assert ids == {}
