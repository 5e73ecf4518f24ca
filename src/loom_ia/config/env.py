r"""The file of environment variables: found, read, and put where they are missing.

Law. Only who asks reads it: the command `loom`, or a program by `load_env_file`. A variable that is
already defined, even empty, is left as it is; nothing is interpolated; and no message ever shows a
value, nor a part of a line.

    # a comment
    NAME=text up to the end of the line, or to a # after a blank; blanks around are dropped
    export NAME='as it is, on several lines if need be'
    NAME="the same, with \n \r \t \" \\ and \$ understood"

A name written twice has its last value. `$NAME` stays what it is.
"""

import os
import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Never, TypeAlias

from loom_ia.config.document import MAX_BYTES, read_document
from loom_ia.config.files import read_bytes
from loom_ia.config.places import FILE_NAME, Source, reason, shown_from
from loom_ia.core.errors import ConfigError, Problem

EnvOrigin: TypeAlias = Literal["argument", "env_file", "sibling"]

SIBLING: Final = ".env"
_NAME: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*")
_BLANK: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_PLAIN: Final = re.compile(r"((?:[^\n#]|(?<![ \t])#)*)")
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\([nrt"\\$])')
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file that was read: how it is shown, who named it, and the names of its variables.

    `added` are now in the environment; `kept` were defined before, and have their own value.
    """

    file: str
    origin: EnvOrigin
    added: tuple[str, ...]
    kept: tuple[str, ...]


def load_env_file(
    path: str | os.PathLike[str],
    *,
    file: str | os.PathLike[str] | None = None,
    environ: MutableMapping[str, str] | None = None,
) -> EnvFile | None:
    """Put the variables of the file that goes with `loom.yaml` in `environ`, unless defined.

    `path` is `loom.yaml`, or the folder that holds one. The file is `file`, else the one that its
    root key `env_file` names, else a `.env` next to it; None when there is none of them. `environ`
    is that of the process by default. Raises `ConfigError`, with the file and the line, when the
    file that was named is missing, and when it cannot be read or understood.
    """
    root = Path(os.path.abspath(path))  # noqa: PTH100 (links stay as they are written)
    root = root / FILE_NAME if root.is_dir() else root
    found = _named(root) if file is None else (Path(file), os.fspath(file), "argument", None)
    if found is None:
        return None
    place, shown, origin, asked = found
    values = parse_env(_data(place, shown, asked), shown)
    environ = os.environ if environ is None else environ
    kept = tuple(name for name in values if name in environ)
    added = {name: value for name, value in values.items() if name not in environ}
    environ.update(added)
    return EnvFile(shown, origin, tuple(added), kept)


def parse_env(data: bytes, file: str) -> dict[str, str]:
    """Read variables. Raises `ConfigError` at the first line that is not understood."""
    text = _text(data, file)
    values: dict[str, str] = {}
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        name = _NAME.match(text, at)
        if name is None:
            _stop_at(file, _line(text, at), "this line is neither NAME=value nor a # comment")
        values[name[1]], at = _value(text, name.end(), file)
    return values


_Found: TypeAlias = tuple[Path, str, EnvOrigin, Problem | None]


def _named(root: Path) -> _Found | None:
    """Find the file that goes with `root`; a root that cannot be read is told when it is loaded."""
    try:
        data = read_bytes(root)
    except (OSError, ValueError):
        return None
    show = shown_from(root.parent)
    document = read_document(data, show(root))
    written = document.value.get("env_file")
    if written is None:
        sibling = root.parent / SIBLING
        there = sibling.exists() and not sibling.is_dir()
        return (sibling, show(sibling), "sibling", None) if there else None
    if not isinstance(written, str) or not written:
        return None
    file = root.parent / written
    template = "there is no file {file} (env_file is relative to the folder of this file)"
    source = Source(show(root), document.value, document)
    return file, show(file), "env_file", source.problem(("env_file",), template, file=show(file))


def _data(file: Path, shown: str, asked: Problem | None) -> bytes:
    try:
        data = read_bytes(file)
    except FileNotFoundError:
        missing = Problem(shown, None, "", "there is no such file", {})
        raise ConfigError([asked or missing]) from None
    except (OSError, ValueError) as error:
        _stop_at(shown, None, "the file cannot be read: {reason}", reason=reason(error))
    if len(data) > MAX_BYTES:
        template = "the file has {size} bytes; {max} are read at most"
        _stop_at(shown, 1, template, size=len(data), max=MAX_BYTES)
    return data


def _text(data: bytes, file: str) -> str:
    text, wrong = "", None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = data.count(b"\n", 0, error.start) + 1
    if wrong is not None:  # outside of the handler: the error of the decoder carries the bytes
        _stop_at(file, wrong, "the text is not in UTF-8; save the file in UTF-8")
    if (at := text.find("\0")) >= 0:
        template = "the control character {character} may not stand in a file"
        _stop_at(file, _line(text, at), template, character="U+0000")
    return text.replace("\r\n", "\n")


def _value(text: str, at: int, file: str) -> tuple[str, int]:
    quote = text[at : at + 1]
    if quote not in {"'", '"'}:
        plain = _PLAIN.match(text, at)
        value, end = (plain[1].strip(" \t"), plain.end()) if plain else ("", at)
    else:
        quoted = (_SINGLE if quote == "'" else _DOUBLE).match(text, at)
        if quoted is None:
            _stop_at(file, _line(text, at), "the quote that opens here is never closed")
        value, end = quoted[1], quoted.end()
        if quote == '"':
            value = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), value)
    rest = _BLANK.match(text, end)
    if rest is None:
        _stop_at(file, _line(text, end), "only a # comment may follow the closing quote")
    return value, rest.end()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _stop_at(file: str, line: int | None, template: str, /, **params: object) -> Never:
    raise ConfigError([Problem(file, line, "", template, params)])
