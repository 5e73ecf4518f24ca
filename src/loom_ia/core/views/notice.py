"""What a person is told when something waits for him, and what binds his decision to it.

Law. What is told is a function of the facts: the same at every attempt, in every process.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject, JsonValue, digest, readable
from loom_ia.core.model.base import Value
from loom_ia.core.prompts import Language
from loom_ia.core.state.calls import QuestionKind
from loom_ia.core.state.questions import Asking
from loom_ia.core.template import one_sentence

_VALUE_CHARS: Final = 80
ASKS: Final = ("prompt", "question", "message")
"""Where a step writes what it asks, in a payload that is an object."""

_Said: TypeAlias = Literal["approve", "unknown_effect", "input"]
_SENTENCES: Final[Mapping[tuple[str, _Said], str]] = MappingProxyType(
    {
        ("en", "approve"): "{agent} asks whether to call {tool}{given}",
        ("fr", "approve"): "{agent} demande s’il peut appeler {tool}{given}",
        ("en", "unknown_effect"): (
            "{agent} was interrupted while it called {tool}{given}, which may have taken effect, "
            "and asks whether to call it again"
        ),
        ("fr", "unknown_effect"): (
            "{agent} a été interrompu pendant l’appel de {tool}{given}, qui a peut-être eu lieu, "
            "et demande s’il faut le refaire"
        ),
        ("en", "input"): "{agent} asks: {asked}",
        ("fr", "input"): "{agent} demande : {asked}",
    }
)


class Notice(Value):
    """What is sent about a request, every time the same; instants are in UTC.

    `id` identifies the delivery to one target: whoever receives it twice was told of one request.
    `run_id` is the run at the top, on which the decision is given, and `call_id` what it is given
    on. `link` is the page where it can be taken, None without one. `shortened` tells that arguments
    or payload are left out, being too long for a notice.
    """

    id: str
    sentence: str
    kind: QuestionKind
    agent: str
    run_id: RunId
    call_id: str
    tool: str
    arguments: JsonObject
    payload: JsonValue = None
    reason: str = ""
    requested_at: datetime
    expire_at: datetime | None
    link: str | None
    language: Language
    shortened: bool = False


def sentence_of(asking: Asking) -> str:
    """Say what is asked in a line: what the tool says of the call, else its name and arguments."""
    if own := own_words(asking):
        return own
    inquiry, language = asking.inquiry, asking.run.header.language
    agent = asking.run.header.agent
    if asking.kind == "input":
        said = _SENTENCES[language, "input"].format(agent=agent, asked=_asked(asking))
        return one_sentence(said)
    tool = inquiry.tool_name or asking.call.name if inquiry is not None else asking.call.name
    arguments = shown_arguments(asking)
    short = ", ".join(f"{k} = {_short(v)}" for k, v in arguments.items())
    given = f" ({short})" if short else ""
    return one_sentence(
        _SENTENCES[language, asking.kind].format(agent=agent, tool=tool, given=given)
    )


def own_words(asking: Asking) -> str:
    """Give what the tool itself says of the call; empty when it says nothing."""
    if asking.question is not None:
        return asking.question.notice
    payload = asking.inquiry.payload if asking.inquiry is not None else None
    said = payload.get("sentence") if isinstance(payload, dict) else None
    return one_sentence(said) if asking.kind == "approve" and isinstance(said, str) else ""


def shown_arguments(asking: Asking) -> JsonObject:
    """Give the arguments that a person is shown, empty when there are none."""
    if asking.inquiry is None:
        return asking.question.arguments if asking.question else asking.call.arguments
    payload = asking.inquiry.payload
    shown = payload.get("arguments") if isinstance(payload, dict) else None
    return shown if asking.kind == "approve" and isinstance(shown, dict) else {}


def shown_digest(asking: Asking) -> str:
    """Identify all that a person is shown; 16 hexadecimal digits."""
    inquiry = asking.inquiry
    tool = inquiry.tool_name if inquiry is not None else ""
    payload = None if inquiry is None else inquiry.payload
    shown = [asking.kind, asking.call.name, tool, shown_arguments(asking), payload, asking.schema]
    return digest(shown)[:16]


def delivery_id(run_id: RunId, request: str, target: str) -> str:
    """Identify what is sent to a target about a request, at every attempt and in every process."""
    return digest([run_id, request, target])[:32]


def _asked(asking: Asking) -> str:
    payload = asking.inquiry.payload if asking.inquiry is not None else None
    if isinstance(payload, dict):
        texts = (payload.get(name) for name in ASKS)
        payload = next((text for text in texts if isinstance(text, str)), payload)
    if payload is None:
        return asking.call.name
    return payload if isinstance(payload, str) else readable(payload)


def _short(value: JsonValue) -> str:
    return one_sentence(value if isinstance(value, str) else readable(value), _VALUE_CHARS)
