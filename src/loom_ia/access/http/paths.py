"""How the id of a run is read from an address: it may hold slashes, as those of runs below do.

Importing this lets routes be written `/runs/{run_id:run}`.
"""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

ACTIONS: Final = ("approve", "cancel", "events", "reject")
"""What may follow the id of a run: at the end of an address, it is never a part of the id."""


class RunIdConvertor(Convertor[str]):
    """The id of a run, slashes included, up to a word that follows it."""

    regex = rf"[^/]+(?:/(?!(?:{'|'.join(ACTIONS)})$)[^/]+)*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("run", RunIdConvertor())
