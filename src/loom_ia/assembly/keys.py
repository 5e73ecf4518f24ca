"""What can be a key of a provider."""


def is_key(text: str) -> bool:
    """Whether a text may go in a header as it is."""
    return text.isascii() and text.isprintable() and text == text.strip()
