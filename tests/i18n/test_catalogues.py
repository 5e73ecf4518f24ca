"""Everything that people read exists in every language, and errors are said in theirs."""

import gettext
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.core.errors import ConfigError, LoomError, Problem, UnknownAgent
from loom_ia.i18n import chosen, current, lines, render, speak, translate
from scripts.messages import po, sources

ROOT = Path(__file__).parents[2]
CATALOGUES = ROOT / "src" / "loom_ia" / "i18n"


def test_every_text_is_translated() -> None:
    """The catalogues hold every text of the sources, with its placeholders, and are compiled."""
    words = [sys.executable, "scripts/catalogue.py", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_check_sees_what_is_wrong(tmp_path: Path) -> None:
    """A missing text and other placeholders are told one by one; a text nobody says is no fault."""
    texts = ("one {a}", "two {b}", "three")
    (tmp_path / "one.py").write_text("".join(f"_({text!r})\n" for text in texts))
    found = sources.messages(tmp_path)
    known = {"one {a}": "un {a}", "two {b}": "deux {c}", "four": "quatre"}
    assert po.faults(known, found, "fr") == [
        f"{tmp_path.name}/one.py: no text in fr: 'three'",
        f"{tmp_path.name}/one.py: other placeholders in fr: 'two {{b}}'",
    ]


def test_texts_are_followed_to_where_they_are_written(tmp_path: Path) -> None:
    """Names, choices, sums and tables of texts are found; what cannot be followed is told."""
    (tmp_path / "two.py").write_text(
        "class LoomError(Exception):\n"
        "    def __init__(self, template, /, **params): ...\n"
        "class Mine(LoomError): ...\n"
        "TABLE = {1: 'in a table', 2: 'beside it'}\n"
        "def f(x, y):\n"
        "    template = 'a choice' if x else 'the other'\n"
        "    template += ', made longer'\n"
        "    Mine(template)\n"
        "    Mine(TABLE[x])\n"
        "    Mine('a' + ' sum')\n"
        "    Mine(y())\n"
    )
    found = sources.messages(tmp_path)
    assert found.texts == {
        "a choice",
        "the other",
        "a choice, made longer",
        "the other, made longer",
        "in a table",
        "beside it",
        "a sum",
    }
    assert found.unresolved == [f"{tmp_path.name}/two.py:11: the text of Mine cannot be followed"]


def test_a_catalogue_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Quotes, line breaks and accents survive the text form and the compiled one."""
    known = {'say "x"\n': "dire « x »\n", "back\\slash": "contre\\oblique", "untold": ""}
    assert po.read(po.write(known, {}, "fr")) == known
    (tmp_path / "fr.mo").write_bytes(po.compiled(known, "fr"))
    with (tmp_path / "fr.mo").open("rb") as file:
        said = gettext.GNUTranslations(file)
    assert [said.gettext(text) for text in known] == ["dire « x »\n", "contre\\oblique", "untold"]


@pytest.mark.parametrize(
    ("asked", "environ", "language"),
    [
        (None, {}, "en"),
        ("fr", {"LOOM_LANG": "en"}, "fr"),
        (None, {"LOOM_LANG": "fr", "LC_ALL": "en_US.UTF-8"}, "fr"),
        (None, {"LOOM_LANG": "", "LC_ALL": "fr_FR.UTF-8"}, "fr"),
        (None, {"LC_MESSAGES": "fr-CA", "LANG": "en_US"}, "fr"),
        (None, {"LC_ALL": "C.UTF-8", "LANG": "fr_FR.UTF-8"}, "en"),
        (None, {"LANG": "fr"}, "fr"),
        ("de", {"LANG": "fr"}, "en"),
    ],
)
def test_the_first_that_is_set_chooses(
    asked: str | None, environ: dict[str, str], language: str
) -> None:
    """The option wins over LOOM_LANG, which wins over the locale; English when none is known."""
    assert chosen(asked, environ) == language


def test_an_error_is_said_in_the_language_asked_for() -> None:
    """The template is translated, its parameters fill it, and words of ours are translated too."""
    error = UnknownAgent("there is no agent {agent!r}; agents: {agents}", agent="x", agents="none")
    assert render(error) == str(error)
    assert render(error, "fr") == "il n'y a pas d'agent 'x' ; agents : aucun"


def test_a_parameter_is_nobody_s_text() -> None:
    """What a user wrote is shown as it is, although a text of ours is the same."""
    error = LoomError("run {run_id} exists already", run_id="none")
    assert render(error, "fr") == "le run none existe déjà"


def test_a_configuration_error_has_a_line_for_each_problem() -> None:
    """Each line has its place, its key and its sentence, whichever of them are known."""
    error = ConfigError(
        [
            Problem("a.yaml", 3, "models[X].max", "this key is required", {}),
            Problem("a.yaml", None, "", "must be text, not {value}", {"value": 3}),
            Problem("", None, "tool(x)", "must not be empty", {}),
        ]
    )
    assert set(lines(error, "fr")) == {
        "a.yaml:3: models[X].max — cette clé est obligatoire",
        "a.yaml: doit être un texte, pas 3",
        "tool(x) — ne doit pas être vide",
    }
    assert set(lines(error, "en")) >= {"a.yaml:3: models[X].max — this key is required"}


def test_what_has_no_translation_is_said_in_english() -> None:
    """A template that no catalogue knows is filled as it is."""
    before = current()
    speak("fr")
    try:
        assert translate("no such text: {x}", x=1) == "no such text: 1"
        assert translate("{curly} stays") == "{curly} stays"
    finally:
        speak(before)
