"""The Python modules next to `loom.yaml`: importable, and each configuration keeps its own.

Law. Two configurations of one process may each have an `outils.py`. The modules of a folder are
therefore loaded under a package of its own, `loom_project_<digest of the folder>`, and the imports
written in them that name a neighbour are compiled as imports from that package. Nothing is swapped
in `sys.modules` and nothing is patched: an import inside a function finds the right neighbour when
it is called, much later, as does `pickle`; tracebacks show the user's own files and lines; and a
neighbour called `json.py` hides the standard one from its own folder only.

When Python already finds every module of the folder by itself (the folder is on `sys.path`, as when
a script next to `loom.yaml` is started), the plain names are used: a script and its configuration
then share their modules, and a function is the same object seen from both.

What cannot follow: `importlib.import_module("neighbour")` asks Python, not the folder (write
`import_module(".neighbour", __package__)`), and a process started afresh, which has not loaded the
configuration, cannot unpickle what a private package defines.
"""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain, count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

_PREFIX: Final = "loom_project_"
_OURS: Final = "loom_ia"


class Siblings:
    """The modules of `folder`, and through them whatever is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.package = ""
        self._owned: dict[str, bool] = {}
        importlib.invalidate_caches()
        if not self._found_by_python():
            self.package = self._open()

    def import_module(self, name: str) -> ModuleType:
        """Import `name`, a neighbour's or an installed one; raises whatever its code raises."""
        return importlib.import_module(self.private(name))

    def private(self, name: str) -> str:
        """Give the name under which `name` is really loaded."""
        return f"{self.package}.{name}" if self.owns(name.partition(".")[0]) else name

    def shown(self, name: str) -> str:
        """Give the name that the user wrote, from the one under which it is loaded."""
        return name.removeprefix(f"{self.package}.") if self.package else name

    def names(self) -> tuple[str, ...]:
        """List the modules and packages of the folder."""
        return tuple(sorted(self._names()))

    def owns(self, top: str) -> bool:
        """Whether `top` is a module of the folder, to be loaded under its private package."""
        if not self.package or top == _OURS:
            return False
        if top not in self._owned:
            self._owned[top] = self._is_here(top)
        return self._owned[top]

    def close(self) -> None:
        """Forget the modules of the folder; what they defined no longer imports neighbours."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        if self.package:
            inside = f"{self.package}."
            for name in [n for n in sys.modules if n == self.package or n.startswith(inside)]:
                del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the private package, as Python's import system asks."""
        if not fullname.startswith(f"{self.package}."):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and type(spec.loader) is SourceFileLoader and spec.origin:
            spec.loader = _Loader(self, fullname, spec.origin)
        return spec

    def _open(self) -> str:
        base = _PREFIX + sha256(str(self.folder).encode()).hexdigest()[:8]
        names = chain([base], (f"{base}_{number}" for number in count(2)))
        name = next(filter(self._take, names))
        sys.meta_path.insert(0, self)
        return name

    def _take(self, name: str) -> bool:
        package = ModuleType(name, f"The Python modules of {self.folder}.")
        package.__path__ = [str(self.folder)]
        # One step, so that two threads which load the same folder take two names.
        return sys.modules.setdefault(name, package) is package

    def _names(self) -> Iterator[str]:
        if not self.folder.is_dir():
            return
        for entry in self.folder.iterdir():
            if entry.suffix == ".py" and entry.stem.isidentifier():
                yield entry.stem
            elif entry.name.isidentifier() and (entry / "__init__.py").is_file():
                yield entry.name

    def _is_here(self, top: str) -> bool:
        spec = PathFinder.find_spec(top, [str(self.folder)])
        if spec is None:
            return False
        # A folder without __init__.py is a package only when nothing else bears its name: one
        # called `json` with data in it hides nothing.
        return spec.has_location or _origin(top) is None

    def _found_by_python(self) -> bool:
        names = self.names()
        return bool(names) and all(_origin(name) in self._files(name) for name in names)

    def _files(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.py", self.folder / name / "__init__.py"


def _origin(top: str) -> Path | None:
    """Give the file that Python itself would load, or has loaded, under that name."""
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module without a specification, such as one made by hand
        return Path(top)
    if spec is None:
        return None
    return Path(spec.origin).resolve() if spec.origin and spec.has_location else Path(top)


class _Loader(SourceFileLoader):
    """Compile a module whose imports of neighbours come from its own package.

    No bytecode is written or read: it would serve the same file under its plain name.
    """

    def __init__(self, siblings: Siblings, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._siblings = siblings

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        tree = ast.fix_missing_locations(_Imports(self._siblings).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


class _Imports(ast.NodeTransformer):
    """Turn `import neighbour` into `import loom_project_x.neighbour as neighbour`, and so on."""

    def __init__(self, siblings: Siblings) -> None:
        self.siblings = siblings

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            top, _, inside = alias.name.partition(".")
            private = self.siblings.private(alias.name)
            if private == alias.name:
                statements.append(ast.Import([alias]))
                continue
            statements.append(ast.Import([ast.alias(private, alias.asname or top)]))
            if inside and not alias.asname:
                # `import a.b` loads a.b and names a.
                statements.append(ast.Import([ast.alias(self.siblings.private(top), top)]))
        return [ast.copy_location(statement, node) for statement in statements]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level == 0 and node.module:
            node.module = self.siblings.private(node.module)
        return node
