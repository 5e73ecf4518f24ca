"""What a profile changes in the configuration, before anything of it is validated.

Law. Mappings are merged key by key, anything else is replaced whole, and so is a block that belongs
to a model (`params`, `llm`). What a profile brings keeps the line where it was written, so that a
fault in it is located there. Choosing the profile, and the file of variables, is the root's part.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from pydantic import JsonValue

from loom_ia.config.document import Document, Entries, Entry, Items, Node, Scalar, value_of
from loom_ia.config.places import Source
from loom_ia.config.root import LoomConfig, ProfileName
from loom_ia.core.errors import Problem

_WHOLE: Final = frozenset({"params", "llm"})
ROOT_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "env_file": "a profile cannot name the file of variables (write env_file at the root)",
        "profile": "a profile cannot choose the profile (write profile at the root)",
        "profiles": "a profile has no profiles of its own",
    }
)
_NOTHING: Final = Entries(0, 0, {}, 0)


@dataclass(frozen=True, slots=True)
class Override:
    """A key that the active profile changes: where, and its value without and with the profile."""

    file: str
    line: int | None
    path: str
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class _Change:
    path: tuple[str, ...]
    before: Node | None
    after: Entry


def check_profiles(value: Mapping[str, JsonValue], source: Source) -> Iterator[Problem]:
    """Refuse, in every profile, the keys that only the root may have."""
    profiles = value.get("profiles")
    for name, changes in profiles.items() if isinstance(profiles, dict) else ():
        for key in changes if isinstance(changes, dict) else ():
            if key in ROOT_ONLY:
                yield source.problem(("profiles", name, key), ROOT_ONLY[key])


def override_document(
    document: Document, name: ProfileName | None, file: str
) -> tuple[Document, tuple[Override, ...]]:
    """Merge what `document` writes for the profile `name` into the rest of it."""
    root, changes = _merged(document.root, name)
    if not changes:
        return document, ()
    value = cast("dict[str, JsonValue]", value_of(root))
    found = tuple(_override(change, file, change.after.line) for change in changes)
    return replace(document, root=root, value=value), found


def override_values(
    value: dict[str, JsonValue], name: ProfileName | None, file: str
) -> tuple[dict[str, JsonValue], tuple[Override, ...]]:
    """Do the same with a configuration that was not read from a file."""
    root, changes = _merged(cast("Entries", _node(value)), name)
    merged = cast("dict[str, JsonValue]", value_of(root))
    return merged, tuple(_override(change, file, None) for change in changes)


def _merged(root: Entries, name: ProfileName | None) -> tuple[Entries, list[_Change]]:
    profiles = root.entries.get("profiles")
    if name is None or profiles is None or not isinstance(profiles.node, Entries):
        return root, []
    profile = profiles.node.entries.get(name)
    if profile is None or not isinstance(profile.node, Entries):
        return root, []
    kept = {key: e for key, e in profile.node.entries.items() if key not in ROOT_ONLY}
    changes: list[_Change] = []
    return _merge(root, replace(profile.node, entries=kept), (), changes), changes


def _merge(base: Entries, new: Entries, path: tuple[str, ...], changes: list[_Change]) -> Entries:
    entries = dict(base.entries)
    for key, entry in new.entries.items():
        old = entries.get(key)
        inner = old.node if old else replace(_NOTHING, line=entry.line)
        if key in _WHOLE or not (isinstance(inner, Entries) and isinstance(entry.node, Entries)):
            changes.append(_Change((*path, key), old.node if old else None, entry))
            entries[key] = entry
            continue
        # At the profile's line: what is wrong with the whole is most likely what it changed.
        entries[key] = replace(entry, node=_merge(inner, entry.node, (*path, key), changes))
    return replace(base, entries=entries)


def _override(change: _Change, file: str, line: int | None) -> Override:
    before = value_of(change.before) if change.before else _default(change.path)
    return Override(file, line, ".".join(change.path), before, value_of(change.after.node))


def _default(path: tuple[str, ...]) -> JsonValue:
    value: JsonValue = LoomConfig(version=1).model_dump(mode="json")
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _node(value: JsonValue) -> Node:
    match value:
        case dict():
            entries = {key: Entry(0, 0, _node(inner)) for key, inner in value.items()}
            return Entries(0, 0, entries, 0)
        case list():
            return Items(0, 0, tuple(map(_node, value)), 0)
        case _:
            return Scalar(0, 0, value)
