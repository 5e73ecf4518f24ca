"""What policies, contracts and judges said in a run, and what is still to follow from it.

A ruling is a decision whose consequence is not drawn yet; the next decision of the run draws it.
What was passed is noted, so that nothing is looked at twice and no judge is paid again.
"""

from dataclasses import dataclass, field
from typing import Final

from loom_ia.core.json import JsonValue
from loom_ia.core.model.policy import DecisionKind, PolicyPoint, RequestChange, Verdict
from loom_ia.core.state.frozen import Evolving


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision that ended a chain of policies.

    `error_type` is how the run fails, when it does. With `tools`, whoever makes an answer again
    may call tools.
    """

    policy: str
    point: PolicyPoint
    decision: DecisionKind
    reason: str
    error_type: str = ""
    tools: bool = True


@dataclass(frozen=True)
class Checks(Evolving):
    """What was checked of the present turn of the model, and what checks said of the answer.

    `passed` are the points that the turn is past. `heard` are the stages that had their say about
    the output under review. `retries` counts, by policy, how often an output had to be made again.
    `change` is what policies changed in the coming request. `repairs` are the places, in the
    conversation, of the messages that asked for another answer.
    """

    passed: frozenset[PolicyPoint] = frozenset()
    heard: frozenset[str] = frozenset()
    ruling: Ruling | None = None
    retries: tuple[tuple[str, int], ...] = ()
    change: RequestChange | None = None
    repairs: tuple[int, ...] = ()
    without_tools: bool = False
    unverified: bool = False
    fallback: bool = False
    data: JsonValue = None
    verdicts: tuple[Verdict, ...] = field(default=())

    def retries_of(self, policy: str) -> int:
        """Tell how often a policy had an output made again."""
        return dict(self.retries).get(policy, 0)

    def retried(self, policy: str) -> "Checks":
        """Count one more output that must be made again."""
        counts = {**dict(self.retries), policy: self.retries_of(policy) + 1}
        return self.but(retries=tuple(counts.items()))

    def past(self, point: PolicyPoint) -> "Checks":
        """Go past a point."""
        return self.but(passed=self.passed | {point}, heard=frozenset())

    def next_turn(self) -> "Checks":
        """Forget what held for one turn of the model alone: it answered."""
        return self.but(
            passed=frozenset(),
            heard=frozenset(),
            change=None,
            without_tools=False,
            unverified=False,
            fallback=False,
            data=None,
        )


NO_CHECKS: Final = Checks()
"""Nothing was checked yet."""
