"""What the tools of a run gave so far, in the order in which the model asked for it."""

from dataclasses import dataclass

from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.state.run import RunState


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave."""

    name: str
    arguments: JsonObject
    output: ToolOutput
    call_id: CallId


def results_of(run: RunState) -> tuple[ToolResult, ...]:
    """Give what each call of the run gave that has a result, errors included."""
    outputs: dict[CallId, ToolOutput] = {}
    for message in run.conversation.messages:
        for result in message.results:
            outputs[result.call_id] = result.output
    for call in run.table:
        if call.output is not None:
            outputs[call.call_id] = call.output
    return tuple(
        ToolResult(call.name, call.arguments, outputs[call.call_id], call.call_id)
        for message in run.conversation.messages
        for call in message.calls
        if call.call_id in outputs
    )
