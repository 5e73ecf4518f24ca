"""What the answer of a run is: what its model said last, or what a terminal tool gave.

Law. A terminal tool gives the answer when it was called alone and succeeded; among others it is a
tool like them, and the model is called again.
"""

from collections.abc import Iterator

from loom_ia.core.model.content import ArtifactBlock, TextBlock, block_text
from loom_ia.core.model.messages import Message
from loom_ia.core.plan import AgentPlan
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import RunState


def answer_of(run: RunState, plan: AgentPlan) -> Message | None:
    """Give the answer of a run, None while it has none."""
    if run.answer is not None or len(run.table) != 1:
        return run.answer
    (call,) = run.table
    output = call.output
    if output is None or output.is_error or call.unknown or not _is_terminal(call, plan):
        return None
    blocks = tuple(
        block if isinstance(block, ArtifactBlock) else TextBlock(text=block_text(block))
        for block in output.shown
    )
    return Message(role="assistant", blocks=blocks or (TextBlock(text=""),))


def not_alone(run: RunState, plan: AgentPlan) -> Iterator[Call]:
    """Give the terminal calls of the table that give no answer, for they are not alone."""
    if len(run.table) > 1:
        yield from (call for call in run.table if call.launches and _is_terminal(call, plan))


def _is_terminal(call: Call, plan: AgentPlan) -> bool:
    tool = plan.tools.get(call.name)
    return tool is not None and tool.terminal
