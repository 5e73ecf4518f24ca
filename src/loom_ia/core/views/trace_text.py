"""The tree of a run as lines of text.

Law. The one place where a run becomes text. What is ours to say passes through `translate`, which
is English unless the caller speaks another language; what others said is shown as it is, and who
writes to a terminal escapes it. Each line says what it is, so that whoever shows it may colour it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from loom_ia.core.events.model import judge_slot
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import readable
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.usage import Usage
from loom_ia.core.views.result import PendingApproval
from loom_ia.core.views.trace_items import (
    Approval,
    AttemptItem,
    CheckItem,
    CircuitItem,
    ConcludingItem,
    DecisionItem,
    FailureItem,
    FallbackItem,
    GuardItem,
    Item,
    LimitItem,
    ModelItem,
    RepairItem,
    RouteItem,
    SourceItem,
    StepItem,
    ToolItem,
    TraceStep,
    VerdictItem,
)

if TYPE_CHECKING:
    from loom_ia.core.views.trace import Trace

LineKind: TypeAlias = Literal["run", "step", "model", "tool", "detail", "failure", "waiting"]

ESTIMATED: Final = "≈"
"""Stands before a number that the provider did not give."""

_LONGEST: Final = 200
_ENOUGH: Final = 4096
_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE


class TraceLine(NamedTuple):
    """A line of the tree; with `full` texts it may hold line breaks."""

    kind: LineKind
    text: str


class Translate(Protocol):
    """Fills a template with what is known, in some language."""

    def __call__(self, template: str, /, **params: object) -> str: ...


def english(template: str, /, **params: object) -> str:
    """Fill a template as it is written."""
    return template.format_map(params) if params else template


def trace_lines(
    trace: "Trace",
    *,
    translate: Translate = english,
    full: bool = False,
    command: Callable[[PendingApproval], str] | None = None,
    elapsed: Mapping[CallId, int] | None = None,
) -> Iterator[TraceLine]:
    """Write the lines of a run; texts are cut and put on one line unless `full`.

    `command` gives what is to be typed about a call that waits. `elapsed` has the calls that are
    under way, with the milliseconds since they were launched.
    """
    return _Writer(translate, full, command, elapsed or {}).run(trace)


def duration(milliseconds: int) -> str:
    """Write a duration as `80 ms`, `1.2 s`, `3 min 05 s` or `2 h 10 min`."""
    if milliseconds < _SECOND:
        return f"{milliseconds} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds / _SECOND:.1f} s"
    if milliseconds < _HOUR:
        return f"{milliseconds // _MINUTE} min {milliseconds % _MINUTE // _SECOND:02d} s"
    return f"{milliseconds // _HOUR} h {milliseconds % _HOUR // _MINUTE:02d} min"


def dollars(cost: float, *, unpriced: int, decimals: int = 6) -> str:
    """Write a cost; `?` when no price is known of any call, `≥` when one of some is not."""
    if not unpriced:
        return f"{cost:.{decimals}f}"
    return f"≥{cost:.{decimals}f}" if cost else "?"


def _spent(usage: Usage, cost: float, *, unpriced: bool) -> dict[str, object]:
    """Give what the lines of calls say of their consumption; what was estimated has a mark."""
    mark = ESTIMATED if usage.estimated else ""
    read, written = f"{mark}{usage.prompt_tokens}", f"{mark}{usage.output_tokens}"
    return {"read": read, "written": written, "cost": dollars(cost, unpriced=unpriced)}


def _on_one_line(text: str) -> str:
    """Tell the lines of an error apart once they stand on one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines).replace(":; ", ": ")


def _told_once(items: tuple[Item, ...]) -> Iterator[Item]:
    """Leave out the decision that a check draws from what it has just told."""
    before: Item | None = None
    for item in items:
        follows = (
            isinstance(item, DecisionItem)
            and isinstance(before, GuardItem)
            and (item.policy, item.call_id) == (before.policy, before.call_id)
        )
        if not follows:
            yield item
        before = item


class _Writer:
    def __init__(
        self,
        translate: Translate,
        full: bool,
        command: Callable[[PendingApproval], str] | None,
        elapsed: Mapping[CallId, int],
    ) -> None:
        self.translate = translate
        self._full = full
        self._command = command
        self._elapsed = elapsed
        self._written: set[RunId] = set()

    def run(self, trace: "Trace", *, is_below: bool = False) -> Iterator[TraceLine]:
        said = self.translate(
            "run {agent} — {status}, {duration}, ${cost}",
            agent=trace.agent,
            status=trace.status.value,
            duration=duration(trace.duration_ms),
            cost=dollars(trace.cost_usd, unpriced=trace.unpriced_calls),
        )
        yield TraceLine("run", said)
        for file in trace.artifacts:
            if file.origin == "attachment":
                yield TraceLine("detail", f"  {self._attached(file)}")
        for step in trace.steps:
            yield from self._step(step, trace)
        if trace.error_type is not None:
            error = f"{trace.error_type} — {trace.error}" if trace.error else trace.error_type
            said = self.translate("failed    : {error}", error=self._text(error, 14))
            yield TraceLine("failure", f"  {said}")
        if trace.cancelled_by is not None:
            said = self.translate("cancelled : by {by}", by=trace.cancelled_by)
            yield TraceLine("failure", f"  {said}")
        for effect in () if is_below else trace.effects:
            if effect.status == "unknown":
                said = self.translate(
                    "not known : whether {tool} ({call_id}) took effect",
                    tool=effect.tool,
                    call_id=effect.call_id,
                )
                yield TraceLine("failure", f"  {said}")
        for pending in () if is_below else trace.pending:
            yield TraceLine("waiting", f"  {self._pending(pending)}")

    def _attached(self, file: StoredArtifact) -> str:
        return self.translate(
            "attached  : {name} ({media_type}, {size} bytes)",
            name=self._text(file.name or file.uri, 14),
            media_type=file.media_type,
            size=file.size,
        )

    def _pending(self, pending: PendingApproval) -> str:
        said = self.translate(
            "waits for a human: {tool} ({call_id})",
            tool=pending.tool_name,
            call_id=pending.call_id,
        )
        if pending.kind == "input":
            said = f"{said}: {self._text(readable(pending.payload), 4)}"
        return f"{said} — {self._command(pending)}" if self._command else said

    def _step(self, step: TraceStep, trace: "Trace") -> Iterator[TraceLine]:
        if step.number:
            yield TraceLine("step", "  " + self.translate("step {number}", number=step.number))
        for item in _told_once(step.items):
            yield from self._item(item)
            if isinstance(item, ToolItem | StepItem) and item.child_run_id:
                yield from self._below(item.child_run_id, trace)
            if isinstance(item, ModelItem) and not item.role.startswith(judge_slot("")):
                asked = {call.call_id for call in item.calls}
                for orphan in trace.orphans:
                    if orphan.call_id in asked:
                        yield from self._item(orphan)

    def _below(self, run_id: RunId, trace: "Trace") -> Iterator[TraceLine]:
        """Write the run that a call opened, once, under it."""
        for below in trace.below:
            if below.run_id == run_id and run_id not in self._written:
                self._written.add(run_id)
                lines = self._role(below) if below.role else self.run(below, is_below=True)
                for kind, text in lines:
                    yield TraceLine(kind, "      " + text.replace("\n", "\n      "))

    def _role(self, trace: "Trace") -> Iterator[TraceLine]:
        """Write what the models of a role did: the rest of its run is its call."""
        for step in trace.steps:
            for item in _told_once(step.items):
                yield from self._item(item)

    def _item(self, item: Item) -> Iterator[TraceLine]:
        match item:
            case ModelItem():
                return self._model(item)
            case ToolItem():
                return self._tool(item)
            case StepItem():
                return self._graph_step(item)
            case RouteItem():
                return self._route(item)
            case AttemptItem():
                return self._attempt(item)
            case FallbackItem():
                return self._fallback(item)
            case CircuitItem():
                return self._circuit(item)
            case SourceItem():
                return self._source(item)
            case LimitItem():
                return self._limit(item)
            case ConcludingItem():
                return self._concluding(item)
            case FailureItem():
                return self._failure(item)
            case _:
                return self._check(item)

    def _attempt(self, item: AttemptItem) -> Iterator[TraceLine]:
        said = self.translate(
            "model {model} ({role}) — attempt {attempt}: {notes}",
            model=item.model_id,
            role=item.role,
            attempt=item.attempt,
            notes=", ".join(self._attempt_notes(item)),
        )
        yield TraceLine("failure", f"    {said}")
        if item.error:
            yield self._detail(self.translate("error"), item.error, "failure")

    def _attempt_notes(self, item: AttemptItem) -> Iterator[str]:
        yield item.error_kind
        if item.http_status is not None:
            yield f"HTTP {item.http_status}"
        if item.usage is not None:
            yield self.translate(
                "{read} → {written} tokens, ${cost}",
                **_spent(item.usage, item.cost_usd, unpriced=item.unpriced),
            )
        if not item.final:
            yield self.translate("tried again after {seconds:g} s", seconds=item.delay_s)

    def _fallback(self, item: FallbackItem) -> Iterator[TraceLine]:
        said = self.translate(
            "{to_model} takes over from {from_model}: {reason}",
            to_model=item.to_model,
            from_model=item.from_model,
            reason=item.reason,
        )
        yield TraceLine("waiting", f"    {said}")
        if item.error:
            yield self._detail(self.translate("error"), item.error, "failure")

    def _limit(self, item: LimitItem) -> Iterator[TraceLine]:
        said = self.translate(
            "limit {limit} reached: {spent:g} of {value:g}",
            limit=item.limit,
            spent=item.spent,
            value=item.value,
        )
        yield TraceLine("waiting", f"    {said}")

    def _source(self, item: SourceItem) -> Iterator[TraceLine]:
        if item.tool:
            said = self.translate(
                "the tool {tool} of {source} is not offered: {reason}",
                tool=self._text(item.tool, 6),
                source=item.source,
                reason=self._text(item.reason, 6),
            )
        else:
            said = self.translate(
                "the source {source} cannot be reached: {reason}",
                source=item.source,
                reason=self._text(item.reason, 6),
            )
        yield TraceLine("failure" if item.required else "waiting", f"    {said}")

    def _concluding(self, item: ConcludingItem) -> Iterator[TraceLine]:
        said = self.translate("it must conclude, without tools: {reason}", reason=item.reason)
        yield TraceLine("waiting", f"    {said}")

    def _failure(self, item: FailureItem) -> Iterator[TraceLine]:
        error = f"{item.error_type} — {item.error}" if item.error else item.error_type
        said = self.translate("failed, then resumed: {error}", error=self._text(error, 6))
        yield TraceLine("failure", f"    {said}")

    def _check(self, item: CheckItem) -> Iterator[TraceLine]:
        match item:
            case DecisionItem():
                return self._decision(item)
            case GuardItem():
                return self._guard(item)
            case VerdictItem():
                return self._verdict(item)
            case RepairItem():
                return self._repair(item)

    def _decision(self, item: DecisionItem) -> Iterator[TraceLine]:
        parts = {"policy": item.policy, "point": item.point.value, "decision": item.decision.value}
        if item.error:
            said = self.translate("policy {policy} at {point} failed → {decision}", **parts)
        else:
            said = self.translate("policy {policy} at {point} → {decision}", **parts)
        yield TraceLine("failure" if item.error else "waiting", f"    {said}")
        if item.reason:
            yield self._detail(self.translate("reason"), item.reason)

    def _guard(self, item: GuardItem) -> Iterator[TraceLine]:
        notes = ", ".join(self._guard_notes(item))
        said = self.translate(
            "{guard} of {target} — {notes}", guard=item.policy, target=item.target, notes=notes
        )
        yield TraceLine("failure" if item.outcome == "failed" else "detail", f"    {said}")
        if item.reason:
            yield self._detail(self.translate("reason"), item.reason)

    def _guard_notes(self, item: GuardItem) -> Iterator[str]:
        match item.outcome:
            case "passed":
                yield self.translate("passed")
            case "failed":
                yield self.translate("did not pass")
            case "skipped":
                yield self.translate("skipped")
        if item.normalized:
            yield self.translate("once cleaned")
        match item.resolution:
            case "retry":
                yield self.translate("made again")
            case "fail":
                yield self.translate("fails the run")
            case "unverified":
                yield self.translate("given unverified")
            case "fallback":
                yield self.translate("replaced by the fallback text")
            case "error":
                yield self.translate("an error for the model")
            case None:
                pass

    def _verdict(self, item: VerdictItem) -> Iterator[TraceLine]:
        said = self.translate(
            "judge {judge} ({model}) of {target}",
            judge=item.judge,
            model=item.model_id,
            target=item.target,
        )
        yield TraceLine("failure" if item.blocked else "detail", f"    {said}")
        for mark in item.criteria:
            score = f"{mark.score:g} {'≥' if mark.passed else '<'} {mark.min_score:g}"
            if not mark.passed and not mark.blocking:
                score = self.translate("{score}, only reported", score=score)
            told = f"{score} — {mark.reason}" if mark.reason else score
            failed = mark.blocking and not mark.passed
            yield self._detail(mark.name, told, "failure" if failed else "detail")

    def _repair(self, item: RepairItem) -> Iterator[TraceLine]:
        said = self.translate("asked again by {policy}", policy=item.policy)
        yield TraceLine("waiting", f"    {said}")
        if self._full:
            yield self._detail(self.translate("reads"), item.text)

    def _circuit(self, item: CircuitItem) -> Iterator[TraceLine]:
        said = self.translate(
            "{target} is left alone for {seconds:g} s, after {failures} failure(s)",
            target=item.target,
            seconds=item.cooldown_s,
            failures=item.failures,
        )
        yield TraceLine("waiting", f"    {said}")

    def _model(self, item: ModelItem) -> Iterator[TraceLine]:
        said = self.translate(
            "model {model} ({role}) — {duration}, {read} → {written} tokens, ${cost}",
            model=item.model_id,
            role=item.role,
            duration=duration(item.latency_ms),
            **_spent(item.usage, item.cost_usd, unpriced=item.unpriced),
        )
        yield TraceLine("model", f"    {said}")
        if item.text:
            yield self._detail(self.translate("answers"), item.text)
        for call in item.calls:
            asked = f"{call.name}({readable(call.arguments)})"
            yield self._detail(self.translate("calls"), asked)

    def _tool(self, item: ToolItem) -> Iterator[TraceLine]:
        notes = ", ".join(self._notes(item))
        template = "role {name} — {notes}" if item.tool_kind == "role" else "tool {name} — {notes}"
        said = self.translate(template, name=item.name, notes=notes)
        yield TraceLine("tool", f"    {said}")
        for approval in item.approvals:
            yield self._detail(self.translate("approval"), self._asked(approval))
        yield self._detail(self.translate("arguments"), readable(item.arguments))
        if item.outcome == "ok":
            yield self._detail(self.translate("result"), item.result)
        elif item.outcome is not None:
            error = item.result if self._full else _on_one_line(item.result)
            yield self._detail(self.translate("error"), error, "failure")

    def _graph_step(self, item: StepItem) -> Iterator[TraceLine]:
        notes = ", ".join(self._step_notes(item))
        said = self.translate(
            "step {name} ({occurrence}) — {notes}",
            name=item.name,
            occurrence=item.occurrence,
            notes=notes,
        )
        yield TraceLine("tool", f"    {said}")
        for approval in item.approvals:
            yield self._detail(self.translate("question"), self._asked(approval))
        if item.changed:
            yield self._detail(self.translate("changes"), ", ".join(item.changed))
        if item.outcome in ("error", "unknown") and item.error:
            error = item.error if self._full else _on_one_line(item.error)
            yield self._detail(self.translate("error"), error, "failure")

    def _step_notes(self, item: StepItem) -> Iterator[str]:
        under_way = item.outcome is None and item.call_id in self._elapsed
        waits = any(approval.verdict is None for approval in item.approvals)
        if item.latency_ms is not None:
            yield duration(item.latency_ms)
        elif under_way:
            yield duration(self._elapsed[item.call_id])
        if item.attempt > 1:
            yield self.translate("attempt {attempt}", attempt=item.attempt)
        if item.resumed:
            yield self.translate("started again")
        if item.outcome is None and waits:
            yield self.translate("waits for an answer")
        elif under_way:
            yield self.translate("under way")
        elif item.outcome is None and item.child_run_id:
            yield self.translate("its run was not over")
        elif item.outcome is None:
            yield self.translate("its end is not known")
        elif item.outcome == "unknown":
            yield self.translate("its effect is not known")
        elif item.outcome == "stopped":
            yield self.translate("stopped")

    def _route(self, item: RouteItem) -> Iterator[TraceLine]:
        to = " + ".join(dict.fromkeys(item.to)) or "END"
        label = f" ({item.label})" if item.label else ""
        yield TraceLine("step", f"    → {to}{label}")

    def _notes(self, item: ToolItem) -> Iterator[str]:
        under_way = item.outcome is None and item.call_id in self._elapsed
        if item.latency_ms is not None:
            yield duration(item.latency_ms)
        elif under_way:
            yield duration(self._elapsed[item.call_id])
        if item.resumed:
            yield self.translate("started again")
        if item.reconciled == "done":
            yield self.translate("found done by asking")
        elif item.reconciled == "not_done":
            yield self.translate("found not done by asking")
        elif item.reconciled == "unknown":
            yield self.translate("asked in vain what became of it")
        if not item.launched:
            yield self.translate("not started")
        elif under_way:
            yield self.translate("under way")
        elif item.outcome is None and item.child_run_id:
            yield self.translate("its run was not over")
        elif item.outcome is None and item.reconciled is None:
            yield self.translate("its end is not known")
        elif item.outcome == "unknown":
            yield self.translate("its effect is not known")

    def _asked(self, approval: Approval) -> str:
        at, by = f"{approval.requested_at:%Y-%m-%d %H:%M:%S} UTC", approval.by
        match approval.verdict:
            case None:
                return self.translate("asked on {at}, not answered", at=at)
            case "granted" if approval.edited:
                said = self.translate(
                    "asked on {at}, granted by {by} with other arguments", at=at, by=by
                )
            case "granted":
                said = self.translate("asked on {at}, granted by {by}", at=at, by=by)
            case "rejected":
                said = self.translate("asked on {at}, refused by {by}", at=at, by=by)
            case "expired":
                said = self.translate("asked on {at}, expired", at=at)
        return f"{said} — {approval.reason}" if approval.reason else said

    def _detail(self, label: str, text: str, kind: LineKind = "detail") -> TraceLine:
        return TraceLine(kind, f"      · {label:<9} : {self._text(text, 20)}")

    def _text(self, text: str, indent: int) -> str:
        if self._full:
            return text.replace("\n", "\n" + " " * indent)
        short = " ".join(text[:_ENOUGH].split())
        if len(text) > _ENOUGH and len(short) <= _LONGEST:
            short = " ".join(text.split())
        return short if len(short) <= _LONGEST else short[:_LONGEST].rstrip() + "…"
