"""`loom mcp list` and `loom mcp accept`, on a server in a process of its own."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.access.cli.conftest import Desk, Outcome
from tests.access.cli.terminals import on_terminal

SERVER = Path(__file__).parents[2] / "adapters" / "mcp" / "servers" / "by_hand.py"


class Served:
    """A project with one server, and what it offers."""

    def __init__(self, folder: Path, loom: Desk) -> None:
        self.folder = folder
        self._loom = loom

    def loom(self, *words: str) -> Outcome:
        """Run a command."""
        return self._loom(*words)

    def offer(self, **described: str) -> None:
        """Say what the server offers from now on, by name."""
        schema = {"type": "object", "properties": {"a": {}}}
        tools = [
            {"name": name, "description": text, "inputSchema": schema}
            for name, text in described.items()
        ]
        (self.folder / "tools.json").write_text(json.dumps(tools))

    def write(self, backend: str = "jsonl", **members: Any) -> None:
        """Write the configuration."""
        events = {"backend": backend, **({"path": "data"} if backend != "memory" else {})}
        server = {
            "name": "hand",
            "transport": "stdio",
            "command": sys.executable,
            "args": ["-I", str(SERVER), str(self.folder)],
            **members,
        }
        agent = {"name": "a", "main": {"model": "M", "system": "Aide."}, "tools": [{"mcp": "hand"}]}
        config = {
            "version": 1,
            "storage": {"events": events},
            "mcp_servers": [server],
            "models": [{"id": "M", "sdk": "fake", "model": "m"}],
            "agents": [agent],
        }
        (self.folder / "loom.yaml").write_text(json.dumps(config))

    def states(self) -> dict[str, str]:
        """The state of each tool."""
        done = self.loom("mcp", "list", "--json")
        return {tool["name"]: tool["state"] for tool in json.loads(done.out)["hand"]}

    def offered(self) -> list[str]:
        """What a run is offered."""
        self.loom("run", "a", "x")
        opened: list[list[str]] = []
        for file in sorted((self.folder / "data" / "default").glob("*.jsonl")):
            opened += [
                line["payload"]["tools"]
                for line in map(json.loads, file.read_text().splitlines())
                if line["type"] == "tool.source_opened"
            ]
        return sorted(opened[-1])


@pytest.fixture
def served(loom: Desk) -> Served:
    """A project whose server offers two tools."""
    made = Served(loom.folder, loom)
    made.write()
    made.offer(read="Reads.", send="Sends.")
    return made


def test_a_change_is_shown_and_accepted(served: Served) -> None:
    """What changed is told with what nobody sees; it is offered once it is accepted, alone."""
    assert served.states() == {"read": "new", "send": "new"}
    assert served.offered() == ["hand__read", "hand__send"]
    assert served.states() == {"read": "accepted", "send": "accepted"}
    served.offer(read="Reads\u200b all.", send="Sends all.", more="More.")
    assert served.states() == {"read": "changed", "send": "changed", "more": "new"}
    told = served.loom("mcp", "accept", "hand", "read", "--yes")
    assert told.code == 0
    assert '"description": "Reads\\u200b all."' in told.out
    assert '- "description": "Reads."' in told.out
    assert "Sends" not in told.out
    assert served.offered() == ["hand__read"]
    served.offer(read="Reads\u200b all.", send="Sends.")
    assert served.states() == {"read": "accepted", "send": "accepted"}


def test_what_is_gone_is_forgotten_by_whoever_accepts_it(served: Served) -> None:
    """A tool that comes back is a new one."""
    served.offered()
    served.offer(read="Reads.")
    assert served.states() == {"read": "accepted", "send": "gone"}
    assert served.loom("mcp", "accept", "hand", "--yes").code == 0
    served.offer(read="Reads.", send="Sends.")
    assert served.states() == {"read": "accepted", "send": "new"}
    assert "read" not in served.loom("mcp", "accept", "hand", "--yes").out
    assert "Nothing to accept" in served.loom("mcp", "accept", "hand").err


def test_nobody_accepts_without_being_asked(served: Served) -> None:
    """Without a terminal, `--yes` is needed; a name that is unknown is refused."""
    done = served.loom("mcp", "accept", "hand")
    assert (done.code, "--yes" in done.err) == (2, True)
    assert served.states() == {"read": "new", "send": "new"}
    done = served.loom("mcp", "accept", "hand", "nothing", "--yes")
    assert (done.code, "tools: read, send" in done.err) == (2, True)
    done = served.loom("mcp", "accept", "nobody", "--yes")
    assert (done.code, "servers: hand" in done.err) == (2, True)


@pytest.mark.parametrize(("answer", "code", "state"), [("y", 0, "accepted"), ("", 2, "new")])
def test_a_person_confirms(served: Served, answer: str, code: int, state: str) -> None:
    """Only yes is yes."""
    got, written = on_terminal(served.folder, "mcp", "accept", "hand", typed=f"{answer}\n")
    assert (got, "[y/N]" in written) == (code, True)
    assert served.states() == {"read": state, "send": state}


def test_where_acceptance_is_not_kept(served: Served) -> None:
    """Pins of the configuration and a journal in memory are told of, with what to do."""
    done = served.loom("mcp", "list", "--json")
    digest = json.loads(done.out)["hand"][0]["digest"]
    served.write(pins={"read": digest})
    assert served.states() == {"read": "accepted", "send": "refused"}
    assert served.offered() == ["hand__read"]
    done = served.loom("mcp", "accept", "hand", "--yes")
    assert (done.code, "mcp_servers[hand].pins" in done.err) == (2, True)
    served.write(backend="memory")
    done = served.loom("mcp", "accept", "hand", "--yes")
    assert (done.code, "in memory" in done.err) == (2, True)


def test_a_server_that_cannot_be_reached_is_told(served: Served) -> None:
    """The others are shown all the same; the exit code is 1."""
    (served.folder / "dies").touch()
    done = served.loom("mcp", "list")
    assert (done.code, "cannot find the moon" in done.err) == (1, True)
