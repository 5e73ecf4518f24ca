"""`loom keys create` shows a key once, and says what to write of it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from loom_ia.access.cli.keys import expiry
from loom_ia.assembly.api_keys import key_ring
from loom_ia.config import load_config
from loom_ia.core.errors import CallerError
from loom_ia.tenancy.keys import digest_of
from tests.access.cli.conftest import Desk

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def _fragment(err: str) -> str:
    return err[err.index("security:") :]


def test_h14_the_key_is_shown_once_and_the_fragment_holds_its_digest(loom: Desk) -> None:
    """Standard output is the key alone; what is pasted opens the door to it."""
    done = loom("keys", "create", "app", "--scope", "run", "--agent", "echo", "--expires", "90j")
    assert done.code == 0
    assert re.fullmatch(r"lk_[\w-]{43}\n", done.out)
    secret = done.out.strip()
    assert secret not in done.err
    assert done.err.count("sha256:") == 1
    assert not [f for f in loom.folder.rglob("*") if f.is_file() and secret in f.read_text()]
    with (loom.folder / "loom.yaml").open("a") as file:
        file.write(_fragment(done.err))
    config = load_config(loom.folder).config
    assert config.security.api_keys[0].hash == digest_of(secret)
    visitor = key_ring(config).visitor(secret)
    assert (visitor.name, visitor.scopes, visitor.agents) == ("app", {"run"}, {"echo"})


def test_a_second_key_is_written_after_the_first(loom: Desk) -> None:
    """The section is not repeated, which YAML would refuse."""
    with (loom.folder / "loom.yaml").open("a") as file:
        file.write(_fragment(loom("keys", "create", "un").err))
    done = loom("keys", "create", "deux", "--rate-limit", "60")
    assert "security:" not in done.err
    with (loom.folder / "loom.yaml").open("a") as file:
        file.write(done.err[done.err.index("    - id") :])
    keys = load_config(loom.folder).config.security.api_keys
    assert [key.id for key in keys] == ["un", "deux"]
    assert keys[1].rate_limit is not None
    assert keys[1].rate_limit.per_minute == 60


def test_json_holds_the_key_and_the_entry(loom: Desk) -> None:
    """A program reads one document."""
    done = loom("keys", "create", "app", "--expires", "2999-01-08", "--json")
    assert done.err == ""
    document = json.loads(done.out)
    assert document["entry"] == {
        "id": "app",
        "hash": digest_of(document["key"]),
        "scopes": ["run", "read"],
        "expires": "2999-01-08T00:00:00Z",
    }


@pytest.mark.parametrize("name", ["123", "true", "1e5", "null", "a.b_c-d"])
def test_any_id_is_text_once_it_is_pasted(loom: Desk, name: str) -> None:
    """An id that YAML would take for a number is quoted."""
    done = loom("keys", "create", name)
    assert yaml.safe_load(_fragment(done.err))["security"]["api_keys"][0]["id"] == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a b",), "cannot be the id of a key"),
        (("",), "cannot be the id of a key"),
        (("a", "--agent", "inconnu"), "there is no agent 'inconnu'; agents: un, deux"),
        (("a", "--tenant", "dupont"), "only default is served in this version"),
        (("a", "--rate-limit", "0"), "--rate-limit is between 1 and 100000, not 0"),
        (("a", "--expires", "demain"), "not demain"),
        (("a", "--expires", "0d"), "is over already"),
        (("a", "--expires", "2020-01-01"), "is over already"),
        (("a", "--expires", "2999-01-01T10:00"), "write 2999-01-01T10:00Z"),
        (("a", "--expires", "999999999d"), "not 999999999d"),
        (("a", "--expires", "2999-02-30"), "not 2999-02-30"),
        (("a", "--scope", "tout"), "invalid choice: 'tout'"),
        (("a", "--config", "nowhere.yaml"), "there is no such file"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_shown(
    loom: Desk, words: tuple[str, ...], said: str
) -> None:
    """Exit code 2, the reason, and no key."""
    done = loom("keys", "create", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_an_id_that_is_declared_is_refused(loom: Desk) -> None:
    """Two keys of one id could not be told apart in the journal."""
    with (loom.folder / "loom.yaml").open("a") as file:
        file.write(_fragment(loom("keys", "create", "app").err))
    done = loom("keys", "create", "app")
    assert (done.code, done.out) == (2, "")
    assert "the key app is declared already" in done.err


def test_deciding_without_seeing_is_warned_about(loom: Desk) -> None:
    """`approve` alone is accepted, with a warning; with `read_content` nothing is said."""
    warned = loom("keys", "create", "a", "--scope", "approve")
    assert warned.code == 0
    assert "approve without read_content" in warned.err
    quiet = loom("keys", "create", "a", "--scope", "approve", "--scope", "read_content")
    assert "Warning" not in quiet.err


def test_a_key_is_made_without_a_configuration(loom: Desk) -> None:
    """Where there is none, no name is checked."""
    (loom.folder / "loom.yaml").unlink()
    done = loom("keys", "create", "a", "--agent", "whoever")
    assert (done.code, "Warning" in done.err) == (0, False)


def test_a_configuration_that_lacks_a_key_does_not_keep_one_from_being_made(loom: Desk) -> None:
    """MCP over HTTP is refused without a key: the first one is made all the same."""
    with (loom.folder / "loom.yaml").open("a") as file:
        file.write("server: {mcp: {http: true}}\n")
    done = loom("keys", "create", "a")
    assert (done.code, done.out[:3]) == (0, "lk_")
    assert "no name was checked" in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90j", NOON + timedelta(days=90)),
        ("90d", NOON + timedelta(days=90)),
        ("12H", NOON + timedelta(hours=12)),
        ("30m", NOON + timedelta(minutes=30)),
        ("2027-01-08", datetime(2027, 1, 8, tzinfo=UTC)),
        ("2027-01-08T09:00:00+02:00", datetime(2027, 1, 8, 7, tzinfo=UTC)),
        ("2027-01-08t09:00:00.5z", datetime(2027, 1, 8, 9, tzinfo=UTC)),
    ],
)
def test_when_a_key_expires(text: str, expected: datetime) -> None:
    """A span counts from now, a date is midnight in UTC, an instant is what it says."""
    assert expiry(text, NOON) == expected


@pytest.mark.parametrize("text", ["", "d", "-1d", "1.5d", "1w", "2027-1-8", "0m", "1d1h"])
def test_what_is_no_expiry_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(CallerError):
        expiry(text, NOON)


def test_the_help_is_in_both_languages(loom: Desk, tmp_path: Path) -> None:
    """`--help` names every option."""
    for language in ("en", "fr"):
        done = loom("--lang", language, "keys", "create", "--help")
        assert done.code == 0
        for option in ("--scope", "--agent", "--tenant", "--expires", "--rate-limit", "--json"):
            assert option in done.out
