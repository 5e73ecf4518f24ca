"""A run as a person reads it: an indented tree, one line for each thing that happened."""

import argparse
from collections.abc import Iterator
from typing import Final

from loom_ia.access.cli.arguments import command_line
from loom_ia.access.cli.terminal import printable
from loom_ia.core.json import readable
from loom_ia.core.views.inspect import (
    Approval,
    InspectStep,
    InspectTree,
    Item,
    ModelItem,
    ToolItem,
)
from loom_ia.i18n import translate as _

_LONGEST: Final = 200
_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE


def tree_lines(tree: InspectTree, args: argparse.Namespace) -> Iterator[str]:
    """Write the lines of a run; texts are cut and put on one line unless `--full`."""
    writer = _Writer(full=args.full)
    for line in writer.run(tree):
        yield printable(line)
    for pending in tree.pending:
        command = command_line(args, "approve", pending.run_id, "--call", pending.call_id)
        yield printable(
            "  "
            + _(
                "waits for a human: {tool} ({call_id}) — {command}",
                tool=pending.tool_name,
                call_id=pending.call_id,
                command=command,
            )
        )


def duration(milliseconds: int) -> str:
    """Write a duration as `80 ms`, `1.2 s`, `3 min 05 s` or `2 h 10 min`."""
    if milliseconds < _SECOND:
        return f"{milliseconds} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds / _SECOND:.1f} s"
    if milliseconds < _HOUR:
        return f"{milliseconds // _MINUTE} min {milliseconds % _MINUTE // _SECOND:02d} s"
    return f"{milliseconds // _HOUR} h {milliseconds % _HOUR // _MINUTE:02d} min"


class _Writer:
    def __init__(self, *, full: bool) -> None:
        self._full = full

    def run(self, tree: InspectTree) -> Iterator[str]:
        yield _(
            "run {agent} — {status}, {duration}, ${cost:.6f}",
            agent=tree.agent,
            status=tree.status.value,
            duration=duration(tree.duration_ms),
            cost=tree.cost_usd,
        )
        for step in tree.steps:
            yield from self._step(step, tree)
        if tree.error_type is not None:
            error = f"{tree.error_type} — {tree.error}" if tree.error else tree.error_type
            yield "  " + _("failed    : {error}", error=self._text(error, 14))
        if tree.cancelled_by is not None:
            yield "  " + _("cancelled : by {by}", by=tree.cancelled_by)

    def _step(self, step: InspectStep, tree: InspectTree) -> Iterator[str]:
        yield "  " + _("step {number}", number=step.number)
        for item in step.items:
            yield from self._item(item)
            if isinstance(item, ModelItem):
                asked = {call.call_id for call in item.calls}
                for orphan in tree.orphans:
                    if orphan.call_id in asked:
                        yield from self._item(orphan)

    def _item(self, item: Item) -> Iterator[str]:
        return self._model(item) if isinstance(item, ModelItem) else self._tool(item)

    def _model(self, item: ModelItem) -> Iterator[str]:
        yield "    " + _(
            "model {model} ({role}) — {duration}, {read} → {written} tokens, ${cost:.6f}",
            model=item.model_id,
            role=item.role,
            duration=duration(item.latency_ms),
            read=item.usage.prompt_tokens,
            written=item.usage.output_tokens,
            cost=item.cost_usd,
        )
        if item.text:
            yield self._line(_("answers"), item.text)
        for call in item.calls:
            yield self._line(_("calls"), f"{call.name}({readable(call.arguments)})")

    def _tool(self, item: ToolItem) -> Iterator[str]:
        notes = [duration(item.latency_ms)] if item.latency_ms is not None else []
        if item.resumed:
            notes.append(_("started again"))
        if not item.launched:
            notes.append(_("not started"))
        elif item.outcome is None:
            notes.append(_("its end is not known"))
        elif item.outcome == "unknown":
            notes.append(_("its effect is not known"))
        yield "    " + _("tool {name} — {notes}", name=item.name, notes=", ".join(notes))
        for approval in item.approvals:
            yield self._line(_("approval"), self._asked(approval))
        yield self._line(_("arguments"), readable(item.arguments))
        if item.outcome is not None:
            label = _("result") if item.outcome == "ok" else _("error")
            yield self._line(label, item.result)

    def _asked(self, approval: Approval) -> str:
        at = f"{approval.requested_at:%Y-%m-%d %H:%M:%S} UTC"
        match approval.verdict:
            case None:
                return _("asked on {at}, not answered", at=at)
            case "granted":
                template = (
                    _("asked on {at}, granted by {by} with other arguments", at=at, by=approval.by)
                    if approval.edited
                    else _("asked on {at}, granted by {by}", at=at, by=approval.by)
                )
            case "rejected":
                template = _("asked on {at}, refused by {by}", at=at, by=approval.by)
            case "expired":
                template = _("asked on {at}, expired", at=at)
        return f"{template} — {approval.reason}" if approval.reason else template

    def _line(self, label: str, text: str) -> str:
        return f"      · {label:<9} : {self._text(text, 20)}"

    def _text(self, text: str, indent: int) -> str:
        if self._full:
            return text.replace("\n", "\n" + " " * indent)
        short = " ".join(text.split())
        return short if len(short) <= _LONGEST else short[:_LONGEST].rstrip() + "…"
