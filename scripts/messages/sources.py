"""The texts that the package says to people, found in its sources without running them.

A text is found where it is given: the first argument of `_` and `translate`, the template of an
error, and the argument `template` of any function that has a parameter of that name. A name, a
choice, a sum or a table of texts is followed to its texts; what cannot be followed is reported.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

_PARAMETER = "template"
_LETTER = re.compile(r"[^\W\d_]")
_FIELD = re.compile(r"\{[^{}]*\}")
_ROOT = "LoomError"
_SILENT = frozenset({"ToolError", "ScriptExhausted"})
_OURS = {"_": 0, "translate": 0, "lookup": 0, "PydanticCustomError": 1}
_TABLES = frozenset({"WORDS", "EXPLAINED_KEYS", "ARGPARSE_TEXTS", "TITLES", "REMEDIES", "DETAILS"})


@dataclass(slots=True)
class Found:
    """The texts, the files that say each of them, and the places that could not be followed."""

    texts: set[str] = field(default_factory=set[str])
    places: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unresolved: list[str] = field(default_factory=list[str])

    def add(self, text: str, place: str) -> None:
        """Note a text, unless nothing of it is ours to say."""
        if _LETTER.search(_FIELD.sub("", text.replace("{{", "").replace("}}", ""))):
            self.texts.add(text)
            self.places.setdefault(text, []).append(place)


def messages(src: Path) -> Found:
    """Find every text under `src`."""
    modules = {file: ast.parse(file.read_text("utf-8")) for file in sorted(src.rglob("*.py"))}
    speakers: dict[str, int] = {}
    for tree in modules.values():
        speakers |= _with_template(tree)
    errors = _errors(modules.values()) | _OURS
    found = Found()
    for file, tree in modules.items():
        place = file.relative_to(src.parent).as_posix()
        known = {name: at for name, at in speakers.items() if name not in _own(tree)}
        known |= _with_template(tree) | errors | _inner(tree)
        _Module(tree, place, known, found).search()
    return found


def _errors(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Give the classes of the tree of errors, with the place of the template in their arguments.

    A class whose constructor takes no template gives its own to the one above it.
    """
    above: dict[str, str] = {_ROOT: ""}
    own: dict[str, int | None] = {}
    classes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    bases: dict[str, set[str]] = {}
    for node in classes:  # a fact may have the name of an error
        named = {base.id for base in node.bases if isinstance(base, ast.Name)}
        bases[node.name] = bases.get(node.name, set()) | named
    while grown := {
        n: b & set(above) for n, b in bases.items() if n not in above and b & set(above)
    }:
        above |= {name: min(known) for name, known in grown.items()}
    for node in classes:
        made = next(
            (f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None
        )
        if made is not None:
            own[node.name] = _place_of_template(made).get("__init__")
    places: dict[str, int] = {}
    for name in above:
        maker = name
        while maker not in own and maker:
            maker = above[maker]
        if name not in _SILENT and (place := own.get(maker)) is not None:
            places[name] = place
    return places


def _with_template(tree: ast.AST) -> dict[str, int]:
    """Give the functions that have a parameter `template`, with its place among the arguments.

    Those that are made inside a function are left out.
    """
    found: dict[str, int] = {}
    for node in tree.body if isinstance(tree, ast.Module | ast.ClassDef) else []:
        if isinstance(node, ast.ClassDef):
            found |= _with_template(node) | _field_template(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= _place_of_template(node)
    return found


def _field_template(node: ast.ClassDef) -> dict[str, int]:
    """Give the place of the template among the fields of a dataclass."""
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
    for position, declared in enumerate(fields):
        match declared:
            case ast.AnnAssign(target=ast.Name(id="template"), annotation=ast.Name(id="str")):
                return {node.name: position}
            case _:
                pass
    return {}


def _own(tree: ast.Module) -> set[str]:
    """Give the names that a module defines itself, and which hide those of the others."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} - {"__init__"}


def _inner(tree: ast.Module) -> dict[str, int]:
    """Give the functions of that kind which are made inside one of the module's functions."""
    made = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = (n for f in made for n in ast.walk(f) if n is not f)
    found: dict[str, int] = {}
    for node in inside:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= _place_of_template(node)
    return found


def _place_of_template(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if _PARAMETER not in names:
        return {}
    return {function.name: names.index(_PARAMETER) - (names[0] in {"self", "cls"})}


class _Module:
    """One module: its calls, and what the names in it stand for."""

    def __init__(
        self, tree: ast.Module, place: str, speakers: dict[str, int], found: Found
    ) -> None:
        self.tree = tree
        self.place = place
        self.speakers = speakers
        self.found = found

    def search(self) -> None:
        """Note the texts of the module."""
        for name in _TABLES:
            for value in _assigned(self.tree, name):
                for text in _words(value):
                    self.found.add(text, self.place)
        self._search_in(self.tree, ())

    def _search_in(self, node: ast.AST, scopes: tuple[ast.AST, ...]) -> None:
        inside = (node, *scopes) if isinstance(node, _SCOPES) else scopes
        if isinstance(node, ast.Call):
            self._note(node, inside)
        for child in ast.iter_child_nodes(node):
            self._search_in(child, inside)

    def _note(self, call: ast.Call, scopes: tuple[ast.AST, ...]) -> None:
        name = _called(call)
        position = self.speakers.get(name, 0 if name == "super().__init__" else None)
        if position is None:
            return
        given = [k.value for k in call.keywords if k.arg == _PARAMETER]
        given += call.args[position : position + 1]
        for node in given:
            if isinstance(node, ast.Starred):
                continue
            texts = self._texts(node, scopes)
            if texts is None:
                if name != "super().__init__":
                    where = f"{self.place}:{call.lineno}"
                    self.found.unresolved.append(f"{where}: the text of {name} cannot be followed")
                continue
            for text in texts:
                self.found.add(text, self.place)

    def _texts(self, node: ast.AST | None, scopes: tuple[ast.AST, ...]) -> set[str] | None:
        """Give every text that `node` may stand for; none when it only hands one on."""
        match node:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp():
                return _union(self._texts(part, scopes) for part in (node.body, node.orelse))
            case ast.BinOp(op=ast.Add()):
                return _joined([self._texts(part, scopes) for part in (node.left, node.right)])
            case ast.JoinedStr():
                return _joined([self._texts(part, scopes) for part in node.values])
            case ast.FormattedValue():
                return self._texts(node.value, scopes)
            case ast.Attribute(attr="template"):
                return set()
            case ast.Subscript(value=ast.Name(id=table)):
                return _union({t} for v in self._values(table, scopes) for t in _table(v))
            case ast.Name(id=name):
                return self._named(name, scopes)
            case ast.Call(func=ast.Attribute(attr="get")):
                return set()  # from a table that is read whole
            case ast.Call(func=ast.Name(id=name)):
                return set() if name in _OURS else self._returned(name)
            case _:
                return None

    def _named(self, name: str, scopes: tuple[ast.AST, ...]) -> set[str] | None:
        for scope in scopes:
            if _takes(scope, name):
                return set()
            if values := _assigned(scope, name):
                texts = _union(self._texts(value, scopes) for value in values)
                added = [self._texts(value, scopes) for value in _added(scope, name)]
                longer = [_joined([texts, extra]) for extra in added]
                return _union([texts, *longer])
        values = _assigned(self.tree, name)
        return _union(self._texts(value, scopes) for value in values) if values else None

    def _returned(self, name: str) -> set[str] | None:
        """Give the texts that a function of the module returns, first in a tuple or alone."""
        for function in self.tree.body:
            if isinstance(function, ast.FunctionDef) and function.name == name:
                values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
                firsts = [v.elts[0] if isinstance(v, ast.Tuple) else v for v in values]
                return _union(self._texts(value, (function,)) for value in firsts)
        return None

    def _values(self, name: str, scopes: tuple[ast.AST, ...]) -> list[ast.expr]:
        return next((v for s in (*scopes, self.tree) if (v := _assigned(s, name))), [])


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return "super().__init__"
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _takes(scope: ast.AST, name: str) -> bool:
    if not isinstance(scope, _SCOPES):
        return False
    args = scope.args
    return name in {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}


def _assigned(scope: ast.AST, name: str) -> list[ast.expr]:
    """Give what is assigned to `name` in a scope, those inside it included but for the module."""
    nodes = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    values: list[ast.expr] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                values.append(value)
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                values += [value] if target == name else []
            case ast.NamedExpr(target=ast.Name(id=target), value=value) if target == name:
                values.append(value)
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), *_])], value=ast.Call()):
                values += [node.value] if first == name else []
            case _:
                pass
    return values


def _added(scope: ast.AST, name: str) -> list[ast.expr]:
    return [
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
    ]


def _table(node: ast.AST) -> Iterator[str]:
    """Give the texts that are the values of a table."""
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for value in part.values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def _words(node: ast.AST) -> Iterator[str]:
    """Give the texts of a table of texts: values of its mappings and members of its sets."""
    yield from _table(node)
    for part in ast.walk(node):
        if isinstance(part, ast.Set):
            values = (e.value for e in part.elts if isinstance(e, ast.Constant))
            yield from (value for value in values if isinstance(value, str))


def _union(parts: Iterable[set[str] | None]) -> set[str] | None:
    whole: set[str] = set()
    for part in parts:
        if part is None:
            return None
        whole |= part
    return whole


def _joined(parts: list[set[str] | None]) -> set[str] | None:
    known = [part for part in parts if part is not None]
    return {"".join(texts) for texts in product(*known)} if len(known) == len(parts) else None
