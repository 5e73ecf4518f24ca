"""What a specialist is told of the run that calls it, read where the run keeps it.

Law. Everything here comes from the journal and from the stored files, so that the same call is told
the same again after a crash. One section has one name, in templates and in tags.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from loom_ia.core.errors import ArtifactStoreError, ToolError, UnknownArtifact
from loom_ia.core.json import JsonValue, readable
from loom_ia.core.model.content import ArtifactBlock, JsonBlock, TextBlock, block_text
from loom_ia.core.model.context import ContextItem, LastTurns, StateKeys, ToolResults
from loom_ia.core.model.messages import Message
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import state_of
from loom_ia.core.state.turns import Turn
from loom_ia.engine.program import Caller
from loom_ia.engine.references import content_of

ORDER: Final = (
    "criteria",
    "user_input",
    "caller_context",
    "attachments",
    "session_summary",
    "last_turns",
    "tool_result",
    "arguments",
    "output",
    "session_state",
)
"""The sections that a specialist may read, in this order."""


class Section(NamedTuple):
    """A part of what a specialist reads; `attributes` tell parts of one name apart."""

    name: str
    body: str
    attributes: Mapping[str, str] = {}


@dataclass(slots=True)
class Gathered:
    """What was read: sections, the same values for templates, and the files that come along."""

    sections: list[Section] = field(default_factory=list[Section])
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    files: tuple[ArtifactBlock, ...] = ()

    def add(self, name: str, value: JsonValue) -> None:
        """Take a value; an empty one has no section."""
        self.values[name] = value
        if value not in ("", None, {}, []):
            self.sections.append(Section(name, written(value)))


def written(value: JsonValue) -> str:
    """Write a value as a specialist reads it."""
    return value if isinstance(value, str) else readable(value)


async def gather(
    items: Sequence[ContextItem],
    who: str,
    caller: Caller,
    language: Language,
    *,
    needs_all: bool = True,
) -> Gathered:
    """Read what `who` declared; raises `ToolError` for a result that there is not yet.

    Unless it `needs_all`, a result that there is not is left out.
    """
    found, run = Gathered(), caller.run
    for item in items:
        match item:
            case "user_input":
                found.add("user_input", _request(run))
            case "caller_context":
                found.add("caller_context", _said_by_caller(run))
            case "attachments":
                found.files = attachments(run)
                names = [f"{file.name or file.uri} ({file.media_type})" for file in found.files]
                found.add("attachments", "\n".join(names))
            case "session_summary":
                found.add("session_summary", "")  # nothing is summed up yet
            case "session_state":
                found.add("session_state", state_of(caller.session, run))
            case StateKeys():
                kept = state_of(caller.session, run)
                chosen = {key: kept[key] for key in item.session_state if key in kept}
                found.add("session_state", chosen)
            case LastTurns():
                turns = caller.session.turns_before(run)[-item.last_turns :]
                found.add("last_turns", "\n\n".join(_exchange(turn) for turn in turns))
            case ToolResults():
                missing = await _results(item, caller, found)
                if missing and needs_all:
                    names = ", ".join(missing)
                    raise ToolError(prompt_text(language, "call_first", role=who, tools=names))
    return found


def attachments(run: RunState) -> tuple[ArtifactBlock, ...]:
    """Give the files that the user gave."""
    return tuple(
        ArtifactBlock(uri=f.uri, media_type=f.media_type, size=f.size, name=f.name)
        for f in run.artifacts
        if f.origin == "attachment"
    )


def _request(run: RunState) -> str:
    said = next((m for m in run.conversation.messages if m.role == "user"), None)
    return _words(said) if said is not None else ""


def _words(message: Message) -> str:
    """Give what a message says, without the files that come along."""
    said = (block for block in message.blocks if isinstance(block, TextBlock | JsonBlock))
    return "".join(block_text(block) for block in said)


def _said_by_caller(run: RunState) -> JsonValue:
    context = run.header.context
    who: dict[str, JsonValue] = {"user_id": context.user_id} if context.user_id else {}
    return {**who, **context.metadata}


def _exchange(turn: Turn) -> str:
    asked, answered = _first(turn.messages, "user"), _first(turn.messages[::-1], "assistant")
    return f"user: {asked}\nassistant: {answered}"


def _first(messages: Sequence[Message], role: str) -> str:
    return next((_words(message) for message in messages if message.role == role), "")


async def _results(item: ToolResults, caller: Caller, found: Gathered) -> list[str]:
    """Read results of tools; gives the tools that have none."""
    missing: list[str] = []
    values = found.values.setdefault("tool_results", {})
    for tool in item.tool_results:
        known = _last(tool, item, caller)
        if known is None:
            missing.append(tool)
            continue
        call, attributes = known
        try:
            values[tool] = await content_of(call.output, caller.artifacts) if call.output else ""
        except (UnknownArtifact, ArtifactStoreError):
            missing.append(tool)
            continue
        body = written(values[tool])
        found.sections.append(Section("tool_result", body, {"tool": tool, **attributes}))
    return missing


def _last(tool: str, item: ToolResults, caller: Caller) -> tuple[Call, dict[str, str]] | None:
    """Give the last good result of a tool, and the reference to it when it is of this run."""
    for rank in range(len(caller.run.past), 0, -1):
        if _gives(call := caller.run.past[rank - 1], tool):
            return call, {"ref": f"result:{rank}"}
    if item.scope == "run":
        return None
    for run in reversed(caller.session.runs.values()):
        if run.header.parent_run_id is None and run.run_id != caller.run.run_id:
            for call in reversed((*run.past, *run.table)):
                if _gives(call, tool):
                    return call, {}
    return None


def _gives(call: Call, tool: str) -> bool:
    output = call.output
    return call.name == tool and output is not None and not output.is_error and not call.unknown
