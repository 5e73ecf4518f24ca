"""The server: what each request of the protocol does.

Law. It translates: what a client may do is decided by the portal, what a run does by the engine. A
fault of what was asked is told to the model that called, which can do better; a fault of the
request itself is an error of the protocol. Nothing unexpected is told but that it happened.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from loom_ia.access.api import Loom
from loom_ia.access.mcp_server import elicitation, resources
from loom_ia.access.mcp_server.arguments import (
    AgentArguments,
    ArgumentsRefused,
    CancelArguments,
    GraphArguments,
    ReportArguments,
    StatusArguments,
    read_arguments,
)
from loom_ia.access.mcp_server.attachments import Shelf, resolved_roots
from loom_ia.access.mcp_server.calls import Call, Calls
from loom_ia.access.mcp_server.elicitation import Shown, Verdict
from loom_ia.access.mcp_server.offers import Offer, offers, services
from loom_ia.access.mcp_server.results import Remedy, document, refusal, run_outcome
from loom_ia.access.portal import CancelledRun, Portal, Wanted
from loom_ia.core.errors import (
    ApprovalStale,
    CallerError,
    ClaimConflict,
    Forbidden,
    InternalError,
    LoomError,
    UnknownApproval,
)
from loom_ia.core.json import readable, storable
from loom_ia.core.schema import misfit
from loom_ia.core.views.result import RunResult
from loom_ia.engine.clock import SystemClock
from loom_ia.i18n import Language, render, speak
from loom_ia.i18n import translate as _
from loom_ia.tenancy.visitor import Visitor

_logger = logging.getLogger("loom_ia.access")

Context: TypeAlias = ServerRequestContext[Any, Any]
WhoAsks: TypeAlias = Callable[[Context], Visitor]
"""Tells from a request who makes it."""
Answer: TypeAlias = types.CallToolResult | types.InputRequiredResult

NAME: Final = "loom"
_NOT_FOUND: Final = -32002
"""What a resource that is not there is answered up to 2025-11-25; a wrong parameter after that."""
_NO_LEGACY: Final = "2026-07-28"


@dataclass(slots=True)
class AgentServer:
    """Serves one `Loom` to clients.

    `who` tells who asks, `remedy` how a person decides on what waits, `asks` whether the person in
    front of the client may be shown a form: only a visitor who may do everything is asked. `close`
    it before the `Loom`.
    """

    loom: Loom
    who: WhoAsks
    remedy: Remedy
    asks: bool
    language: Language
    roots: tuple[Path, ...] = ()
    calls: Calls = field(init=False)
    _clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.calls = Calls(self.loom)
        folders = self.loom.config.server.mcp.file_roots
        self.roots = resolved_roots([self.loom.absolute(folder) for folder in folders])

    @property
    def protocol(self) -> Server[Any]:
        """The server as the transports know it."""
        server = Server[Any](
            NAME,
            version=version("loom-ia"),
            instructions=_(
                "Each tool runs an agent, which answers in words. A run that is paused waits for a "
                "person: tell the user, and do not call again."
            ),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        seal = RequestStateSecurity.ephemeral(ttl=elicitation.STATE_LIFETIME)
        server.middleware.append(RequestStateBoundary(seal, default_audience=NAME))
        return server

    async def close(self) -> None:
        """Hand back what is still driven for clients that have gone."""
        await self.calls.close()

    # -- tools ------------------------------------------------------------------------------------

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del params
        portal = self._portal(ctx)
        tools = [offer.tool for offer in offers(self.loom, portal).values()]
        return types.ListToolsResult(tools=[*tools, *services(portal)])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        portal = self._portal(ctx)
        offer = offers(self.loom, portal).get(params.name)
        known = {tool.name for tool in services(portal)}
        if offer is None and params.name not in known:
            names = ", ".join((*offers(self.loom, portal), *sorted(known)))
            name = params.name[:80]
            text = _("there is no tool {name!r}; tools: {names}", name=name, names=names)
            raise MCPError(code=types.INVALID_PARAMS, message=text)
        try:
            if offer is None:
                return await self._serve(portal, params)
            return await _OfferCall(self, ctx, portal, offer, params).answer()
        except LoomError as error:
            if isinstance(error, InternalError):
                _logger.exception("a call of %s failed", params.name)
            return refusal(render(error))
        except MCPError:
            raise
        except Exception as error:
            _logger.exception("a call of %s failed", params.name)
            kind = type(error).__name__
            return refusal(_("the call failed unexpectedly ({kind}); the log has more", kind=kind))

    async def _serve(self, portal: Portal, params: types.CallToolRequestParams) -> Answer:
        match params.name:
            case "run_status":
                asked = read_arguments(StatusArguments, params.arguments)
                result = await portal.result(asked.run_id, session_id=asked.session_id)
                told = run_outcome(result, self.remedy)
                return told.model_copy(update={"is_error": False})  # the question was answered
            case "run_report":
                about = read_arguments(ReportArguments, params.arguments)
                if about.run_id is None and about.session_id is None:
                    return refusal(_("give the run_id of a run, or the session_id of a session"))
                return document(await portal.report(about.run_id, session_id=about.session_id))
            case _:
                stopped = read_arguments(CancelArguments, params.arguments)
                done = await portal.cancel(
                    stopped.run_id, by=stopped.by, session_id=stopped.session_id
                )
                return _cancelled(done)

    # -- resources --------------------------------------------------------------------------------

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del params
        may = self._portal(ctx).visitor.may("read")
        return types.ListResourcesResult(resources=resources.listed() if may else [])

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del params
        may = self._portal(ctx).visitor.may("read")
        found = resources.templates() if may else []
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        portal = self._portal(ctx)
        try:
            found = await resources.read_resource(portal, params.uri)
        except resources.NoSuchResource:
            modern = is_version_at_least(ctx.protocol_version, _NO_LEGACY)
            raise MCPError(
                code=types.INVALID_PARAMS if modern else _NOT_FOUND,
                message=_("there is no such resource"),
                data={"uri": params.uri[:200]},
            ) from None
        except resources.TooLarge:
            text = _("the document has more than {size} bytes", size=resources.MAX_BYTES)
            raise MCPError(code=types.INVALID_REQUEST, message=text) from None
        except Forbidden as error:
            raise MCPError(code=types.INVALID_REQUEST, message=render(error)) from None
        except LoomError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=render(error)) from None
        return types.ReadResourceResult(contents=[found.contents(params.uri)])

    # -- who asks ---------------------------------------------------------------------------------

    def _portal(self, ctx: Context) -> Portal:
        speak(self.language)  # each request has a context of its own
        return Portal(self.loom, self.who(ctx), "mcp")

    def new_id(self) -> str:
        """Give an id for a run."""
        return self._clock.new_id()


@dataclass(slots=True)
class _OfferCall:
    """One call of an agent or of a graph, from the request to the answer."""

    server: AgentServer
    ctx: Context
    portal: Portal
    offer: Offer
    params: types.CallToolRequestParams

    async def answer(self) -> Answer:
        """Run, or go on with the run that the client brings back an answer about."""
        if self.params.request_state is not None:
            return await self._brought_back(Shown.read(self.params.request_state))
        if self.server.calls.is_full:
            return refusal(_("too many calls wait already: try again later"))
        run_id = self.server.new_id()
        if self.offer.kind == "agent":
            home, work = await self._agent(run_id)
        else:
            home, work = self._graph(run_id)
        call = self._call(run_id, home)
        return await self._settled(call, await self._drive(call, work))

    async def _agent(self, run_id: str) -> tuple[str, Coroutine[Any, Any, RunResult]]:
        asked = read_arguments(AgentArguments, self.params.arguments)
        limits = self.server.loom.config.execution.attachments
        if not asked.message.strip() and not asked.attachments:
            raise InvalidCall("the message is empty: say what is asked of the agent")
        shelf = Shelf(self.portal, self.server.roots, limits.max_bytes)
        files = await shelf.gather(asked.attachments)
        wanted = Wanted(
            self.offer.name,
            asked.message,
            session_id=asked.session_id,
            run_id=run_id,
            attachments=files,
        )
        return asked.session_id or run_id, self.portal.run(wanted)

    def _graph(self, run_id: str) -> tuple[str, Coroutine[Any, Any, RunResult]]:
        asked = read_arguments(GraphArguments, self.params.arguments)
        storable(asked.input, "input")  # refused here, with its path, rather than in the run
        if fault := misfit(self.params.arguments, self.offer.input_schema):
            raise ArgumentsRefused("the arguments do not fit: {faults}", faults=fault)
        work = self.portal.run_graph(
            self.offer.name, asked.input, session_id=asked.session_id, run_id=run_id
        )
        return asked.session_id or run_id, work

    async def _settled(self, call: Call, result: RunResult) -> Answer:
        """Give where the run stands, once the person in front of the client was asked."""
        note = ""
        while True:
            pending = elicitation.first_question(result)
            how = self._how(result)
            if pending is None or how == "never":
                break
            question = elicitation.shown(result, pending, call.told)
            if how == "by_return":
                return elicitation.ask_by_return(pending, question)
            verdict = await elicitation.ask_inside(self.ctx, pending)
            if verdict is None:
                break
            note = await self._decide(call, question, verdict)
            result = await self._go_on(call)
        return run_outcome(result, self.server.remedy, note=note)

    async def _brought_back(self, question: Shown) -> Answer:
        """Decide on what was asked by return; the run is the one that the sealed state names."""
        call = self._call(question.run_id, question.session_id)
        call.told = question.told
        result = await self._result(call)
        if result.agent != self.offer.name:
            raise MCPError(code=types.INVALID_PARAMS, message=_("this answer is about another run"))
        verdict = elicitation.brought_back(self.params)
        if verdict is None:
            return run_outcome(result, self.server.remedy)
        if note := await self._decide(call, question, verdict):
            told = run_outcome(await self._result(call), self.server.remedy, note=note)
            return told.model_copy(update={"is_error": True})
        return await self._settled(call, await self._go_on(call))

    async def _decide(self, call: Call, question: Shown, verdict: Verdict) -> str:
        """Write a decision; tells why it was not, when the question changed or was closed."""
        self.portal.require("approve")
        result = await self._result(call)
        if not elicitation.still_asked(result, question):
            return _("Nothing was decided: what was shown is no longer what is asked.")
        loom, by = self.server.loom, self.portal.signed("")
        decide = loom.approve if verdict.granted else loom.reject
        try:
            await decide(
                call.run_id,
                call_id=question.call_id,
                by=by,
                reason=verdict.reason,
                session_id=call.home,
                resume=False,
            )
        except (ApprovalStale, UnknownApproval) as error:  # somebody was faster
            return _("Nothing was decided: {reason}", reason=render(error))
        return ""

    async def _go_on(self, call: Call) -> RunResult:
        """Drive the run after a decision, unless somebody else does already."""
        try:
            resumed = self.server.loom.resume(call.run_id, session_id=call.home)
            return await self._drive(call, resumed)
        except ClaimConflict:
            return await self._result(call)

    async def _drive(self, call: Call, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        return await self.server.calls.drive(self.ctx.request_id, call, work)

    async def _result(self, call: Call) -> RunResult:
        """Read the run as it stands, with its content: only the local client comes here."""
        return await self.server.loom.result(call.run_id, session_id=call.home)

    def _how(self, result: RunResult) -> elicitation.How:
        asks = self.server.asks and not result.status.is_closed
        return elicitation.how_to_ask(self.ctx) if asks else "never"

    def _call(self, run_id: str, home: str) -> Call:
        session = self.ctx.session
        wants = "progress_token" in (self.ctx.meta or {})

        async def tell(rank: int, line: str) -> None:
            await session.report_progress(rank, None, line)

        return Call(self.portal.visitor, run_id, home, tell if wants else None)


class InvalidCall(CallerError):
    """What was asked cannot be begun; nothing was written."""


def _cancelled(done: CancelledRun) -> types.CallToolResult:
    told = {"run_id": done.run_id, "cancelled": done.cancelled}
    return types.CallToolResult(
        content=[types.TextContent(text=readable(told))], structured_content=told
    )
