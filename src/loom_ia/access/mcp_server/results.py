"""What a client reads of a run: the answer as text, the whole result as structured content.

A run that waits for a human is no error: the text says what waits, and how people decide on it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import mcp_types as types

from loom_ia.access.legible import legible
from loom_ia.core.json import readable
from loom_ia.core.model.artifacts import StoredArtifact, parse_artifact_uri
from loom_ia.core.model.base import Value
from loom_ia.core.state.run import Status
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.i18n import translate as _

Remedy: TypeAlias = Callable[[RunResult, PendingApproval], str]
"""How a person decides on what waits."""

_FAILED: Final = frozenset({Status.FAILED, Status.CANCELLED})
_MOST_SHOWN: Final = 4_000
LINK: Final = "loom://artifacts/"


def refusal(text: str) -> types.CallToolResult:
    """Say, to the model that called, why nothing was done."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def document(value: Value) -> types.CallToolResult:
    """Give a value, as text for those who read nothing else."""
    written = value.model_dump(mode="json")
    return types.CallToolResult(
        content=[types.TextContent(text=readable(written))], structured_content=written
    )


def run_outcome(result: RunResult, remedy: Remedy, *, note: str = "") -> types.CallToolResult:
    """Give where a run stands; `note` is said after it."""
    lines = [result.text or _told(result)] if result.ok else list(_standing(result, remedy))
    lines += list(_reservations(result))
    lines += [note] if note else []
    content: list[types.ContentBlock] = [types.TextContent(text=line) for line in lines if line]
    content += [_link(file) for file in result.artifacts if file.origin != "attachment"]
    return types.CallToolResult(
        content=content or [types.TextContent(text="")],
        structured_content=result.model_dump(mode="json"),
        is_error=result.status in _FAILED,
    )


def _told(result: RunResult) -> str:
    if result.redacted:
        return _("Run {run_id} is completed.", run_id=result.run_id)
    return "" if result.data is None else readable(result.data)


def _standing(result: RunResult, remedy: Remedy) -> Iterator[str]:
    if result.pending_approvals:
        yield _(
            "Run {run_id} is paused: it waits for a person to decide. No tool can do that, and "
            "calling again would begin another run.",
            run_id=result.run_id,
        )
        for pending in result.pending_approvals:
            yield f"{asked_text(pending)}\n{remedy(result, pending)}"
        yield _("Once that is done, run_status tells what became of it.")
    elif result.status is Status.FAILED:
        kind = result.error_type or ""
        error = f"{kind} — {result.error}" if result.error else kind
        yield _("Run {run_id} failed: {error}", run_id=result.run_id, error=error)
    elif result.status is Status.CANCELLED:
        yield _("Run {run_id} was cancelled.", run_id=result.run_id)
    else:
        yield _(
            "Run {run_id} is not over ({status}): run_status tells what becomes of it.",
            run_id=result.run_id,
            status=result.status.value,
        )


def _reservations(result: RunResult) -> Iterator[str]:
    if result.unverified:
        yield _("Unverified: the answer did not pass its checks and is given as it is.")
    if result.fallback:
        yield _("Fallback: the answer did not pass its checks; this text stands for it.")


def asked_text(pending: PendingApproval) -> str:
    """Say what a person is asked to let happen, with all that the decision is about."""
    shown = pending.payload if pending.kind == "input" else pending.arguments
    said = _(
        "{tool} ({call_id}) with {arguments}",
        tool=legible(pending.tool_name),
        call_id=legible(pending.call_id),
        arguments=legible(bounded(readable(shown))),
    )
    if pending.sentence:
        said = f"{legible(bounded(pending.sentence))}\n{said}"
    if pending.reason:
        said += "\n" + _("Reason: {reason}", reason=legible(bounded(pending.reason)))
    if pending.kind == "unknown_effect":
        said += "\n" + _("It was interrupted and may have taken effect: granting starts it again.")
    return said


def bounded(text: str) -> str:
    """Cut what is too long to be read, and say so."""
    if len(text) <= _MOST_SHOWN:
        return text
    return text[:_MOST_SHOWN] + _("… ({count} characters in all)", count=len(text))


def _link(file: StoredArtifact) -> types.ResourceLink:
    address = parse_artifact_uri(file.uri)
    end = f"{address.tenant_id}/{address.session_id}/{address.file}" if address else ""
    return types.ResourceLink(
        uri=f"{LINK}{end}" if end else file.uri,
        name=file.name or (address.file if address else file.uri),
        mime_type=file.media_type,
        size=file.size,
    )


def client_fields(client: Any) -> str:
    """Name a client as it introduced itself, in a word that a journal can hold."""
    name = getattr(client, "name", "") or ""
    kept = "".join(c if c.isprintable() else "_" for c in str(name)).split()
    return "mcp:" + ("-".join(kept)[:64] or "unknown")
