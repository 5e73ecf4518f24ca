"""The policies that are ours: `loom.` before a name finds them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from loom_ia.core.json import JsonValue
from loom_ia.core.model.decisions import CONTINUE, Decision, Replace
from loom_ia.core.ports.policies import BeforeModel, PolicyContext
from loom_ia.policies.function import PolicyFunction, policy
from loom_ia.policies.no_phantom import faults_in as phantom_faults
from loom_ia.policies.no_phantom import no_phantom_action
from loom_ia.policies.permission import faults_in as permission_faults
from loom_ia.policies.permission import permission


@policy(points=["before_model"], decisions=["replace"], name="require_tool")
async def require_tool(subject: BeforeModel, context: PolicyContext) -> Decision:
    """Have the model call a tool as long as it has called none in the run."""
    if context.results or not subject.request.tools:
        return CONTINUE
    if subject.request.tool_choice != "auto":
        return CONTINUE
    return Replace(replace(subject.request, tool_choice="required"))


def faults_in_params(name: str, params: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Tell what is wrong with the params of one of our policies, before any run."""
    match name:
        case "loom.permission":
            return permission_faults(params)
        case "loom.no_phantom_action":
            return phantom_faults(params)
        case "loom.require_tool":
            return tuple(f"there is no {key}: it takes no params" for key in sorted(params))
        case _:
            return ()


BUILTIN: Final[Mapping[str, PolicyFunction]] = MappingProxyType(
    {
        f"loom.{function.name}": replace(function, name=f"loom.{function.name}")
        for function in (require_tool, permission, no_phantom_action)
    }
)
"""By the name that a configuration writes."""
