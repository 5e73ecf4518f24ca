"""The modules next to a configuration are its own."""

import compileall
import importlib
import json
import pickle
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loom_ia.config.siblings import Siblings
from tests.config.projects import ROOT, Folder

OUTILS = """\
from __future__ import annotations

import os.path, outils2, json
import paquet.dedans
import paquet.dedans as direct
from dataclasses import dataclass
from importlib import import_module
from outils2 import *
from paquet import dedans as aussi
from paquet.dedans import MARQUE as LA_MIENNE

@dataclass
class Devis:
    numero: int

def chemins():
    return [outils2.MARQUE, json.MARQUE, paquet.dedans.MARQUE, direct.MARQUE, aussi.MARQUE,
            LA_MIENNE, MARQUE, paquet.dedans.outils.NOM, os.path.sep]

def plus_tard():
    import tardif
    from paquet.profond.fond import MARQUE
    assert import_module(".tardif", __package__) is tardif
    return [tardif.MARQUE, MARQUE]

def casse():
    raise ValueError("cassé")

NOM = "outils"
"""


def project(path: Path, mark: str) -> Path:
    """Write a project whose modules all bear `mark`."""
    files = {
        "outils.py": OUTILS,
        "outils2.py": f"MARQUE = {mark!r}\nimport outils\n",
        "tardif.py": f"MARQUE = {mark!r}\n",
        "json.py": f"MARQUE = {mark!r}\n",
        "paquet/__init__.py": "",
        "paquet/dedans.py": "import outils\nfrom . import autre\nfrom .autre import MARQUE\n",
        "paquet/autre.py": f"MARQUE = {mark!r}\n",
        "paquet/profond/fond.py": f"MARQUE = {mark!r}\n",
        "yaml/donnees.txt": "",
        "donnees/module.py": f"MARQUE = {mark!r}\n",
    }
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Siblings, Siblings]]:
    """Two projects with modules of the same names, loaded in one process."""
    pair = (Siblings(project(tmp_path / "a", "A")), Siblings(project(tmp_path / "b", "B")))
    yield pair
    for siblings in pair:
        siblings.close()


def test_two_configurations_keep_their_own_modules(two: tuple[Siblings, Siblings]) -> None:
    """Every way to write an import leads to the neighbour, and to nobody else's."""
    for siblings, mark in zip(two, "AB", strict=True):
        outils: Any = siblings.import_module("outils")
        assert outils.chemins() == [mark] * 7 + ["outils", "/"]
    assert "outils" not in sys.modules


def test_an_import_inside_a_function_finds_the_neighbour_later(
    two: tuple[Siblings, Siblings],
) -> None:
    """The other configuration may have been loaded, and used, in the meantime."""
    modules: list[Any] = [siblings.import_module("outils") for siblings in two]
    assert [module.plus_tard() for module in modules] == [["A", "A"], ["B", "B"]]


def test_a_neighbour_hides_the_standard_module_from_its_folder_only(
    two: tuple[Siblings, Siblings],
) -> None:
    """Everybody else still gets the standard one."""
    mine: Any = two[0].import_module("json")
    assert mine.MARQUE == "A"
    assert sys.modules["json"] is json
    assert importlib.import_module("json").dumps({}) == "{}"


def test_a_folder_of_data_hides_no_package(two: tuple[Siblings, Siblings]) -> None:
    """A folder without __init__.py is a package only when nothing else has its name."""
    mine: Any = two[0].import_module("donnees.module")
    assert mine.MARQUE == "A"
    assert hasattr(two[0].import_module("yaml"), "safe_load")


def test_objects_of_a_neighbour_can_be_pickled(two: tuple[Siblings, Siblings]) -> None:
    """A class comes back as the class of its own configuration."""
    for siblings in two:
        outils: Any = siblings.import_module("outils")
        value = outils.Devis(3)
        copy = pickle.loads(pickle.dumps(value))
        assert copy == value
        assert type(copy) is outils.Devis


def test_a_traceback_shows_the_users_file_and_line(two: tuple[Siblings, Siblings]) -> None:
    """The compiled module is the one that was written."""
    outils: Any = two[1].import_module("outils")
    with pytest.raises(ValueError, match="cassé") as caught:
        outils.casse()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (
        str(two[1].folder / "outils.py"),
        'raise ValueError("cassé")',
    )


def test_no_bytecode_is_left_in_the_folder(
    two: tuple[Siblings, Siblings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled for one configuration would be wrong for a plain import."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    two[0].import_module("outils")
    assert not list(two[0].folder.rglob("*.pyc"))


def test_bytecode_of_a_plain_import_is_not_used(two: tuple[Siblings, Siblings]) -> None:
    """It imports neighbours under their plain names, where there are none."""
    assert compileall.compile_dir(two[0].folder, quiet=1)
    outils: Any = two[0].import_module("outils")
    assert outils.chemins()[:7] == ["A"] * 7


def test_the_same_folder_twice_is_two_sets_of_modules(two: tuple[Siblings, Siblings]) -> None:
    """Loading again gives fresh modules, and closing one leaves the other."""
    again = Siblings(two[0].folder)
    first, second = two[0].import_module("outils"), again.import_module("outils")
    assert first is not second
    again.close()
    assert second.__name__ not in sys.modules
    assert sys.modules[first.__name__] is first
    assert again not in sys.meta_path


def test_a_folder_that_python_already_sees_shares_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script beside its configuration and the configuration have one module, not two copies."""
    (tmp_path / "outils_visibles.py").write_text("X = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    outils = Siblings(tmp_path).import_module("outils_visibles")
    assert outils is importlib.import_module("outils_visibles")
    monkeypatch.delitem(sys.modules, "outils_visibles")


def test_one_hidden_neighbour_makes_them_all_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder on the path whose `json.py` Python does not see would mix both worlds."""
    monkeypatch.syspath_prepend(project(tmp_path, "A"))
    siblings = Siblings(tmp_path)
    outils: Any = siblings.import_module("outils")
    assert outils.chemins()[:7] == ["A"] * 7
    siblings.close()


def test_a_configuration_that_is_refused_leaves_no_module(folder: Folder) -> None:
    """Trying again and again, as an editor does, piles nothing up."""
    folder.write("outils.py", "X = 1\n")
    folder.write("loom.yaml", ROOT + "imports: [outils]\nfoo: 1\n")
    before = (set(sys.modules), list(sys.meta_path))
    folder.problems(references=True)
    assert (set(sys.modules), list(sys.meta_path)) == before
