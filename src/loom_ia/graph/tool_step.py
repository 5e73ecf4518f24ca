"""One call of a tool, as a step."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from loom_ia.core.errors import CallerError, ToolError
from loom_ia.core.ports.tools import Tool
from loom_ia.graph.batch import Batch
from loom_ia.graph.context import StepContext
from loom_ia.graph.invocation import asked
from loom_ia.graph.tool_call import ToolCall
from loom_ia.graph.toolset import a_tool, toolset
from loom_ia.graph.types import Step


def tool_step(tool: Tool, *, args: Callable[[Any], Any], into: str) -> Step:
    """Make a step that calls `tool` once with `args(state)`, a mapping, and keeps what it gave.

    Under `into` goes the value of the result, or its text when it has no other. The call is an
    effect of the step, with the declarations of the tool; one that needs a human asks first, about
    the very arguments that will be used. A result that is an error fails the step (`ToolError`).
    """
    tools = toolset([a_tool(tool, "tool")])
    name = tool.spec.name

    async def tool_step(state: Any, ctx: StepContext) -> dict[str, Any]:
        arguments = await asked(args, state)
        if not isinstance(arguments, Mapping):
            raise CallerError(
                "the args of the step {step} gave {type}: they give a mapping of arguments",
                step=ctx.step,
                type=type(arguments).__name__,
            )
        call = ToolCall(name, name, dict(cast("Mapping[str, Any]", arguments)))
        (made,) = await Batch(1, tools, (), ctx).made([call])
        result = made.result
        if result.is_error:
            raise ToolError(result.content)
        return {into: result.content if result.data is None else result.data}

    return tool_step
