"""The generated pages are those that the code gives now."""

import re
from pathlib import Path

import pytest

from loom_ia import graph as public
from loom_ia.core.events.catalogue import CATALOGUE
from scripts import reference
from scripts.pages import configuration, diagrams, events, graph, meanings
from tests.docs.blocks import ROOT


@pytest.mark.parametrize("file", list(reference.expected()), ids=lambda file: file.name)
def test_a_generated_page_is_fresh(file: Path) -> None:
    """Each generated page or region is what `python scripts/reference.py` would write."""
    assert file.read_text("utf-8") == reference.expected()[file]


def test_a_stale_page_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` fails while a page differs from what the code says, and writing mends it."""
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- generated: layers -->\n<!-- end -->\nkept\n"
        "<!-- generated: moves -->\nold\n<!-- end -->\n",
        "utf-8",
    )
    assert reference.main(["--check"]) == 1
    assert "old" in page.read_text("utf-8")
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    text = page.read_text("utf-8")
    assert text.index('"core"') < text.index("\nkept\n") < text.index("`CallModel`")
    assert "old" not in text


def test_every_event_has_its_section() -> None:
    """The page of the events has each type of the catalogue."""
    text = events.text()
    assert [name for name in CATALOGUE if f"\n### {name}\n" not in text] == []


def test_a_family_of_events_is_told_once() -> None:
    """Types of one family stand together, wherever the catalogue has them."""
    names = re.findall(r"journal --- (\w+)\[", diagrams.events())
    assert names == list(dict.fromkeys(payload.CATEGORY for payload in CATALOGUE.values()))
    assert re.findall(r"^## (\w+)$", events.text(), re.MULTILINE)[:-1] == names


def test_every_public_name_of_graphs_is_described() -> None:
    """The page of the graph library has a section, or a row of its errors, for each name."""
    text = graph.text()
    errors_told = text.split("\n## Errors\n")[1]
    for name in public.__all__:
        assert f"\n### {name}\n" in text or f"| `{name}` |" in errors_told, name


def test_a_new_name_of_graphs_stops_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a name public says where it is described."""
    monkeypatch.setattr(graph.graph, "__all__", [*public.__all__, "fold_all"])
    monkeypatch.setattr(graph.graph, "fold_all", public.fold, raising=False)
    with pytest.raises(ValueError, match="fold_all"):
        graph.text()


def test_facets_are_read_whole() -> None:
    """A facet that is given only at times is listed too."""
    section = events.text().split("\n### tool.completed\n")[1].split("\n### ")[0]
    facets = section.split("- Facets: ")[1]
    assert [
        name for name in ("tool_name", "is_error", "outcome") if f"`{name}`" not in facets
    ] == []


def test_each_key_has_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key without a meaning stops the generator."""
    said = dict(meanings.MEANINGS)
    del said["storage.events.path"]
    monkeypatch.setattr(configuration, "MEANINGS", said)
    with pytest.raises(ValueError, match=r"storage\.events\.path"):
        configuration.text()


def test_every_package_is_drawn_once() -> None:
    """The layers hold each package that exists, and the core is the lowest."""
    boxes = re.findall(r'\["(.*)"\]', diagrams.layers())
    drawn = [name for box in boxes for name in box.split("  ·  ")]
    packages = (ROOT / "src" / "loom_ia").iterdir()
    assert sorted(drawn) == sorted(p.name for p in packages if (p / "__init__.py").exists())
    assert boxes[-1] == "core"
