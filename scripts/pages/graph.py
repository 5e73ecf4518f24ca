"""The page of the graph library: every public name, as its source declares it."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from loom_ia import graph
from loom_ia.graph import errors
from loom_ia.graph.definition import GraphDefinition
from scripts.pages.markdown import block, code, page, prose, table

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Graphs": ("Graph", "StepContext", "StepBudget"),
        "What a step gives": ("Ask", "Goto", "Send", "Refused", "END", "DELETE", "MISSING"),
        "Routers": ("always", "branch", "branch_by", "condition", "end", "fan_out"),
        "Merges": (
            *("overwrite", "append", "add", "union", "maximum", "minimum", "merge_dict", "by_id"),
            "DEFAULT_MERGE",
        ),
        "Steps that are ready": (
            *("guard", "ask_human", "tool_loop", "tool_step", "assemble_prompt"),
            *("subgraph", "handoff", "agent_step"),
        ),
        "Options": ("Retry", "Cache", "Hooks", "Durability", "Compaction"),
        "Limits": ("cost_budget", "token_budget"),
        "What a run gives": (
            *("RunResult", "StopReason", "Interrupt", "CheckpointInfo", "RunInfo"),
            *("GraphEvent", "StepCompleted", "StateChanged", "Interrupted", "Token"),
            "RunFinished",
        ),
        "Shape": ("Topology", "StepInfo", "Edge", "Problem"),
        "Stores": ("Store", "MemoryStore", "SQLiteStore", "PostgresStore"),
        "Tools": (
            *("permissions", "Toolset", "dispatch", "ToolCall", "ToolResult", "ToolHook"),
            "Tool",
        ),
        "Models": (
            *("chat_model", "ChatModel", "ChatRequest", "Reply", "ReplyChunk", "Message"),
            "Usage",
        ),
        "Prompts and conversations": (
            *("Identity", "Skill", "match_skills", "AgentFolder", "load_folder"),
            *("load_session", "append_session"),
        ),
        "Functions without effects": ("fold", "apply_delta", "encode", "decode", "diff_runs"),
        "Types": (
            *("Step", "Router", "Target", "Merge", "Delta", "Hook", "Approver", "StreamItem"),
        ),
    }
)
"""The sections of the page; the errors have their own."""

_WIDTH: Final = 100
_INNER: Final = frozenset(
    {
        *("build", "require_valid", "state_type", "migrations", "fingerprint_parts"),
        "changes_since",
    }
)
"""What the library itself asks of a graph."""
_Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def text() -> str:
    """Give the page."""
    _require_whole()
    return page(
        "The graph library",
        "All of it is imported from `loom_ia.graph`. [What a graph is](../explanation/graphs.md) "
        "says how a run is kept, and what is promised.",
        *(part for title, names in GROUPS.items() for part in _section(title, names)),
        "## Errors",
        block(inspect.cleandoc(errors.__doc__ or "").split("\n\n", 1)[1], "text"),
        table(("error", "when"), _error_rows()),
    )


def described_names() -> set[str]:
    """Give every name that the page describes."""
    return {name for names in GROUPS.values() for name in names} | set(_errors())


def _require_whole() -> None:
    """Refuse a public name without a section."""
    forgotten = sorted(set(graph.__all__) - described_names())
    if forgotten:
        raise ValueError(f"scripts/pages/graph.py: no section has {', '.join(forgotten)}")


def _errors() -> list[str]:
    found = (name for name in graph.__all__ if isinstance(getattr(graph, name), type))
    return [name for name in found if issubclass(getattr(graph, name), errors.LoomError)]


def _error_rows() -> Iterator[tuple[str, str]]:
    for name in _errors():
        yield code(name), prose(getattr(graph, name).__doc__).replace("\n\n", " ")


def _section(title: str, names: tuple[str, ...]) -> Iterator[str]:
    yield f"## {title}"
    for name in names:
        if name in graph.__all__:
            yield f"### {name}"
            yield from _described(name)


def _described(name: str) -> Iterator[str]:
    value = getattr(graph, name)
    if not (isinstance(value, type) or inspect.isfunction(value)):
        yield from _assigned(name)
        return
    built = GraphDefinition if value is graph.Graph else value
    yield block(_declared(_node(built), name), "python")
    yield prose(inspect.getdoc(value))
    if built is not value:
        yield prose(inspect.getdoc(built)).partition("\n\n")[2]
    if isinstance(value, type):
        yield from _methods(value)


def _assigned(name: str) -> Iterator[str]:
    """Describe a name that a module assigns, with the text that follows it."""
    module = import_module(f"loom_ia.{graph._HOMES[name]}")  # noqa: SLF001 -- where a name is from
    body = _tree(module).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            value = "" if node.value is None else ast.unparse(node.value)
            yield block(f"{name} = {value}", "python")
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                yield prose(str(following.value.value))


def _methods(kind: type) -> Iterator[str]:
    """Describe the public methods of a class, those that it inherits from this package too."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("loom_ia.") or "model" in owner.__module__:
            continue
        for node in _node(owner).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            said = ast.get_docstring(node)
            if node.name.startswith("_") or node.name in seen | _INNER or said is None:
                continue
            seen.add(node.name)
            is_property = any("property" in ast.unparse(mark) for mark in node.decorator_list)
            what = node.name if is_property else _declared(node)
            yield block(what, "python") if not is_property else f"`{kind.__name__}.{what}`"
            yield prose(said)


def _declared(node: _Node, name: str = "") -> str:
    """Write what a reader needs of a declaration: its parameters, or its fields."""
    if not isinstance(node, ast.ClassDef):
        return _signature(node, node.name, node.args)
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            return _signature(None, name or node.name, inner.args)
    fields = [ast.unparse(inner) for inner in node.body if isinstance(inner, ast.AnnAssign)]
    members = [ast.unparse(inner) for inner in node.body if isinstance(inner, ast.Assign)]
    lines = fields or members
    return "\n".join([f"class {node.name}:", *(f"    {line}" for line in lines or ["..."])])


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef | None, name: str, args: ast.arguments
) -> str:
    given = ast.arguments(
        posonlyargs=args.posonlyargs,
        args=[argument for argument in args.args if argument.arg != "self"],
        vararg=args.vararg,
        kwonlyargs=args.kwonlyargs,
        kw_defaults=args.kw_defaults,
        kwarg=args.kwarg,
        defaults=args.defaults,
    )
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    after = f" -> {ast.unparse(node.returns)}" if node is not None and node.returns else ""
    parameters = _parameters(given)
    one = f"{before}{name}({', '.join(parameters)}){after}"
    if len(one) <= _WIDTH:
        return one
    each = "\n".join(f"    {parameter}," for parameter in parameters)
    return f"{before}{name}(\n{each}\n){after}"


def _parameters(args: ast.arguments) -> list[str]:
    """Write each parameter apart."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
    written = [_parameter(a, d) for a, d in zip(positional, defaults, strict=True)]
    if args.vararg is not None:
        written.append(f"*{ast.unparse(args.vararg)}")
    elif args.kwonlyargs:
        written.append("*")
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    written += [_parameter(a, d) for a, d in pairs]
    if args.kwarg is not None:
        written.append(f"**{ast.unparse(args.kwarg)}")
    return written


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(argument)
    equals = " = " if argument.annotation is not None else "="
    return f"{ast.unparse(argument)}{equals}{ast.unparse(default)}"


def _node(value: object) -> _Node:
    """Find the declaration of a class or a function in its module."""
    module = inspect.getmodule(value)
    name = getattr(value, "__name__", "")
    if module is not None:
        for node in _tree(module).body:
            if isinstance(node, _Node) and node.name == name:
                return node
    raise ValueError(f"scripts/pages/graph.py: {name} is declared by no module")


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_text("utf-8"))
