"""What later runs of a session read of an earlier one.

A turn is always valid for every provider, from whatever prefix of the journal it was made: each
call is followed by exactly one result, in call order, and the last word is the assistant's.
"""

from dataclasses import dataclass

from loom_ia.core.model.content import ReasoningBlock, TextBlock, ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.core.state.conversation import Conversation
from loom_ia.core.state.references import unmarked
from loom_ia.core.state.run import Cancelled, Completed, RunState, results_message


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished run as a part of a conversation; `digest` identifies its content."""

    messages: tuple[Message, ...]
    digest: str


def turn_of(run: RunState) -> Turn | None:
    """Give the turn that `run` leaves in its session.

    Only a root run that was completed or cancelled leaves one: a failed run may be reopened, and
    an open one is not over.
    """
    if run.header.parent_run_id is not None:
        return None
    match run.outcome:
        case Completed(output=output):
            conversation = _closed_by_a_call(run, output) if run.table else run.conversation
            said = _without_refused(conversation.messages, run.checks.repairs)
        case Cancelled():
            conversation = _closed_by_cancel(run)
            said = conversation.messages
        case _:
            return None
    language = run.header.language
    messages = tuple(_cleaned(message, language) for message in said)
    return Turn(messages, f"{run.run_id}:{conversation.digest}")


def _without_refused(
    messages: tuple[Message, ...], repairs: tuple[int, ...]
) -> tuple[Message, ...]:
    """Leave out the answers that had to be made again, and what asked for it."""
    gone: set[int] = set()
    for place in repairs:
        before = place - 1
        gone.add(place)
        if messages[before].role == "tool":
            gone.add(before)
            before -= 1
        gone.add(before)
    return tuple(m for index, m in enumerate(messages) if index not in gone) if gone else messages


def _closed_by_cancel(run: RunState) -> Conversation:
    language = run.header.language
    said = run.conversation
    if run.table:
        said = said.add(results_message(run.table, language))
    if said.messages and said.messages[-1].role == "assistant":
        return said
    return said.add(Message.text("assistant", prompt_text(language, "cancelled_run")))


def _closed_by_a_call(run: RunState, output: Message) -> Conversation:
    """Let the result of a terminal call be said once, as the answer."""
    said = ToolOutput.of_text(prompt_text(run.header.language, "given_as_answer"))
    table = tuple(call.but(output=said) for call in run.table)
    results = results_message(table, run.header.language)
    return run.conversation.add(results).add(Message.text("assistant", output.as_text()))


def _cleaned(message: Message, language: Language) -> Message:
    if message.role == "tool":
        return _unmarked(message)
    if not any(_is_dropped(block) for block in message.blocks):
        return message
    kept = tuple(block for block in message.blocks if not _is_dropped(block))
    blocks = kept or (TextBlock(text=prompt_text(language, "empty_message")),)
    return message.model_copy(update={"blocks": blocks})


def _unmarked(message: Message) -> Message:
    """Take away the ranks of results: they are those of their own run."""
    if not any(unmarked(result.output) is not result.output for result in message.results):
        return message
    blocks = tuple(
        result.model_copy(update={"output": unmarked(result.output)}) for result in message.results
    )
    return message.model_copy(update={"blocks": blocks})


def _is_dropped(block: object) -> bool:
    if isinstance(block, ReasoningBlock):
        return True
    return isinstance(block, TextBlock) and not block.text.strip()
