"""All that a decision may know of an agent: names, texts, limits. No live object stands here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from loom_ia.core.json import JsonObject, JsonValue, digest
from loom_ia.core.model.budget import Budget, BudgetAction
from loom_ia.core.model.tooling import ExpiryAction, ToolSpec
from loom_ia.core.prompts import Language


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent as its decisions see it. Build it with `agent_plan`, which adds the digests.

    `timeout` bounds the driven time of a run and `expires_in` the wait for a human, both in
    seconds, None for no limit. `inline_approver` tells that a function answers questions while
    the run is driven. `reader` reads what was put away; it is offered once something was.
    `part_digests` identify the parts of a request that the agent decides.
    """

    name: str
    model: str
    system: str
    tools: Mapping[str, ToolSpec]
    max_iterations: int = 10
    timeout: float | None = None
    expires_in: float | None = 86_400.0
    on_expiry: ExpiryAction = "deny"
    language: Language = "en"
    max_tokens: int | None = None
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    inline_approver: bool = False
    reader: ToolSpec | None = None
    budget: Budget = field(default_factory=Budget)
    on_exceed: BudgetAction = "stop"
    part_digests: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: str = ""

    def at(self, *, has_offloaded: bool) -> "AgentPlan":
        """Give the plan of a run that has, or has not, put a result away."""
        reader = self.reader
        if reader is None or not has_offloaded:
            return self
        tools = {**self.tools, reader.name: reader}
        parts = {**self.part_digests, "tools": tools_digest(tools.values())}
        return replace(self, tools=MappingProxyType(tools), part_digests=parts, reader=None)


def tools_digest(tools: Iterable[ToolSpec]) -> str:
    """Identify what a model is shown of tools; 16 hexadecimal digits."""
    return digest([[tool.name, tool.description, tool.input_schema] for tool in tools])[:16]


def agent_plan(  # noqa: PLR0913 -- one keyword for each setting of an agent
    *,
    name: str,
    model: str,
    system: str,
    tools: tuple[ToolSpec, ...] = (),
    max_iterations: int = 10,
    timeout: float | None = None,
    expires_in: float | None = 86_400.0,
    on_expiry: ExpiryAction = "deny",
    language: Language = "en",
    max_tokens: int | None = None,
    params: JsonObject | None = None,
    reader: ToolSpec | None = None,
    budget: Budget | None = None,
    on_exceed: BudgetAction = "stop",
) -> AgentPlan:
    """Build a plan and the digests that identify it."""
    settings: JsonObject = {"max_tokens": max_tokens, "params": params or {}}
    parts = {
        "model": digest(model)[:16],
        "system": digest(system)[:16],
        "tools": tools_digest(tools),
        "settings": digest(settings)[:16],
    }
    whole = {
        **parts,
        "declarations": digest([t.model_dump(mode="json") for t in tools]),
        "limits": [max_iterations, timeout, expires_in, on_expiry, language],
        "budget": [(budget or Budget()).model_dump(mode="json"), on_exceed],
    }
    return AgentPlan(
        name=name,
        model=model,
        system=system,
        tools=MappingProxyType({t.name: t for t in tools}),
        max_iterations=max_iterations,
        timeout=timeout,
        expires_in=expires_in,
        on_expiry=on_expiry,
        language=language,
        max_tokens=max_tokens,
        params=params or {},
        reader=reader,
        budget=budget or Budget(),
        on_exceed=on_exceed,
        part_digests=MappingProxyType(parts),
        digest=digest(whole)[:16],
    )
