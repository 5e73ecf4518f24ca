"""Sets of words."""


def word_set(words: str) -> frozenset[str]:
    """Return the words of a line."""
    return frozenset(words.split())
