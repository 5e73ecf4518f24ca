"""How a run stands, in a few lines on standard error, and as an exit code."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from loom_ia.access.cli.arguments import command_line
from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
from loom_ia.access.cli.terminal import Style, answer, printable, say, show_json
from loom_ia.core.json import readable
from loom_ia.core.state.run import Failed, Status
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.core.views.trace_text import dollars
from loom_ia.i18n import count
from loom_ia.i18n import translate as _

STATUS_STYLES: Final[Mapping[Status, Style]] = {
    Status.PAUSED: "yellow",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "red",
}


_ASK_THE_DOCTOR: Final = frozenset(
    {"model.auth", "model.invalid_request", "model.transient", "model.quota_exhausted"}
)
"""How a run fails when it is the endpoint of a model that has something to say."""


def exit_code(result: RunResult) -> int:
    """Give 0 for a completed run, 1 for any other."""
    return COMPLETED if result.ok else NOT_COMPLETED


def tell(result: RunResult, args: argparse.Namespace, *, durable: bool = True) -> int:
    """Show a result: the answer or one JSON document, and its summary; give the exit code.

    `durable` tells whether another command will find the run.
    """
    if args.json:
        show_json(result.model_dump(mode="json"))
        return exit_code(result)
    if not (result.ok and getattr(args, "quiet", False)):
        tell_status(result, args, durable=durable)
    if result.ok:
        answer(result.text)
    return exit_code(result)


def tell_status(result: RunResult, args: argparse.Namespace, *, durable: bool = True) -> None:
    """Say the status, the run's id, and what is to be done if the run is not completed.

    Nothing can be done when the journal is not `durable`: it is said instead.
    """
    say(
        _(
            "Status     : {status} · iterations: {iterations} · tokens: {read}/{written} · "
            "cost: ${cost}",
            status=result.status.value,
            iterations=result.iterations,
            read=count(result.usage.prompt_tokens, estimated=result.usage.estimated),
            written=count(result.usage.output_tokens, estimated=result.usage.estimated),
            cost=dollars(result.cost_usd, unpriced=result.unpriced_calls, decimals=4),
        ),
        STATUS_STYLES.get(result.status, "cyan"),
    )
    say(_("Run        : {run_id}", run_id=result.run_id))
    if result.finalizing is not None:
        say(
            _("Concluded  : without tools, as it had to ({reason})", reason=result.finalizing),
            "yellow",
        )
    if result.unverified:
        say(_("Unverified : the answer did not pass its checks and is given as it is"), "yellow")
    if result.fallback:
        say(_("Fallback   : the answer did not pass its checks; this text stands for it"), "yellow")
    if result.error_type is not None:
        error = f"{result.error_type} — {result.error}" if result.error else result.error_type
        say(printable(_("Error      : {error}", error=error)), "red")
        if result.error_type in _ASK_THE_DOCTOR:
            say(_("Remedy     : ask {command}", command=command_line(args, "doctor")))
    for pending in result.pending_approvals:
        for line in pending_lines(pending, args, durable=durable):
            say(line, "yellow")
    if not durable:
        if result.pending_approvals or _may_go_on(result):
            say(_("Forgotten  : {reason}", reason=forgotten()), "yellow")
    elif _may_go_on(result):
        command = command_line(args, "resume", result.run_id)
        say(_("Go on with : {command}", command=command))


def forgotten() -> str:
    """Say why no other command finds the run, and what to do about it."""
    return _(
        "the journal in memory forgets the run when this command ends "
        "(use jsonl or sqlite under storage.events)"
    )


def pending_lines(
    pending: PendingApproval, args: argparse.Namespace, *, durable: bool = True
) -> Iterator[str]:
    """Write what is to be decided, with the command to type if it can work."""
    tool, call_id = pending.tool_name, pending.call_id
    if durable:
        command = command_line(args, *decision_words(pending))
        said = _(
            "Waiting    : {tool} ({call_id}) — {command}",
            tool=tool,
            call_id=call_id,
            command=command,
        )
    else:
        said = _("Waiting    : {tool} ({call_id})", tool=tool, call_id=call_id)
    yield printable(said)
    if pending.kind == "input":
        asked = readable(pending.payload)
        yield printable(_("             it asks {payload}", payload=asked))
        return
    if pending.own_words:
        yield printable(f"             {pending.sentence}")
    yield printable(_("             with {arguments}", arguments=readable(pending.arguments)))
    if pending.kind == "unknown_effect" and durable:
        yield _(
            "             it was interrupted and may have taken effect: granting starts it again"
        )


def decision_words(pending: PendingApproval) -> tuple[str, ...]:
    """Give the command that decides, on the run at the top."""
    root = pending.run_id.partition("/")[0]
    words = ("approve", root, "--call", pending.call_id)
    return (*words, "--answer", "…") if pending.kind == "input" else words


def _may_go_on(result: RunResult) -> bool:
    """Whether `resume` would do something, which it does not while a human is awaited."""
    if result.error_type is not None:
        return Failed(result.error_type, "").is_resumable
    return not result.status.is_closed and not result.pending_approvals
