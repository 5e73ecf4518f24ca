"""One client of this machine, over the standard streams: whoever started the process."""

import shlex
from collections.abc import Sequence

import mcp_types as types

from loom_ia.access.api import Loom
from loom_ia.access.mcp_server.channel import Channel
from loom_ia.access.mcp_server.results import client_fields
from loom_ia.access.mcp_server.server import AgentServer, Context
from loom_ia.access.mcp_server.stdio import serve_channel
from loom_ia.core.model.scopes import SCOPES
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.i18n import current
from loom_ia.i18n import translate as _
from loom_ia.tenancy.visitor import Visitor


async def serve_local(loom: Loom, channel: Channel, *, command: Sequence[str]) -> None:
    """Serve until the client ends its side; `command` are the words that begin a decision."""

    def remedy(result: RunResult, pending: PendingApproval) -> str:
        if not loom.store.durable:
            return _(
                "Nobody can decide elsewhere: the journal in memory is of this process alone "
                "(use jsonl or sqlite under storage.events)."
            )
        words = (result.run_id, "--call", pending.call_id)
        if pending.kind == "input":
            answer = shlex.join([*command, "approve", *words, "--answer", "…"])
            return _("A person answers in a terminal: {answer}", answer=answer)
        return _(
            "A person decides in a terminal: {grant} — or: {refuse}",
            grant=shlex.join([*command, "approve", *words]),
            refuse=shlex.join([*command, "reject", *words]),
        )

    server = AgentServer(loom, _whoever_started, remedy, asks=True, language=current())
    try:
        await serve_channel(
            server.protocol,
            channel,
            max_bytes=loom.config.server.http.max_body_bytes,
            seen=lambda message: _take_back(server, message),
        )
    finally:
        await server.close()


def _whoever_started(ctx: Context) -> Visitor:
    params = ctx.session.client_params
    return Visitor(client_fields(params.client_info if params else None), frozenset(SCOPES))


def _take_back(server: AgentServer, message: types.JSONRPCMessage) -> None:
    """Note what the client cancels, before the protocol cuts the call."""
    if isinstance(message, types.JSONRPCNotification) and (
        message.method == "notifications/cancelled"
    ):
        request_id = (message.params or {}).get("requestId")
        if isinstance(request_id, str | int):
            server.calls.take_back(request_id)
