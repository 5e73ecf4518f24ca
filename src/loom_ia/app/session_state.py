"""The state of a session at the door: what a caller may pose, and what is there."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loom_ia.core.errors import Problem, StateRefused
from loom_ia.core.json import JsonValue
from loom_ia.core.model.session_state import StateFault, StateRefusal
from loom_ia.core.plan import AgentPlan
from loom_ia.core.session_values import admitted, missing


def require_state(
    given: Mapping[str, object], plan: AgentPlan, present: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Give what a caller poses as it is written; raises `StateRefused` with all that is wrong.

    A key that is required must be posed, or be `present` already.
    """
    rules = plan.state
    judged = admitted(given, rules, present)
    refused = {refusal.key for refusal in judged.refused}
    lacking = missing(rules, {**present, **judged.values})
    problems = [_problem(fault, plan) for fault in judged.refused]
    problems += [_problem(fault, plan) for fault in lacking if fault.key not in refused]
    if problems:
        raise StateRefused(problems)
    return judged.values


_NO_KEY: Final = "agent {agent} declares no such key (its keys: {detail})"
_NO_KEYS: Final = "agent {agent} declares no key (add it under state, in the file of the agent)"
_SAID: Final[Mapping[StateFault, str]] = MappingProxyType(
    {
        "unstorable": "it cannot be kept: {detail} (give what JSON can hold)",
        "too_large": "it is too large: {detail} bytes (see sessions.state.max_value_bytes)",
        "no_room": (
            "the whole state would be too large: {detail} bytes (erase keys with null, or see"
            " sessions.state.max_total_bytes)"
        ),
        "misfit": "it does not fit its schema, {detail} (give a value that does)",
        "missing": "agent {agent} needs a value for it (give one: state=…, or --state {key}=…)",
    }
)


def _problem(fault: StateRefusal, plan: AgentPlan) -> Problem:
    params: dict[str, object] = {"agent": plan.name, "key": fault.key, "detail": fault.detail}
    if fault.kind == "undeclared":
        template = _NO_KEY if plan.state.keys else _NO_KEYS
    else:
        template = _SAID[fault.kind]
    return Problem("", None, f"state.{fault.key}", template, params)
