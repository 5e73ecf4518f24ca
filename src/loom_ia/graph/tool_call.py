"""What a model asks of a tool, and what the tool gave: plain values, no behaviour.

They stand alone so that models and tools may both speak of them without knowing each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asks for. `id` is None when it gave none."""

    id: str | None
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave, for the model in `content` and as a value in `data`.

    `error` is None on success, otherwise the kind of error: `unknown_tool`, `invalid_arguments`,
    `denied`, `not_allowed`, `blocked`, `failed`, `timeout` or `needs_approval`.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    error: str | None = None
    data: Any = None
