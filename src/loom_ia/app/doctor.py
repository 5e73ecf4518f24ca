"""Finding out whether a model of the configuration answers, and what it can do.

Law. Each question is one small request, made as runs make theirs: same client, key, `params` and
timeouts. What a model cannot do is a finding; only a call that should have been answered fails.
Nothing of a key stands in what is reported.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, cast

from loom_ia.app.doctor_calls import Heard, Line
from loom_ia.app.doctor_faults import Fault, Veil, remedy_for, unusable_key
from loom_ia.app.doctor_questions import (
    ARTICLE,
    COUNT,
    DESCRIBE,
    FIND,
    FIND_TWO,
    GREET,
    PNG,
    TOOL,
    asked,
    fits,
    image_question,
    is_json,
    is_read,
    is_seen,
    limit_of,
    picture,
    read_json,
    request_of,
    results,
)
from loom_ia.assembly.backends import factory
from loom_ia.assembly.models import Models
from loom_ia.config.load import LoadedConfig
from loom_ia.core.errors import CallerError
from loom_ia.core.json import readable
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.models import Capabilities, ModelSpec
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.views.checkup import (
    Checkup,
    Outcome,
    Probe,
    ProbeName,
    Said,
    checkup_of,
    sentence,
)

Told: TypeAlias = Callable[[Probe], None]
"""Told of each probe as soon as it is over."""

_HOME: Final = "doctor"
_REFUSED: Final = frozenset({400, 422})
_TOO_SHORT: Final = 20
"""Characters below which an answer may well come in one piece."""

_LONGEST: Final = 60


async def checkup(loaded: LoadedConfig, model: str, *, told: Told | None = None) -> Checkup:
    """Ask a model of the configuration what it can do; no agent needs to use it.

    Raises `CallerError` when the configuration has no such model.
    """
    position, spec = _find(loaded, model)
    files = cast("ArtifactStore", factory("artifacts", "memory")())
    models = Models(loaded, {}, files)
    key = loaded.secret(spec.api_key_env) if spec.api_key_env else ""
    veil = Veil(key)
    line = Line(spec, lambda wanted: models.client(position, wanted), veil)
    examination = Examination(line, files, told or (lambda _: None))
    try:
        fault = unusable_key(spec.api_key_env or "", key)
        if fault is not None:
            examination.note(_failed("reach", fault))
        else:
            await examination.make()
    finally:
        await line.close()
    return checkup_of(
        spec,
        examination.probes,
        calls=line.calls,
        usage=line.usage,
        cost_usd=None if spec.pricing is None else round(line.cost_usd, 12),
    )


def _find(loaded: LoadedConfig, model: str) -> tuple[int, ModelSpec]:
    models = loaded.config.models
    for position, spec in enumerate(models):
        if spec.id == model:
            return position, spec
    if not models:
        template = "unknown model {model} (no model is declared: add it under models)"
        raise CallerError(template, model=model)
    known = ", ".join(spec.id for spec in models)
    raise CallerError("unknown model {model} (declared models: {known})", model=model, known=known)


class Examination:
    """The questions that one model is asked, in order; `probes` is what came of them so far."""

    def __init__(self, line: Line, files: ArtifactStore, told: Told) -> None:
        self.probes: list[Probe] = []
        self._line = line
        self._files = files
        self._told = told
        self._can = line.spec.capabilities
        self._is_over = False
        self._takes_tools = True
        self._first: Heard | None = None
        self._found: Heard | None = None

    async def make(self) -> None:
        """Ask the first question, and the others if it was answered."""
        self.note(await self._reach())
        if self._first is None:
            return
        rest: tuple[tuple[ProbeName, Callable[[], Awaitable[Probe]]], ...] = (
            ("streaming", self._streaming),
            ("usage", self._usage),
            ("tools", self._tools),
            ("tool_result", self._tool_result),
            ("parallel_calls", self._parallel_calls),
            ("forced_tool_choice", self._forced_tool_choice),
            ("native_json", self._native_json),
            ("vision", self._vision),
            ("thinking", self._thinking),
        )
        for name, probe in rest:
            self.note(Probe(name=name, outcome="skipped") if self._is_over else await probe())

    def note(self, probe: Probe) -> None:
        """Keep what came of a question, and tell it."""
        self.probes.append(probe)
        self._told(probe)

    # -- the first call -------------------------------------------------------------------------

    async def _reach(self) -> Probe:
        """Call the model as declared; if it refuses that, without streaming or without thoughts.

        So that a capability which is declared and not there is found, and not taken for a fault.
        """
        first: Fault | None = None
        for can in _ways(self._can):
            heard = await self._ask(asked(COUNT), can=can)
            if isinstance(heard, Heard):
                self._can, self._first = can, heard
                return _yes("reach", _answered(heard, self._line.spec))
            first = first or heard
            if heard.http_status not in _REFUSED or heard.kind != "invalid_request":
                break
        return _failed("reach", cast("Fault", first))

    async def _streaming(self) -> Probe:
        declared, heard = self._line.spec.capabilities.streaming, self._first
        if not self._can.streaming:
            can = self._can.model_copy(update={"streaming": True})
            # Refused once already when it was declared.
            heard = None if declared else await self._ask(asked(COUNT), can=can)
            if isinstance(heard, Fault):
                return self._unheard("streaming", heard)
            if heard is None:
                return _no("streaming", sentence(_REFUSES))
            self._can = can
        return _streamed(cast("Heard", heard))

    async def _usage(self) -> Probe:
        usage = cast("Heard", self._first).answer.usage
        if usage is None:
            return _no("usage", sentence("not told: what runs consume will be an estimate"))
        template = "{read} tokens read, {written} written"
        said = sentence(template, read=usage.prompt_tokens, written=usage.output_tokens)
        return _yes("usage", said)

    # -- tools ----------------------------------------------------------------------------------

    async def _tools(self) -> Probe:
        heard = await self._ask(asked(FIND), tools=(TOOL,))
        if isinstance(heard, Fault):
            self._takes_tools = not heard.is_refusal
            return self._unheard("tools", heard)
        calls = heard.answer.message.calls
        if not calls:
            return self._fell_short("tools", heard, sentence(_NO_CALL))
        call = calls[0]
        if call.name != TOOL.name:
            template = "it called {name}, and the tool is {tool}"
            return _no("tools", sentence(template, name=self._brief(call.name), tool=TOOL.name))
        said = self._brief(readable(call.arguments))
        if not is_json(call.arguments):
            wrong = sentence("the arguments of its call are not a JSON object: {text}", text=said)
            return self._fell_short("tools", heard, wrong)
        if not fits(call.arguments, TOOL.input_schema):
            wrong = sentence("the arguments of its call do not fit the schema: {text}", text=said)
            return self._fell_short("tools", heard, wrong)
        self._found = heard
        return _yes("tools", sentence("{call}", call=f"{call.name}({said})"))

    async def _tool_result(self) -> Probe:
        if self._found is None:
            return Probe(name="tool_result", outcome="skipped")
        heard = await self._ask(*self._conversation(), tools=(TOOL,))
        if isinstance(heard, Fault):
            return self._unheard("tool_result", heard, is_finding=False)
        if is_read(heard.text):
            return _yes("tool_result")
        if heard.answer.message.calls:
            return _no("tool_result", sentence("it calls again instead of answering"))
        template = "its answer has nothing of the result: {text}"
        said = sentence(template, text=self._brief(heard.text))
        return self._fell_short("tool_result", heard, said)

    def _conversation(self) -> tuple[Message, ...]:
        """Give the question, with the call and its result when there was a call."""
        if self._found is None:
            return (asked(FIND),)
        message = self._found.answer.message
        return asked(FIND), message, results(message.calls)

    async def _parallel_calls(self) -> Probe:
        if self._found is None:
            return Probe(name="parallel_calls", outcome="skipped")
        heard = await self._ask(asked(FIND_TWO), tools=(TOOL,))
        if isinstance(heard, Fault):
            return self._unheard("parallel_calls", heard)
        count = len(_own(heard.answer.message.calls))
        if count > 1:
            return _yes("parallel_calls", sentence("{count} calls in one answer", count=count))
        said = sentence("one call at a time") if count else sentence(_NO_CALL)
        return self._fell_short("parallel_calls", heard, said)

    async def _forced_tool_choice(self) -> Probe:
        if not self._takes_tools:
            return _no("forced_tool_choice", sentence("the server takes no tools"))
        heard = await self._ask(asked(GREET), tools=(TOOL,), tool_choice="required")
        if isinstance(heard, Fault):
            return self._unheard("forced_tool_choice", heard)
        if _own(heard.answer.message.calls):
            return _yes("forced_tool_choice")
        said = sentence("a call is required, and the model answered without one")
        return self._fell_short("forced_tool_choice", heard, said)

    # -- what goes in and comes out -------------------------------------------------------------

    async def _native_json(self) -> Probe:
        heard = await self._ask(asked(DESCRIBE), output_schema=ARTICLE)
        if isinstance(heard, Fault):
            return self._unheard("native_json", heard)
        said = self._brief(heard.text)
        try:
            value = read_json(heard.text)
        except ValueError:
            wrong = sentence("the schema is ignored, the answer is: {text}", text=said)
            return self._fell_short("native_json", heard, wrong)
        if not fits(value, ARTICLE):
            return _no(
                "native_json", sentence("its JSON does not fit the schema: {text}", text=said)
            )
        return _yes("native_json", sentence("{text}", text=said))

    async def _vision(self) -> Probe:
        data = picture()
        uri = await self._files.put(_HOME, _HOME, data, PNG)
        sees = {"vision": True, "image_formats": ("png",), "max_image_bytes": None}
        can = self._can.model_copy(update=sees)
        heard = await self._ask(image_question(uri, len(data)), can=can)
        if isinstance(heard, Fault):
            return self._unheard("vision", heard)
        if is_seen(heard.text):
            return _yes("vision", sentence("the image is seen"))
        template = "the image is accepted and not seen, the answer is: {text}"
        said = sentence(template, text=self._brief(heard.text))
        return self._fell_short("vision", heard, said)

    async def _thinking(self) -> Probe:
        if self._line.spec.capabilities.thinking and not self._can.thinking:
            return _no("thinking", sentence(_REFUSES))
        if not self._line.thoughts:
            return _no("thinking", sentence("no thought came with these answers"))
        if not self._can.thinking:  # what it would be sent then was not tried yet
            can = self._can.model_copy(update={"thinking": True})
            heard = await self._ask(*self._conversation(), tools=(TOOL,), can=can)
            if isinstance(heard, Fault):
                return self._unheard("thinking", heard)
        return _yes("thinking", sentence("thoughts came with the answers"))

    # -- the same for all -----------------------------------------------------------------------

    async def _ask(
        self, *messages: Message, can: Capabilities | None = None, **more: object
    ) -> Heard | Fault:
        return await self._line.ask(
            request_of(self._line.spec, *messages, **more), can or self._can
        )

    def _unheard(self, name: ProbeName, fault: Fault, *, is_finding: bool = True) -> Probe:
        """Conclude from a call that gave no answer, while others do."""
        if is_finding and fault.is_refusal:
            return _of(name, "no", fault)
        self._is_over = fault.is_hopeless
        return _failed(name, fault)

    def _fell_short(self, name: ProbeName, heard: Heard, said: Said) -> Probe:
        """Conclude from an answer that is not the right one: it may only have been cut."""
        if not heard.is_cut:
            return _no(name, said)
        spec = self._line.spec
        cut = sentence("the answer was cut at {limit} tokens (max_tokens)", limit=limit_of(spec))
        return _failed(name, Fault("truncated", cut, remedy_for("truncated", spec)))

    def _brief(self, text: str) -> str:
        shown = self._line.veil.over(text) or "-"
        return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


_NO_CALL: Final = "it answered without calling the tool"
_REFUSES: Final = "the server refuses requests that ask for it"


def _ways(declared: Capabilities) -> list[Capabilities]:
    """Give the ways to call a model, the declared one first."""
    ways: list[Capabilities] = []
    for streaming, thinking in ((True, True), (False, True), (True, False), (False, False)):
        can = declared.model_copy(
            update={
                "streaming": declared.streaming and streaming,
                "thinking": declared.thinking and thinking,
            }
        )
        if can not in ways:
            ways.append(can)
    return ways


def _answered(heard: Heard, spec: ModelSpec) -> Said:
    if heard.is_cut:
        template = "in {seconds:g} s; the answer was cut at {limit} tokens (max_tokens)"
        return sentence(template, seconds=heard.seconds, limit=limit_of(spec))
    if heard.answer.is_empty:
        return sentence("in {seconds:g} s; the answer is empty", seconds=heard.seconds)
    return sentence("in {seconds:g} s", seconds=heard.seconds)


def _streamed(heard: Heard) -> Probe:
    pieces, first = heard.pieces, heard.first_piece_s
    if heard.is_document:
        said, outcome = sentence("the server ignores it: its answer is one document"), "no"
    elif pieces > 1:
        template = "{pieces} pieces, the first one after {first:g} s"
        said, outcome = sentence(template, pieces=pieces, first=first), "yes"
    elif len(heard.text) < _TOO_SHORT:
        said, outcome = sentence("the answer is too short to tell"), "skipped"
    else:
        template = "the answer came in one piece, after {first:g} s"
        said, outcome = sentence(template, first=first), "no"
    return Probe(name="streaming", outcome=outcome, detail=said, pieces=pieces, first_piece_s=first)


def _own(calls: tuple[ToolCallBlock, ...]) -> list[ToolCallBlock]:
    return [call for call in calls if call.name == TOOL.name]


def _yes(name: ProbeName, said: Said | None = None) -> Probe:
    return Probe(name=name, outcome="yes", detail=said)


def _no(name: ProbeName, said: Said) -> Probe:
    return Probe(name=name, outcome="no", detail=said)


def _failed(name: ProbeName, fault: Fault) -> Probe:
    return _of(name, "failed", fault).model_copy(update={"remedy": fault.remedy})


def _of(name: ProbeName, outcome: Outcome, fault: Fault) -> Probe:
    return Probe(
        name=name,
        outcome=outcome,
        detail=fault.detail,
        error=fault.kind,
        http_status=fault.http_status,
    )
