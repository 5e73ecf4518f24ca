"""From the signature of a function to the parameters that a model fills in.

A parameter is the model's, except the one typed `ToolContext`, which the engine fills in and no
model sees. Whatever cannot be shown to a model or filled from JSON is refused here, when the tool
is read, all faults at once: nothing of the kind may wait for a call.
"""

import inspect
import typing
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MethodType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin

from loom_ia.core.errors import CallerError, Problem
from loom_ia.core.ports.tools import ToolContext


class ToolDefinitionError(CallerError, TypeError):
    """A function cannot be a tool.

    `problems` has every fault, with the file and the line of the function when it has some, and
    a path such as `prix_ttc(montant_ht)`.
    """

    def __init__(self, tool: str, problems: list[Problem]) -> None:
        super().__init__("{tool} cannot be a tool", tool=tool)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(p) if p.file else f"{p.path} — {p.message}" for p in self.problems)


class Faults:
    """The faults of one tool, gathered before any is raised."""

    def __init__(self, tool: str, function: object) -> None:
        self._tool = tool
        code = getattr(underlying(function), "__code__", None)
        self._file: str = code.co_filename if code else ""
        self._line: int | None = code.co_firstlineno if code else None
        self._found: list[Problem] = []

    def add(self, parameter: str, template: str, /, **params: object) -> None:
        """Note a fault of `parameter`, or of the whole tool when it is empty."""
        path = f"{self._tool}({parameter})" if parameter else self._tool
        self._found.append(Problem(self._file, self._line, path, template, params))

    def check(self) -> None:
        """Raise what was noted, if anything."""
        if self._found:
            raise ToolDefinitionError(self._tool, self._found)


class Signature(NamedTuple):
    """The parameters that the model fills in, resolved, and the name of the one it does not."""

    parameters: tuple[inspect.Parameter, ...]
    context: str | None


def underlying(function: Any) -> Any:
    """Give the function that was written, under partials, bound methods and decorators."""
    while True:
        if isinstance(function, partial):
            function = cast("partial[Any]", function).func
        elif isinstance(function, MethodType | staticmethod):
            function = cast("MethodType", function).__func__
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
        elif isinstance(function, FunctionType):
            return function
        else:
            method = getattr(cast("Any", type(function)), "__call__", None)  # noqa: B004 (it is what is wanted)
            if not isinstance(method, FunctionType):
                return function
            function = method


def read_signature(function: Callable[..., Any], faults: Faults) -> Signature:
    """Sort the parameters of `function`; what cannot be one is noted in `faults`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        faults.add(
            "", "its signature cannot be read ({reason}): wrap it in a function", reason=error
        )
        return Signature((), None)
    written = underlying(function)
    if inspect.isgeneratorfunction(written) or inspect.isasyncgenfunction(written):
        faults.add("", "it is a generator: return one value, such as a list, and use no yield")
    fixed = _fixed(function)
    namespace = {"ToolContext": ToolContext} | getattr(written, "__globals__", {})
    parameters: list[inspect.Parameter] = []
    contexts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in fixed or not _is_nameable(parameter, faults):
            continue
        annotation = _resolve(parameter, namespace, faults)
        if _is_context(annotation):
            contexts.append(parameter.name)
        elif annotation is not _UNRESOLVED:
            parameters.append(parameter.replace(annotation=annotation, kind=_KEYWORD))
    for name in contexts[1:]:
        faults.add(
            name, "{first} receives the ToolContext already: keep one of them", first=contexts[0]
        )
    return Signature(tuple(parameters), contexts[0] if contexts else None)


_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_UNRESOLVED: Final = object()


def _fixed(function: Any) -> frozenset[str]:
    """Name what a partial fills in: it is nobody else's, and must not be shown."""
    names: set[str] = set()
    while isinstance(function, partial):
        bound = cast("partial[Any]", function)
        names.update(bound.keywords)
        function = bound.func
    return frozenset(names)


def _is_nameable(parameter: inspect.Parameter, faults: Faults) -> bool:
    name = parameter.name
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            faults.add(name, "*{name} has no schema: take a list instead", name=name)
        case inspect.Parameter.VAR_KEYWORD:
            faults.add(name, "**{name} has no schema: take a dict[str, ...] instead", name=name)
        case inspect.Parameter.POSITIONAL_ONLY:
            faults.add(name, "a model gives arguments by name: remove the '/' after it")
        case _:
            return True
    return False


def _resolve(parameter: inspect.Parameter, namespace: dict[str, Any], faults: Faults) -> Any:
    name = parameter.name
    if parameter.annotation is inspect.Parameter.empty:
        if name in {"self", "cls"}:
            faults.add(
                name, "a method needs its object: decorate the bound method, tool(obj.method)"
            )
        else:
            faults.add(name, "it has no type: annotate it, such as {name}: str", name=name)
        return _UNRESOLVED
    holder = SimpleNamespace(__annotations__={name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, namespace, include_extras=True)[name]
    except Exception as error:  # noqa: BLE001 (an annotation is any code at all)
        faults.add(
            name,
            "its type {annotation} cannot be read ({reason}): import or define what it names at"
            " the top of the module, outside any `if TYPE_CHECKING`",
            annotation=parameter.annotation,
            reason=error,
        )
        return _UNRESOLVED


def _is_context(annotation: Any) -> bool:
    return set(_members(annotation)) - {NoneType} == {ToolContext}


def _members(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin is Union or origin is UnionType:
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation
