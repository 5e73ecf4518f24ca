"""A whole agent as a folder of texts that a person writes.

Law. Nothing of the folder is run, and nothing outside of it is read: a link that leads out is
refused. A file is UTF-8 and has a bounded size. What is wrong is an error with its file and line;
only a file that is not there is passed over. A heading is what Markdown takes for one.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, cast

from loom_ia.core.errors import CallerError
from loom_ia.graph.prompt import Identity, Skill

MAX_BYTES: Final = 5_000_000
MAX_FRONT_MATTER: Final = 64_000
"""In characters; PyYAML would take a minute for a file of the largest size."""


class UnreadableFolder(CallerError, ValueError):
    """A file of an agent's folder is not as it must be; `file`, and `line` where one is known."""

    def __init__(
        self, template: str, /, *, file: Path, line: int | None = None, **params: object
    ) -> None:
        place = f"{file}:{line}" if line is not None else str(file)
        super().__init__(template, place=place, **params)
        self.file = file
        self.line = line


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """What a folder says of an agent.

    `system_prompt` is the text that the identity was made from. `profiles` are texts by name,
    `skills` in the order of their folders' names. `health_check` is None without one.
    """

    identity: Identity
    system_prompt: str
    profiles: dict[str, str]
    skills: tuple[Skill, ...]
    health_check: str | None


def load_folder(path: str | os.PathLike[str]) -> AgentFolder:
    """Read an agent's folder.

    The identity is `CLAUDE.md`, or else `AGENTS.md`, cut before its first heading of level two:
    what comes before is the core. Without either, the core is the beginning of `SOUL.md`, and its
    rest with the whole of `IDENTITY.md` is the extended identity. Each heading of level two of
    `PROFILES.md` is a profile; `HEARTBEAT.md` is the health check. `skills/<name>/SKILL.md` is a
    skill, its name and description in YAML between two lines `---`; the files beside it in
    `scripts` and `references` are listed by their paths. Files that are missing or blank count for
    nothing, so that an empty folder gives an empty agent.

    Raises `NotADirectoryError` or `FileNotFoundError` when `path` is no folder, and a `ValueError`
    with the place for a file that is not UTF-8, is over 5 MB, lies outside or is malformed, and for
    two profiles or skills of one name.
    """
    folder = _Folder.at(Path(path))
    identity = _identity(folder)
    return AgentFolder(
        identity=identity,
        system_prompt=identity.raw,
        profiles=_profiles(folder),
        skills=_skills(folder),
        health_check=folder.text("HEARTBEAT.md").strip() or None,
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    """The one way to the files: every path is checked before it is opened or listed."""

    path: Path
    real: Path

    @classmethod
    def at(cls, path: Path) -> "_Folder":
        if not path.exists():
            raise FileNotFoundError(f"there is no folder {path}: give the folder of an agent")
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a folder: give the folder of an agent")
        return cls(path, path.resolve())

    def text(self, *names: str) -> str:
        """Read a file, its lines ending in a line feed; a file that is missing is blank."""
        path = self._inside(*names)
        if not path.exists():
            if path.is_symlink():
                raise UnreadableFolder("{place} is a link that leads nowhere", file=path)
            return ""
        if not path.is_file():
            raise UnreadableFolder("{place} is not a file", file=path)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            template = "{place} has more than {max} bytes, the most that is read"
            raise UnreadableFolder(template, file=path, max=MAX_BYTES)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            template = "{place}: the text is not in UTF-8; save the file in UTF-8"
            raise UnreadableFolder(template, file=path, line=line) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def entries(self, *names: str) -> list[Path]:
        """List a folder inside, sorted by name; one that is missing is empty."""
        path = self._inside(*names)
        if not path.is_dir():
            return []
        found = sorted(path.iterdir(), key=lambda entry: entry.name)
        return [self._inside(*names, entry.name) for entry in found]

    def _inside(self, *names: str) -> Path:
        path = self.path.joinpath(*names)
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:
            raise UnreadableFolder("{place} is a link that leads nowhere", file=path) from error
        if not real.is_relative_to(self.real):
            template = "{place} is a link that leads out of the folder: copy the file into it"
            raise UnreadableFolder(template, file=path)
        return path


def _identity(folder: _Folder) -> Identity:
    for name in ("CLAUDE.md", "AGENTS.md"):
        raw = folder.text(name)
        if raw.strip():
            core, extended = _tiers(raw)
            return Identity(core, extended, raw)
    soul, identity = folder.text("SOUL.md").strip(), folder.text("IDENTITY.md").strip()
    core, rest = _tiers(soul)
    return Identity(core, _joined(rest, identity), _joined(soul, identity))


def _tiers(text: str) -> tuple[str, str]:
    """Cut `text` before its first heading of level two."""
    lines = text.split("\n")
    first = next(_headings(lines), None)
    at = first.at if first is not None else len(lines)
    return "\n".join(lines[:at]).strip(), "\n".join(lines[at:]).strip()


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _profiles(folder: _Folder) -> dict[str, str]:
    file = folder.path / "PROFILES.md"
    lines = folder.text(file.name).split("\n")
    headings = list(_headings(lines))
    ends = [heading.at for heading in headings[1:]] + [len(lines)]
    profiles: dict[str, str] = {}
    written: dict[str, int] = {}
    for heading, end in zip(headings, ends, strict=False):
        name, line = heading.title, heading.at + 1
        if not name:
            raise UnreadableFolder(
                "{place}: the heading of a profile is its name", file=file, line=line
            )
        if name in written:
            template = "{place}: the profile {name} is on line {first} already; rename one"
            raise UnreadableFolder(template, file=file, line=line, name=name, first=written[name])
        written[name] = line
        profiles[name] = "\n".join(lines[heading.at + 1 : end]).strip()
    return profiles


def _skills(folder: _Folder) -> tuple[Skill, ...]:
    skills: list[Skill] = []
    written: dict[str, Path] = {}
    for entry in folder.entries("skills"):
        if not entry.is_dir():
            continue
        where = ("skills", entry.name)
        file = entry / "SKILL.md"
        text = folder.text(*where, file.name)
        if not text.strip():
            continue
        front, body = _parted(text, file)
        name = " ".join(front.get("name", "").split()) or entry.name
        if name in written:
            template = "{place}: the skill {name} is in {first} already; rename one"
            raise UnreadableFolder(template, file=file, name=name, first=written[name])
        written[name] = file
        files = {kind: _files(folder, *where, kind) for kind in ("scripts", "references")}
        skills.append(Skill(name, front.get("description", "").strip(), body, **files))
    return tuple(skills)


def _files(folder: _Folder, *names: str) -> tuple[str, ...]:
    return tuple(str(entry) for entry in folder.entries(*names) if entry.is_file())


def _parted(text: str, file: Path) -> tuple[dict[str, str], str]:
    """Part the front matter of a skill from its body."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return {}, text.strip()
    for at, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return _front("\n".join(lines[1:at]), file), "\n".join(lines[at + 1 :]).strip()
    template = "{place}: the front matter begins here and does not end; close it with a line ---"
    raise UnreadableFolder(template, file=file, line=1)


def _front(source: str, file: Path) -> dict[str, str]:
    """Read the name and the description, as they are written; other keys are anybody's."""
    if len(source) > MAX_FRONT_MATTER:
        template = "{place}: the front matter has more than {max} characters, the most that is read"
        raise UnreadableFolder(template, file=file, line=1, max=MAX_FRONT_MATTER)
    front: dict[str, str] = {}
    for key, value, line in _pairs(source, file):
        if key not in ("name", "description"):
            continue
        if key in front:
            template = "{place}: {key} stands twice in the front matter; keep one"
            raise UnreadableFolder(template, file=file, line=line, key=key)
        if value is None:
            template = "{place}: {key} is a text, not a list or a mapping"
            raise UnreadableFolder(template, file=file, line=line, key=key)
        front[key] = value
    return front


def _pairs(source: str, file: Path) -> Iterator[tuple[object, str | None, int]]:
    """Give each key of the front matter, its text, None if it has another form, and its line."""
    import yaml

    compose = cast("Callable[..., yaml.Node | None]", getattr(yaml, "compose"))  # noqa: B009 (untyped)
    template = "{place}: the front matter is not valid YAML: {problem}"
    try:
        # Composed, not constructed: nothing is built from tags, and `1.10` or `on` stays as it is.
        root = compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark is not None else 1
        problem = ": ".join(filter(None, (error.context, error.problem)))
        raise UnreadableFolder(template, file=file, line=line, problem=problem) from error
    except (yaml.YAMLError, RecursionError) as error:
        problem = str(error) if isinstance(error, yaml.YAMLError) else "it is nested too deep"
        raise UnreadableFolder(template, file=file, line=1, problem=problem) from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        problem = "it must be lines such as name: …"
        raise UnreadableFolder(template, file=file, line=2, problem=problem)
    for key, node in root.value:
        is_null = node.tag == "tag:yaml.org,2002:null"
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        yield key.value, "" if is_null else text, key.start_mark.line + 2


class _Heading(NamedTuple):
    """A heading of level two: its line, from 0, and its title."""

    at: int
    title: str


class _Fence(NamedTuple):
    """A fence that is open: its mark, the column of it, and where the text of its list begins."""

    mark: str
    column: int
    list_column: int

    def ends_with(self, line: str) -> bool:
        mark = line.strip()
        is_mark = len(mark) >= len(self.mark) and not mark.strip(self.mark[0])
        return is_mark and _indent(line) <= self.column + 3

    def holds(self, line: str) -> bool:
        """Whether the line is still of the list, which ends at a line that is indented less."""
        return not line.strip() or _indent(line) >= self.list_column


# What repeats is possessive: a line of any length is read once.
_HEADING: Final = re.compile(r" {0,3}##(?!\S)")
_FENCE: Final = re.compile(r"( {0,3}(?:(?:[-*+]|[0-9]{1,9}[.)]) {1,4})*+)(`{3,}+(?!.*`)|~{3,}+)")
_HTML: Final = re.compile(r" {0,3}<(?:!--|(?:pre|script|style|textarea)(?![^\s>]))", re.IGNORECASE)
_HTML_END: Final = re.compile(r"-->|</(?:pre|script|style|textarea)>", re.IGNORECASE)


def _headings(lines: Sequence[str]) -> Iterator[_Heading]:
    """Find the headings of level two, as CommonMark reads them.

    A line of a code block, fenced or indented, is text, and so is one of a comment or of `<pre>`.
    """
    fence: _Fence | None = None
    in_html = False
    for at, written in enumerate(lines):
        line = written.expandtabs(4)
        if fence is not None and fence.holds(line):
            if fence.ends_with(line):
                fence = None
            continue
        fence = None
        if in_html or _HTML.match(line):
            in_html = _HTML_END.search(line) is None
        elif opened := _FENCE.match(line):
            fence = _Fence(opened[2], len(opened[1]), len(opened[1]) if opened[1].strip() else 0)
        elif found := _HEADING.match(line):
            yield _Heading(at, _title(line[found.end() :]))


def _title(text: str) -> str:
    """Take the closing marks from the title of a heading."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare.endswith(" ") else title


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
