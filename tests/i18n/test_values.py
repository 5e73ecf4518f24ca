"""Numbers and dates in the reader's habit."""

from datetime import UTC, datetime

import pytest

from loom_ia.i18n import Language, count, current, day, moment, speak

AT = datetime(2026, 11, 30, 13, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "number", "date", "instant"),
    [
        ("en", "1,234,567", "2026-11-30", "2026-11-30 13:05:09"),
        ("fr", "1\u202f234\u202f567", "30/11/2026", "30/11/2026 13:05:09"),
    ],
)
def test_values_are_written_as_the_reader_does(
    language: Language, number: str, date: str, instant: str
) -> None:
    """Thousands are set apart, and a French day begins with the day."""
    before = current()
    speak(language)
    try:
        assert (count(1_234_567), day(AT), moment(AT)) == (number, date, instant)
        assert count(999) == "999"
    finally:
        speak(before)
