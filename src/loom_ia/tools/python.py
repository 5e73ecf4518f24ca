"""A Python function as a tool.

Decorating reads nothing but the name: the signature is read when the tool is asked for its `spec`,
so that importing a module of tools stays cheap, and a fault comes out when a configuration is
loaded. What the decorator declares and what it leaves out stay apart, for a configuration to fill
in or override.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import (
    Any,
    Final,
    Generic,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loom_ia.core.errors import OutsideError, ToolError, text_of, told
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ApprovalMode, Assessment, OnUnknown, SideEffects, ToolSpec
from loom_ia.core.ports.tools import Done, NotDone, Reconciliation, ToolContext, Unknown
from loom_ia.core.template import notice_faults
from loom_ia.engine.threads import tool_threads
from loom_ia.tools.arguments import Arguments
from loom_ia.tools.docstring import read_docstring
from loom_ia.tools.results import to_output
from loom_ia.tools.signature import Faults, read_signature, underlying

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


Reconcile: TypeAlias = Callable[[dict[str, Any], ToolContext], object]
"""Tells what became of a call, of these arguments, whose end nobody saw; sync or async."""

Assess: TypeAlias = Callable[[dict[str, Any]], object]
"""Tells what a call of these arguments calls for; sync or async."""

MAKES_TOOL: Final = "__loom_tool__"
"""On a function, what makes another tool of the one that `tool` made of it."""


class ToolDeclarations(TypedDict, total=False):
    """What can be declared of a tool; see `ToolSpec` for what each entry does."""

    name: str
    description: str
    side_effects: SideEffects
    approval: ApprovalMode
    idempotent: bool
    on_unknown: OnUnknown
    timeout: float | None
    offload_over: int | None
    notice: str
    reconcile: "Reconcile | None"
    assess: "Assess | None"


_FUNCTIONS: Final = {"reconcile": "reconciles", "assess": "assesses"}
"""What is declared and is a function of the user, and what a spec, without live objects, says."""


class _Function:
    """The function behind a tool and behind its copies, read once for all."""

    def __init__(self, function: Callable[..., Any]) -> None:
        method = getattr(type(function), "__call__", None)  # noqa: B004 (the method is wanted)
        written = underlying(function)
        is_object = written is method
        self.call = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)
        self.label = str(getattr(type(function) if is_object else written, "__name__", function))
        self.name = "" if is_object or self.label == "<lambda>" else self.label
        self.doc = written.__doc__ or (type(function).__doc__ if is_object else None)
        self._read: tuple[Arguments, str | None] | None = None

    def read(self, faults: Faults) -> tuple[Arguments, str | None]:
        """Give the arguments, and the name of the parameter that takes the context."""
        if self._read is None:
            signature = read_signature(self.call, faults)
            self._read = Arguments(signature.parameters, faults), signature.context
        return self._read


@dataclass(frozen=True, eq=False, repr=False)
class PythonTool(Generic[P, R_co]):
    """A tool that runs a Python function; see `tool`, which makes it.

    It implements the `Tool` port, and called as a function it is the function. It never changes:
    `with_overrides` gives another one.
    """

    function: _Function
    """The function, read once for all its tools."""
    declared: Mapping[str, Any]
    """What was declared, and nothing else: an entry that is absent is open to configuration."""

    def __post_init__(self) -> None:
        # What `functools.wraps` would set, for tools that read code: doctest, sphinx, inspect.
        function = self.function
        self.__dict__.update(__wrapped__=function.call, __doc__=function.doc)
        for name in ("__module__", "__qualname__"):
            self.__dict__[name] = getattr(underlying(function.call), name, "")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function, as if it had not been decorated."""
        return self.function.call(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "PythonTool[..., R_co]":
        """Bind, as a function does: a tool that a class defines is a tool of each object."""
        bind = getattr(self.function.call, "__get__", None)
        if instance is None or bind is None:
            return self
        return cast(
            "PythonTool[..., R_co]", replace(self, function=_Function(bind(instance, owner)))
        )

    def __repr__(self) -> str:
        return f"<tool {self._name or self.function.label}>"

    @property
    def _name(self) -> str:
        return str(self.declared.get("name") or self.function.name)

    @property
    def __name__(self) -> str:
        return self.function.name

    @property
    def spec(self) -> ToolSpec:
        """What decisions and models know of it. Raises `ToolDefinitionError` with every fault."""
        return self._spec

    @cached_property
    def _spec(self) -> ToolSpec:
        function = self.function
        faults = Faults(self._name or function.label, function.call)
        documentation = read_docstring(function.doc)
        description = self.declared.get("description") or documentation.description
        if not self._name:
            faults.add("", "it has no name of its own: give name=")
        if not description:
            faults.add(
                "", "nothing tells a model what it does: write a docstring, or give description="
            )
        arguments, _ = function.read(faults)
        given = {
            **{k: v for k, v in self.declared.items() if k not in _FUNCTIONS},
            **{said: self.declared.get(k) is not None for k, said in _FUNCTIONS.items()},
            "name": self._name,
            "description": description,
            "input_schema": _described(arguments.schema, documentation.parameters),
        }
        for key, said in _FUNCTIONS.items():
            if given[said] and not callable(self.declared[key]):
                faults.add("", "{key} is not a function", key=key)
        faults.check()
        if self.declared.get("notice"):
            for problem in notice_faults(str(given["notice"]), arguments.schema):
                faults.add("notice", problem.template, **problem.params)
            faults.check()
        try:
            return ToolSpec.model_validate(given)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                _note(fault, faults)
            faults.check()
            raise

    def with_overrides(self, **declarations: Unpack[ToolDeclarations]) -> "PythonTool[P, R_co]":
        """Give the same tool with other declarations; those that are not given stay."""
        _refuse_unknown(self._name, self.function.call, declarations)
        return replace(self, declared=MappingProxyType({**self.declared, **declarations}))

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` cannot run, a line for each problem, path first."""
        try:
            await contained(self.values(arguments))
        except ToolError as error:
            return text_of(error)
        except Exception as error:  # noqa: BLE001 (a validator of the user is any code at all)
            return f"the arguments cannot be read: {told(error)}"
        return None

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run the function: in the event loop when it is async, else in a thread of the tools.

        Cancelled, a coroutine is cancelled and a thread is awaited: its result still comes out,
        unless a second cancellation comes first.

        What the function raises comes out as it is, except what would pass for an order given to
        this process (a cancellation, an exit, an interrupt): that comes out as `OutsideError`.
        """
        return await contained(self._run(arguments, context))

    async def reconcile(self, arguments: JsonObject, context: ToolContext) -> Reconciliation:
        """Ask the function that was declared, in the event loop when it is async, else in a thread.

        The output of `Done` comes out as a `ToolOutput`. Raises what the function raises, and
        `OutsideError` when it gives none of the three answers.
        """
        match await self._asked("reconcile", await self.values(arguments), context):
            case Done(output=None):
                return Done()
            case Done(output=output):
                return Done(to_output(output))
            case NotDone() | Unknown() as answer:
                return answer
            case answer:
                raise OutsideError(
                    "reconcile of {tool} gives {type}: give Done(…), NotDone() or Unknown()",
                    tool=self._name,
                    type=type(answer).__name__,
                )

    async def assess(self, arguments: JsonObject) -> Assessment:
        """Ask the function that was declared, in the event loop when it is async, else in a thread.

        Raises what the function raises, and `OutsideError` when it gives no assessment.
        """
        answer = await self._asked("assess", await self.values(arguments))
        if isinstance(answer, Assessment):
            return answer
        raise OutsideError(
            "assess of {tool} gives {type}: give an Assessment(…)",
            tool=self._name,
            type=type(answer).__name__,
        )

    async def _asked(self, key: str, *given: object) -> object:
        """Call a function that was declared, sync or async."""
        function = self.declared[key]

        async def ask() -> object:
            if inspect.iscoroutinefunction(function):
                return await function(*given)
            answer = await tool_threads.run(lambda: function(*given))
            return await answer if inspect.isawaitable(answer) else answer

        return await contained(ask())

    async def _run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        reader, taker = self._plan
        function = self.function.call

        def enter(values: dict[str, Any]) -> Any:
            return function(**values) if taker is None else function(**values, **{taker: context})

        if self.function.is_async:
            return to_output(await enter(await self.values(arguments)))

        def work() -> Any:
            result = enter(reader.read(arguments))
            return result if inspect.isawaitable(result) else to_output(result)

        result = await tool_threads.run(work, to_end=True)
        if isinstance(result, ToolOutput):
            return result
        if _is_cancelled():  # the call was given up: what was not begun must not begin
            if inspect.iscoroutine(result):
                result.close()
            raise asyncio.CancelledError
        return to_output(await result)

    async def values(self, arguments: JsonObject) -> dict[str, Any]:
        """Give the arguments as the function gets them. Raises `ToolError` when they cannot run."""
        reader, _ = self._plan
        if reader.runs_user_code:
            return await tool_threads.run(lambda: reader.read(arguments))
        return reader.read(arguments)

    @cached_property
    def _plan(self) -> tuple[Arguments, str | None]:
        return self.function.read(Faults(self._name, self.function.call))


@overload
def tool(
    function: Callable[P, R_co], /, **declarations: Unpack[ToolDeclarations]
) -> PythonTool[P, R_co]: ...
@overload
def tool(
    **declarations: Unpack[ToolDeclarations],
) -> Callable[[Callable[P, R_co]], PythonTool[P, R_co]]: ...
def tool(function: Callable[..., Any] | None = None, /, **declarations: Any) -> Any:
    """Make a tool of a function, sync or async, or of any callable that has a signature.

    The parameters become the schema, one typed `ToolContext` excepted; the docstring becomes the
    description. Faults in either come out of `spec`, as one `ToolDefinitionError`.

        @tool(side_effects="irreversible", approval="always", timeout=20)
        async def send(recipient: str, body: str, ctx: ToolContext) -> str:
            '''Send an email to the customer.'''

    `name` and `description` replace those of the function. The other declarations are those of
    `ToolSpec`; `timeout` is in seconds, None for no limit, 30 when nobody says. A method is
    decorated in its class or bound, `tool(obj.method)`. Decorating a tool again overrides it.

    `reconcile` is a function, sync or async, of the arguments (a dict, as the function gets them)
    and the `ToolContext`. It is asked when nobody saw the end of a call, after a crash, a timeout
    or an `UnknownEffect`, before a person is asked or the model told, and has the tool's timeout to
    answer: `Done(output)`, the call is completed with that; `NotDone()`, it is launched again under
    the approval that it had, once at most unless it is interrupted again; `Unknown()`, an
    exception, or no answer in time, and `on_unknown` decides.

    `notice` is the sentence that is told to whoever must let a call go, a template over its
    arguments: `"Send to {{ recipient }}: {{ subject }}"`. An argument that it names must exist.

    `assess` is a function, sync or async, of the arguments alone. It is asked when the model asks
    for a call, and gives an `Assessment`: the `approval` and the `side_effects` of this call, in
    the place of those of the tool, with a `reason` for whoever approves. It must not act. When it
    raises, gives something else or takes 5 seconds, a person is asked.
    """
    if function is None:
        return lambda function: _make(function, declarations)  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    return _make(function, declarations)


def _make(function: Any, declarations: dict[str, Any]) -> PythonTool[..., Any]:
    if isinstance(function, PythonTool):
        made = cast("PythonTool[..., Any]", function)
        return made.with_overrides(**cast("ToolDeclarations", declarations))
    name = str(declarations.get("name") or getattr(function, "__name__", repr(function)))
    _refuse_unknown(name, function, declarations)
    if isinstance(function, type) or not callable(function):
        faults = Faults(name, function)
        faults.add(
            "",
            "a {type} is not a function: put @tool next to the def, or on a bound method",
            type="class" if isinstance(function, type) else type(function).__name__,
        )
        faults.check()
    made = PythonTool[..., Any](_Function(function), MappingProxyType(dict(declarations)))
    other = getattr(function, MAKES_TOOL, None)
    return made if other is None else other(made)


def _refuse_unknown(name: str, function: object, declarations: Mapping[str, Any]) -> None:
    faults = Faults(name, function)
    for unknown in sorted(set(declarations) - set(_DECLARATIONS)):
        faults.add(
            "",
            "unknown declaration {key}; the known ones are {known}",
            key=unknown,
            known=", ".join(_DECLARATIONS),
        )
    faults.check()


_DECLARATIONS: Final = tuple(ToolDeclarations.__annotations__)


def _note(fault: ErrorDetails, faults: Faults) -> None:
    key = str(fault["loc"][0])
    if key == "name":
        faults.add("", "a tool has a name of 1 to 64 letters, digits, _ or -: give name=")
    else:
        faults.add("", "{key}: {reason}", key=key, reason=fault["msg"])


def _described(schema: JsonObject, descriptions: Mapping[str, str]) -> JsonObject:
    """Give the descriptions of the docstring to the parameters that have none."""
    properties = dict(cast("dict[str, JsonObject]", schema["properties"]))
    for name, text in descriptions.items():
        if name in properties and text:
            properties[name] = {"description": text, **properties[name]}
    return {**schema, "properties": cast("JsonObject", properties)}


async def contained(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; an order to this process that the tool itself gave becomes a failure."""
    try:
        return await work
    except (Exception, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        raise OutsideError("the tool raised {type}", type=type(error).__name__) from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
