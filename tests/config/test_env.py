"""The file of environment variables: which one, what it may hold, and what is never said."""

from pathlib import Path

import pytest

from loom_ia.config import EnvFile, load_env_file
from loom_ia.config.env import parse_env
from loom_ia.core.errors import ConfigError
from tests.config.projects import ROOT, Folder

LINES = [
    ("A=1", "1"),
    ("A=", ""),
    ("A=  ", ""),
    ("A = two words  ", "two words"),
    ("export A=1", "1"),
    ("  export\tA=1", "1"),
    ("A=x # comment", "x"),
    ("A= # comment", ""),
    ("A=x#y", "x#y"),
    ("A=#x", "#x"),
    ("A='x # y' # comment", "x # y"),
    ("A='$B ${B} \\n'", "$B ${B} \\n"),
    ("A=$B", "$B"),
    ('A="a\\nb\\t\\"c\\" \\\\ \\$B \\x"', 'a\nb\t"c" \\ $B \\x'),
    ('A="un\ndeux"', "un\ndeux"),
    ("A='un\r\ndeux'\r\n", "un\ndeux"),
    ("A=it's", "it's"),
    ("A=é=b", "é=b"),
    ("A=1\nA=2", "2"),
    ("# A=0\n\n\tA=1", "1"),
    ("\ufeffA=1", "1"),
]


@pytest.mark.parametrize(("text", "value"), LINES)
def test_a_line_gives_a_value(text: str, value: str) -> None:
    """Quotes, comments and blanks; nothing is interpolated."""
    assert parse_env(f"{text}\nZ=z".encode(), ".env") == {"A": value, "Z": "z"}
    assert parse_env(text.encode(), ".env")["A"] == value


FAULTS = [
    (b"A=1\nsecret\n", "e:2: this line is neither NAME=value nor a # comment"),
    (b"A='1\n2'\n1A=secret", "e:3: this line is neither NAME=value nor a # comment"),
    (b"A=1\nB='secret\nC=3\n", "e:2: the quote that opens here is never closed"),
    (b'A="secret\\"', "e:1: the quote that opens here is never closed"),
    (b"A='se\ncret' secret", "e:2: only a # comment may follow the closing quote"),
    (b"A=1\nB=secret\xe9\n", "e:2: the text is not in UTF-8; save the file in UTF-8"),
    (b"A=1\nB=se\0cret\n", "e:2: the control character U+0000 may not stand in a file"),
]


@pytest.mark.parametrize(("data", "said"), FAULTS)
def test_a_fault_has_a_file_and_a_line_and_shows_no_value(data: bytes, said: str) -> None:
    """Neither the message nor what it was raised from holds a part of the file."""
    with pytest.raises(ConfigError) as caught:
        parse_env(data, "e")
    assert str(caught.value) == said
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_defined_variable_wins_even_empty(folder: Folder) -> None:
    """What is in the environment is never changed."""
    folder.write(".env", "A=1\nB=2\nC=3\n")
    environ = {"A": "", "B": "b"}
    found = load_env_file(folder.path / "loom.yaml", environ=environ)
    assert found == EnvFile(".env", "sibling", ("C",), ("A", "B"))
    assert environ == {"A": "", "B": "b", "C": "3"}


def test_the_file_is_the_argument_then_the_key_then_the_sibling(folder: Folder) -> None:
    """Only one is read."""
    for name in (".env", "key.env", "argument.env"):
        folder.write(name, f"FROM={name}\n")

    def read(file: Path | None = None) -> str | None:
        environ: dict[str, str] = {}
        load_env_file(folder.path, file=file, environ=environ)
        return environ.get("FROM")

    assert read() == ".env"
    folder.write("loom.yaml", ROOT + "env_file: key.env\n")
    assert read() == "key.env"
    assert read(folder.path / "argument.env") == "argument.env"
    folder.write("loom.yaml", ROOT + "env_file:\n")
    assert read() == ".env"


def test_without_a_root_there_is_no_sibling(folder: Folder) -> None:
    """A `.env` that lies in any folder is not ours."""
    folder.write(".env", "A=1\n")
    (folder.path / "loom.yaml").unlink()
    environ: dict[str, str] = {}
    assert load_env_file(folder.path, environ=environ) is None
    assert environ == {}


def test_a_folder_called_env_is_left_alone(folder: Folder) -> None:
    """Some keep a Python environment there."""
    (folder.path / ".env").mkdir()
    assert load_env_file(folder.path, environ={}) is None


def test_a_named_file_that_is_missing_is_refused(folder: Folder) -> None:
    """At the key that names it, or under its own name."""
    folder.write("loom.yaml", ROOT + "env_file: absent.env\n")
    with pytest.raises(ConfigError) as caught:
        load_env_file(folder.path, environ={})
    assert str(caught.value) == (
        "loom.yaml:6: env_file — there is no file absent.env "
        "(env_file is relative to the folder of this file)"
    )
    with pytest.raises(ConfigError) as caught:
        load_env_file(folder.path, file="nowhere.env", environ={})
    assert str(caught.value) == "nowhere.env: there is no such file"
    with pytest.raises(ConfigError, match="the file cannot be read: "):
        load_env_file(folder.path, file=folder.path, environ={})


def test_a_root_that_cannot_be_read_is_left_to_the_loading(folder: Folder) -> None:
    """Its faults are told once, with all the others."""
    for text in ("version: [", "env_file: 3\n", "env_file: ''\n", "- a\n"):
        folder.write("loom.yaml", text)
        assert load_env_file(folder.path, environ={}) is None


def test_the_library_reads_no_file_by_itself(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a configuration looks at the environment only."""
    monkeypatch.delenv("LOOM_PROFILE", raising=False)
    folder.write(".env", "LOOM_PROFILE=prod\n")
    assert folder.load().profile.name is None
