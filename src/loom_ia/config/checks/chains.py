"""The models of an agent: declared, each once, and able to do what the agent asks."""

from collections.abc import Iterator

from loom_ia.config.project import Project, WrittenAgent, WrittenChain
from loom_ia.core.errors import Problem
from loom_ia.core.model.models import ModelSpec


def check_chains(project: Project) -> Iterator[Problem]:
    """Refuse a model twice in a chain, and one that cannot do what its agent needs."""
    specs = _sound(project)
    for agent in project.agents:
        calls = agent.spec.tools or agent.spec.roles or agent.spec.subagents
        for chain in agent.chains:
            seen: set[str] = set()
            for path, model in chain.models:
                if model in seen:
                    template = "the model {model} is already in this chain (name each once)"
                    yield agent.source.problem(path, template, model=model)
                seen.add(model)
                spec = specs.get(model)
                if spec is None or chain.role or not calls or spec.capabilities.tools:
                    continue
                template = "{agent} has tools, and {model} calls none (capabilities.tools: false)"
                yield agent.source.problem(path, template, agent=agent.spec.name, model=model)


def check_windows(project: Project) -> Iterator[Problem]:
    """Tell of a fallback whose window is smaller: a long conversation would not fit in it."""
    specs = _sound(project)
    for agent in project.agents:
        for chain in agent.chains:
            yield from _windows(agent, chain, specs)


def _windows(
    agent: WrittenAgent, chain: WrittenChain, specs: dict[str, ModelSpec]
) -> Iterator[Problem]:
    (_, first), *others = chain.models
    window = _window(specs, first)
    for path, model in others:
        smaller = _window(specs, model)
        if window is not None and smaller is not None and smaller < window:
            template = "{model} holds {smaller} tokens, and {first} {window}: it may not take over"
            params = {"model": model, "smaller": smaller, "first": first, "window": window}
            yield agent.source.problem(path, template, **params)


def _window(specs: dict[str, ModelSpec], model: str) -> int | None:
    return specs[model].capabilities.context_window if model in specs else None


def _sound(project: Project) -> dict[str, ModelSpec]:
    return {model.id: model for model in project.root.models}
