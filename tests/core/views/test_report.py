"""What was consumed, from nothing but the answers of models."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from loom_ia.core.events import ModelResponded, RunStarted
from loom_ia.core.model import Message, Usage
from loom_ia.core.views.report import Ledger, Period, bounds, usage_report
from tests.builders import placed

PARIS = timezone(timedelta(hours=1))


def _answer(model: str = "M", cost: float = 0.1) -> ModelResponded:
    return ModelResponded(
        model=model,
        model_id=model.lower(),
        message=Message.text("assistant", "x"),
        usage=Usage(input_tokens=10, output_tokens=3, cache_read_tokens=2),
        cost_usd=cost,
        stop_reason="end",
        request_hash="",
        request_parts={},
    )


def test_a5_the_parts_add_up_to_the_total() -> None:
    """Runs, roles and models each sum to the total, without the noise of binary fractions."""
    events = placed([RunStarted(), _answer(), _answer()], role="main")
    events += placed([_answer("N")], after=3, role="juge")
    report = usage_report(events, "session-1")
    assert (report.total.calls, report.total.cost_usd) == (3, 0.3)
    assert [(role.name, role.calls) for role in report.roles] == [("main", 2), ("juge", 1)]
    assert [(m.name, m.model_id, m.calls) for m in report.models] == [("M", "m", 2), ("N", "n", 1)]
    for parts in (report.runs, report.roles, report.models):
        assert sum(part.usage.total_tokens for part in parts) == 45
    assert (report.runs[0].status, report.runs[0].depth) == ("ready_for_model", 0)


def test_a_run_that_called_no_model_is_listed() -> None:
    """A run is in the report before it consumed anything."""
    (run,) = usage_report(placed([RunStarted()]), "session-1").runs
    assert (run.calls, run.usage.total_tokens) == (0, 0)


def test_a_ledger_needs_no_beginning() -> None:
    """Answers alone are counted by session and run, whose status is not known."""
    ledger = Ledger()
    for session in ("s1", "s2"):
        for event in placed([_answer()], session_id=session, run_id=f"r-{session}"):
            ledger.add(event)
    runs = ledger.report().runs
    assert [(r.run_id, r.session_id, r.agent, r.status, r.depth) for r in runs] == [
        ("r-s1", "s1", "clerk", None, None),
        ("r-s2", "s2", "clerk", None, None),
    ]


@pytest.mark.parametrize(
    ("period", "now", "since", "until"),
    [
        ("day", datetime(2026, 3, 1, 0, 30, tzinfo=PARIS), "2026-02-28", "2026-03-01"),
        ("day", datetime(2026, 12, 31, 23, 59, tzinfo=UTC), "2026-12-31", "2027-01-01"),
        ("month", datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-01", "2026-02-01"),
        ("month", datetime(2026, 2, 28, tzinfo=UTC), "2026-02-01", "2026-03-01"),
        ("month", datetime(2026, 12, 5, tzinfo=UTC), "2026-12-01", "2027-01-01"),
    ],
)
def test_a_period_is_of_the_calendar_in_utc(
    period: Period, now: datetime, since: str, until: str
) -> None:
    """The day or the month of an instant begins and ends at midnight UTC."""
    expected = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (since, until)]
    assert list(bounds(period, now)) == expected
