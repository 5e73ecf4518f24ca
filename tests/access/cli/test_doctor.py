"""What `loom doctor` shows of models, what it says to write, and that it never shows a key."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from loom_ia.core.model.models import Capabilities
from tests.access.cli.conftest import Desk, Outcome, Shell
from tests.access.cli.terminals import colours, on_terminal, plain
from tests.app.patients import Patient
from tests.providers.replies import Fails, Raw
from tests.providers.server import Provider

KEY = "sk-Zq8vXw3TnB5rLm7Y"
CONFIG = """\
version: 1
models:
  - {{id: FAUX, sdk: fake, model: fake-1}}
  - id: UN
    sdk: openai
    model: un-1
    base_url: {url}/v1
    api_key_env: DOCTOR_KEY
    pricing: {{input: 1, output: 2}}
    capabilities: {{vision: true, context_window: 8192}}
  - id: DEUX
    sdk: anthropic
    model: deux-1
    base_url: {url}
    retry: {{max_attempts: 1}}
"""
SHOWN = """\
UN — un-1, openai, {url}/v1
  ✔ answers                  in … s
  ✔ streams                  24 pieces, the first one after … s
  ✔ counts its tokens        30 tokens read, 40 written
  ✔ calls a tool             shelf_of({{"article": "B-12"}})
  ✔ reads its result
  ✔ makes two calls at once  2 calls in one answer
  ✔ calls when it must
  ✔ follows a schema         {{"name": "steel screw", "cents": 12}}
  – sees images              UN: HTTP 400: no vision
  ✔ shows its thoughts       thoughts came with the answers
Consumed   : 8 call(s), 210 tokens read, 280 written, $0.000770
Warning    : capabilities.vision is true, and the model was not seen to do it
Note       : capabilities.native_json is false, and the model can do it
Note       : capabilities.thinking is false, and the model can do it
To write under the model:
    capabilities:
      tools: true
      thinking: true
      native_json: true
      forced_tool_choice: true
      streaming: true
      context_window: 8192
      vision: false

"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that sees no images, in a thread: the command has a loop of its own."""
    with Provider.in_thread() as serving:
        serving.default(Patient(lacks=frozenset({"vision"})))
        yield serving


@pytest.fixture
def doctor(loom: Desk, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Give a project of three models, two of which are the provider's."""
    monkeypatch.setenv("DOCTOR_KEY", KEY)
    (loom.folder / "loom.yaml").write_text(CONFIG.format(url=provider.url), "utf-8")
    return loom


def _shown(done: Outcome) -> list[str]:
    """Leave out how long each thing took."""
    lines = done.out.splitlines()
    for number, line in enumerate(lines):
        head, after, _ = line.partition("after ")
        if after:
            lines[number] = f"{head}{after}… s"
        elif line.startswith("  ✔ answers"):
            lines[number] = f"{line.partition(' in ')[0]} in … s"
    return lines


def test_a_model_is_shown_question_by_question(doctor: Desk, provider: Provider) -> None:
    """In a pipe: one line for each question, what differs, and what to write; nothing else."""
    done = doctor("doctor", "UN")
    assert (done.code, done.err) == (0, "")
    assert _shown(done) == SHOWN.format(url=provider.url).splitlines()


def test_what_to_write_is_what_was_found(doctor: Desk) -> None:
    """The last lines are YAML that the configuration takes under the model."""
    done = doctor("doctor", "UN")
    block = yaml.safe_load(done.out.partition("model:\n")[2])
    written = Capabilities.model_validate(block["capabilities"])
    config = doctor.folder / "loom.yaml"
    text = config.read_text("utf-8")
    text = text.replace("{vision: true, context_window: 8192}", json.dumps(block["capabilities"]))
    config.write_text(text, "utf-8")
    assert written.native_json
    again = doctor("doctor", "UN").out
    assert "Note" not in again
    assert "Warning" not in again


def test_every_model_of_a_provider_is_asked(doctor: Desk, provider: Provider) -> None:
    """One that does not answer makes the code 1, and the others are asked all the same."""
    assert doctor("doctor").code == 0
    provider.default(Fails(401), path="/messages")
    done = doctor("doctor")
    assert done.code == 1
    assert [line for line in done.out.splitlines() if " — " in line] == [
        f"UN — un-1, openai, {provider.url}/v1",
        f"DEUX — deux-1, anthropic, {provider.url}",
    ]
    assert "  ✘ answers                  DEUX: HTTP 401: it fails with 401" in done.out
    assert "    → the server asks for a key: name its variable in api_key_env\n" in done.out
    assert doctor("doctor", "UN").code == 0
    assert doctor("doctor", "DEUX").code == 1


def test_json_is_one_document(doctor: Desk) -> None:
    """A list, also for one model, with texts in English."""
    done = doctor("--lang", "fr", "doctor", "UN", "--json")
    (found,) = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (found["model"], found["answers"], found["cost_usd"]) == ("UN", True, 0.00077)
    (vision,) = (probe for probe in found["probes"] if probe["name"] == "vision")
    assert vision == {
        "name": "vision",
        "outcome": "no",
        "detail": "UN: HTTP 400: no vision",
        "error": "invalid_request",
        "http_status": 400,
    }
    assert found["differences"][-1] == {
        "capability": "thinking",
        "declared": False,
        "found": True,
    }
    assert [m["model"] for m in json.loads(doctor("doctor", "--json").out)] == ["UN", "DEUX"]


@pytest.mark.parametrize("words", [(), ("--json",), ("--debug",), ("--lang", "fr")])
@pytest.mark.parametrize("key", [KEY, f"{KEY}\n"])
def test_a_key_is_never_shown(
    doctor: Desk,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    key: str,
) -> None:
    """The provider refuses it and says it again, masked or not; or no request can carry it."""
    masked = f"Incorrect API key provided: {KEY[:6]}***{KEY[-4:]}, not {KEY}"
    provider.default(Fails(401, {"error": {"message": masked}}))
    monkeypatch.setenv("DOCTOR_KEY", key)
    done = doctor("doctor", "UN", *words)
    assert done.code == 1
    shown = (done.out + done.err).casefold()
    assert [KEY[n : n + 4] for n in range(len(KEY) - 3) if KEY[n : n + 4].casefold() in shown] == []
    assert "doctor_key" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor", "TROIS"), "unknown model TROIS (declared models: FAUX, UN, DEUX)"),
        (("doctor", "UN", "DEUX"), "unrecognized arguments: DEUX"),
    ],
)
def test_a_model_that_is_not_there_is_refused(
    doctor: Desk, words: tuple[str, ...], said: str
) -> None:
    """It exits with 2, and those that are there are listed."""
    done = doctor(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("[{id: FAUX, sdk: fake, model: f}]", "name a fake to check it: FAUX"),
        ("[]", "no model is declared: add it under models"),
    ],
)
def test_there_is_nothing_to_ask(loom: Desk, models: str, said: str) -> None:
    """Fakes are asked only by their name."""
    (loom.folder / "loom.yaml").write_text(f"version: 1\nmodels: {models}\n", "utf-8")
    done = loom("doctor")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_fake_is_asked_by_its_name(doctor: Desk, provider: Provider) -> None:
    """Nothing goes to anybody."""
    done = doctor("doctor", "FAUX")
    assert done.code == 0
    assert done.out.startswith("FAUX — fake-1, fake\n  ✔ answers ")
    assert provider.requests == []


AGENT = "name: a\nmain: {model: UN, system: s}\ntools: [{python: nowhere}]\n"


@pytest.mark.parametrize("case", ["no folder", "broken tools", "no agent"])
def test_agents_do_not_matter(doctor: Desk, case: str) -> None:
    """Their folder may be missing, their tools broken: the model is asked all the same."""
    config, agents = doctor.folder / "loom.yaml", doctor.folder / "agents"
    if case != "no folder":
        agents.mkdir()
    if case == "broken tools":
        config.write_text(f"imports: [outils]\n{config.read_text('utf-8')}", "utf-8")
        (doctor.folder / "outils.py").write_text("raise RuntimeError('broken')\n", "utf-8")
        (agents / "a.yaml").write_text(AGENT, "utf-8")
    assert doctor("validate").code == (0 if case == "no agent" else 2)
    done = doctor("doctor", "UN")
    assert (done.code, done.err) == (0, "")
    assert "✔ answers" in done.out
    assert not (doctor.folder / "data").exists()


def test_a_configuration_that_is_wrong_is_refused(doctor: Desk) -> None:
    """With the places, also when the folder of agents is missing too."""
    config = doctor.folder / "loom.yaml"
    config.write_text(f"{config.read_text('utf-8')}    timeout: 3\n", "utf-8")
    done = doctor("doctor")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "loom.yaml:16: models[DEUX].timeout — unknown key (did you mean timeouts?)\n"
    )


def test_the_profile_and_the_file_of_variables_count(
    doctor: Desk, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every command, with a folder of agents or without."""
    monkeypatch.delenv("DOCTOR_KEY")
    config = doctor.folder / "loom.yaml"
    profile = "profiles: {prod: {models: [{id: TROIS, sdk: openai, model: t, api_key_env: K}]}}\n"
    config.write_text(config.read_text("utf-8") + profile, "utf-8")
    (doctor.folder / ".env").write_text(f"DOCTOR_KEY={KEY}\n", "utf-8")
    assert doctor("doctor", "UN").code == 0
    assert provider.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    done = doctor("--profile", "prod", "doctor")
    assert done.code == 1
    assert done.out.startswith("TROIS — t, openai, the official address\n  ✘ answers ")
    assert "the variable K is not defined, or is empty" in done.out
    assert "the variable DOCTOR_KEY is not defined" in doctor("--no-env-file", "doctor", "UN").out


def test_a_terminal_has_colours(doctor: Desk, provider: Provider) -> None:
    """Green, red and yellow, and the same lines as in a pipe; what was drawn meanwhile is gone."""
    code, written = on_terminal(doctor.folder, "doctor", "UN", env={"DOCTOR_KEY": KEY})
    assert code == 0
    assert {"\x1b[32m", "\x1b[33m"} <= colours(written)
    shown = plain(written)
    assert "  ✔ calls when it must\n" in shown
    assert "  – sees images              UN: HTTP 400: no vision\n" in shown
    assert "asking UN" in shown
    provider.default(Raw([b"<p>hello</p>"], headers={"content-type": "text/html"}))
    code, written = on_terminal(doctor.folder, "doctor", "UN", env={"DOCTOR_KEY": KEY})
    assert code == 1
    assert "\x1b[31m  ✘ answers " in written
    assert "what came is no answer of a model, but a document of type text/html" in plain(written)


def test_what_a_server_says_commands_no_terminal(doctor: Desk, provider: Provider) -> None:
    """Control characters are escaped."""
    provider.default(Fails(400, {"error": {"message": "no \x1b[2J \u202e model"}}))
    done = doctor("doctor", "UN")
    assert "\\x1b[2J \\u202e model" in done.out
    assert "\x1b" not in done.out


def test_a_process_of_its_own_says_the_same(doctor: Desk, provider: Provider) -> None:
    """As a user types it, from another folder."""
    shell = Shell(doctor.folder.parent, env={"DOCTOR_KEY": KEY})
    done = shell.run("--config", str(Path(doctor.folder.name) / "loom.yaml"), "doctor", "UN")
    assert (done.code, done.err) == (0, "")
    assert _shown(done) == SHOWN.format(url=provider.url).splitlines()
