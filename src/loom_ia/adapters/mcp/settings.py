"""What is needed to reach a server, with the values of its variables put in."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from loom_ia.core.errors import SourceUnavailable
from loom_ia.core.json import digest
from loom_ia.core.model.mcp import McpServer
from loom_ia.core.ports.sources import McpAccess


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is reached; secrets stand in `env` and `headers`, which no text shows."""

    name: str
    transport: Literal["stdio", "http"]
    connect_timeout: float
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path = Path()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def settings_of(server: McpServer, access: McpAccess) -> Settings:
    """Put the values of its variables into an entry; raises `SourceUnavailable` without one."""

    def value(variable: str) -> str:
        if secret := access.secret(variable):
            return secret
        raise SourceUnavailable(
            "the MCP server {server} cannot be reached: the variable {variable} is not defined",
            server=server.name,
            variable=variable,
        )

    env = {**server.env, **{name: value(var) for name, var in server.env_from.items()}}
    return Settings(
        name=server.name,
        transport=server.transport,
        connect_timeout=server.connect_timeout,
        command=server.command or "",
        args=tuple(server.args),
        env=env,
        cwd=access.base_dir / os.path.expanduser(server.cwd or "."),  # noqa: PTH111 (text)
        url=server.url or "",
        headers={name: value(var) for name, var in server.headers_env.items()},
    )


def identity_of(server: McpServer) -> str:
    """Tell one server from another, whatever its name and its secrets are."""
    if server.transport == "http":
        return digest(["http", server.url])
    return digest(["stdio", server.command, list(server.args), server.cwd])
