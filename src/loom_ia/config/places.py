"""Where a part of the configuration was written, and how a reader would name it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, cast

from pydantic import BaseModel

from loom_ia.config.document import Document, KeyPath
from loom_ia.core.errors import ConfigError, Problem

FILE_NAME: Final = "loom.yaml"
IN_PYTHON: Final = "LoomConfig"
Show: TypeAlias = Callable[[Path], str]
_LABELS: Final = ("id", "name")
_LONGEST_LABEL: Final = 64
_PART: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Source:
    """The file, or the Python object, that a part of the configuration comes from.

    `prefix` is where that part stands in it; `value` is the whole, from which items take their
    label. Paths given to the methods start at the part.
    """

    file: str
    value: object
    document: Document | None = None
    prefix: KeyPath = ()

    def inside(self, *path: str | int) -> "Source":
        """Give the source of what is at `path`."""
        return replace(self, prefix=(*self.prefix, *path))

    def line(self, path: KeyPath = ()) -> int | None:
        """Give the line of `path`, None when it was written in Python."""
        return self.document.line((*self.prefix, *path)) if self.document else None

    def text_line(self, path: KeyPath, number: int) -> int | None:
        """Give the line, in the file, of the line `number` of the text at `path`."""
        return self.document.text_line((*self.prefix, *path), number) if self.document else None

    def place(self, path: KeyPath = ()) -> str:
        """Name the place of `path` in the middle of a sentence."""
        line = self.line(path)
        return f"{self.file}:{line}" if line else f"{self.file}: {self.text(path)}"

    def text(self, path: KeyPath) -> str:
        """Write `path` as a reader would: `models[HAIKU].max_tokens`."""
        text, value = "", self.value
        for part in (*self.prefix, *path):
            value = _child(value, part)
            if isinstance(part, int):
                text += f"[{_label(value) or part}]"
            else:
                text += f".{part}" if text else part
        return text

    def problem(self, path: KeyPath, template: str, /, **params: object) -> Problem:
        """Say that something is wrong at `path`."""
        return Problem(self.file, self.line(path), self.text(path), template, params)

    def situate(self, path: KeyPath, error: ConfigError) -> Iterator[Problem]:
        """Give the problems of `error` that know no place the place of `path`."""
        for problem in error.problems:
            if problem.file:
                yield problem
            else:
                yield replace(problem, file=self.file, line=self.line(path), path=self.text(path))


def key_path(text: str) -> KeyPath:
    """Read a path such as `script[0].text`, whose items are numbered and whose keys are plain."""
    parts = _PART.findall(text)
    return tuple(int(number) if number else key for key, number in parts)


def shown_from(base_dir: Path) -> Show:
    """Show files from the working directory when they are in it, else from `base_dir`."""
    here = Path.cwd()
    start = here if base_dir.is_relative_to(here) else base_dir

    def show(file: Path) -> str:
        return str(file.relative_to(start)) if file.is_relative_to(start) else str(file)

    return show


def reason(error: Exception) -> str:
    """Tell why the system refused a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _child(value: object, part: str | int) -> object:
    if isinstance(part, int):
        items = cast("list[object]", value) if isinstance(value, list | tuple) else []
        return items[part] if part < len(items) else None
    return _field(value, part)


def _field(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None) if isinstance(value, BaseModel) else None


def _label(value: object) -> str | None:
    for name in _LABELS:
        label = _field(value, name)
        if isinstance(label, str) and label.isprintable() and 0 < len(label) <= _LONGEST_LABEL:
            return label
    return None
