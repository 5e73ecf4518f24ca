"""What a judge is given besides the output: only what it declares, each part under its own tag.

Texts are material, never instructions: whatever looks like one of the tags in them is escaped.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from loom_ia.core.json import readable
from loom_ia.core.model.messages import Message
from loom_ia.core.state.results import ToolResult, results_of
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView

Selector: TypeAlias = Literal["user_input", "caller_context"]

_TAGS: Final = re.compile(
    r"<(?=/?(?:criteria|user_input|caller_context|attachments|session_summary|last_turns"
    r"|tool_result|arguments|output|session_state)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is given: the user's words, what the caller says, results of tools, last turns."""

    user_input: bool = False
    caller_context: bool = False
    tool_results: tuple[str, ...] = ()
    of_session: bool = False
    last_turns: int = 0


NOTHING: Final = Selection()
"""Nothing but the output itself."""


def section(tag: str, text: str, **attributes: str) -> str:
    """Give a text under a tag."""
    said = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{said}>\n{escaped(text)}\n</{tag}>"


def escaped(text: str) -> str:
    """Make of what looks like one of our tags a plain text."""
    return _TAGS.sub("&lt;", text)


def material(selection: Selection, view: RunView) -> Iterator[str]:
    """Give each part that is selected, of the run at the top of the one that is judged."""
    run = source_run(view)
    if selection.user_input:
        yield section("user_input", _user_input(run))
    if selection.caller_context:
        yield section("caller_context", readable(run.header.context.model_dump(mode="json")))
    if selection.last_turns:
        yield section("last_turns", _turns(view.history, selection.last_turns))
    if selection.tool_results:
        yield from _results(selection, run, view)


def source_run(view: RunView) -> RunState:
    """Give the run whose material it is: the caller's, when the run is that of a role."""
    run = view.run
    parent = run.header.parent_run_id
    is_role = bool(getattr(run.header, "role", ""))
    return view.runs.get(parent, run) if is_role and parent else run


def _user_input(run: RunState) -> str:
    said = (m.as_text() for m in run.conversation.messages if m.role == "user")
    return next(said, "")


def _turns(history: Sequence[Message], count: int) -> str:
    starts = [index for index, message in enumerate(history) if message.role == "user"]
    kept = history[starts[-count] :] if len(starts) >= count else history
    lines = (f"{m.role}: {m.as_text()}" for m in kept if m.role != "tool" and m.as_text())
    return "\n".join(lines)


def _results(selection: Selection, run: RunState, view: RunView) -> Iterator[str]:
    wanted = frozenset(selection.tool_results)
    others = [r for r in view.runs.values() if r.header.parent_run_id is None and r is not run]
    runs = [*others, run] if selection.of_session else [run]
    for one in runs:
        for result in results_of(one):
            if result.name in wanted and not result.output.is_error:
                yield _result(result)


def _result(result: ToolResult) -> str:
    output = result.output
    text = readable(output.data) if output.data is not None else output.text
    return section("tool_result", text, tool=result.name)
