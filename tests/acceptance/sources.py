"""A server of tools in a real process, and packages that look as if they were installed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[1] / "adapters" / "mcp" / "servers" / "by_hand.py"
OBJECT = {"type": "object", "properties": {"do": {"type": "string"}}}


class Server:
    """A server that speaks MCP over its standard streams, told what to do by its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.define(definition("chercher", annotations={"readOnlyHint": True}))

    def define(self, *definitions: dict[str, Any]) -> None:
        """Say what it offers."""
        (self.folder / "tools.json").write_text(json.dumps(definitions))

    def entry(self, name: str = "crm", **more: Any) -> dict[str, Any]:
        """Write its entry of `mcp_servers`."""
        return {
            "name": name,
            "transport": "stdio",
            "command": sys.executable,
            "args": [str(SERVER), str(self.folder)],
            "connect_timeout": 30,
            **more,
        }

    def noted(self, name: str) -> list[Any]:
        """Read what it noted: `starts`, `calls`."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def definition(name: str, **members: Any) -> dict[str, Any]:
    """Write a tool as a server lists it."""
    return {"name": name, "description": f"Does {name}.", "inputSchema": OBJECT, **members}


def unreachable(name: str = "crm", **more: Any) -> dict[str, Any]:
    """Write the entry of a server that does not start."""
    return {"name": name, "transport": "stdio", "command": "no-such-program-at-all", **more}


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str, *, entry_point: str
) -> None:
    """Put a package where Python finds it, with an entry point that makes a source of tools."""
    site = folder / "site-packages"
    site.mkdir(exist_ok=True)
    (site / f"{module}.py").write_text(text)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[loom_ia.tools]\n{entry_point} = {module}:make\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, module, raising=False)
