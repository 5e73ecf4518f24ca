"""What a person who decides is shown: exactly what is there, with nothing that hides in it."""

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def legible(text: str) -> str:
    """Write each character that is invisible, or that moves others, as its number: `[U+202E]`."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in _UNSEEN else f"[U+{ord(c):04X}]"
        for c in text
    )
