"""How errors are told: a row for each, with its words, and the time to wait where there is one."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from loom_ia.access.http.problems import response_to, row_of, told
from loom_ia.access.http.rows import BROKEN, REMEDIES, ROWS, TITLES
from loom_ia.core import errors
from loom_ia.core.errors import ClaimConflict, InternalError, LoomError, RateLimited, RunMoved


def _tree(kind: type[LoomError]) -> list[type[LoomError]]:
    return [kind, *(below for each in kind.__subclasses__() for below in _tree(each))]


def test_every_kind_has_its_words() -> None:
    """No slug lacks a title or a remedy, and none is left over."""
    slugs = {row.slug for row in ROWS.values()}
    assert slugs <= set(TITLES)
    assert set(TITLES) == set(REMEDIES)


@pytest.mark.parametrize("kind", _tree(errors.CallerError), ids=lambda kind: kind.__name__)
def test_what_a_caller_did_wrong_is_never_our_fault(kind: type[LoomError]) -> None:
    """An error of the caller is told by a status of 4xx, or 503 when we are closing."""
    row = next(ROWS[each] for each in kind.__mro__ if each in ROWS)
    assert 400 <= row.status < 500 or row.status == 503


def test_who_must_wait_is_told_how_long() -> None:
    """A lease has what is left of it, a rate its seconds, and never less than one."""
    until = datetime.now(UTC) + timedelta(seconds=20)
    conflict = response_to(ClaimConflict("r", "w", until), "en")
    assert conflict.status_code == 409
    assert 18 <= int(conflict.headers["retry-after"]) <= 20
    past = response_to(ClaimConflict("r", "w", until - timedelta(hours=1)), "en")
    assert past.headers["retry-after"] == "1"
    limited = response_to(RateLimited("too often", retry_after=2.1), "en")
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
    assert response_to(RunMoved("moved"), "en").status_code == 409


def test_what_files_of_the_server_hold_is_not_told() -> None:
    """A fault of the configuration is 500, without its places."""
    problem = errors.Problem("/srv/loom.yaml", 3, "models", "a secret", {})
    said = told(errors.ConfigError([problem]), "en")
    assert said["status"] == 500
    assert "secret" not in str(said)
    assert row_of(InternalError("x")) == BROKEN


def test_nothing_of_http_is_imported_before_it_is_asked_for() -> None:
    """The library and the package of the API alone import no FastAPI; a missing one is named."""
    code = (
        "import sys, loom_ia, loom_ia.access.http\n"
        "from loom_ia.access import Loom\n"
        "assert not {'fastapi', 'starlette', 'uvicorn'} & set(sys.modules)\n"
        "sys.modules['fastapi'] = None\n"
        "try:\n"
        "    from loom_ia.access.http import create_app\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert 'pip install "loom-ia[http]"' in done.stdout
