"""An answer as it comes: its text on standard output, the calls on standard error.

What a broken attempt showed cannot be taken back. A terminal is told that it is void; after that,
pieces are no longer shown: the whole text follows once the journal has it, on a line of its own.
Elsewhere, in a file or a pipe, an answer is only written once it is one.
"""

from loom_ia.access.cli.terminal import answer, printable, say
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.model import ModelFellBack, ModelResponded, ModelRetried
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.json import readable
from loom_ia.core.model.chunks import Reset, TextDelta
from loom_ia.engine.streaming import LiveItem
from loom_ia.i18n import translate as _


class Live:
    """Shows the items of a stream, one answer of the model after the other."""

    def __init__(self, *, in_pieces: bool) -> None:
        self._in_pieces = in_pieces
        self._shown = ""
        self._trusted = in_pieces

    def take(self, item: LiveItem) -> None:
        """Show an item, if it is to be shown."""
        match item:
            case TextDelta():
                if self._trusted:
                    self._shown += item.text
                    answer(item.text, end="")
            case Reset():
                self._withdraw()
            case Event(payload=ModelResponded() as payload):
                self._answered(payload.message.as_text())
            case Event(payload=ModelRetried() as payload) if not payload.final:
                say(printable(_retried(payload)), "yellow")
            case Event(payload=ModelFellBack() as payload):
                say(printable(_fell_back(payload)), "yellow")
            case Event(payload=ToolCalled() as payload):
                call = f"{payload.tool_name}({readable(payload.arguments)})"
                say(printable(_("Call       : {call}", call=call)))
            case Event(payload=ToolCompleted() as payload) if payload.output.is_error:
                text = " ".join(payload.output.text.split())
                say(printable(_("Call error : {tool}: {text}", tool=payload.tool_name, text=text)))
            case _:
                pass

    def end(self) -> None:
        """End the line."""
        if self._shown and not self._shown.endswith("\n"):
            answer("")
        self._shown = ""

    def _answered(self, text: str) -> None:
        if text != self._shown:
            self.end()
            self._shown = text
            answer(text, end="")
        self.end()
        self._trusted = self._in_pieces

    def _withdraw(self) -> None:
        if self._shown:
            self.end()
            say(_("Withdrawn  : the text above is void, another one follows"), "yellow")
        self._trusted = False


def _retried(payload: ModelRetried) -> str:
    return _(
        "Retry      : {model}, {kind}, again in {seconds:g} s",
        model=payload.model,
        kind=payload.error_kind,
        seconds=payload.delay_s,
    )


def _fell_back(payload: ModelFellBack) -> str:
    return _(
        "Fallback   : {to_model} takes over from {from_model} ({reason})",
        to_model=payload.to_model,
        from_model=payload.from_model,
        reason=payload.reason,
    )
