"""Who may come in: keys that can be told apart, and doors that ask for one."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from loom_ia.config.checks.names import unique
from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem

_TENANT: Final = "default"
_NO_KEY: Final = (
    "without an API key, whoever reaches the server may do everything (make one with `loom keys "
    "create`, and paste what it prints)"
)


def check_doors(project: Project) -> Iterator[Problem]:
    """Refuse keys that cannot be what they say, and MCP over HTTP without any."""
    if "security" not in project.broken:
        yield from _of_keys(project)
    settings = project.root.server.mcp
    is_open = "security" not in project.broken and not project.root.security.api_keys
    if settings.http and is_open and "server" not in project.broken:
        template = (
            "MCP over HTTP needs an API key, and none is declared (make one with `loom keys "
            "create`, and paste what it prints)"
        )
        yield project.source.problem(("server", "mcp", "http"), template)


def check_expired(project: Project) -> Iterator[Problem]:
    """Tell of a key that nobody can use any more."""
    now = datetime.now(UTC)
    for position, key in enumerate(project.root.security.api_keys):
        if key.expires is not None and key.expires.tzinfo is not None and key.expires <= now:
            template = (
                "the key {key} has expired: whoever presents it is refused (replace it with one "
                "that `loom keys create` makes, or remove it)"
            )
            path = ("security", "api_keys", position, "expires")
            yield project.source.problem(path, template, key=key.id)


def check_open(project: Project) -> Iterator[Problem]:
    """Tell of a server that asks nobody for a key."""
    if not project.root.security.api_keys:
        yield project.source.problem(("security", "api_keys"), _NO_KEY)


def check_secrets(project: Project, secret: Callable[[str], str]) -> Iterator[Problem]:
    """Refuse a trigger whose senders are to sign, and whose secret is not there.

    `secret` gives the value of a variable, empty when it is not defined.
    """
    for position, trigger in enumerate(project.root.triggers):
        if trigger.secret_env is not None and not secret(trigger.secret_env):
            template = "the variable {variable} is not defined, or empty (define it before serving)"
            path = ("triggers", position, "secret_env")
            yield project.source.problem(path, template, variable=trigger.secret_env)


def _of_keys(project: Project) -> Iterator[Problem]:
    source = project.source.inside("security", "api_keys")
    keys = project.root.security.api_keys
    yield from unique((source.inside(i), key.id, "id") for i, key in enumerate(keys))
    hashes: dict[str, str] = {}
    for position, key in enumerate(keys):
        here = source.inside(position)
        other = hashes.setdefault(key.hash, key.id)
        if other != key.id:
            template = "this is also the hash of {other}: each key has its own"
            yield here.problem(("hash",), template, other=other)
        if key.tenant != _TENANT:
            template = "clients are not available in this version (remove tenant)"
            yield here.problem(("tenant",), template)
        if key.expires is not None and key.expires.tzinfo is None:
            template = "an instant needs its time zone: write {example}"
            example = f"{key.expires.isoformat(timespec='seconds')}Z"
            yield here.problem(("expires",), template, example=example)
        yield from known_agents(project, here, key.agents)


def known_agents(project: Project, source: Source, names: Iterable[str]) -> Iterator[Problem]:
    """Refuse, at `agents` of `source`, a name that neither an agent nor a graph bears."""
    declared = {agent.spec.name for agent in project.agents}
    declared |= {graph.spec.name for graph in project.graphs}
    for position, name in enumerate(names):
        if name not in declared:
            template = "there is no agent {agent} (agents: {agents})"
            known = ", ".join(sorted(declared)) or "none"
            yield source.problem(("agents", position), template, agent=name, agents=known)
