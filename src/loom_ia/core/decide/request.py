"""Build what the main model is asked.

The parts of a request share their content by reference and their digests form a chain, so that a
long conversation costs no more per turn than a short one.
"""

from collections.abc import Iterator

from loom_ia.core.decide.effects import CallModel
from loom_ia.core.json import digest, readable
from loom_ia.core.model.messages import Message
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.plan import AgentPlan
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.conversation import chain_text
from loom_ia.core.state.session import RunView

_SHOWN_ARGUMENTS = 300


def build_request(view: RunView, plan: AgentPlan) -> CallModel:
    """Give the call of the main model for the present state of a run."""
    run = view.run
    notes: tuple[Message, ...] = ()
    if run.finalizing:
        notes = (Message.text("user", prompt_text(plan.language, "conclude")),)
    model = plan.facts_of(run.model_of("main"))
    native = model.native_json and not plan.tools
    system = "\n\n".join(filter(None, (plan.system, *_added(view, plan, native=native))))
    parts = {**plan.part_digests, **model.parts}
    if system is not plan.system:
        parts["system"] = digest(system)[:16]
    request = ModelRequest(
        model=model.id,
        system=system,
        history=view.history,
        messages=run.conversation.messages,
        notes=notes,
        tools=tuple(plan.tools.values()),
        tool_choice="none" if run.finalizing else "auto",
        max_tokens=model.max_tokens,
        params=model.params,
        output_schema=plan.output_schema if native else None,
        language=plan.language,
    )
    parts["messages"] = _messages_digest(view, notes)
    if run.finalizing:
        parts["settings"] = chain_text(parts.get("settings", ""), "none")[:16]
    whole = chain_text("", " ".join(parts[name] for name in sorted(parts)))
    return CallModel(request, parts, whole)


def _added(view: RunView, plan: AgentPlan, *, native: bool) -> Iterator[str]:
    """Give what is added to the prompt: what awaits a human, and the shape of the answer."""
    if view.pending_elsewhere:
        yield _pending_note(view, plan)
    if plan.output_schema is not None and not native:
        schema = readable(plan.output_schema)
        yield prompt_text(plan.language, "answer_schema", schema=schema)


def _messages_digest(view: RunView, notes: tuple[Message, ...]) -> str:
    text = chain_text(view.history_digest, view.run.conversation.digest)
    for note in notes:
        text = chain_text(text, note.model_dump_json())
    return text[:16]


def _pending_note(view: RunView, plan: AgentPlan) -> str:
    actions = "; ".join(
        f"{action.tool_name} ({action.call_id}) {readable(action.arguments)[:_SHOWN_ARGUMENTS]}"
        for action in view.pending_elsewhere
    )
    return prompt_text(plan.language, "pending", actions=actions)
