"""What a server says of each of its tools, taken one by one."""

import asyncio
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loom_ia.adapters.mcp.bounds import (
    DEFINITION_CHARS,
    DEFINITION_NODES,
    DEFINITIONS_CHARS,
    NAME_CHARS,
    TOOLS,
)
from loom_ia.core.errors import UnstorableValue, text_of
from loom_ia.core.json import JsonObject, JsonValue, canonical, digest, storable
from loom_ia.core.model.tooling import SideEffects

_PINNED: Final = ("name", "description", "inputSchema", "outputSchema", "annotations")
"""What of a tool is pinned: all that decides what a model does with it, and what we do."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it: the members that matter, as they came."""

    name: str
    document: JsonObject
    digest: str

    @property
    def description(self) -> str:
        """What it says that it does, by its title when it says no more."""
        text, title = self.document.get("description"), self._annotations.get("title")
        return next((said for said in (text, title) if isinstance(said, str) and said), self.name)

    @property
    def schema(self) -> JsonValue:
        """The schema of its arguments, None without one."""
        return self.document.get("inputSchema")

    @property
    def side_effects(self) -> SideEffects:
        """What it hints at; the gravest when it hints at nothing."""
        if self._annotations.get("readOnlyHint") is True:
            return "none"
        return "reversible" if self._annotations.get("destructiveHint") is False else "irreversible"

    @property
    def idempotent(self) -> bool:
        """Whether it says that doing it twice is doing it once."""
        return self._annotations.get("idempotentHint") is True

    @property
    def _annotations(self) -> Mapping[str, JsonValue]:
        said = self.document.get("annotations")
        return said if isinstance(said, dict) else {}


@dataclass(slots=True)
class Listed:
    """What a server offers, in its order; `unusable` has what cannot be, by name, and why."""

    definitions: dict[str, Definition] = field(default_factory=dict[str, Definition])
    unusable: dict[str, str] = field(default_factory=dict[str, str])
    is_cut: bool = False
    chars: int = 0

    def add(self, tool: object) -> None:
        """Take one more tool in."""
        name = cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name or len(name) > NAME_CHARS:
            label = ascii(name)[:NAME_CHARS] if isinstance(name, str) else "(no name)"
            self._withhold(label, f"its name is no text of 1 to {NAME_CHARS} characters")
            return
        if self.is_cut:
            return
        if is_too_large(cast("object", tool)):
            self._withhold(name, f"its definition is longer than {DEFINITION_CHARS} characters")
            return
        try:
            definition, length = _defined(cast("dict[str, object]", tool))
        except UnstorableValue as error:
            self._withhold(name, f"its definition cannot be kept: {text_of(error)}")
            return
        self.chars += length
        if length > DEFINITION_CHARS:
            self._withhold(name, f"its definition is longer than {DEFINITION_CHARS} characters")
        elif self.chars > DEFINITIONS_CHARS:
            self.is_cut = True
            self._withhold(name, "the definitions before it are too long already")
        elif len(self.definitions) >= TOOLS:
            self.is_cut = True
        elif name in self.unusable or self.definitions.get(name, definition) != definition:
            self._withhold(name, "it is defined twice, in two ways")
        else:
            self.definitions[name] = definition

    def _withhold(self, name: str, reason: str) -> None:
        self.definitions.pop(name, None)
        if len(self.unusable) < TOOLS:
            self.unusable[name] = reason


def _defined(tool: dict[str, object]) -> tuple[Definition, int]:
    kept = {key: tool[key] for key in _PINNED if tool.get(key) is not None}
    document, _ = storable(kept)
    known = cast("JsonObject", document)
    return Definition(str(known["name"]), known, digest(known)), len(canonical(known))


def is_too_large(value: object) -> bool:
    """Whether a definition is too much to look at; told without looking at more than that."""
    chars, nodes, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        nodes += 1
        if isinstance(one, str):
            chars += len(one)
        elif isinstance(one, dict):
            members = cast("dict[str, object]", one)
            nodes += len(members)
            if nodes <= DEFINITION_NODES:
                chars += sum(map(len, members))
                waiting.extend(members.values())
        elif isinstance(one, list):
            items = cast("list[object]", one)
            nodes += len(items)
            if nodes <= DEFINITION_NODES:
                waiting.extend(items)
        if nodes > DEFINITION_NODES or chars > DEFINITION_CHARS:
            return True
    return False


async def read_page(page: Any, listed: Listed) -> str:
    """Take the tools of one page in, and give where the next one begins; nothing at the end."""
    if not isinstance(page, dict):
        return ""
    document = cast("dict[str, object]", page)
    tools = document.get("tools")
    for tool in cast("list[object]", tools) if isinstance(tools, list) else ():
        if listed.is_cut:
            break
        listed.add(tool)
        await asyncio.sleep(0)  # a long list holds nobody up
    cursor = document.get("nextCursor")
    return cursor if isinstance(cursor, str) else ""


def visible(text: str) -> str:
    """Leave out of a text what nobody sees on a screen, and what would move what he sees."""
    return "".join(
        c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cn")
    )
