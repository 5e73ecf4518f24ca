"""Build what the main model is asked.

The parts of a request share their content by reference and their digests form a chain, so that a
long conversation costs no more per turn than a short one.
"""

from collections.abc import Iterator
from dataclasses import replace

from loom_ia.core.decide.effects import CallModel
from loom_ia.core.json import JsonObject, digest, readable
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import RequestChange
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.plan import AgentPlan, tools_digest
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.conversation import chain_text
from loom_ia.core.state.session import RunView, state_of

_SHOWN_ARGUMENTS = 300


def build_request(view: RunView, plan: AgentPlan) -> CallModel:
    """Give the call of the main model for the present state of a run."""
    run, change = view.run, view.run.checks.change
    notes: tuple[Message, ...] = ()
    if plan.state.shown and (values := state_of(view, run)):
        text = prompt_text(plan.language, "state_now", values=readable(values))
        notes = (Message.text("user", text),)
    if run.finalizing:
        notes = (*notes, Message.text("user", prompt_text(plan.language, "conclude")))
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
        max_tokens=model.max_tokens,
        params=model.params,
        output_schema=plan.output_schema if native else None,
        language=plan.language,
    )
    if change is not None:
        request = changed(request, change)
        parts |= _digests_of(request, change)
    if run.finalizing or run.checks.without_tools:
        request = replace(request, tool_choice="none")
    parts["messages"] = _messages_digest(view, request.notes)
    if request.tool_choice != "auto":
        parts["settings"] = chain_text(parts.get("settings", ""), request.tool_choice)[:16]
    whole = chain_text("", " ".join(parts[name] for name in sorted(parts)))
    return CallModel(request, parts, whole)


def changed(request: ModelRequest, change: RequestChange) -> ModelRequest:
    """Give a request as policies changed it; a tool that is not offered any more stays away."""
    if change.system is not None:
        request = replace(request, system=change.system)
    if change.tools is not None:
        kept = tuple(tool for tool in request.tools if tool.name in change.tools)
        request = replace(request, tools=kept)
    if change.tool_choice is not None:
        choice = change.tool_choice if request.tools or change.tool_choice == "none" else "auto"
        request = replace(request, tool_choice=choice)
    if change.max_tokens is not None:
        request = replace(request, max_tokens=change.max_tokens)
    if change.params is not None:
        request = replace(request, params=change.params)
    added = tuple(Message.text("user", text) for text in change.added)
    return replace(request, notes=(*request.notes, *added)) if added else request


def _digests_of(request: ModelRequest, change: RequestChange) -> dict[str, str]:
    parts: dict[str, str] = {}
    if change.system is not None:
        parts["system"] = digest(request.system)[:16]
    if change.tools is not None:
        parts["tools"] = tools_digest(request.tools)
    if change.params is not None or change.max_tokens is not None:
        settings: JsonObject = {"max_tokens": request.max_tokens, "params": request.params}
        parts["settings"] = digest(settings)[:16]
    return parts


def _added(view: RunView, plan: AgentPlan, *, native: bool) -> Iterator[str]:
    """Give what is added to the prompt: state, what awaits a human, the shape of the answer."""
    if plan.state.shown:
        yield _state_note(plan)
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


def _state_note(plan: AgentPlan) -> str:
    """Say what the state is; it does not change from one request to the next."""
    keys = "; ".join(
        f"{name} ({key.description})" if key.description else name
        for name, key in plan.state.keys.items()
    )
    return prompt_text(plan.language, "state_shown", keys=keys)


def _pending_note(view: RunView, plan: AgentPlan) -> str:
    actions = "; ".join(
        f"{action.tool_name} ({action.call_id}) {readable(action.arguments)[:_SHOWN_ARGUMENTS]}"
        for action in view.pending_elsewhere
    )
    return prompt_text(plan.language, "pending", actions=actions)
