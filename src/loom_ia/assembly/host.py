"""Everything that a configuration describes, made and kept for one instance."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from loom_ia.agents import (
    AgentSpec,
    GraphTool,
    PythonTool,
    RoleSpec,
    SourcedTools,
    Speaker,
    SubagentRef,
)
from loom_ia.assembly.backends import factory
from loom_ia.assembly.checks import checks_digest, role_stages, stages_of
from loom_ia.assembly.graphs import Graphs
from loom_ia.assembly.models import Models
from loom_ia.assembly.notices import notice_problems
from loom_ia.assembly.session_state import state_rules
from loom_ia.assembly.sources import Sources
from loom_ia.assembly.tools import configured, graph_tool
from loom_ia.config.document import KeyPath
from loom_ia.config.load import LoadedConfig, spoken_by
from loom_ia.config.root import LoomConfig
from loom_ia.config.tool_kinds import may_come_from_source
from loom_ia.core.errors import CallerError, ConfigError, Problem, UnknownAgent
from loom_ia.core.model.budget import Budget
from loom_ia.core.model.naming import prefix_of
from loom_ia.core.plan import AgentPlan, ModelFacts, agent_plan
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.idempotency import IdempotencyStore
from loom_ia.core.ports.journal import Journal
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.sources import ToolSource
from loom_ia.core.ports.tools import Tool
from loom_ia.core.template import Template
from loom_ia.engine.breaker import Circuits
from loom_ia.engine.program import Program
from loom_ia.engine.stages import Stages, reviews_of
from loom_ia.engine.values import JournalStore
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.models import ChatModel, as_chat
from loom_ia.tools.artifact_read import ARTIFACT_READ, ArtifactRead
from loom_ia.tools.role import RoleTool
from loom_ia.tools.subagent import SubagentTool

_log = logging.getLogger("loom_ia.assembly")


class Host:
    """Makes the parts of an instance, each once, when it is first needed.

    `models` replaces the clients of some model ids, `sources` the MCP servers and the sources of
    tools of some names; `store` the journal.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        *,
        store: Journal | None = None,
        models: Mapping[str, ModelClient] | None = None,
        sources: Mapping[str, ToolSource] | None = None,
    ) -> None:
        self.loaded = loaded
        self._programs: dict[str, Program] | None = None
        self._graphs: Mapping[str, GraphDefinition[Any]] = {}
        self.warnings: tuple[Problem, ...] = loaded.warnings
        self.journal = store if store is not None else self._open_journal()
        self.artifacts = self._open_artifacts()
        self.idempotency = self._open_idempotency()
        self.models = Models(loaded, dict(models or {}), self.artifacts)
        self.sources = Sources(loaded, dict(sources or {}))
        self._circuits = Circuits()
        self._told_unpriced: set[str] = set()
        self.store = JournalStore(self.journal, name="the journal")

    @property
    def config(self) -> LoomConfig:
        """The configuration."""
        return self.loaded.config

    def register(self, name: str, obj: object) -> None:
        """Let the configuration refer to a Python object by `name`."""
        self.loaded.references.register(name, obj)
        self._programs = None

    def programs(self) -> Mapping[str, Program]:
        """Give every agent ready to be driven; raises `ConfigError` with all that is wrong."""
        if self._programs is None:
            self.warnings = self.loaded.check_references()
            speakers = (who for agent in self.config.agents for who in (agent.main, *agent.roles))
            judges = (judge for agent in self.config.agents for _, judge, _ in agent.judges)
            used = (model for speaker in (*speakers, *judges) for model in speaker.chain)
            problems = [*self.models.make(frozenset(used)), *self.sources.make()]
            problems += notice_problems(self.loaded)
            graphs = Graphs(self.loaded)
            known = graphs.all()
            programs: dict[str, Program] = {}
            for position, agent in enumerate(self.config.agents):
                tools, faults = self._tools_of(position, agent, graphs)
                problems += faults
                problems += self._sources_of(position, agent, tools)
                if not problems:
                    problems += self._params_of(position, agent)
                if not problems:
                    programs[agent.name] = self._program(agent, tools)
            if problems:
                raise ConfigError(problems)
            self.warnings = (*self.warnings, *graphs.warnings())
            self._programs, self._graphs = programs, known
        return self._programs

    def graphs(self) -> Mapping[str, GraphDefinition[Any]]:
        """Give every graph, ready to be driven; raises `ConfigError` with all that is wrong."""
        self.programs()
        return self._graphs

    def agent(self, name: str) -> Program:
        """Give what drives an agent that a step of a graph runs; raises `UnknownAgent`."""
        programs = self.programs()
        if name not in programs:
            raise UnknownAgent(
                "there is no agent {agent!r}; agents: {agents}",
                agent=name,
                agents=", ".join(programs) or "none",
            )
        return programs[name]

    def is_irreversible(self, name: str, *, above: frozenset[str] = frozenset()) -> bool:
        """Whether a run of an agent may do what cannot be undone, in it or below.

        Graphs, and tools that are not known before a run, may.
        """
        program = self.agent(name)
        tools = program.plan.tools.values()
        if program.sources or any(
            t.side_effects == "irreversible" or t.assesses or t.kind == "graph" for t in tools
        ):
            return True
        called = next(agent.subagents for agent in self.config.agents if agent.name == name)
        below = {reference.agent for reference in called} - above - {name}
        return any(self.is_irreversible(each, above=above | {name}) for each in sorted(below))

    def model(self, name: str) -> ChatModel:
        """Give a model that a step of a graph calls; raises `CallerError` for an unknown one."""
        known = tuple(model.id for model in self.config.models)
        if name not in known:
            raise CallerError(
                "there is no model {model!r}; models: {models}",
                model=name,
                models=", ".join(known) or "none",
            )
        if problems := list(self.models.make(frozenset({name}))):
            raise ConfigError(problems)
        self._require_price(name)
        return as_chat(self.models[name], circuits=self._circuits)

    @property
    def unpriced(self) -> Literal["warn", "error"]:
        """What becomes of a limit in dollars where a price is not known: prod refuses it."""
        return "error" if self.loaded.profile.name == "prod" else "warn"

    def _require_price(self, model: str) -> None:
        """Refuse a model whose dollars a limit cannot count, or warn of it, once."""
        limits = (self.limits(), self.session_limits())
        is_limited = any(limit is not None and limit.max_cost is not None for limit in limits)
        if not is_limited or self.models[model].spec.pricing is not None:
            return
        if self.unpriced == "error":
            raise CallerError(
                "the model {model} has no pricing, so that max_cost limits nothing: add it to the "
                "model, as the profile prod asks",
                model=model,
            )
        if model not in self._told_unpriced:
            self._told_unpriced.add(model)
            _log.warning("max_cost limits nothing: %s has no pricing", model)

    def limits(self) -> Budget | None:
        """Give what binds every run of a graph; None when nothing does, or it is only told."""
        budgets = self.config.budgets
        return None if budgets.on_exceed == "warn" or budgets.run.is_empty else budgets.run

    def session_limits(self) -> Budget | None:
        """Give what binds the runs of a session in which a graph runs; None as for `limits`."""
        budgets = self.config.budgets
        limits = budgets.session.limits
        return None if budgets.on_exceed == "warn" or limits.is_empty else limits

    async def close(self) -> None:
        """Let go of what was made here, the journal aside."""
        await self.sources.close()
        await self.models.close()
        if self.idempotency is not None:
            await self.idempotency.close()
        self.loaded.references.close()

    def _open_journal(self) -> Journal:
        events = self.config.storage.events
        make = factory("journal", events.backend)
        if events.backend == "memory":
            return cast("Journal", make())
        return cast("Journal", make(self.loaded.path(events.path or "")))

    def _open_artifacts(self) -> ArtifactStore:
        storage = self.config.storage
        files, events = storage.artifacts, storage.events
        backend = files.backend or ("memory" if events.backend == "memory" else "local")
        make = factory("artifacts", backend)
        if backend == "memory":
            return cast("ArtifactStore", make())
        if files.path is not None:
            return cast("ArtifactStore", make(self.loaded.path(files.path)))
        journal = self.loaded.path(events.path or "")
        folder = journal if events.backend == "jsonl" else journal.parent
        return cast("ArtifactStore", make(folder / ".artifacts"))

    def _open_idempotency(self) -> IdempotencyStore | None:
        keys = self.config.storage.idempotency
        if keys.backend == "journal":
            return None
        make = factory("idempotency", keys.backend)
        path = () if keys.path is None else (self.loaded.path(keys.path),)
        return cast("IdempotencyStore", make(*path))

    def _tools_of(
        self, position: int, agent: AgentSpec, graphs: Graphs
    ) -> tuple[dict[str, Tool], list[Problem]]:
        tools: dict[str, Tool] = {}
        problems: list[Problem] = []
        prefixes = {tool.prefix for tool in agent.tools if isinstance(tool, SourcedTools)}
        for index, reference in enumerate(agent.tools):
            if isinstance(reference, SourcedTools):
                continue  # its tools are known once a run is driven
            path = ("agents", position, "tools", index, reference.KEY)
            tool = self._tool(reference, graphs)
            name = tool.spec.name
            if prefix_of(name) in prefixes:
                template = "{name} begins like the tools of a source (give that one an alias)"
                problems.append(self.loaded.problem(path, template, name=name))
            if name == ARTIFACT_READ:
                template = "the name {name} is taken by the tool that reads large results"
                problems.append(self.loaded.problem(path, template, name=name))
            if name in tools:
                template = "two tools of agent {agent} are called {name}"
                problems.append(self.loaded.problem(path, template, agent=agent.name, name=name))
            tools[name] = tool
        for path, name in self._delegated(position, agent):
            if name in tools or name == ARTIFACT_READ:
                template = "two tools of agent {agent} are called {name}"
                problems.append(self.loaded.problem(path, template, agent=agent.name, name=name))
        return tools, problems

    def _delegated(self, position: int, agent: AgentSpec) -> Iterator[tuple[KeyPath, str]]:
        """Give the names of the roles and agents that an agent calls, and where they are."""
        for index, role in enumerate(agent.roles):
            yield ("agents", position, "roles", index, "name"), role.name
        for index, below in enumerate(agent.subagents):
            key = "name" if below.name else "agent"
            yield ("agents", position, "subagents", index, key), below.called

    def _tool(self, reference: PythonTool | GraphTool, graphs: Graphs) -> Tool:
        """Give a tool of an agent, whatever its kind."""
        match reference:
            case PythonTool():
                tool = cast("Tool", self.loaded.references.find(reference.python))
                return configured(tool, reference, self.config.execution.tools)
            case GraphTool():
                graph = graphs.graph(reference.graph)
                specs = (spec for spec in self.config.graphs if spec.name == reference.graph)
                said = next((spec.description for spec in specs), "")
                return graph_tool(graph, reference, said, host=self, store=self.store)

    def _sources_of(
        self, position: int, agent: AgentSpec, tools: Mapping[str, Tool]
    ) -> Iterator[Problem]:
        """Refuse a key of the state that is written by a tool which the agent has not."""
        for name, key in agent.state.items():
            for rank, source in enumerate(key.sources):
                if source.tool not in tools and not may_come_from_source(agent, source.tool):
                    path = ("agents", position, "state", name, "from", rank, "tool")
                    template = "the agent has no tool {tool} (its tools: {known})"
                    known = ", ".join(tools) or "none"
                    yield self.loaded.problem(path, template, tool=source.tool, known=known)

    def _params_of(self, position: int, agent: AgentSpec) -> Iterator[Problem]:
        """Refuse params, of an agent or a role, that would replace what the engine writes."""
        speakers: list[tuple[KeyPath, Speaker]] = [(("main",), agent.main)]
        speakers += [(("roles", rank), role) for rank, role in enumerate(agent.roles)]
        for at, speaker in speakers:
            own = {key for model in speaker.chain for key in self.models.own_keys(model)}
            for key in sorted(own & speaker.llm.params.keys()):
                path = ("agents", position, *at, "llm", "params", key)
                template = "{key} is written by the engine, and cannot be given in params"
                yield self.loaded.problem(path, template, key=key)

    def _program(self, agent: AgentSpec, tools: Mapping[str, Tool]) -> Program:
        reader = ArtifactRead(self.artifacts, self.loaded.language(agent))
        below = {ref.called: self._subagent(agent, ref) for ref in agent.subagents}
        roles = {role.name: self._role(agent, role, tools) for role in agent.roles}
        tools = {**tools, **below, **roles}
        stages = stages_of(self.loaded, agent, tools, self.models.__getitem__)
        plan = self._plan(agent, tools, reader, stages)
        program = self._bound(plan, {**tools, ARTIFACT_READ: reader}, stages)
        return replace(program, sources=self.sources.bindings(agent))

    def _subagent(self, agent: AgentSpec, reference: SubagentRef) -> SubagentTool:
        """Give the tool by which an agent calls another one."""
        specs = (spec for spec in self.config.agents if spec.name == reference.agent)
        said = next((spec.description for spec in specs), "")
        return SubagentTool.of(
            reference.called,
            said if reference.description is None else reference.description,
            lambda: self.agent(reference.agent),
            share=reference.budget_share,
            limits=agent.budget.over(self.config.budgets).run,
        )

    def _role(self, agent: AgentSpec, role: RoleSpec, tools: Mapping[str, Tool]) -> RoleTool:
        """Give the tool by which an agent calls one of its roles."""
        key = spoken_by(agent, role.name)
        model, *fallbacks = (self._facts(role, name) for name in role.chain)
        place: KeyPath = ("roles", [one.name for one in agent.roles].index(role.name))
        stages = role_stages(self.loaded, agent, role, place, tools, self.models.__getitem__)
        plan = agent_plan(
            name=agent.name,
            model=model,
            fallbacks=tuple(fallbacks),
            system=self.loaded.prompts[key].render({}),
            max_iterations=1,
            timeout=role.timeout,
            language=self.loaded.language(agent),
            output_schema=self.loaded.schemas.get((agent.name, (*place, "output"))),
            reviews=reviews_of(stages),
            checks=checks_digest(role),
        )
        template = role.input_template
        return RoleTool.of(
            role.name,
            role.description,
            self._bound(plan, {}, stages),
            input_schema=role.input_schema,
            context=role.context,
            template=None if template is None else Template.parse(template),
            terminal=role.terminal,
        )

    def _bound(self, plan: AgentPlan, tools: Mapping[str, Tool], stages: Stages) -> Program:
        """Give a plan what it needs to be driven."""
        return Program(
            plan,
            {facts.id: self.models[facts.id] for facts in plan.chain},
            tools,
            artifacts=self.artifacts,
            idempotency=self.idempotency,
            circuits=self._circuits,
            captures_exchanges=self.config.telemetry.capture.raw_exchanges,
            stages=stages,
            keeps_judges=self.loaded.profile.name == "prod",
        )

    def _plan(
        self, agent: AgentSpec, tools: Mapping[str, Tool], reader: ArtifactRead, stages: Stages
    ) -> AgentPlan:
        limits = agent.budget.over(self.config.budgets)
        model, *fallbacks = (self._facts(agent.main, name) for name in agent.main.chain)
        return agent_plan(
            name=agent.name,
            model=model,
            fallbacks=tuple(fallbacks),
            system=self.loaded.prompts[spoken_by(agent)].render({}),
            tools=tuple(tool.spec for tool in tools.values()),
            max_iterations=agent.max_iterations,
            timeout=agent.timeout,
            expires_in=agent.approval.expires_in,
            on_expiry=agent.approval.on_expiry,
            language=self.loaded.language(agent),
            output_schema=self.loaded.schemas.get((agent.name, ("output",))),
            reader=reader.spec,
            budget=limits.run,
            on_exceed=limits.on_exceed or "stop",
            reviews=reviews_of(stages),
            checks=checks_digest(agent),
            stream_output=agent.stream_output,
            session_budget=limits.session.limits,
            state=state_rules(agent, self.config.sessions.state),
            max_depth=agent.max_depth,
        )

    def _facts(self, speaker: Speaker, name: str) -> ModelFacts:
        """Give a model as decisions see it, with what is asked of it by whoever speaks."""
        spec, llm = self.models[name].spec, speaker.llm
        return ModelFacts(
            id=name,
            max_tokens=llm.max_tokens or spec.max_tokens,
            params={**spec.params, **llm.params},
            native_json=spec.capabilities.native_json,
            context_window=spec.capabilities.context_window,
            longest_answer=llm.max_tokens or spec.longest_answer,
            pricing=spec.pricing,
        )
