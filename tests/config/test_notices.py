"""What is said of notices is checked when it is loaded, and what a machine lacks when it serves."""
# ruff: noqa: E501 (an exact message reads best on one line)

from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.core.errors import ConfigError
from loom_ia.tools import ToolDefinitionError, tool
from tests.config.projects import ROOT, Folder

SOUND = """\
notices:
  public_url: https://agents.example.org/loom
  secret_env: LINKS
  previous_secret_env: OLD_LINKS
  targets:
    - {name: chef, command: [mail, -s, "À décider"]}
    - {name: chat, url: 'https://chat.example.org/x', headers_env: {Authorization: TOKEN}, secret_env: HOOK}
"""
LONG = "drawn at random, long enough"
HERE = {"LINKS": LONG, "HOOK": LONG, "TOKEN": "Bearer abc"}


def _with(folder: Folder, text: str) -> None:
    folder.write("loom.yaml", ROOT + text)


def test_sound_notices_are_loaded(folder: Folder) -> None:
    """A program and a webhook, with links that two secrets may have signed."""
    _with(folder, SOUND)
    loaded = folder.load()
    assert [target.name for target in loaded.config.notices.targets] == ["chef", "chat"]
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "notices: {public_url: 'https://x.test'}\n",
            "loom.yaml:6: notices.public_url — links must be signed (add secret_env, the name of a variable)",
        ),
        (
            "notices: {previous_secret_env: OLD}\n",
            "loom.yaml:6: notices.previous_secret_env — there is no secret that this one came before (add secret_env)",
        ),
        (
            "notices: {targets: [{name: n, command: [a], secret_env: S}]}\n",
            "loom.yaml:6: notices.targets[n].secret_env — secret_env is for a webhook (remove it)",
        ),
        (
            "notices: {targets: [{name: n, url: 'https://:0'}]}\n",
            "loom.yaml:6: notices.targets[n].url — this is no address that can be called",
        ),
        (
            "notices: {targets: [{name: n, command: ['']}]}\n",
            "loom.yaml:6: notices.targets[n].command — it begins with the name of a program",
        ),
    ],
)
def test_what_means_nothing_together_is_refused(folder: Folder, text: str, problem: str) -> None:
    """Each fault has its place."""
    _with(folder, text)
    assert problem in folder.problems()


@pytest.mark.parametrize("url", ["http://chat.example.org/x", "http://10.0.0.7/x"])
def test_prod_refuses_what_can_be_read_on_its_way(folder: Folder, url: str) -> None:
    """Elsewhere it is a warning; loopback is not on any way."""
    _with(folder, f"notices: {{targets: [{{name: n, url: '{url}'}}]}}\n")
    said = "what is sent there can be read on its way (write https://)"
    assert [warning.template for warning in folder.load().warnings] == [said]
    with pytest.raises(ConfigError, match="can be read on its way"):
        folder.load(profile="prod")
    _with(folder, "notices: {targets: [{name: n, url: 'http://127.0.0.1:9/x'}]}\n")
    assert folder.load().warnings == ()


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ({"LINKS": ""}, "notices.secret_env — the variable LINKS is not defined, or is too short"),
        ({"LINKS": "short"}, "notices.secret_env — the variable LINKS is not defined"),
        ({"HOOK": ""}, "secret_env — the variable HOOK is not defined"),
        ({"TOKEN": ""}, "headers_env.Authorization — the variable TOKEN is not defined"),
        ({"TOKEN": "a\nb"}, "the variable TOKEN holds what no header can"),
        ({"OLD_LINKS": "short"}, "the variable OLD_LINKS is not defined, or is too short"),
    ],
)
def test_what_a_machine_lacks_is_told_when_it_serves(
    folder: Folder, lacking: dict[str, str], said: str
) -> None:
    """Validating needs no secret; working does, and each variable is named."""
    _with(folder, SOUND)
    loaded = folder.load(environ={**HERE, **lacking})
    with pytest.raises(ConfigError) as refused:
        Loom(loaded).mount()
    assert said in str(refused.value)
    Loom(folder.load(environ=HERE)).mount()


# -- the sentence of a tool -----------------------------------------------------------------------


def test_a_sentence_about_an_argument_that_is_not_there() -> None:
    """The tool says so when it is asked what it is, naming the argument and those that exist."""

    @tool(notice="Envoyer à {{ destinatiare }}")
    def envoyer(destinataire: str) -> str:
        """Envoie."""
        return destinataire

    with pytest.raises(ToolDefinitionError, match="destinatiare is no argument of the tool"):
        _ = envoyer.spec


def test_a_sentence_that_cannot_be_read() -> None:
    """Only names stand between braces."""

    @tool(notice="Envoyer à {{ a | upper }}")
    def envoyer(a: str) -> str:
        """Envoie."""
        return a

    with pytest.raises(ToolDefinitionError, match="is not a variable"):
        _ = envoyer.spec


@pytest.mark.parametrize(
    ("notice", "said"),
    [
        ("Envoyer {{ prix }}", "prix is no argument of the tool (its arguments: montant)"),
        ("Envoyer {{ prix", "is not closed on its line"),
    ],
)
def test_a_sentence_of_the_configuration_is_checked(
    folder: Folder, tmp_path: Path, notice: str, said: str
) -> None:
    """It is held against the schema of the tool, at its place in the file of the agent."""
    folder.write(
        "outils_d_avis.py",
        "from loom_ia.tools import tool\n\n\n@tool\ndef envoyer(montant: float) -> str:\n"
        '    """Envoie."""\n    return ""\n',
    )
    agent = f"name: b\nmain: {{model: HAIKU, system: s}}\ntools:\n  - python: envoyer\n    notice: '{notice}'\n"
    folder.write("agents/b.yaml", agent)
    _with(folder, "imports: [outils_d_avis]\n")
    with pytest.raises(ConfigError) as refused:
        folder.load(references=True)
    assert "agents/b.yaml:5: tools[0].notice — " in str(refused.value)
    assert said in str(refused.value)
