"""MCP servers that others wrote, from the public registries, used by an agent.

They are installed for the length of the test, each in a place of its own: `make soak` runs this.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loom_ia.core.state.run import Status
from tests.acceptance.project import Project, call, calling

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def installed(*words: str, cwd: Path, registry: str) -> None:
    """Install something, or skip the test by the name of the registry that did not answer."""
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, timeout=400, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{registry} did not answer")
    if done.returncode != 0:
        pytest.skip(f"{registry} did not give {words[-1]}: {done.stderr[-300:]}")


@pytest.fixture(scope="module")
def python_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs of `mcp-server-time` and `mcp-server-fetch`."""
    folder = tmp_path_factory.mktemp("pypi")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    names = ("mcp-server-time", "mcp-server-fetch")
    pip = (str(programs / "python"), "-m", "pip", "install", "-q")
    installed(*pip, *names, cwd=folder, registry="PyPI")
    yield programs
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def node_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs of `server-filesystem` and `server-everything`."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    names = [f"@modelcontextprotocol/server-{name}" for name in ("filesystem", "everything")]
    installed("npm", "install", "--silent", "--no-audit", *names, cwd=folder, registry="npm")
    yield folder / "node_modules" / ".bin"
    shutil.rmtree(folder)


def server(name: str, command: Path, *args: str) -> dict[str, Any]:
    """The entry of a program."""
    return {
        "name": name,
        "transport": "stdio",
        "command": str(command),
        "args": list(args),
        "connect_timeout": 60,
    }


async def outputs(project: Project, *servers: dict[str, Any], calls: list[Any]) -> list[Any]:
    """Have an agent make calls, all at once, and give what they gave."""
    project.script = [calling(*calls), {"text": "Fait."}]
    project.root["mcp_servers"] = list(servers)
    project.tools = [{"mcp": each["name"], "required": True} for each in servers]
    project.save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Va.")
        events = await loom.events(result.run_id)
    assert (result.status, result.text) == (Status.COMPLETED, "Fait."), result.error
    payloads: list[Any] = [event.payload for event in events if event.type == "tool.completed"]
    ended = {payload.call_id: payload.output for payload in payloads}
    return [ended[call_id] for call_id in sorted(ended)]


async def answered_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve a page to whoever asks."""
    await reader.readuntil(b"\r\n\r\n")
    body = b"<html><body><h1>Tarif</h1><p>Carrelage : 38 euros</p></body></html>"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


async def test_time_and_fetch_of_pypi(project: Project, python_servers: Path) -> None:
    """The hour somewhere, and a page that is read."""
    pages = await asyncio.start_server(answered_once, "127.0.0.1", 0)
    async with pages:
        url = f"http://127.0.0.1:{pages.sockets[0].getsockname()[1]}/tarif"
        ignore = ("--ignore-robots-txt", "--allow-private-ips")
        hour, page = await outputs(
            project,
            server("time", python_servers / "mcp-server-time", "--local-timezone", "Europe/Paris"),
            server("fetch", python_servers / "mcp-server-fetch", *ignore),
            calls=[
                call(
                    "time__convert_time",
                    source_timezone="UTC",
                    time="12:00",
                    target_timezone="Asia/Tokyo",
                ),
                call("fetch__fetch", url=url),
            ],
        )
    assert "21:00" in hour.text, hour
    assert "Carrelage : 38 euros" in page.text, page


async def test_files_and_everything_of_npm(
    project: Project, node_servers: Path, tmp_path: Path
) -> None:
    """A file that is written and read, a sum, and a picture that is kept as a file."""
    folder = tmp_path / "dossier"
    folder.mkdir()
    (folder / "devis.txt").write_text("12,5 m²")
    path = str(folder / "devis.txt")
    read, echo, total, picture = await outputs(
        project,
        server("fs", node_servers / "mcp-server-filesystem", str(folder)),
        server("all", node_servers / "mcp-server-everything"),
        calls=[
            call("fs__read_text_file", path=path),
            call("all__echo", message="bonjour"),
            call("all__get-sum", a=2, b=3),
            call("all__get-tiny-image"),
        ],
    )
    assert "12,5 m²" in read.text
    assert "bonjour" in echo.text
    assert "5" in total.text
    assert "artifact" in [block.type for block in picture.blocks]
    assert json.dumps(picture.model_dump(mode="json")).count("iVBOR") == 0
