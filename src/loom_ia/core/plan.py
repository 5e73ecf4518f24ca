"""All that a decision may know of an agent or of a graph: names, texts, limits.

No live object stands here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from loom_ia.core.json import JsonObject, JsonValue, digest
from loom_ia.core.model.budget import Budget, BudgetAction
from loom_ia.core.model.policy import PolicyPoint
from loom_ia.core.model.pricing import Pricing
from loom_ia.core.model.session_state import NO_STATE, StateRules
from loom_ia.core.model.tooling import (
    ApprovalMode,
    ExpiryAction,
    OnUnknown,
    SideEffects,
    ToolKind,
    ToolSpec,
    is_delegated,
    takes_references,
)
from loom_ia.core.prompts import Language, prompt_text

StreamOutput: TypeAlias = Literal["live", "after_guards"]
"""Whether pieces of an answer are shown as they come, or once it passed its checks."""
Join: TypeAlias = Literal["all", "any"] | int
"""When a step that joins starts: once all branches are there, one, or so many."""


class CallFacts(Protocol):
    """What decides over a call, whoever is called: a tool, a step of a graph, another run."""

    @property
    def kind(self) -> ToolKind: ...
    @property
    def side_effects(self) -> SideEffects: ...
    @property
    def approval(self) -> ApprovalMode: ...
    @property
    def on_unknown(self) -> OnUnknown: ...
    @property
    def may_run_again(self) -> bool: ...
    @property
    def may_be_asked_again(self) -> bool: ...


class CallsPlan(Protocol):
    """What a plan says of the calls of its program."""

    @property
    def tools(self) -> Mapping[str, CallFacts]: ...
    @property
    def language(self) -> Language: ...
    @property
    def expires_in(self) -> float | None: ...
    @property
    def on_expiry(self) -> ExpiryAction: ...
    @property
    def inline_approver(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a graph as a decision sees it; the words are those of tools.

    `fallback` is the step that runs instead when this one fails. A step with a `join` is where
    branches end. `bubbles` tells whether it waits with the run that it opened. `leads` is where it
    always leads, nothing for the end; None when its router has to be asked.
    """

    name: str
    kind: ToolKind = "step"
    side_effects: SideEffects = "none"
    idempotent: bool = False
    on_unknown: OnUnknown = "error"
    fallback: str = ""
    join: Join | None = None
    bubbles: bool = True
    approval: ApprovalMode = "never"
    leads: tuple[str, ...] | None = None

    @property
    def may_run_again(self) -> bool:
        """Whether a step that was interrupted can simply be run again."""
        return self.side_effects == "none" or self.idempotent or is_delegated(self.kind)

    @property
    def may_be_asked_again(self) -> bool:
        """Whether a step that was interrupted can be started again."""
        return self.may_run_again


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A graph as its decisions see it: `tools` are its steps by name.

    `max_iterations` bounds the steps of the whole run, or those since the last resume when
    `per_segment`. `timeout` bounds the driven time, in seconds. `before` and `after` count the
    hooks around a step. `digest` is the graph's fingerprint, `parts` what it covers.
    """

    name: str
    entry: str
    tools: Mapping[str, StepFacts]
    max_iterations: int = 100
    per_segment: bool = False
    timeout: float | None = None
    budget: Budget | None = None
    session_budget: Budget | None = None
    before: int = 0
    after: int = 0
    language: Language = "en"
    inline_approver: bool = False
    merge: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: str = ""
    expires_in: float | None = None
    on_expiry: ExpiryAction = "deny"

    @property
    def joins(self) -> dict[str, Join]:
        """The steps where branches end, and how many of them start each."""
        return {name: f.join for name, f in self.tools.items() if f.join is not None}


Plan: TypeAlias = "AgentPlan | GraphPlan"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model as a decision sees it: its name in the configuration, and what it is asked with.

    `context_window` and `longest_answer` are in tokens, None when they are not known. `parts`
    identify what this model puts in a request.
    """

    id: str
    max_tokens: int | None = None
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    native_json: bool = False
    context_window: int | None = None
    longest_answer: int | None = None
    pricing: Pricing | None = None
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    def identified(self) -> "ModelFacts":
        """Give the same facts with their digests."""
        settings: JsonObject = {"max_tokens": self.max_tokens, "params": self.params}
        parts = {"model": digest(self.id)[:16], "settings": digest(settings)[:16]}
        return replace(self, parts=MappingProxyType(parts))


class RunShape(NamedTuple):
    """What a run has that decides what its agent may call in it."""

    has_offloaded: bool = False
    has_image: bool = False
    agents_above: int = 0


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent as its decisions see it. Build it with `agent_plan`, which adds the digests.

    `timeout` bounds the driven time of a run and `expires_in` the wait for a human, both in
    seconds, None for no limit. `inline_approver` tells that a function answers questions while
    the run is driven. `reader` reads what was put away; it is offered once something was.
    `chain` has the model that leads and then those that take over when it fails. `output_schema`
    is what the answer is asked to fit, `state` the keys of the state of the session. `reviews` has
    the points where policies look, and the tools whose calls they look at, None for all.
    `part_digests` identify the parts of a request that the agent decides.

    `unreachable` has the prefixes of the tools whose sources cannot be reached now.

    Agents below are offered while fewer than `max_depth` agents are above.
    """

    name: str
    chain: tuple[ModelFacts, ...]
    system: str
    tools: Mapping[str, ToolSpec]
    max_iterations: int = 10
    timeout: float | None = None
    expires_in: float | None = 86_400.0
    on_expiry: ExpiryAction = "deny"
    language: Language = "en"
    output_schema: JsonObject | None = None
    inline_approver: bool = False
    reader: ToolSpec | None = None
    budget: Budget = field(default_factory=Budget)
    on_exceed: BudgetAction = "stop"
    max_depth: int = 1
    session_budget: Budget = field(default_factory=Budget)
    part_digests: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: str = ""
    state: StateRules = NO_STATE
    reviews: Mapping[PolicyPoint, frozenset[str] | None] = field(
        default_factory=dict[PolicyPoint, "frozenset[str] | None"]
    )
    stream_output: StreamOutput | None = None
    unreachable: frozenset[str] = frozenset()
    _equipped: "dict[tuple[str, frozenset[str]], AgentPlan]" = field(
        default_factory=dict[tuple[str, frozenset[str]], "AgentPlan"],
        init=False,
        compare=False,
        repr=False,
    )
    _shapes: "dict[RunShape, AgentPlan]" = field(
        default_factory=dict["RunShape", "AgentPlan"], init=False, compare=False, repr=False
    )

    @property
    def holds_text(self) -> bool:
        """Whether an answer is shown only once it passed its checks."""
        if self.stream_output is None:
            return PolicyPoint.ON_OUTPUT in self.reviews
        return self.stream_output == "after_guards"

    def is_reviewed(self, point: PolicyPoint, tool: str = "") -> bool:
        """Whether somebody looks at this point, and at the calls of `tool` there."""
        if point not in self.reviews:
            return False
        tools = self.reviews[point]
        return tools is None or tool in tools

    @property
    def has_references(self) -> bool:
        """Whether something is offered whose arguments may stand for results."""
        return any(takes_references(tool.kind) for tool in self.tools.values())

    @property
    def model(self) -> str:
        """The name of the model that leads."""
        return self.chain[0].id

    @property
    def binding(self) -> Budget | None:
        """The limits that bind the runs that it opens, too; None when they stop nothing."""
        return None if self.on_exceed != "stop" or self.budget.is_empty else self.budget

    @property
    def session_binding(self) -> Budget | None:
        """The limits of the session that bind the runs that it opens, too; None for none."""
        if self.on_exceed != "stop" or self.session_budget.is_empty:
            return None
        return self.session_budget

    def facts_of(self, model: str | None) -> ModelFacts:
        """Give what is known of a model of the chain; of the one that leads for any other."""
        return next((facts for facts in self.chain if facts.id == model), self.chain[0])

    def with_tools(
        self, tools: Iterable[ToolSpec], key: str, unreachable: frozenset[str] = frozenset()
    ) -> "AgentPlan":
        """Give the plan of a run that is offered `tools` besides, which `key` identifies.

        They come after its own, so that the beginning of its requests stays the same.
        """
        at = (key, unreachable)
        if at not in self._equipped:
            if len(self._equipped) >= _MOST_EQUIPPED:
                self._equipped.clear()
            self._equipped[at] = self._with_tools(tools, unreachable)
        return self._equipped[at]

    @property
    def offered(self) -> dict[str, ToolSpec]:
        """Its tools, and those that runs under it were offered besides, as far as it is known."""
        found = dict(self.tools)
        for plan in self._equipped.values():
            found.update(plan.tools)
        return found

    def _with_tools(self, tools: Iterable[ToolSpec], unreachable: frozenset[str]) -> "AgentPlan":
        every = {**self.tools, **{tool.name: tool for tool in tools}}
        parts = {**self.part_digests, "tools": tools_digest(every.values())}
        declared = digest([tool.model_dump(mode="json") for tool in every.values()])
        return replace(
            self,
            tools=MappingProxyType(every),
            unreachable=unreachable,
            part_digests=MappingProxyType(parts),
            digest=digest([self.digest, declared])[:16],
        )

    def at(self, shape: "RunShape") -> "AgentPlan":
        """Give the plan of a run of that shape: what is offered in it, and what is said of it."""
        if shape not in self._shapes:  # the same for each of its decisions
            self._shapes[shape] = self._shaped(shape)
        return self._shapes[shape]

    def _shaped(self, shape: "RunShape") -> "AgentPlan":
        tools = {name: spec for name, spec in self.tools.items() if self._is_offered(spec, shape)}
        if self.reader is not None and shape.has_offloaded:
            tools[self.reader.name] = self.reader
        system, parts = self.system, dict(self.part_digests)
        if any(takes_references(spec.kind) for spec in tools.values()):
            note = prompt_text(self.language, "references")
            system = "\n\n".join(filter(None, (system, note)))
            parts["system"] = digest(system)[:16]
        elif tools == self.tools:
            return self
        parts["tools"] = tools_digest(tools.values())
        return replace(self, system=system, tools=MappingProxyType(tools), part_digests=parts)

    def _is_offered(self, tool: ToolSpec, shape: "RunShape") -> bool:
        if tool.sees and not shape.has_image:
            return False
        return tool.kind != "subagent" or shape.agents_above < self.max_depth


_MOST_EQUIPPED: Final = 16
"""Plans of one agent that are kept, by what its sources give: it rarely changes."""


def successor_in(
    chain: tuple[ModelFacts, ...], model: str, *, larger: bool = False
) -> ModelFacts | None:
    """Give the model that takes over from `model`; a `larger` one must have a larger window."""
    rank = next((i for i, facts in enumerate(chain) if facts.id == model), None)
    if rank is None:
        return None
    window = chain[rank].context_window or 0
    return next(
        (f for f in chain[rank + 1 :] if not larger or (f.context_window or 0) > window), None
    )


def tools_digest(tools: Iterable[ToolSpec]) -> str:
    """Identify what a model is shown of tools; 16 hexadecimal digits."""
    return digest([[tool.name, tool.description, tool.input_schema] for tool in tools])[:16]


def agent_plan(  # noqa: PLR0913 -- one keyword for each setting of an agent
    *,
    name: str,
    model: str | ModelFacts,
    fallbacks: tuple[ModelFacts, ...] = (),
    system: str,
    tools: tuple[ToolSpec, ...] = (),
    max_iterations: int = 10,
    timeout: float | None = None,
    expires_in: float | None = 86_400.0,
    on_expiry: ExpiryAction = "deny",
    language: Language = "en",
    output_schema: JsonObject | None = None,
    reader: ToolSpec | None = None,
    budget: Budget | None = None,
    on_exceed: BudgetAction = "stop",
    session_budget: Budget | None = None,
    reviews: Mapping[PolicyPoint, frozenset[str] | None] | None = None,
    checks: str = "",
    stream_output: StreamOutput | None = None,
    state: StateRules = NO_STATE,
    max_depth: int = 1,
) -> AgentPlan:
    """Build a plan and the digests that identify it; `checks` is the digest of its policies."""
    first = model if isinstance(model, ModelFacts) else ModelFacts(model)
    chain = tuple(facts.identified() for facts in (first, *fallbacks))
    parts = {
        **chain[0].parts,
        "system": digest(system)[:16],
        "tools": tools_digest(tools),
    }
    if output_schema is not None:
        parts["output"] = digest(output_schema)[:16]
    whole: dict[str, object] = {
        **parts,
        "fallbacks": [dict(facts.parts) for facts in chain[1:]],
        "declarations": digest([t.model_dump(mode="json") for t in tools]),
        "limits": [max_iterations, timeout, expires_in, on_expiry, language, max_depth],
        "budget": [(budget or Budget()).model_dump(mode="json"), on_exceed],
        "checks": checks,
    }
    if session_budget is not None and not session_budget.is_empty:
        whole["session_budget"] = session_budget.model_dump(mode="json")
    if (keys := state.identity()) is not None:
        whole["state"] = digest(keys)
    return AgentPlan(
        name=name,
        chain=chain,
        system=system,
        tools=MappingProxyType({t.name: t for t in tools}),
        max_iterations=max_iterations,
        timeout=timeout,
        expires_in=expires_in,
        on_expiry=on_expiry,
        language=language,
        output_schema=output_schema,
        reader=reader,
        budget=budget or Budget(),
        on_exceed=on_exceed,
        session_budget=session_budget or Budget(),
        reviews=MappingProxyType(dict(reviews or {})),
        stream_output=stream_output,
        max_depth=max_depth,
        part_digests=MappingProxyType(parts),
        digest=digest(whole)[:16],
        state=state,
    )
