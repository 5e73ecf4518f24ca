"""Keep the catalogues of messages: `python scripts/catalogue.py [--check]`.

Finds every text that the package says to people, brings `fr.po` up to date and compiles it.
With `--check` nothing is written: it fails when a text has no translation, when placeholders
differ, or when `fr.mo` is stale. A text that nobody says any more only waits to be dropped.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.messages import po, sources  # noqa: E402 -- found once the root is on the path

SRC = ROOT / "src" / "loom_ia"
LANGUAGES = ("fr",)


def main(argv: list[str]) -> int:
    """Update or check each catalogue; 1 when something is wrong."""
    found = sources.messages(SRC)
    wrong = list(found.unresolved)
    for language in LANGUAGES:
        file = SRC / "i18n" / f"{language}.po"
        known = po.read(file.read_text("utf-8")) if file.exists() else {}
        if "--check" not in argv:
            known = {said: known.get(said, "") for said in found.texts}
            file.write_text(po.write(known, found.places, language), "utf-8")
            file.with_suffix(".mo").write_bytes(po.compiled(known, language))
        wrong += po.faults(known, found, language)
        if "--check" in argv:
            wrong += _stale(file, known, language)
    for fault in wrong:
        print(fault, file=sys.stderr)
    print(f"{len(found.texts)} texts, {len(wrong)} fault(s)")
    if wrong:
        print("Run python scripts/catalogue.py, write what is empty in i18n/*.po, run it again.")
    return 1 if wrong else 0


def _stale(file: Path, known: dict[str, str], language: str) -> list[str]:
    compiled = file.with_suffix(".mo")
    if compiled.exists() and compiled.read_bytes() == po.compiled(known, language):
        return []
    return [f"{compiled.name} is stale: run python scripts/catalogue.py"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
