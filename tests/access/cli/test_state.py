"""`loom run --state` and `loom state`: values of a session, from the command line."""

import json

import pytest

from tests.access.cli.conftest import Desk

AGENT = """\
name: accueil
main: {model: ECHO, system: Aide., context: [session_state]}
state:
  client: {schema: {type: object, required: [id]}}
  ton: {schema: {enum: [tu, vous]}, default: vous}
  note: {}
"""


@pytest.fixture
def desk(loom: Desk) -> Desk:
    """Give a project whose agent `accueil` keeps values."""
    (loom.folder / "agents").mkdir()
    (loom.folder / "agents" / "accueil.yaml").write_text(AGENT, "utf-8")
    return loom


def begin(desk: Desk, *words: str) -> tuple[int, str]:
    """Run the agent in the session `s`."""
    said = desk("run", "accueil", "bonjour", "--session", "s", *words)
    return said.code, said.err


def values(desk: Desk) -> dict[str, object]:
    """Read what the session keeps."""
    found = json.loads(desk("state", "s", "--json").out)
    return {entry["key"]: entry["value"] for entry in found}


def test_a_value_is_json_or_else_text(desk: Desk) -> None:
    """What can be read as JSON is; null erases; an equals sign may be in the value."""
    assert begin(desk, "--state", 'client={"id": 7}', "--state", "note=a=b")[0] == 0
    assert values(desk) == {"client": {"id": 7}, "note": "a=b"}
    assert begin(desk, "--state", "note=null", "--state", 'ton="tu"')[0] == 0
    assert values(desk) == {"client": {"id": 7}, "ton": "tu"}
    assert begin(desk, "--state", "note=NaN")[0] == 0
    assert values(desk)["note"] == "NaN"


def test_the_values_are_shown_with_who_wrote_them(desk: Desk) -> None:
    """One line each, by key."""
    begin(desk, "--run-id", "r1", "--state", "ton=tu", "--state", "note=[1, 2]")
    assert desk("state", "s").out.splitlines() == [
        "key   value   written by  run",
        "note  [1, 2]  the caller  r1",
        'ton   "tu"    the caller  r1',
    ]


def test_a_session_without_values_says_so(desk: Desk) -> None:
    """Nothing on standard output, and a sentence beside it."""
    begin(desk)
    said = desk("state", "s")
    assert (said.code, said.out, said.err) == (0, "", "This session keeps no value.\n")


def test_an_unknown_session_is_refused(desk: Desk) -> None:
    """Its id is told, with code 2."""
    said = desk("state", "nowhere")
    assert said.code == 2
    assert "there is no session nowhere" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--state", "client"), "--state takes KEY=VALUE, not client"),
        (("--state", "=1"), "--state takes KEY=VALUE, not =1"),
        (("--state", "note=1", "--state", "note=2"), "--state gives note twice"),
        (("--state", "ton=il"), "state.ton — it does not fit its schema, 'il' is not one of"),
        (("--state", "nom=x"), "state.nom — agent accueil declares no such key"),
        (("--state", "note=" + "x" * 1100), "state.note — it is too large: 1102 > 1024 bytes"),
        (("--state", "note=" + "[" * 100 + "]" * 100), "state.note — it cannot be kept"),
        (("--state", "note=" + "[" * 100_000), "state.note — it is too large"),
        (("--state", "note=" + "9" * 5000), "state.note — it is too large"),
    ],
    ids=map(str, range(9)),
)
def test_what_cannot_be_kept_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    """Code 2 promises that nothing was begun, and nothing was."""
    code, err = begin(desk, *words)
    assert code == 2
    assert said in err
    assert desk("state", "s").code == 2


def test_a_stream_takes_a_state_too(desk: Desk) -> None:
    """`--stream` begins the run with the values."""
    assert begin(desk, "--stream", "--state", "ton=tu")[0] == 0
    assert values(desk) == {"ton": "tu"}
