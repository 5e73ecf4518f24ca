"""Asking the person in front of the client, with a form that the client shows.

Law. A decision is bound to the bytes that were shown: it is about one request of one run, and when
that one changed or was closed meanwhile nothing is decided. A form that is declined, dismissed or
filled in wrongly decides nothing either: the run stays paused. No tool ever decides.

Clients up to 2025-11-25 are asked while the call is under way. Later ones get their question as an
unfinished result, and call again with the answer and a sealed state that names the run: that one
goes on, and none is begun.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from loom_ia.access.mcp_server.results import asked_text
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.json import digest
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.i18n import translate as _

Context: TypeAlias = ServerRequestContext[Any, Any]

GRANT: Final = "accorder"
REFUSE: Final = "refuser"
QUESTION: Final = "decision"
"""The name of the question in an unfinished result."""

STATE_LIFETIME: Final = 86_400.0
"""Seconds for which a client may bring back an answer."""

_WITHOUT_BACK_CHANNEL: Final = "2026-07-28"
_LONGEST_REASON: Final = 2_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A question as somebody was shown it."""

    run_id: RunId
    session_id: SessionId
    call_id: str
    digest: str
    told: int = 0

    def written(self) -> str:
        """Write it as the state that the client brings back, sealed."""
        return json.dumps([self.run_id, self.session_id, self.call_id, self.digest, self.told])

    @classmethod
    def read(cls, state: str) -> "Shown":
        """Read what `written` gave; the seal was checked before."""
        run_id, session_id, call_id, seen, told = json.loads(state)
        return cls(run_id, session_id, call_id, seen, told)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the person said."""

    granted: bool
    reason: str = ""


How: TypeAlias = Literal["never", "inside", "by_return"]


def how_to_ask(ctx: Context) -> How:
    """Tell whether the client can show a form, and in which way it is asked."""
    capabilities = ctx.session.client_capabilities
    can = capabilities.elicitation if capabilities is not None else None
    if can is None or (can.form is None and can.url is not None):  # nothing at all means forms
        return "never"
    modern = is_version_at_least(ctx.protocol_version, _WITHOUT_BACK_CHANNEL)
    return "by_return" if modern else "inside"


def first_question(result: RunResult) -> PendingApproval | None:
    """Give the first thing that a yes or a no answers; what wants a value is asked elsewhere."""
    return next((p for p in result.pending_approvals if p.kind != "input"), None)


def shown(result: RunResult, pending: PendingApproval, told: int = 0) -> Shown:
    """Give what a decision on this question is bound to."""
    seen = digest(pending.model_dump(mode="json"))
    return Shown(result.run_id, result.session_id, pending.call_id, seen, told)


def still_asked(result: RunResult, question: Shown) -> bool:
    """Whether a run asks that very thing, to the byte."""
    return any(shown(result, p, question.told) == question for p in result.pending_approvals)


async def ask_inside(ctx: Context, pending: PendingApproval) -> Verdict | None:
    """Show the form and wait for the person; None when nothing was decided."""
    form = _form(pending)
    try:
        answer = await ctx.session.elicit_form(
            form.message, form.requested_schema, related_request_id=ctx.request_id
        )
    except MCPError:  # the client cannot, after all, or has gone
        return None
    return _verdict(answer)


def ask_by_return(pending: PendingApproval, question: Shown) -> types.InputRequiredResult:
    """Give the question as the result of the call."""
    return types.InputRequiredResult(
        input_requests={QUESTION: types.ElicitRequest(params=_form(pending))},
        request_state=question.written(),
    )


def brought_back(params: types.CallToolRequestParams) -> Verdict | None:
    """Read what came back with the state of `ask_by_return`; None when nothing was decided."""
    answer = (params.input_responses or {}).get(QUESTION)
    return _verdict(answer) if isinstance(answer, types.ElicitResult) else None


def _form(pending: PendingApproval) -> types.ElicitRequestFormParams:
    said = _("An agent asks for your agreement. Nothing happens without it.")
    return types.ElicitRequestFormParams(
        message=f"{said}\n{asked_text(pending)}", requested_schema=_schema()
    )


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": _("Decision"),
                "enum": [GRANT, REFUSE],
                "enumNames": [_("grant"), _("refuse")],
            },
            "motif": {
                "type": "string",
                "title": _("Reason"),
                "description": _("The journal keeps it; an agent reads why it was refused."),
                "maxLength": _LONGEST_REASON,
            },
        },
        "required": ["decision"],
    }


def _verdict(answer: types.ElicitResult) -> Verdict | None:
    content = cast("dict[str, object]", answer.content or {})
    decision, reason = content.get("decision"), content.get("motif") or ""
    if answer.action != "accept" or decision not in {GRANT, REFUSE} or not isinstance(reason, str):
        return None
    return Verdict(decision == GRANT, reason[:_LONGEST_REASON])
