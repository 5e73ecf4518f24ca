"""References to the user's Python."""
# ruff: noqa: E501 (an exact message reads best on one line)

import pytest

from loom_ia.config import References
from loom_ia.config.references import is_tool
from loom_ia.core.errors import ConfigError
from tests.config.projects import AGENT, ROOT, Folder

OUTILS = '''\
from loom_ia.tools import tool

@tool
def prix_ttc(montant: float) -> float:
    """Calcule le prix."""
    return montant * 1.2

@tool(name="chercher")
def chercher_devis(numero: str) -> str:
    """Cherche un devis."""
    return numero

class Boite:
    outil = prix_ttc

def simple() -> int:
    return 3
'''


def refused(references: References, name: str) -> str:
    """Give what is said of a name that stands for nothing."""
    with pytest.raises(ConfigError) as caught:
        references.find(name)
    (problem,) = caught.value.problems
    return problem.message


def test_a_tool_is_found_by_its_name_its_variable_or_its_path(folder: Folder) -> None:
    """The three ways lead to the same object."""
    folder.write("outils.py", OUTILS)
    references = References(folder.path, ["outils"])
    tool = references.find("chercher")
    assert is_tool(tool)
    assert references.find("chercher_devis") is tool
    assert references.find("outils:chercher_devis") is tool
    assert references.find("outils:Boite.outil") is references.find("prix_ttc")
    assert references.names == ("chercher", "chercher_devis", "prix_ttc")


def test_a_path_needs_no_import_of_the_configuration(folder: Folder) -> None:
    """`module:attribute` works with a neighbour and with what is installed."""
    folder.write("outils.py", OUTILS)
    references = References(folder.path)
    assert is_tool(references.find("outils:prix_ttc"))
    assert references.find("os.path:sep") == "/"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prix_tcc", "nothing is called prix_tcc (did you mean prix_ttc?)"),
        ("zzz", "nothing is called zzz (known names: chercher, chercher_devis, prix_ttc)"),
        ("outils:prix", "nothing is called outils:prix (did you mean outils:prix_ttc?)"),
        ("outils:", "nothing is called outils:"),
        (
            "outil:x",
            "there is no module outil, neither installed nor in {folder} (modules there: outils)",
        ),
        (
            "outils.x:y",
            "there is no module outils.x, neither installed nor in {folder} (modules there: outils)",
        ),
        ("a b:c", "'a b' is not the name of a module"),
        (":c", "'' is not the name of a module"),
        ("loom.calculator", "loom.calculator is not available in this version"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(folder: Folder, name: str, said: str) -> None:
    """Close names are proposed, or the known ones listed."""
    folder.write("outils.py", OUTILS)
    references = References(folder.path, ["outils"])
    assert refused(references, name) == said.replace("{folder}", folder.path.name)


def test_without_imports_the_remedy_is_to_list_the_module(folder: Folder) -> None:
    """A newcomer who forgot `imports` is told so."""
    said = refused(References(folder.path), "prix_ttc")
    assert said == "nothing is called prix_ttc (is its module listed under imports?)"


def test_two_tools_of_one_name_are_refused(folder: Folder) -> None:
    """A name stands for one object; the same object twice is one."""
    folder.write("outils.py", OUTILS)
    folder.write("memes.py", "from outils import prix_ttc\n")
    folder.write("autres.py", OUTILS)
    folder.write("loom.yaml", ROOT + "imports: [outils, memes, autres]\n")
    assert folder.problems(references=True) == [
        "loom.yaml:6: imports[2] — the name prix_ttc stands for both outils:prix_ttc and autres:prix_ttc",
        "loom.yaml:6: imports[2] — the name chercher stands for both outils:chercher_devis and autres:chercher_devis",
        "loom.yaml:6: imports[2] — the name chercher_devis stands for both outils:chercher_devis and autres:chercher_devis",
    ]


def test_a_plain_name_of_two_modules_must_be_told_apart(folder: Folder) -> None:
    """What is no tool clashes only when it is asked for."""
    folder.write("a.py", "def f(): ...\n")
    folder.write("b.py", "def f(): ...\n")
    references = References(folder.path, ["a", "b"])
    assert refused(references, "f") == "f stands for several objects: write one of a:f, b:f"


def test_what_is_registered_has_a_name_of_its_own(folder: Folder) -> None:
    """Registering twice the same is nothing; another object, or a reserved name, is refused."""
    folder.write("outils.py", OUTILS)
    references = References(folder.path, ["outils"])
    value = object()
    references.register("x", value)
    references.register("x", value)
    assert references.find("x") is value
    for name, said in [
        ("x", "Loom.register: x — the name already stands for Loom.register"),
        ("prix_ttc", "Loom.register: prix_ttc — the name already stands for outils:prix_ttc"),
        ("loom.x", "Loom.register: loom.x — names that start with loom. are reserved"),
    ]:
        with pytest.raises(ConfigError) as caught:
            references.register(name, object())
        assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "import absent\n",
            "importing outils failed with ModuleNotFoundError: No module named 'absent' (outils.py:1)",
        ),
        (
            "\n1 / 0\n",
            "importing outils failed with ZeroDivisionError: division by zero (outils.py:2)",
        ),
        ("import sys\nsys.exit(3)\n", "importing outils failed with SystemExit: 3 (outils.py:2)"),
        (
            "raise BaseException('odd')\n",
            "importing outils failed with BaseException: odd (outils.py:1)",
        ),
        ("import voisin\n", "importing outils failed with KeyError: 'a' (voisin.py:2)"),
        (
            "import paquet.rien\n",
            "importing outils failed with ModuleNotFoundError: No module named 'paquet.rien' (outils.py:1)",
        ),
    ],
)
def test_a_module_that_fails_is_told_with_the_users_line(
    folder: Folder, text: str, problem: str
) -> None:
    """The exception, its words, and the place in the user's own file; its tools are not blamed."""
    folder.write("outils.py", text)
    folder.write("voisin.py", "\n{}['a']\n")
    folder.write("paquet/__init__.py", "")
    folder.write("loom.yaml", ROOT + "imports:\n  - outils\n")
    folder.write("agents/devis.yaml", AGENT + "tools: [{python: prix_ttc}]\n")
    assert folder.problems(references=True) == [f"loom.yaml:7: imports[0] — {problem}"]


def test_a_syntax_error_has_its_line(folder: Folder) -> None:
    """Python's own words depend on its version; the place does not."""
    folder.write("outils.py", "x = 1\ndef f(:\n")
    folder.write("loom.yaml", ROOT + "imports: [outils]\n")
    (problem,) = folder.problems(references=True)
    assert "importing outils failed with SyntaxError: invalid syntax" in problem
    assert problem.endswith("(outils.py:2)")


def test_a_missing_module_is_named_with_the_others(folder: Folder) -> None:
    """The modules that are there are listed."""
    folder.write("outils.py", "")
    folder.write("loom.yaml", ROOT + "imports: [outil]\n")
    assert folder.problems(references=True) == [
        f"loom.yaml:6: imports[0] — there is no module outil, neither installed nor in {folder.path.name} (modules there: outils)"
    ]


def test_what_is_found_must_be_a_tool(folder: Folder) -> None:
    """A function without its decorator is the usual case."""
    folder.write("outils.py", OUTILS)
    folder.write("loom.yaml", ROOT + "imports: [outils]\n")
    folder.write("agents/devis.yaml", AGENT + "tools:\n  - python: simple\n")
    assert folder.problems(references=True) == [
        "agents/devis.yaml:4: tools[0].python — simple is of type function, not a tool (write @tool above the function)"
    ]


def test_references_wait_until_they_are_asked_for(folder: Folder) -> None:
    """Loading alone imports nothing, so that a tool may be registered afterwards."""
    folder.write("outils.py", "raise RuntimeError\n")
    folder.write("loom.yaml", ROOT + "imports: [outils]\n")
    loaded = folder.load()
    with pytest.raises(ConfigError, match=r"imports\[0\] — importing outils failed"):
        loaded.check_references()


def test_a_registered_tool_satisfies_an_agent(folder: Folder) -> None:
    """The name needs no module then."""
    folder.write("outils.py", OUTILS)
    folder.write("agents/devis.yaml", AGENT + "tools:\n  - python: mien\n")
    loaded = folder.load()
    loaded.references.register("mien", loaded.references.find("outils:prix_ttc"))
    loaded.check_references()
