"""What a role or a judge is given of the run, as its configuration writes it."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, cast

from pydantic import Discriminator, Tag

from loom_ia.core.model.context import LastTurns, NamedContext, StateKeys, ToolResults

_NAMED: Final = "(name)"


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return _NAMED
    if isinstance(value, ToolResults | LastTurns | StateKeys):
        return value.TAG
    keys = tuple(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else ()
    if any(key.startswith("session_state") for key in keys):
        return StateKeys.TAG
    is_of_tools = any(key.startswith(("tool", "scope")) for key in keys)
    return ToolResults.TAG if is_of_tools else LastTurns.TAG


ContextSpecs: TypeAlias = Annotated[
    Annotated[NamedContext, Tag(_NAMED)]
    | Annotated[ToolResults, Tag(ToolResults.TAG)]
    | Annotated[LastTurns, Tag(LastTurns.TAG)]
    | Annotated[StateKeys, Tag(StateKeys.TAG)],
    Discriminator(_kind),
]
"""One of the things that are given."""
