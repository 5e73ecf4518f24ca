"""Strict YAML: every value with its line, and nothing that surprises.

Law. A document is read as YAML 1.2 says (`no`, `on` and dates are text), its keys are unique texts,
its values are what JSON can hold, and reading it costs a bounded time and memory. PyYAML only cuts
the text into events: what they mean is decided here. A file that is wrong gives problems with
their place, never an exception.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from loom_ia.core.errors import Problem
from loom_ia.core.json import MAX_DEPTH, readable

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_BYTES: Final = 5_000_000
MAX_ALIASED: Final = 100_000


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number, boolean or null; `is_block` tells a text whose lines follow a `|`."""

    line: int
    column: int
    value: str | float | bool | None
    is_block: bool = False
    size: int = 1


@dataclass(frozen=True, slots=True)
class Items:
    """A list. `size` counts the values inside, an alias for as many as what it stands for."""

    line: int
    column: int
    items: tuple["Node", ...]
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, at its place, and its value."""

    line: int
    column: int
    node: "Node"


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping, once `<<` is merged."""

    line: int
    column: int
    entries: dict[str, Entry]
    size: int


Node: TypeAlias = Scalar | Items | Entries


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read: its value, where each part of it stands, and what is wrong with it.

    `value` is always a mapping; it is empty, and `is_read` false, when the whole is unreadable.
    """

    root: Entries
    value: dict[str, JsonValue]
    problems: tuple[Problem, ...] = ()
    is_read: bool = True

    def line(self, path: KeyPath) -> int:
        """Give the line of `path`: of its key, or of the nearest part that is in the file."""
        return self._find(path)[0]

    def text_line(self, path: KeyPath, number: int) -> int:
        """Give the line of the line `number` of the text at `path`, or the nearest known."""
        line, node = self._find(path)
        return node.line + number if isinstance(node, Scalar) and node.is_block else line

    def _find(self, path: KeyPath) -> tuple[int, Node]:
        line, node = self.root.line, self.root
        for part in path:
            match node:
                case Entries() if isinstance(part, str) and part in node.entries:
                    entry = node.entries[part]
                    line, node = entry.line, entry.node
                case Items() if isinstance(part, int) and part < len(node.items):
                    node = node.items[part]
                    line = node.line
                case _:
                    break
        return line, node


def read_document(data: bytes, file: str) -> Document:
    """Read the YAML in `data`; problems say that they are in `file`. Empty means `{}`."""
    reader = _Reader(file)
    empty = Entries(1, 1, {}, 0)
    try:
        root = reader.root(data)
    except _Unreadable:
        return Document(empty, {}, tuple(reader.problems), is_read=False)
    if root is None or (isinstance(root, Scalar) and root.value is None):
        root = empty
    if not isinstance(root, Entries):
        reader.report(root.line, "the file must be a mapping: one key: value on each line")
        return Document(empty, {}, tuple(reader.problems), is_read=False)
    return Document(root, value_of(root), tuple(reader.problems))


def value_of(node: Node) -> Any:
    """Give the JSON value that `node` stands for."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [value_of(item) for item in node.items]
        case Entries():
            return {key: value_of(entry.node) for key, entry in node.entries.items()}


class _Unreadable(Exception):
    """What follows cannot be understood; the reason was reported."""


_CONTROL: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG: Final = "tag:yaml.org,2002:"


class _Reader:
    """Build nodes from the events of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.events: Iterator[Any] = iter(())
        self.anchors: dict[str, Node] = {}
        self.open_anchors: set[str] = set()
        self.aliased = 0

    def report(self, line: int, template: str, /, **params: object) -> None:
        self.problems.append(Problem(self.file, line, "", template, params))

    def stop(self, line: int, template: str, /, **params: object) -> _Unreadable:
        self.report(line, template, **params)
        return _Unreadable()

    def root(self, data: bytes) -> Node | None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        parse = cast("Callable[..., Iterator[Any]]", getattr(yaml, "parse"))  # noqa: B009 (untyped)
        text = self._text(data)
        self.events = parse(text, Loader=loader)
        try:
            next(self.events)
            if isinstance(next(self.events), yaml.StreamEndEvent):
                return None
            node = self._node(next(self.events), 0)
            next(self.events)
            second = next(self.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = ": ".join(filter(None, (error.context, error.problem)))
            line = mark.line + 1 if mark else 1
            if mark and text[mark.index : mark.index + 1] == "\t":
                raise self.stop(line, "a tab stands here: indent with spaces") from error
            raise self.stop(line, "this is not valid YAML: {problem}", problem=problem) from error
        except yaml.YAMLError as error:
            raise self.stop(1, "this is not valid YAML: {problem}", problem=str(error)) from error
        if not isinstance(second, yaml.StreamEndEvent):
            raise self.stop(_line(second), "a second document starts here; only one is read")
        return node

    def _text(self, data: bytes) -> str:
        if len(data) > MAX_BYTES:
            template = "the file has {size} bytes; {max} are read at most"
            raise self.stop(1, template, size=len(data), max=MAX_BYTES)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.stop(line, "the text is not in UTF-8; save the file in UTF-8") from error
        if found := _CONTROL.search(text):
            line = text.count("\n", 0, found.start()) + 1
            template = "the control character {character} may not stand in a file"
            raise self.stop(line, template, character=f"U+{ord(found[0]):04X}")
        return text

    def _node(self, event: Any, depth: int) -> Node:
        from yaml import AliasEvent, MappingStartEvent, ScalarEvent

        line, column = _line(event), event.start_mark.column + 1
        if isinstance(event, AliasEvent):
            return self._alias(event, line)
        if depth >= MAX_DEPTH:
            raise self.stop(line, "values are nested deeper than {max}", max=MAX_DEPTH)
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)
            self.open_anchors.add(event.anchor)
        if isinstance(event, ScalarEvent):
            node: Node = self._scalar(event, line, column)
        elif isinstance(event, MappingStartEvent):
            self._check_tag(event, "map")
            node = self._entries(line, column, depth)
        else:
            self._check_tag(event, "seq")
            node = self._items(line, column, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
            self.open_anchors.discard(event.anchor)
        return node

    def _alias(self, event: Any, line: int) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            if event.anchor in self.open_anchors:
                raise self.stop(line, "the alias *{name} contains itself", name=event.anchor)
            raise self.stop(line, "the alias *{name} names nothing above it", name=event.anchor)
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            raise self.stop(line, "aliases stand for more than {max} values", max=MAX_ALIASED)
        return node

    def _items(self, line: int, column: int, depth: int) -> Items:
        from yaml import SequenceEndEvent

        items: list[Node] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Items(line, column, tuple(items), 1 + sum(item.size for item in items))

    def _entries(self, line: int, column: int, depth: int) -> Entries:
        from yaml import MappingEndEvent

        own: dict[str, Entry] = {}
        merged: list[Entries] = []
        merge_line = 0
        while not isinstance(event := next(self.events), MappingEndEvent):
            key_line, key_column = _line(event), event.start_mark.column + 1
            key = self._key(event, depth)
            node = self._node(next(self.events), depth + 1)
            if key is None:
                if merge_line:
                    self._duplicate(key_line, "<<", merge_line)
                merge_line = key_line
                merged += self._merged(node)
            elif first := own.get(key):
                self._duplicate(key_line, key, first.line)
            else:
                own[key] = Entry(key_line, key_column, node)
        for mapping in merged:
            own = {**mapping.entries, **own} if mapping.entries.keys() - own.keys() else own
        return Entries(line, column, own, 1 + sum(entry.node.size for entry in own.values()))

    def _duplicate(self, line: int, key: str, first: int) -> None:
        self.report(
            line, "the key {key} is written twice, first at line {first}", key=key, first=first
        )

    def _key(self, event: Any, depth: int) -> str | None:
        """Give the text of a key, or None for the `<<` that merges."""
        node = self._node(event, depth + 1)
        if not isinstance(node, Scalar):
            raise self.stop(node.line, "a key must be a text, not a list or a mapping")
        if isinstance(node.value, str):
            plain = getattr(event, "implicit", (False,))[0] and event.tag is None
            return None if plain and node.value == "<<" else node.value
        template = "a key must be a text, not {value} (put it in quotes)"
        self.report(node.line, template, value=readable(node.value))
        return readable(node.value)

    def _merged(self, node: Node) -> list[Entries]:
        nodes = node.items if isinstance(node, Items) else (node,)
        for wrong in nodes:
            if not isinstance(wrong, Entries):
                self.report(wrong.line, "<< merges a mapping or a list of mappings")
        return [mapping for mapping in nodes if isinstance(mapping, Entries)]

    def _check_tag(self, event: Any, expected: str) -> None:
        if event.tag not in {None, "!", _TAG + expected}:
            self.report(_line(event), "the tag {tag} is not supported", tag=_shown_tag(event.tag))

    def _scalar(self, event: Any, line: int, column: int) -> Scalar:
        text, tag = event.value, event.tag
        value: str | float | bool | None = text
        if tag is None and event.implicit[0]:
            value = self._resolved(text, line)
        elif tag in _RESOLVED_TAGS:
            value = self._resolved(text, line)
            if _json_type(value) != tag:
                self.report(line, "{text} is not of the tag {tag}", text=text, tag=_shown_tag(tag))
        elif tag not in {None, "!", _TAG + "str"}:
            self.report(line, "the tag {tag} is not supported", tag=_shown_tag(tag))
        if isinstance(value, str) and not _encodable(value):
            self.report(line, "half of a surrogate pair is no character")
            value = ""
        return Scalar(line, column, value, event.style == "|")

    def _resolved(self, text: str, line: int) -> str | float | bool | None:
        if text in _WORDS:
            return _WORDS[text]
        if len(text) > _LONGEST_NUMBER:
            return text
        if _INT.fullmatch(text):
            return int(text, 0 if text.startswith("0") and not text.isdecimal() else 10)
        if _FLOAT.fullmatch(text) and abs(value := float(text)) != float("inf"):
            return value
        if _FLOAT.fullmatch(text) or _NO_NUMBER.fullmatch(text):
            self.report(line, "{text} is not a number that JSON can hold", text=text)
            return 0
        return text


_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
_LONGEST_NUMBER: Final = 400
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_RESOLVED_TAGS: Final = frozenset(_TAG + kind for kind in ("null", "bool", "int", "float"))


def _json_type(value: str | float | bool | None) -> str:
    names = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
    return _TAG + names[type(value)]


def _shown_tag(tag: Any) -> str:
    return str(tag).replace(_TAG, "!!")


def _line(event: Any) -> int:
    return event.start_mark.line + 1


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
