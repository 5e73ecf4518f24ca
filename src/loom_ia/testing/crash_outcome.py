"""What a scenario came to, and what makes one outcome as good as another.

Law. Pure comparisons of what is in a journal and what was counted outside; nothing is run here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loom_ia.core.events.approval import ApprovalGranted, ApprovalRequested
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.graph import EffectRecorded
from loom_ia.core.events.idempotency import IdempotencyReused
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.run import RunResumed
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.model.changes import Values
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.plan import CallFacts
from loom_ia.core.views.result import RunResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario came to: its runs by id, its events, and the outside effects by name.

    `states` has the last values of each run of a graph, in the form of the journal.
    """

    runs: Mapping[RunId, RunResult]
    events: tuple[Event, ...]
    effects: Mapping[str, int]
    states: Mapping[RunId, Values] = field(default_factory=dict[RunId, Values])

    def __getitem__(self, run_id: RunId) -> RunResult:
        """Give one run."""
        return self.runs[run_id]


@dataclass(slots=True)
class _Launches:
    """How often the calls of one tool were launched, completed, and granted once more."""

    launched: int = 0
    succeeded: int = 0
    granted_again: int = 0


@dataclass(slots=True)
class _CallSoFar:
    launches: int = 0
    granted: bool = False
    reused: bool = False
    is_known: bool = False
    failed: bool = False

    def may_be_launched_afresh(self) -> None:
        """Note that its execution ended in a known way, and is due again."""
        self.launches, self.is_known, self.failed = 0, False, False


@dataclass(slots=True)
class Ledger:
    """The calls of a journal, tool by tool, and the laws of calls that it breaks."""

    specs: Mapping[str, CallFacts]
    tools: dict[str, _Launches] = field(default_factory=dict[str, _Launches])
    faults: list[str] = field(default_factory=list[str])
    _calls: dict[tuple[RunId, CallId], _CallSoFar] = field(
        default_factory=dict[tuple[RunId, CallId], _CallSoFar]
    )

    @classmethod
    def of(cls, events: Iterable[Event], specs: Mapping[str, CallFacts]) -> "Ledger":
        """Read a journal."""
        ledger = cls(specs)
        for event in events:
            ledger.take(event)
        return ledger

    def tool(self, name: str) -> _Launches:
        """Give what is known of one tool."""
        return self.tools.setdefault(name, _Launches())

    def take(self, event: Event) -> None:
        """Read one event."""
        payload = event.payload
        match payload:
            case ModelResponded():  # its call ids may be those of an earlier turn
                self._calls = {k: v for k, v in self._calls.items() if k[0] != event.run_id}
            case ApprovalGranted():
                self._call(event.run_id, payload.call_id).granted = True
            case ApprovalRequested(asked=str()):  # the step is over, until it is answered
                self._call(event.run_id, payload.call_id).launches = 0
            case RunResumed():  # a step that failed is run again
                for (run_id, _), call in self._calls.items():
                    if run_id == event.run_id and call.failed:
                        call.may_be_launched_afresh()
            case ToolCalled():
                self._launch(event.run_id, payload)
            case IdempotencyReused():
                self._call(event.run_id, payload.call_id).reused = True
            case ToolCompleted():
                call = self._call(event.run_id, payload.call_id)
                call.is_known = payload.outcome is None
                call.failed = call.is_known and payload.output.is_error
                if payload.retry_at is not None:
                    call.may_be_launched_afresh()
                elif call.launches and not call.reused and not payload.output.is_error:
                    self.tool(payload.tool_name).succeeded += 1
            case _:
                pass

    def _launch(self, run_id: RunId, called: ToolCalled) -> None:
        call = self._call(run_id, called.call_id)
        tool, spec = self.tool(called.tool_name), self.specs.get(called.tool_name)
        name = f"{called.call_id} of {called.tool_name}"
        if call.is_known:
            self.faults.append(f"{name} was launched again although its result was written")
        elif call.launches and spec is not None and not _may_run_again(spec, called):
            if call.granted:
                tool.granted_again += 1
            elif not spec.may_be_asked_again:
                self.faults.append(f"{name} was launched again without anybody's leave")
        call.launches += 1
        call.granted = False
        tool.launched += 1

    def _call(self, run_id: RunId, call_id: CallId) -> _CallSoFar:
        return self._calls.setdefault((run_id, call_id), _CallSoFar())


def _may_run_again(spec: CallFacts, called: ToolCalled) -> bool:
    """Whether a call may simply be made again; a tool that assesses may have said so of it."""
    if isinstance(spec, ToolSpec) and spec.assesses:
        return called.side_effects is None or spec.idempotent
    return spec.may_run_again


def differences(reference: Outcome, outcome: Outcome) -> list[str]:
    """Tell in what `outcome` ended otherwise than the undisturbed `reference`."""
    found: list[str] = []
    for run_id in {**reference.runs, **outcome.runs}:
        wanted, given = reference.runs.get(run_id), outcome.runs.get(run_id)
        if wanted is None or given is None:
            found.append(f"run {run_id} is {'missing' if given is None else 'one too many'}")
        elif _ending(wanted) != _ending(given):
            found.append(f"run {run_id} ended as {_ending(given)}, not as {_ending(wanted)}")
        else:
            before, after = reference.states.get(run_id, {}), outcome.states.get(run_id, {})
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            if keys or before.keys() != after.keys():
                found.append(f"run {run_id} ended with other values of {', '.join(sorted(keys))}")
    wanted, given = _recorded(reference), _recorded(outcome)
    found += (
        f"{' '.join(effect)} was recorded {given[effect]} time(s), not {wanted[effect]}"
        for effect in {**wanted, **given}
        if wanted[effect] != given[effect]
    )
    return found


def _recorded(outcome: Outcome) -> Counter[tuple[RunId, CallId, str]]:
    """Count the effects of steps whose result was recorded."""
    return Counter(
        (event.run_id, event.payload.call_id, event.payload.key)
        for event in outcome.events
        if isinstance(event.payload, EffectRecorded) and event.payload.phase == "done"
    )


def broken_laws(
    reference: Outcome, outcome: Outcome, specs: Mapping[str, CallFacts]
) -> Iterator[str]:
    """Tell what no outcome may do, however it ended."""
    yield from _holes(outcome.events)
    ledger = Ledger.of(outcome.events, specs)
    yield from ledger.faults
    starts = _started(outcome)
    for name, count in outcome.effects.items():
        tool = tool_of(name)
        if specs[tool].may_run_again if tool in specs else starts.get(tool) == 0:
            continue
        most = reference.effects.get(name, 0) + ledger.tool(tool).granted_again
        most = max(most, starts.get(tool, 0))
        if count > most:
            yield f"the effect {name} happened {count} times, and {most} at most was due"
    counted = {tool_of(name) for name in reference.effects}
    for tool in sorted(counted & specs.keys()):
        happened = total(outcome.effects, tool)
        succeeded = ledger.tool(tool).succeeded
        if happened < succeeded:
            yield f"{succeeded} call(s) of {tool} succeeded, and {happened} effect(s) happened"


def _started(outcome: Outcome) -> Mapping[str, int]:
    """Count, for each key of an effect inside a step, the starts that were announced.

    None is where the effect may simply be made again.
    """
    starts: Counter[str] = Counter()
    for event in outcome.events:
        if isinstance(effect := event.payload, EffectRecorded):
            starts[effect.key] += effect.phase == "started"
    return starts


def unannounced(
    events: Iterable[Event], effects: Mapping[str, int], specs: Mapping[str, CallFacts]
) -> Iterator[str]:
    """Tell of effects that a journal says nothing about, in the instant after a crash."""
    ledger = Ledger.of(events, specs)
    for tool in sorted({tool_of(name) for name in effects} & specs.keys()):
        happened, launched = total(effects, tool), ledger.tool(tool).launched
        if specs[tool].side_effects != "none" and happened > launched:
            yield (
                f"{tool} had acted {happened} time(s) at the crash, "
                f"and the journal that survived knows of {launched} launch(es)"
            )


def tool_of(effect: str) -> str:
    """Give the tool that an effect is named after: `send` for `send` and for `send:ana`."""
    return effect.partition(":")[0]


def total(effects: Mapping[str, int], tool: str) -> int:
    """Count the effects of one tool."""
    return sum(count for name, count in effects.items() if tool_of(name) == tool)


def since(earlier: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """Count what happened since `earlier`."""
    return Counter(dict(now)) - Counter(dict(earlier))


def _ending(result: RunResult) -> tuple[str, ...]:
    pending = [f"asks about {p.call_id} ({p.kind})" for p in result.pending_approvals]
    parts = (result.status.value, result.text, result.error_type or "", *pending)
    return tuple(part for part in parts if part)


def _holes(events: Sequence[Event]) -> Iterator[str]:
    last: dict[str, int] = {}
    for event in events:
        before = last.get(event.session_id, 0)
        if event.seq != before + 1:
            yield f"session {event.session_id} goes from event {before} to {event.seq}"
        last[event.session_id] = event.seq
