"""T1: what a model reads, in tokens, when a result is handed over and not said again.

The story of `examples/relance` with a quote of 60,000 characters. A naive loop, which writes the
drafts itself, has the quote in the conversation of each of its calls but the first.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from bench.workloads import Figures
from loom_ia.access.api import Loom
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN

TOKENS: Final = "T1"
"""The name of the workload."""
EXAMPLE: Final = Path(__file__).resolve().parent.parent / "examples" / "relance"
ASKED: Final = "Relance Mme Martin pour le devis D-2026-042, sur un ton cordial."
_LINE: Final = "Fourniture et pose, main d'œuvre comprise. "
_CHARACTERS: Final = 60_000


async def tokens_of_the_story(folder: Path) -> Figures:
    """Run the story up to its question; `share` is ours by the naive loop's, for the main model."""
    place = folder / "relance"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "__pycache__"))
    file = place / "devis.json"
    quotes: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    quotes[0]["lignes"] = _LINE * (_CHARACTERS // len(_LINE))
    file.write_text(json.dumps(quotes, ensure_ascii=False), "utf-8")
    async with Loom.from_config(place / "loom.yaml") as loom:
        result = await loom.run("relance", ASKED)
        events = await loom.events(result.run_id)
    answers: list[Any] = [e for e in events if e.type == "model.responded" and e.role == "main"]
    read = sum(answer.payload.usage.prompt_tokens for answer in answers)
    quote = len(json.dumps(quotes[0], ensure_ascii=False)) // CHARACTERS_PER_TOKEN
    naive = read + quote * (len(answers) + 1)
    return {"read": read, "naive": naive, "share": read / naive}
