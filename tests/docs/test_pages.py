"""The pages tell the truth: what they show is run, and what they link to is there."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import LANGUAGES, PAGES, ROOT, Block, blocks
from tests.docs.reader import Reader

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<text>.+)$", re.MULTILINE)
_READ = {
    "python": lambda text: compile(text, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT),
    "yaml": yaml.safe_load,
    "json": json.loads,
}


def _name(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def _all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_following_a_page_gives_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Whoever types what a page shows, from its top, sees what the page says that he will."""
    language = "fr" if page.name.endswith(".fr.md") else "en"
    beside = page.parent if "examples" in page.parts else None
    reader = Reader(tmp_path, language=language, beside=beside)
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.parametrize("block", _all_blocks(), ids=_name)
def test_a_block_is_what_it_says(block: Block) -> None:
    """A block has a known language, and what it holds can be read in that language."""
    assert block.language in LANGUAGES, f"{block}: name its language, one of {sorted(LANGUAGES)}"
    if block.language in _READ:
        text = f"{{{block.text}}}" if "entry" in block.words else block.text
        _READ[block.language](text)


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / "docs/reference").glob("*.md")], ids=_name)
def test_a_link_leads_somewhere(page: Path) -> None:
    """A link to a file of the tree, or to a heading of one, is not broken."""
    text = page.read_text("utf-8")
    for found in _LINK.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        target, _, heading = found["target"].partition("#")
        if target.startswith(("https://", "http://")):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{_name(page)}: {found[0]} leads nowhere"
        if heading and file.suffix == ".md":
            assert heading in _anchors(file), f"{_name(page)}: no such heading: {found[0]}"


def test_only_make_is_left_out() -> None:
    """What cannot run inside a test is `make`, and nothing else."""
    left_out = [block for block in _all_blocks() if "no-test" in block.words]
    lines = [line for block in left_out for line in block.text.splitlines() if line]
    assert all(line.startswith(("$ make ", "$ bash .ci/run")) for line in lines)


def _anchors(page: Path) -> set[str]:
    headings = (found["text"] for found in _HEADING.finditer(page.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}
