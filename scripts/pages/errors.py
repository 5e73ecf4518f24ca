"""The page of the errors: the one tree, and what each branch means."""

import inspect
from collections.abc import Iterator

from loom_ia.core import errors
from scripts.pages.markdown import block, code, page, prose, table


def text() -> str:
    """Give the page."""
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    return page(
        "Errors",
        "Everything that this package raises is in one tree. The second level says whose fault "
        "it is. Import them from `loom_ia.core.errors`; `LoomError`, `ConfigError` and `ToolError` "
        "are also in `loom_ia`.",
        block(inspect.cleandoc(tree), "text"),
        "`str(error)` is an English sentence that names the thing, the place and the remedy. The "
        "same sentence is in `error.template`, with its parameters in `error.params`: use these, "
        "and never match the text.",
        table(("error", "is also", "meaning"), _rows(errors.LoomError)),
        "Two more belong to the code that raises them: `loom_ia.tools.ToolDefinitionError` (a "
        "`CallerError` and a `TypeError`) when a function cannot be a tool, and "
        "`FakeScriptError` (a `ConfigError` and a `ValueError`) when the script of a fake model "
        "cannot be played.",
    )


def _rows(branch: type[errors.LoomError]) -> Iterator[tuple[str, str, str]]:
    bases = ", ".join(code(base.__name__) for base in branch.__bases__)
    yield code(branch.__name__), bases, prose(branch.__doc__).replace("\n\n", " ")
    for below in branch.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _rows(below)
