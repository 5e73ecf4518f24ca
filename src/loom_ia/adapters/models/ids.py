"""Ids of the calls of one answer."""


class FreeIds:
    """Gives each call an id of its own, in a time that does not grow with the calls before it."""

    def __init__(self) -> None:
        # Each with the last number that was put after it.
        self._taken: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._taken)

    def take(self, call_id: str) -> str:
        """Give `call_id`, or another one when it is empty or a call has it already."""
        wanted = call_id or f"call_{len(self._taken) + 1}"
        free, number = wanted, self._taken.get(wanted, 1)
        while free in self._taken:
            number += 1
            free = f"{wanted}_{number}"
        self._taken[wanted] = number
        self._taken.setdefault(free, 1)
        return free
