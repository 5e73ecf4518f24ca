"""Where a graph stands: its lines of steps, and the values that each sees.

A run begins with one line, the main one. Where it splits, each branch is a line of its own, which
starts from the values of that instant, sees its own changes only, and ends at a step that joins or
at the end of the graph. Values are in the form of the journal, so that nothing here knows a type
of the user.

Every method is total and gives the next value: a fact that no longer applies changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.changes import Change, Values, applied
from loom_ia.core.plan import Join
from loom_ia.core.state.frozen import Evolving

Stage: TypeAlias = Literal["due", "called", "done", "split", "ended"]
"""A step is to be called; was called; ended and its route is not known; branches; over."""

MAIN: Final = ""
"""The path of the main line."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A split over the items of a list: `step` for each, `limit` at once.

    What the steps give is put in the list `collect`, or only its key `take`. With `collects_errors`
    an item that fails is told in that list.
    """

    step: str
    collect: str
    limit: int = 8
    take: str = ""
    collects_errors: bool = False


@dataclass(frozen=True)
class Line(Evolving):
    """One line of steps. `call_id` is that of the step that was called last.

    `extra` is seen by its steps and never merged. `changes` are those since the split. `reviewed`
    counts the hooks that let the present stage pass. `goto` is the route that the step chose.
    `ended_at` is the step that joins, empty for the end of the graph. `failed` tells that it is an
    item of a list and failed.
    """

    path: str
    values: Values
    step: str
    stage: Stage = "due"
    call_id: CallId = ""
    extra: Values = field(default_factory=dict[str, JsonValue])
    changes: tuple[Change, ...] = ()
    reviewed: int = 0
    goto: JsonValue = None
    mapped: Mapped | None = None
    branches: int = 0
    ended_at: str = ""
    failed: str = ""

    def changed(self, changes: Sequence[Change]) -> "Line":
        """Take what a step did."""
        if not changes:
            return self
        kept = (*self.changes, *changes) if self.path else ()
        return self.but(values=applied(self.values, changes), changes=kept)

    def ended(self, at: str) -> "Line":
        """End at a step that joins, or at the end of the graph."""
        return self.but(stage="ended", ended_at=at, reviewed=0, goto=None)

    def branch_path(self, index: int) -> str:
        """Give the path of a branch of this line."""
        return f"{self.path}/{self.step}.{index}" if self.path else f"{self.step}.{index}"


@dataclass(frozen=True)
class Flow(Evolving):
    """The lines of a run by path, the main one first.

    `occurrences` counts how often each line reached each step, `started` all of them, `executed`
    also those that a later drive ran again, `segment` those since the run was last resumed.
    `routes` counts decisions. `last_step` is the one that was started last. `joins` has the steps
    where branches end, and `initial` the values that the run began with. `edges` counts how often
    each was taken, an empty name being the end, and `milliseconds` how long each step ran.
    """

    lines: Mapping[str, Line]
    joins: Mapping[str, Join]
    initial: Values = field(default_factory=dict[str, JsonValue])
    occurrences: Mapping[str, int] = field(default_factory=dict[str, int])
    started: int = 0
    executed: int = 0
    segment: int = 0
    routes: int = 0
    last_step: str = ""
    stopped: bool = False
    edges: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    milliseconds: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def main(self) -> Line:
        """The main line."""
        return self.lines[MAIN]

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stopped or self.main.stage == "ended"

    def line_of(self, call_id: CallId) -> Line | None:
        """Find the line on which a step was called, if nothing else was called there since."""
        line = self.lines.get(path_of(call_id))
        return line if line is not None and line.call_id == call_id else None

    def next_call(self, line: Line) -> tuple[CallId, int]:
        """Give the id of the next step of a line, and its occurrence."""
        place = f"{line.path}/{line.step}" if line.path else line.step
        occurrence = self.occurrences.get(place, 0) + 1
        return f"{place}/{occurrence}", occurrence

    def branches_of(self, line: Line) -> tuple[Line, ...]:
        """Give the branches of a line that is split, in order."""
        return tuple(self._branches(line))

    def _branches(self, line: Line) -> Iterator[Line]:
        paths = (line.branch_path(index) for index in range(line.branches))
        return (self.lines[path] for path in paths if path in self.lines)

    def active(self) -> Iterator[Line]:
        """Give the lines that are neither split nor over, in order."""
        return (line for line in self.lines.values() if line.stage not in ("split", "ended"))

    def can_meet(self, line: Line) -> bool:
        """Whether the branches of a line that is split are where it goes on from them."""
        # The last ones begin last, so that one which is on its way is found at once.
        paths = (line.branch_path(index) for index in reversed(range(line.branches)))
        if all(path not in self.lines or self.lines[path].stage == "ended" for path in paths):
            return True
        if line.mapped is not None or all(join == "all" for join in self.joins.values()):
            return False
        branches = self._branches(line)
        arrived = [branch.ended_at for branch in branches if branch.stage == "ended"]
        return any(
            at
            and self.joins.get(at, "all") != "all"
            and arrived.count(at) >= _enough(self.joins[at])
            for at in arrived
        )

    # -- what facts do to it ----------------------------------------------------------------------

    def with_line(self, line: Line) -> "Flow":
        """Put a line in the place of what it was."""
        return self.but(lines={**self.lines, line.path: line})

    def called(self, call_id: CallId, step: str) -> "Flow":
        """Start a step for the first time."""
        path = path_of(call_id)
        line = self.lines.get(path)
        if line is None:
            return self
        place = call_id[: call_id.rfind("/")]
        count = self.occurrences.get(place, 0) + 1
        line = line.but(stage="called", call_id=call_id, reviewed=0)
        return self.but(
            lines={**self.lines, path: line},
            occurrences={**self.occurrences, place: count},
            started=self.started + 1,
            executed=self.executed + 1,
            segment=self.segment + 1,
            last_step=step,
        )

    def ran(self, step: str, milliseconds: int) -> "Flow":
        """Note how long a step ran."""
        before = self.milliseconds.get(step, 0)
        return self.but(milliseconds={**self.milliseconds, step: before + milliseconds})

    def _took(self, source: Sequence[str], targets: Sequence[str]) -> Mapping[tuple[str, str], int]:
        edges = dict(self.edges)
        for step in source:
            for target in dict.fromkeys(targets) or _END:
                edges[step, target] = edges.get((step, target), 0) + 1
        return edges

    def completed(self, call_id: CallId, changes: Sequence[Change], goto: JsonValue) -> "Flow":
        """End a step that succeeded. An item of a list ends there: its route is the list's."""
        line = self.line_of(call_id)
        if line is None:
            return self
        if changes:
            line = line.changed(changes)
        return self.with_line(line.but(stage="done", reviewed=0, goto=goto))

    def changed(self, call_id: CallId, changes: Sequence[Change]) -> "Flow":
        """Take changes that came before the end of a step, or after it."""
        line = self.line_of(call_id)
        return self if line is None or not changes else self.with_line(line.changed(changes))

    def given(self, changes: Sequence[Change]) -> "Flow":
        """Take what a caller says: every line that is not over sees it, as if from the start."""
        if not changes:
            return self
        lines = {
            path: line if line.stage == "ended" else line.but(values=applied(line.values, changes))
            for path, line in self.lines.items()
        }
        return self.but(lines=lines, initial=applied(self.initial, changes))

    def reviewed(self, path: str, passed: int, changes: Sequence[Change]) -> "Flow":
        """Note that hooks let a stage of a line pass, and what they changed."""
        line = self.lines.get(path)
        return self if line is None else self.with_line(line.changed(changes).but(reviewed=passed))

    def routed(
        self,
        path: str,
        source: Sequence[str],
        targets: Sequence[str],
        changes: Sequence[Change],
    ) -> "Flow":
        """Send a line on to one step, or to its end; its branches are over."""
        line = self.lines.get(path)
        if line is None:
            return self
        meets = line.stage == "split"  # its branches took their edges themselves
        lines = self._without_branches(line)
        line = line.changed(changes)
        target = targets[0] if targets else ""
        if not target or (path and line.stage != "split" and target in self.joins):
            line = line.but(branches=0, mapped=None, failed="").ended(target)
        else:
            line = line.but(
                stage="due",
                step=target,
                branches=0,
                mapped=None,
                reviewed=0,
                goto=None,
                failed="",
            )
        lines[path] = line
        edges = self.edges if meets else self._took(source, targets)
        return self.but(lines=lines, routes=self.routes + 1, edges=edges)

    def split(
        self,
        path: str,
        source: Sequence[str],
        targets: Sequence[str],
        inputs: Sequence[JsonObject],
        mapped: Mapped | None,
    ) -> "Flow":
        """Split a line into branches, one for each target."""
        line = self.lines.get(path)
        if line is None:
            return self
        line = line.but(stage="split", branches=len(targets), mapped=mapped, reviewed=0, goto=None)
        lines = {**self.lines, path: line}
        for index, target in enumerate(targets):
            extra = {**line.extra, **(inputs[index] if index < len(inputs) else {})}
            branch = Line(line.branch_path(index), line.values, target, extra=extra)
            if target in self.joins and mapped is None:
                branch = branch.ended(target)
            lines[branch.path] = branch
        return self.but(lines=lines, routes=self.routes + 1, edges=self._took(source, targets))

    def gathered(self, path: str, step: str, changes: Sequence[Change]) -> "Flow":
        """Put what the items of a list gave in the line that split; `step` says where next."""
        line = self.lines.get(path)
        if line is None:
            return self
        lines = self._without_branches(line)
        line = line.changed(changes).but(
            stage="done", step=step, branches=0, mapped=None, call_id="", reviewed=_ALL
        )
        return self.but(lines={**lines, path: line}, routes=self.routes + 1)

    def item_ended(self, path: str, error: str) -> "Flow":
        """End an item of a list, which failed if it has an `error`."""
        line = self.lines.get(path)
        return self if line is None else self.with_line(line.ended("").but(failed=error))

    def _without_branches(self, line: Line) -> dict[str, Line]:
        if not line.branches:
            return dict(self.lines)
        below = tuple(f"{line.branch_path(index)}/" for index in range(line.branches))
        own = {line.branch_path(index) for index in range(line.branches)}
        return {
            path: other
            for path, other in self.lines.items()
            if path not in own and not path.startswith(below)
        }


_END: Final = ("",)
_ALL: Final = 1_000_000
"""More hooks than there are: nothing is left to review."""


def _enough(join: Join) -> int:
    return join if isinstance(join, int) else 1


def path_of(call_id: CallId) -> str:
    """Give the path of the line of a step from its id, `<path>/<step>/<occurrence>`."""
    at = call_id.rfind("/", 0, call_id.rfind("/"))
    return call_id[:at] if at > 0 else ""


def begun(entry: str, values: Values, joins: Mapping[str, Join]) -> Flow:
    """Give the flow of a graph that has just begun."""
    return Flow({MAIN: Line(MAIN, values, entry)}, joins, values)
