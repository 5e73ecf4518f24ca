"""What the command says of consumption, and its listing of runs."""

import json
import re
from datetime import UTC, datetime

import pytest
import time_machine

from loom_ia.access.cli.runs import STATUSES
from loom_ia.core.state.run import Status
from tests.access.cli.conftest import Desk


@pytest.fixture
def used(loom: Desk) -> Desk:
    """Give a project in which two runs of a session ended, and another one waits."""
    loom("run", "echo", "bonjour", "--session", "s", "--run-id", "r1")
    loom("run", "echo", "encore", "--session", "s", "--run-id", "r2")
    loom("run", "un", "écris", "--run-id", "r3")
    return loom


def test_a5_a_run_is_summed_by_role_and_model(loom: Desk) -> None:
    """The tokens of both calls are summed, under one role, `main`."""
    loom("run", "un", "écris", "--run-id", "r1")
    loom("approve", "r1")
    report = json.loads(loom("report", "r1", "--json").out)
    read = [item["usage"] for item in _answers(loom, "r1")]
    assert len(read) == 2
    total = report["total"]
    assert total["calls"] == 2
    for name in ("input_tokens", "output_tokens"):
        assert total["usage"][name] == sum(usage[name] for usage in read)
    (role,) = report["roles"]
    assert (role["name"], role["calls"]) == ("main", 2)
    assert [model["name"] for model in report["models"]] == ["UN"]


def _answers(loom: Desk, run_id: str) -> list[dict[str, dict[str, int]]]:
    tree = json.loads(loom("inspect", run_id, "--json").out)
    items = [item for step in tree["steps"] for item in step["items"]]
    return [item for item in items if item["kind"] == "model"]


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", ["Session    : s", "By run", "By role", "By model", "Total", "cost ($)"]),
        ("fr", ["Session    : s", "Par run", "Par rôle", "Par modèle", "Total", "coût ($)"]),
    ],
)
def test_a_session_is_a_table(used: Desk, lang: str, said: list[str]) -> None:
    """Without RUN the whole session is shown, in columns, on standard output."""
    done = used("report", "--session", "s", "--lang", lang)
    assert (done.code, done.err) == (0, "")
    for text in said:
        assert text in done.out
    assert re.search(r"^  r1 \(echo, completed\) +1 +\d+ +\d+ +0\.000000$", done.out, re.MULTILINE)
    assert re.search(r"^Total +2 ", done.out, re.MULTILINE)
    assert "r3" not in done.out


@pytest.mark.parametrize("words", [("--period", "day"), ("--periode", "jour"), ("--period=mois",)])
def test_a_period_needs_neither_run_nor_session(used: Desk, words: tuple[str, ...]) -> None:
    """The day and the month are over every session, in either language's words."""
    report = json.loads(used("report", *words, "--json").out)
    assert (report["session_id"], report["run_id"], report["total"]["calls"]) == (None, None, 3)
    assert [run["run_id"] for run in report["runs"]] == ["r1", "r2", "r3"]
    now = datetime.now(UTC)
    assert report["since"] <= now.isoformat() < report["until"]


def test_a_period_leaves_out_the_day_before(loom: Desk) -> None:
    """What was consumed before midnight UTC is of the day before, and of the same month."""
    with time_machine.travel("2026-05-07T23:59:00Z", tick=True):
        loom("run", "echo", "hier")
    with time_machine.travel("2026-05-08T00:01:00Z", tick=True):
        loom("run", "echo", "aujourd'hui")
        day = loom("report", "--period", "day", "--json")
        month = loom("report", "--period", "month", "--json")
        text = loom("report", "--period", "day").out
    assert json.loads(day.out)["total"]["calls"] == 1
    assert json.loads(month.out)["total"]["calls"] == 2
    assert text.startswith("Period     : from 2026-05-08 to 2026-05-09, excluded (UTC)\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to report on"),
        (("r1", "--period", "day"), "leave out RUN and --session"),
        (("--session", "s", "--period", "day"), "leave out RUN and --session"),
        (("--period", "week"), "invalid choice: 'week'"),
        (("r9",), "there is no run r9"),
        (("--session", "nope"), "there is no session nope"),
    ],
)
def test_a_report_on_nothing_is_refused(used: Desk, words: tuple[str, ...], said: str) -> None:
    """What cannot be reported on exits with 2, and says which way to ask."""
    done = used("report", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_runs_are_listed_the_latest_first(used: Desk) -> None:
    """Each run is a line with its agent and status; filters and a limit narrow the list."""
    lines = used("runs").out.splitlines()
    assert lines[0].split()[:3] == ["run", "agent", "status"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["r3", "un", "paused"],
        ["r2", "echo", "completed"],
        ["r1", "echo", "completed"],
    ]
    assert json.loads(used("runs", "--status", "paused", "--json").out)["runs"][0]["run_id"] == "r3"
    asked = ("runs", "--status", "paused", "--status", "completed", "--agent", "echo")
    narrowed = used(*asked, "--limit", "1")
    assert [line.split()[0] for line in narrowed.out.splitlines()] == ["run", "r2"]
    assert "Older runs may match" in narrowed.err
    none = used("runs", "--agent", "nobody", "--lang", "fr")
    assert (none.code, none.out, none.err) == (0, "", "Aucun run.\n")


def test_a_listing_without_bounds_is_refused(loom: Desk) -> None:
    """A limit that the journal cannot honour exits with 2."""
    assert "--limit is between 1 and 200, not 0" in loom("runs", "--limit", "0").err
    assert loom("runs", "--limit", "201").code == 2


def test_the_statuses_of_the_words_are_those_of_the_engine() -> None:
    """What `--status` takes is every status that a run may have."""
    assert set(STATUSES) == {status.value for status in Status}
