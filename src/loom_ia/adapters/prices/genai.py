"""Being written."""


def listed_pricing(spec: object) -> None:
    """Know nothing."""
