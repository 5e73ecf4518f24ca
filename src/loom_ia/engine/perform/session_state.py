"""What the end of a call writes in the state of the session: taken, checked, or refused.

It is settled when the result arrives, so that a fold only copies what was kept. Calls of a batch
that end together are judged one after the other, each with what the others were allowed.
"""

from copy import deepcopy
from types import MappingProxyType

from loom_ia.core.json import JsonValue
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.session_state import NO_STATE, StateRules
from loom_ia.core.session_values import MOST_REFUSALS, admitted, extracted
from loom_ia.core.state.calls import Call
from loom_ia.core.state.session import state_of
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.program import Program


def settled(output: ToolOutput, call: Call, context: EffectContext) -> ToolOutput:
    """Give a result with what it writes in the state, and what of it was refused.

    What the tool gives itself wins over what a key takes from its data.
    """
    rules = rules_of(context)
    taken = extracted(output, call.name, rules)
    given = {**taken.values, **output.state}
    refused = (*output.state_refused, *taken.refused)
    if not given and not refused:
        return output
    present = _present(call, context)
    judged = admitted(given, rules, present)
    context.state_writes[call.call_id] = judged.values
    refused = (*refused, *judged.refused)[:MOST_REFUSALS]
    return output.model_copy(update={"state": judged.values, "state_refused": refused})


def rules_of(context: EffectContext) -> StateRules:
    """Give the rules of the agent that is driven; a graph has none."""
    return context.program.plan.state if isinstance(context.program, Program) else NO_STATE


def readable_state(context: EffectContext) -> MappingProxyType[str, JsonValue]:
    """Give the state as a tool reads it: a copy that changes nothing."""
    run = context.run
    if not run.header.state_keys:
        return _EMPTY
    return MappingProxyType(deepcopy(state_of(context.pen.log.state, run)))


def _present(call: Call, context: EffectContext) -> dict[str, JsonValue]:
    """Give the state with what the other calls of the batch write, in the order of the calls."""
    run = context.run
    values = state_of(context.pen.log.state, run)
    for other in run.table:
        if other.call_id != call.call_id and (writes := context.state_writes.get(other.call_id)):
            values |= writes
    return values


_EMPTY: MappingProxyType[str, JsonValue] = MappingProxyType({})
