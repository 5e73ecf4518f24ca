"""Lines of clients that take nothing of what they were sent are cut, and no others."""

from dataclasses import dataclass

import pytest

from loom_ia.access.http import lines
from loom_ia.access.http.lines import Lines


@dataclass(eq=False)
class Line:
    """A connection and its transport at once."""

    waiting: int
    closing: bool = True
    aborted: bool = False

    @property
    def transport(self) -> "Line":
        return self

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True


def test_a_line_that_stands_still_is_cut_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that moves, that is empty or that is in use is left alone."""
    now = 100.0
    monkeypatch.setattr(lines.time, "monotonic", lambda: now)
    still, slow, empty, used = Line(50), Line(50), Line(0), Line(50, closing=False)
    all_of_them = (still, slow, empty, used)
    watch = Lines()
    assert watch.look(all_of_them, 5) == 0
    for _ in range(4):
        now += 2
        slow.waiting -= 1
        watch.look(all_of_them, 5)
    assert [line.aborted for line in all_of_them] == [True, False, False, False]
