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
