"""The patterns of contracts can be used."""

import re
from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.config.schemas import contracts_in, contracts_of
from loom_ia.core.errors import Problem


def check_contracts(project: Project) -> Iterator[Problem]:
    """Refuse an expression that does not compile, or that matches the empty text."""
    from loom_ia.policies.patterns import fault_in

    written = [
        (agent.source, path, contract)
        for agent in project.agents
        for path, contract in contracts_of(agent.spec)
        if path[0] not in agent.broken
    ]
    written += [(project.source, path, contract) for path, contract in contracts_in(project.root)]
    for source, path, contract in written:
        for key in ("must_match", "must_not_match"):
            pattern: str | None = getattr(contract, key)
            if pattern is None:
                continue
            place = (*path, key)
            if fault := fault_in(pattern):
                template = "this is not a regular expression: {fault}"
                yield source.problem(place, template, fault=fault)
            elif key == "must_not_match" and _matches_nothing(pattern):
                template = "it matches the empty text, so that it would refuse everything"
                yield source.problem(place, template)


def _matches_nothing(pattern: str) -> bool:
    return re.compile(pattern).search("") is not None
