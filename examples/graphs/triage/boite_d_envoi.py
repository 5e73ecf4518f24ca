"""The outside world: a mail server that knows each message by its key, and sends it once.

A real one would be an HTTP service that takes an idempotency key. This one is a file: one line for
each message that left.
"""

import json
from pathlib import Path


class BoiteDEnvoi:
    """Sends messages by writing them to `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def envoyer(self, a: str, texte: str, cle: str) -> str:
        """Send a message unless the one of that key left already, and give its reference."""
        partis = self.partis()
        for rang, parti in enumerate(partis, 1):
            if parti["cle"] == cle:
                return f"message {rang}"
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cle": cle, "a": a, "texte": texte}, ensure_ascii=False) + "\n")
        return f"message {len(partis) + 1}"

    def partis(self) -> list[dict[str, str]]:
        """Read what left."""
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text("utf-8").splitlines()]
