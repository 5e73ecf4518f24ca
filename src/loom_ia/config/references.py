"""From the names that a configuration writes to the Python objects that they stand for.

Law. A name is registered by a module of `imports` (the own name of a tool, a graph or a policy,
or the variable's) or by `Loom.register`; else it reads `module:attribute`. One name stands for one
object. Names that start with `loom.` are ours. Modules are imported once, when a name is first
asked for.
"""

import difflib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final, Never, TypeGuard

from loom_ia.config.siblings import Siblings
from loom_ia.core.errors import ConfigError, Problem, text_of
from loom_ia.core.model import ToolSpec
from loom_ia.core.ports.tools import Tool

RESERVED: Final = "loom."
REGISTER: Final = "Loom.register"
_MOST_SHOWN: Final = 20
_NO_MODULE: Final = "there is no module {name}, neither installed nor in {folder}"
_NO_MODULE_AMONG: Final = (
    "there is no module {name}, neither installed nor in {folder} (modules there: {known})"
)
_NOTHING: Final[Mapping[tuple[bool, bool], str]] = MappingProxyType(
    {
        (False, False): "nothing is called {name} (is its module listed under imports?)",
        (True, False): "nothing is called {name} (known names: {known})",
        (False, True): (
            "nothing is called {name} (give the object with loom.register({name!r}, …), or list "
            "its module under imports)"
        ),
        (True, True): (
            "nothing is called {name} (known names: {known}; others are given with "
            "loom.register({name!r}, …))"
        ),
    }
)
"""What to do, by whether some names are known and whether the configuration is in Python."""
_FAILED: Final = "importing {name} failed with {error}: {text}"
_FAILED_AT: Final = "importing {name} failed with {error}: {text} ({where})"


def is_tool(value: object) -> TypeGuard[Tool]:
    """Whether `value` can be used as a tool; one that has faults cannot."""
    return _looks_like_a_tool(value) and not faults_of(value) and isinstance(_spec(value), ToolSpec)


def is_graph(value: object) -> bool:
    """Whether `value` is a graph; where none was ever built, nothing is imported to tell."""
    home = sys.modules.get("loom_ia.graph.definition")
    return home is not None and isinstance(value, home.GraphDefinition)


def is_policy(value: object) -> bool:
    """Whether `value` is a policy; where none was ever made, nothing is imported to tell."""
    home = sys.modules.get("loom_ia.policies.function")
    return home is not None and isinstance(value, home.PolicyFunction)


def faults_of(value: object) -> tuple[Problem, ...]:
    """Give what keeps a function under `@tool` from being one, with its own place."""
    if not _looks_like_a_tool(value):
        return ()
    from loom_ia.tools.signature import ToolDefinitionError

    try:
        _spec(value)
    except ToolDefinitionError as error:
        return error.problems
    return ()


def _looks_like_a_tool(value: object) -> bool:
    # The type alone: asking an attribute of any object of a module may run anything.
    return all(callable(getattr(type(value), name, None)) for name in ("check", "call"))


def _spec(value: object) -> object:
    return getattr(value, "spec", None)


@dataclass(frozen=True, slots=True)
class _Named:
    value: object
    origin: str


class References:
    """The names of one configuration whose file is in `folder`.

    A `ConfigError` raised by `find` has problems without a file: the caller knows who wrote the
    name. `in_python` tells that the configuration was built there, where one registers names.
    """

    def __init__(
        self, folder: Path, modules: Sequence[str] = (), *, in_python: bool = False
    ) -> None:
        self.folder = folder
        self.in_python = in_python
        self.modules = tuple(modules)
        self._registered: dict[str, _Named] = {}
        self._imported: dict[str, _Named] = {}
        self._loaded: list[ModuleType] = []
        self._failures: dict[int, tuple[Problem, ...]] | None = None
        self._siblings: Siblings | None = None

    def register(self, name: str, value: object) -> None:
        """Let `name` stand for `value`. Raises `ConfigError` when it stands for something else."""
        if name.startswith(RESERVED):
            _refuse(name, "names that start with loom. are reserved", file=REGISTER)
        known = self._registered.get(name) or self._imported.get(name)
        if known and known.value is not value:
            template = "the name already stands for {origin}"
            _refuse(name, template, file=REGISTER, origin=known.origin)
        self._registered[name] = _Named(value, REGISTER)

    def load(self) -> Mapping[int, tuple[Problem, ...]]:
        """Import the modules, once; give what went wrong by position in `modules`."""
        if self._failures is None:
            self._failures = {}
            for position, name in enumerate(self.modules):
                try:
                    module = self._import(name)
                except ConfigError as error:
                    self._failures[position] = error.problems
                    continue
                self._loaded.append(module)
                if problems := tuple(self._enter(module, name)):
                    self._failures[position] = problems
        return self._failures

    def find(self, name: str) -> object:
        """Give what `name` stands for. Raises `ConfigError` when it stands for nothing."""
        self.load()
        if name.startswith(RESERVED):
            _refuse(name, "{name} is not available in this version", name=name)
        if found := self._registered.get(name) or self._imported.get(name):
            return found.value
        module, colon, attribute = name.partition(":")
        if colon:
            return self._attribute(name, module, attribute)
        values = [vars(m)[name] for m in self._loaded if _is_public(name) and name in vars(m)]
        if not values:
            self._unknown(name, self.names)
        if any(value is not values[0] for value in values):
            modules = self._modules_with(name)
            template = "{name} stands for several objects: write one of {choices}"
            _refuse(name, template, name=name, choices=_listed(f"{m}:{name}" for m in modules))
        return values[0]

    def policy(self, name: str) -> object:
        """Give what the name of a policy stands for; ours are found too. Raises as `find`."""
        if name.startswith(RESERVED):
            from loom_ia.policies.builtin import BUILTIN

            if name in BUILTIN:
                return BUILTIN[name]
            template = "there is no policy {name} (ours: {known})"
            _refuse(name, template, name=name, known=", ".join(sorted(BUILTIN)))
        return self.find(name)

    @property
    def graphs(self) -> tuple[object, ...]:
        """The graphs that were registered or stand in the modules, in the order of their names."""
        self.load()
        named = {**self._imported, **self._registered}
        found = {id(n.value): n.value for _, n in sorted(named.items()) if is_graph(n.value)}
        return tuple(found.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand for a tool or a graph, or were registered, sorted."""
        return tuple(sorted({*self._registered, *self._imported}))

    def close(self) -> None:
        """Forget the modules of the folder, once nothing of them runs any more."""
        if self._siblings:
            self._siblings.close()

    def shown(self, faults: Sequence[Problem]) -> Iterator[Problem]:
        """Give the faults of a tool, in a file that is named from the folder."""
        folder = self.folder.resolve()
        for problem in faults:
            file = Path(problem.file)
            inside = problem.file and file.is_relative_to(folder)
            yield replace(problem, file=str(file.relative_to(folder))) if inside else problem

    def _modules_with(self, name: str) -> Iterator[str]:
        for module in self._loaded:
            if name in vars(module):
                yield self._folder_modules().shown(module.__name__)

    def _folder_modules(self) -> Siblings:
        if self._siblings is None:
            self._siblings = Siblings(self.folder)
        return self._siblings

    def _enter(self, module: ModuleType, name: str) -> Iterator[Problem]:
        for variable, value in list(vars(module).items()):
            if not _is_public(variable):
                continue
            yield from self.shown(faults_of(value))
            if not (is_tool(value) or is_graph(value) or is_policy(value)):
                continue
            entry = _Named(value, f"{name}:{variable}")
            own = value.spec.name if is_tool(value) else str(getattr(value, "name", variable))
            for word in dict.fromkeys((own, variable)):
                known = self._registered.get(word) or self._imported.setdefault(word, entry)
                if known.value is not value:
                    template = "the name {word} stands for both {first} and {second}"
                    params: dict[str, object] = {
                        "word": word,
                        "first": known.origin,
                        "second": entry.origin,
                    }
                    yield Problem("", None, name, template, params)

    def _attribute(self, name: str, module_name: str, attribute: str) -> object:
        module = value = self._import(module_name)
        for part in attribute.split("."):
            try:
                value = getattr(value, part)
            except AttributeError:
                public = tuple(filter(_is_public, vars(module)))
                self._unknown(attribute, public, f"{module_name}:")
        return value

    def _import(self, name: str) -> ModuleType:
        siblings = self._folder_modules()
        if not all(part.isidentifier() for part in name.split(".")):
            _refuse(name, "{name!r} is not the name of a module", name=name)
        try:
            return siblings.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{siblings.private(name)}.".startswith(f"{error.name}."):
                self._import_failed(name, error)
            template = _NO_MODULE_AMONG if siblings.names() else _NO_MODULE
            known, folder = _listed(siblings.names()), self.folder.name or "."
            _refuse(name, template, name=name, folder=folder, known=known)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (a user's module may raise anything)
            self._import_failed(name, error)

    def _import_failed(self, name: str, error: BaseException) -> Never:
        package = self._folder_modules().package
        text = text_of(error).replace(f"{package}.", "") if package else text_of(error)
        where = self._user_line(error)
        params: dict[str, object] = {
            "name": name,
            "error": type(error).__name__,
            "text": text,
            "where": where,
        }
        template = _FAILED_AT if where else _FAILED
        problem = Problem("", None, name, template, params)
        raise ConfigError([problem]) from error

    def _user_line(self, error: BaseException) -> str:
        """Give the deepest place of `error` that is in the user's folder."""
        lines = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            lines.append((error.filename, error.lineno))
        folder = self.folder.resolve()
        for file, line in reversed(lines):
            if Path(file).is_relative_to(folder):
                return f"{Path(file).relative_to(folder)}:{line}"
        return ""

    def _unknown(self, name: str, known: Sequence[str], prefix: str = "") -> Never:
        full = prefix + name
        if near := difflib.get_close_matches(name, known, n=1):
            template = "nothing is called {name} (did you mean {suggestion}?)"
            _refuse(full, template, name=full, suggestion=prefix + near[0])
        if prefix:
            _refuse(full, "nothing is called {name}", name=full)
        template = _NOTHING[bool(known), self.in_python]
        _refuse(full, template, name=full, known=_listed(known))


def _refuse(path: str, template: str, /, *, file: str = "", **params: object) -> Never:
    raise ConfigError([Problem(file, None, path, template, params)])


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _listed(names: Iterator[str] | Sequence[str]) -> str:
    words = list(names)
    return ", ".join(words[:_MOST_SHOWN]) + (", …" if len(words) > _MOST_SHOWN else "")
