"""Judges: their models can judge, and they are not the models that they judge."""

from collections.abc import Iterator

from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.project import Project, judge_models
from loom_ia.core.errors import Problem
from loom_ia.core.model.models import ModelSpec


def check_judges(project: Project) -> Iterator[Problem]:
    """Refuse a model of a judge that cannot call a tool, one twice in its chain, and twins."""
    specs = {model.id: model for model in project.root.models}
    for agent in project.agents:
        names: set[str] = set()
        for place, judge, speaker in agent.judges:
            name = judge.name or getattr(speaker, "name", "") or "output"
            if name in names:
                template = "two judges of agent {agent} are called {name} (give one a name)"
                yield agent.source.problem(place, template, agent=agent.spec.name, name=name)
            names.add(name)
            seen: set[str] = set()
            for path, model in judge_models(place, judge):
                if model in seen:
                    template = "the model {model} is already in this chain (name each once)"
                    yield agent.source.problem(path, template, model=model)
                seen.add(model)
                if model in specs:
                    sees = "attachments" in judge.context
                    yield from _unable(agent.source, path, specs[model], sees=sees)


def _unable(source: Source, path: KeyPath, spec: ModelSpec, *, sees: bool) -> Iterator[Problem]:
    if sees and not spec.capabilities.vision:
        template = (
            "the judge is given attachments, and {model} sees no image (add "
            "capabilities: {{vision: true}} to the model, or choose another)"
        )
        yield source.problem(path, template, model=spec.id)
    if not spec.capabilities.tools:
        template = "a judge answers by a call, and {model} calls none (capabilities.tools: false)"
        yield source.problem(path, template, model=spec.id)
    elif spec.sdk == "anthropic" and _thinks(spec):
        template = "{model} thinks (params.thinking), and then cannot be made to give a verdict"
        yield source.problem(path, template, model=spec.id)


def check_correlated(project: Project) -> Iterator[Problem]:
    """Tell of a judge whose model is one that it judges: it finds its own faults good."""
    specs = {model.id: model for model in project.root.models}
    for agent in project.agents:
        for place, judge, speaker in agent.judges:
            judged = {_identity(specs[m]): m for m in speaker.chain if m in specs}
            for path, model in judge_models(place, judge):
                twin = judged.get(_identity(specs[model])) if model in specs else None
                if twin is not None:
                    template = (
                        "{model} judges what {judged} wrote, and they are the same model "
                        "(use another one)"
                    )
                    yield agent.source.problem(path, template, model=model, judged=twin)


def check_samples(project: Project) -> Iterator[Problem]:
    """Tell of a judge that can refuse an output and does not look at every one."""
    for agent in project.agents:
        for place, judge, _ in agent.judges:
            if judge.when.sample < 1 and any(one.blocking for one in judge.criteria):
                template = "a judge that may refuse an output looks at a part of the runs only"
                yield agent.source.problem((*place, "when", "sample"), template)


def _identity(spec: ModelSpec) -> tuple[str, str | None, str]:
    # A script is what its entry says: two entries are two models, whatever they are called.
    return spec.sdk, spec.base_url, spec.id if spec.sdk == "fake" else spec.model


def _thinks(spec: ModelSpec) -> bool:
    thinking = spec.params.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"
