"""Write the pages that are made from the code: `python scripts/reference.py [--check]`.

The pages of `docs/reference/`, and the regions of the hand-written ones that stand between
`<!-- generated: NAME -->` and `<!-- end -->`. With `--check` nothing is written: it fails when a
page differs from what the code says.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.pages import command_line, configuration, errors, events, graph, results  # noqa: E402 -- as above
from scripts.pages.diagrams import REGIONS  # noqa: E402

DOCS = ROOT / "docs"
PAGES = {
    "events": events.text,
    "configuration": configuration.text,
    "command-line": command_line.text,
    "errors": errors.text,
    "results": results.text,
    "graph": graph.text,
}
_END = "<!-- end -->"
_REGION = re.compile(
    rf"(?P<start><!-- generated: (?P<name>[\w-]+) -->)\n(?:(?!{_END}).)*{_END}", re.DOTALL
)


def main(argv: list[str]) -> int:
    """Write or check each page; 1 when one is stale."""
    stale: list[Path] = []
    for file, text in expected().items():
        if file.exists() and file.read_text("utf-8") == text:
            continue
        stale.append(file)
        if "--check" not in argv:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    wrong = stale if "--check" in argv else []
    for file in wrong:
        name = file.relative_to(ROOT)
        print(f"{name} is stale: run python scripts/reference.py", file=sys.stderr)
    written = "stale" if "--check" in argv else "written"
    print(f"{len(PAGES)} reference pages, {len(stale)} file(s) {written}")
    return 1 if wrong else 0


def expected() -> dict[Path, str]:
    """Give what each generated file should be: whole pages, then pages with generated regions."""
    files = {DOCS / "reference" / f"{name}.md": text() for name, text in PAGES.items()}
    for file in sorted(DOCS.rglob("*.md")):
        text = file.read_text("utf-8")
        if file not in files and _REGION.search(text):
            files[file] = _REGION.sub(_filled, text)
    return files


def _filled(region: re.Match[str]) -> str:
    return f"{region['start']}\n{REGIONS[region['name']]()}\n{_END}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
