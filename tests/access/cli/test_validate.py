"""What `loom validate` shows of a configuration, in both languages."""
# ruff: noqa: E501 (an exact message reads best on one line)

from pathlib import Path

import pytest

from tests.access.cli.conftest import Desk

PROJECT = """\
version: 1
models:
  - id: SIMULE
    sdk: fake
    model: fake-1
agents:
  - {name: devis, main: {model: SIMULE, system: s}}
  - {name: relance, main: {model: SIMULE, system: s}}
storage:
  events: {backend: jsonl, path: data}
  artifacts: {path: fichiers}
language: en
profiles:
  prod:
    language: fr
    storage:
      events: {path: prod}
    telemetry: {logging: {format: json}}
"""
FULL_EN = """\
Config     : loom.yaml
Env        : .env (2 variable(s), already defined: LOOM_TEST_B)
Profile    : prod (--profile); overrides: 3
  loom.yaml:15: language — "en" → "fr"
  loom.yaml:17: storage.events.path — "data" → "prod"
  loom.yaml:18: telemetry.logging.format — "console" → "json"
Models     : SIMULE
Agents     : devis, relance
Tools      : none
Journal    : jsonl (prod)
Artifacts  : local (fichiers)
Telemetry  : logs INFO, json
  devis : model SIMULE, 0 Python tool(s)
  relance : model SIMULE, 0 Python tool(s)

Warning    : .env: in the prod profile, define these variables outside of a file: LOOM_TEST_A
2 agent(s) mounted without error, 1 warning(s).
"""
FULL_FR = """\
Config     : loom.yaml
Env        : .env (2 variable(s), déjà définies : LOOM_TEST_B)
Profil     : prod (--profile) ; surcharges : 3
  loom.yaml:15: language — "en" → "fr"
  loom.yaml:17: storage.events.path — "data" → "prod"
  loom.yaml:18: telemetry.logging.format — "console" → "json"
Modèles    : SIMULE
Agents     : devis, relance
Outils     : aucun
Journal    : jsonl (prod)
Fichiers   : local (fichiers)
Télémétrie : logs INFO, json
  devis : modèle SIMULE, 0 outil(s) Python
  relance : modèle SIMULE, 0 outil(s) Python

Attention  : .env: en profil prod, définissez ces variables ailleurs que dans un fichier : LOOM_TEST_A
2 agent(s) monté(s) sans erreur, 1 avertissement(s).
"""


@pytest.fixture
def project(loom: Desk) -> Path:
    """Write a project with profiles in the folder where the command is run."""
    (loom.folder / "loom.yaml").write_text(PROJECT, "utf-8")
    return loom.folder


@pytest.mark.parametrize(("lang", "shown"), [("en", FULL_EN), ("fr", FULL_FR)])
def test_b15_everything_that_was_understood_is_shown(
    loom: Desk, project: Path, lang: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each overridden key with its place and both values, each part, each agent, each warning."""
    monkeypatch.setenv("LOOM_TEST_B", "")
    (project / ".env").write_text("LOOM_TEST_A=secret\nLOOM_TEST_B=secret\n")
    done = loom("--profile", "prod", "--lang", lang, "validate")
    assert (done.code, done.out, done.err) == (0, shown, "")


def test_b15_without_a_change_there_is_no_override(loom: Desk, project: Path) -> None:
    """No profile, or one that says nothing here."""
    assert "overrides: none\nModels" in loom("validate").out
    done = loom("--profile", "dev", "validate")
    assert "Profile    : dev (--profile); overrides: none\nModels" in done.out
    assert done.out.endswith("\n\n2 agent(s) mounted without error.\n")


def test_b15_a_long_value_is_cut(loom: Desk, project: Path) -> None:
    """A list that is replaced is told on one line."""
    text = PROJECT.replace("language: fr", f"imports: [{', '.join(['json'] * 30)}]")
    (project / "loom.yaml").write_text(text, "utf-8")
    lines = loom("--profile", "prod", "validate").out.splitlines()
    (line,) = (line for line in lines if "imports" in line)
    assert line.startswith('  loom.yaml:15: imports — [] → ["json", "json", ')
    assert line.endswith("…")
    assert len(line) < 100


def test_b8_the_profile_may_come_from_the_environment_file(loom: Desk, project: Path) -> None:
    """The file is read before the configuration; the option still wins."""
    (project / ".env").write_text("LOOM_PROFILE=prod\n")
    assert "Profile    : prod (LOOM_PROFILE); overrides: 3\n" in loom("validate").out
    assert "Profile    : dev (--profile)" in loom("--profile", "dev", "validate").out


def test_b12_the_dev_profile_accepts_and_warns(loom: Desk) -> None:
    """An agent that may pause on a journal in memory: refused, refused, accepted with a warning."""
    config = loom.folder / "loom.yaml"
    text = config.read_text("utf-8").replace("{backend: jsonl, path: data}", "{}")
    config.write_text(text, "utf-8")
    assert loom("validate").code == loom("--profile", "prod", "validate").code == 2
    done = loom("--profile", "dev", "validate")
    assert done.code == 0
    warnings = [line for line in done.out.splitlines() if line.startswith("Warning    : ")]
    assert len(warnings) == 2
    assert "agents[un].tools[0].python — envoyer may wait for a human" in warnings[0]
    assert "or the dev profile" not in done.out
    assert done.out.endswith("5 agent(s) mounted without error, 2 warning(s).\n")


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        (
            "en",
            "Warning    : there is no agent (write bots/<name>.yaml, or a first project with loom init)\n",
        ),
        (
            "fr",
            "Attention  : il n'y a aucun agent (écrivez bots/<name>.yaml, ou un premier projet avec loom init)\n",
        ),
    ],
)
def test_a_project_without_agent_is_told(loom: Desk, lang: str, said: str) -> None:
    """A folder of agents that is empty is sound, and a warning says what to write there."""
    (loom.folder / "bots").mkdir()
    (loom.folder / "loom.yaml").write_text("version: 1\nagents_dir: bots\n", "utf-8")
    done = loom("--lang", lang, "validate")
    assert (done.code, done.err) == (0, "")
    assert said in done.out
    assert done.out.splitlines()[-1].startswith("0 agent(s) m")


FAULTY = """\
version: 1
models:
  - id: SIMULE
    sdk: fake
    model: fake-1
    params:
      script:
        - text: un
        - txt: deux
          tool_calls:
            - name: prix_ttc
            - {name: prix_ttc, args: {}}
        - text: 3
agents: [{name: devis, main: {model: SIMULE, system: s}}]
"""


def test_a_fault_of_a_script_has_the_line_of_its_reply(loom: Desk) -> None:
    """Each fault is where it was written, not at the model."""
    (loom.folder / "loom.yaml").write_text(FAULTY)
    done = loom("validate")
    assert done.code == 2
    first, second, third = done.err.splitlines()
    assert first.startswith("loom.yaml:9: models[SIMULE].params.script[1].txt — unknown key")
    assert second.startswith("loom.yaml:12: models[SIMULE].params.script[1].tool_calls[1].args — ")
    assert third.startswith("loom.yaml:13: models[SIMULE].params.script[2].text — ")


DOORS = f"""\
server: {{mcp: {{http: true}}, http: {{base_path: /ia}}}}
security:
  api_keys:
    - {{id: app, hash: 'sha256:{"a" * 64}', agents: [devis], rate_limit: {{per_minute: 60}}}}
    - {{id: vieille, hash: 'sha256:{"b" * 64}', expires: '2020-01-08T00:00:00Z', scopes: [run]}}
    - {{id: crm, hash: 'sha256:{"c" * 64}', expires: '2999-01-08T00:00:00Z', scopes: [run]}}
triggers:
  - {{name: devis-signe, agent: relance, message: m, delivery_header: X-Id, secret_env: LOOM_TEST_S}}
  - {{name: tournee, agent: relance, message: m}}
"""
DOORS_EN = """\
API keys   : app (run, read; for devis; 60 a minute), vieille (run; expired on 2020-01-08), crm (run; until 2999-01-08)
MCP HTTP   : /ia/mcp
Triggers   : devis-signe → relance (X-Id, signed), tournee → relance
"""


def test_keys_and_doors_are_shown_and_expired_keys_told(
    loom: Desk, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key says what it may do, each trigger what it begins; no digest is shown."""
    monkeypatch.setenv("LOOM_TEST_S", "secret")
    with (project / "loom.yaml").open("a") as file:
        file.write(DOORS)
    done = loom("validate")
    assert done.code == 0
    assert DOORS_EN in done.out
    assert "the key vieille has expired" in done.out
    assert done.out.endswith("2 agent(s) mounted without error, 1 warning(s).\n")
    assert "aaaa" not in done.out + done.err
    assert "secret" not in done.out


def test_a_secret_that_is_not_there_is_a_fault(loom: Desk, project: Path) -> None:
    """A trigger whose senders sign cannot be served without its secret."""
    with (project / "loom.yaml").open("a") as file:
        file.write(DOORS)
    done = loom("validate")
    assert done.code == 2
    assert "triggers[devis-signe].secret_env — the variable LOOM_TEST_S is not defined" in done.err


def test_b11_doors_without_a_key_are_warned_about(loom: Desk, project: Path) -> None:
    """Where something is said of doors, that they are open is told; in prod it is a fault."""
    with (project / "loom.yaml").open("a") as file:
        file.write("server: {http: {port: 9000}}\n")
    assert "security.api_keys — without an API key" in loom("validate").out
    assert loom("--profile", "prod", "validate").code == 2
