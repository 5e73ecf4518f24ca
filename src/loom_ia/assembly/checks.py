"""Who is asked at the points of an agent's runs: contracts, judges, policies, in that order."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast

from loom_ia.agents import (
    AgentSpec,
    AnyTool,
    Contract,
    Grounded,
    JudgeSpec,
    McpTool,
    PolicyReference,
    PythonTool,
    RoleSpec,
    SourcedTools,
)
from loom_ia.config.document import KeyPath
from loom_ia.config.load import LoadedConfig
from loom_ia.config.tool_kinds import said_of_tools
from loom_ia.core.json import JsonObject, digest
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.plan import ModelFacts
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.tools import Tool
from loom_ia.core.prompts import Language
from loom_ia.engine.stages import Chain, Stage, Stages
from loom_ia.policies import contract, judge
from loom_ia.policies.function import FunctionStage, PolicyFunction
from loom_ia.policies.grounded import ALL
from loom_ia.policies.grounding import Ground, GroundingStage

Clients: TypeAlias = Callable[[str], ModelClient]


def stages_of(
    loaded: LoadedConfig, agent: AgentSpec, tools: Mapping[str, Tool], clients: Clients
) -> Stages:
    """Give those who are asked about the runs of an agent."""
    return tuple(_stages(loaded, agent, tools, clients))


def role_stages(
    loaded: LoadedConfig,
    agent: AgentSpec,
    role: RoleSpec,
    place: KeyPath,
    tools: Mapping[str, Tool],
    clients: Clients,
) -> Stages:
    """Give those who are asked about what a role answers; `tools` are those of its agent."""
    stages: list[Stage] = []
    if role.output is not None:
        path: KeyPath = (*place, "output")
        rule = contract_of(loaded, agent.name, path, role.output, written(agent, tools))
        stages.append(contract.ContractStage(rule))
    if role.judge is not None:
        language = loaded.language(agent)
        stages.append(judge_stage(loaded, role.judge, clients, language, default=role.name))
    return tuple(stages)


def checks_digest(agent: AgentSpec | RoleSpec) -> str:
    """Identify what checks an agent or a role; empty when nothing does."""
    said: JsonObject = {}
    if agent.output is not None:
        said["output"] = agent.output.model_dump(mode="json")
    if agent.judge is not None:
        said["judge"] = agent.judge.model_dump(mode="json")
    if isinstance(agent, AgentSpec) and agent.policies:
        said["policies"] = [policy.model_dump(mode="json") for policy in agent.policies]
    return digest(said)[:16] if said else ""


def _stages(
    loaded: LoadedConfig, agent: AgentSpec, tools: Mapping[str, Tool], clients: Clients
) -> Iterator[Stage]:
    language = loaded.language(agent)
    if agent.output is not None:
        rule = contract_of(loaded, agent.name, ("output",), agent.output, written(agent, tools))
        yield contract.ContractStage(rule)
    grounds = dict(_grounds(agent, tools))
    if grounds:
        yield GroundingStage(grounds)
    of_tools = dict(_tool_contracts(loaded, agent, tools))
    if of_tools:
        yield contract.ToolContractStage(of_tools)
    if agent.judge is not None:
        yield judge_stage(loaded, agent.judge, clients, language, default="output")
    for reference in agent.policies:
        yield _policy(loaded, reference)


def contract_of(
    loaded: LoadedConfig,
    agent: str,
    path: KeyPath,
    spec: Contract,
    written: frozenset[str] = frozenset(),
) -> contract.Contract:
    """Give the contract that stands at `path` of an agent.

    `written` are the tools whose results a model wrote: they ground nothing.
    """
    ground = _ground(spec.grounded, written)
    return contract.Contract(
        schema=loaded.schemas.get((agent, path)),
        must_match=spec.must_match,
        must_not_match=spec.must_not_match,
        max_chars=spec.max_chars,
        normalize=spec.normalize,
        max_attempts=spec.repair.max_attempts,
        tools=spec.repair.tools == "allowed",
        on_failure=spec.on_failure,
        fallback_message=spec.fallback_message or "",
        grounds=ground.of_answer if ground else None,
    )


def _ground(said: bool | Grounded | None, written: frozenset[str]) -> Ground | None:
    if isinstance(said, Grounded):
        return Ground(frozenset(said.kinds) or ALL, said.allow, written)
    return Ground(written=written) if said else None


def _grounds(agent: AgentSpec, tools: Mapping[str, Tool]) -> Iterator[tuple[str, Ground]]:
    for reference, name in zip(known_tools(agent), tools, strict=False):
        if isinstance(reference, PythonTool):
            ground = _ground(reference.grounded, written(agent, tools))
            if ground is not None:
                yield name, ground


def written(agent: AgentSpec, tools: Mapping[str, Tool]) -> frozenset[str]:
    """Give the tools whose results a model writes."""
    kinds = {name: tool.spec.kind for name, tool in tools.items()}
    models = {name for name, kind in kinds.items() if kind in ("role", "subagent")}
    return frozenset(models | {role.name for role in agent.roles})


def _tool_contracts(
    loaded: LoadedConfig, agent: AgentSpec, tools: Mapping[str, Tool]
) -> Iterator[tuple[str, contract.Contract]]:
    names = iter(tools)
    for position, reference in enumerate(agent.tools):
        if isinstance(reference, SourcedTools):
            yield from _sourced_contracts(loaded, agent, position, reference)
            continue
        name = next(names)
        if isinstance(reference, PythonTool) and reference.output is not None:
            path: KeyPath = ("tools", position, "output")
            yield name, contract_of(loaded, agent.name, path, reference.output)


def _sourced_contracts(
    loaded: LoadedConfig, agent: AgentSpec, position: int, reference: SourcedTools
) -> Iterator[tuple[str, contract.Contract]]:
    """Give the contracts of tools that are not known yet: their names are."""
    config = loaded.config
    section = "mcp_servers" if isinstance(reference, McpTool) else "tool_sources"
    places = [source.name for source in getattr(config, section)]
    for own, over in said_of_tools(config, reference).items():
        if over.output is None:
            continue
        where, path = agent.name, ("tools", position, "tools", own, "output")
        if own not in reference.tools or reference.tools[own].output is None:
            rank = places.index(reference.target)
            where, path = "", (section, rank, "tools", own, "output")
        yield reference.named(own), contract_of(loaded, where, path, over.output)


def known_tools(agent: AgentSpec) -> tuple[AnyTool, ...]:
    """Give the references of an agent to tools that are known before a run is driven."""
    return tuple(tool for tool in agent.tools if not isinstance(tool, SourcedTools))


def judge_stage(
    loaded: LoadedConfig, spec: JudgeSpec, clients: Clients, language: Language, *, default: str
) -> judge.JudgeStage:
    """Give a judge; `default` is its name when it has none."""
    found = {model: clients(model) for model in spec.chain}
    facts = tuple(_facts(found[model].spec, spec) for model in spec.chain)
    when = spec.when
    condition = loaded.references.policy(when.condition) if when.condition else None
    return judge.JudgeStage(
        judge=spec.name or default,
        chain=Chain(facts, found),
        criteria=tuple(
            judge.Criterion(c.name, c.rule, c.min_score, c.blocking) for c in spec.criteria
        ),
        context=spec.context,
        when=judge.When(
            sample=when.sample,
            condition=cast("judge.Condition | None", condition),
            tenants=when.tenants,
            profiles=when.profiles,
        ),
        max_attempts=spec.repair.max_attempts,
        with_tools=spec.repair.tools != "none",
        on_failure=spec.on_failure,
        fallback_message=spec.fallback_message or "",
        on_error=spec.on_error,
        forces_tool={m: c.spec.capabilities.forced_tool_choice for m, c in found.items()},
        language=language,
        profile=loaded.profile.name,
        timeout=spec.timeout,
    )


def _facts(model: ModelSpec, spec: JudgeSpec) -> ModelFacts:
    return ModelFacts(
        id=model.id,
        max_tokens=spec.max_tokens or model.max_tokens,
        params={**model.params, **spec.params},
        context_window=model.capabilities.context_window,
    ).identified()


def _policy(loaded: LoadedConfig, reference: PolicyReference) -> FunctionStage:
    found = cast("PolicyFunction", loaded.references.policy(reference.hook))
    return FunctionStage(
        policy=found,
        name=reference.name or found.name,
        points=frozenset(reference.points or found.points),
        params=reference.params,
        timeout=reference.timeout,
        on_error=reference.on_error,
        max_attempts=reference.max_attempts,
    )
