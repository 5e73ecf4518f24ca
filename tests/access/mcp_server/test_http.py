"""MCP over HTTP: who is let in, and what each key is shown."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers

from loom_ia.access.http.app import create_app
from loom_ia.access.mcp_server.http import Doors
from loom_ia.config.server import HttpServer, McpServerSettings, Server
from tests.acceptance.project import ANSWER, Project, call, calling
from tests.access.mcp_server.clients import (
    GENERATIONS,
    KEY,
    OTHER_KEY,
    content_of,
    digest,
    over_http,
    served,
    text_of,
)

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "devis", "arguments": {"message": "Quel prix ?"}},
}
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
}


def keys(project: Project, *scopes: str, **more: Any) -> None:
    """Declare the key with these scopes, and no other one."""
    key = {"id": "claude", "hash": digest(KEY), "scopes": list(scopes), **more}
    project.root = {**project.root, "security": {"api_keys": [key]}}


def runs(project: Project) -> list[str]:
    """List the sessions that were written."""
    return [path.stem for path in project.data.rglob("*.jsonl")]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_an_agent_answers_over_http(project: Project, mode: str) -> None:
    """A key that may run and read is served as on the standard streams, without content later."""
    lines: list[str] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")

    async with served(project) as url, over_http(url, mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("devis", {"message": "Quel prix ?"}, progress_callback=told)
        run_id = result.structured_content["run_id"]
        status = await client.call_tool("run_status", {"run_id": run_id})
        events = await client.read_resource(f"loom://runs/{run_id}/events")
    assert names == ["devis", "run_status", "run_report", "cancel"]
    assert text_of(result) == ANSWER
    assert any("prix_ttc" in line for line in lines)
    assert status.structured_content["redacted"] is True
    assert ANSWER not in json.dumps(status.structured_content)
    assert "1 375" not in content_of(events)


async def test_the_door_is_shut_before_the_protocol(project: Project) -> None:
    """Without a key, from another origin or for another host, nothing is read nor begun."""
    async with served(project) as url, httpx2.AsyncClient() as http:

        async def status(**changes: str | None) -> int:
            given = {**HEADERS, **changes}
            headers = {k: v for k, v in given.items() if v is not None}
            answer = await http.post(url, json=CALL, headers=headers)
            assert "jsonrpc" not in answer.text or answer.status_code == 200
            return answer.status_code

        without = await http.post(url, content=b"{", headers={"content-type": "application/json"})
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
        assert await status(authorization="Bearer lk_faux") == 401
        assert await status(authorization=None, **{"x-api-key": OTHER_KEY}) == 401
        assert await status(origin="http://evil.test") == 403
        assert await status(origin="null") == 403
        assert await status(origin="http://localhost.evil.test") == 403
        assert await status(host="evil.test") == 421
        assert await status(host="127.0.0.1.evil.test:80") == 421
        assert runs(project) == []
        assert await status(authorization=None, **{"x-api-key": KEY}) == 200
        assert await status(origin="http://localhost:5173") == 200
        assert (await http.get(url, headers=HEADERS)).status_code == 405
        slash = await http.post(f"{url}/", json=CALL, headers=HEADERS)
        assert slash.status_code == 200


async def test_a_body_that_is_too_large_or_wrong_is_refused(project: Project) -> None:
    """What is too large, too deep or no message at all is an error of the protocol, and no more."""
    project.root = {"server": {"http": {"max_body_bytes": 50_000}, "mcp": {"http": True}}}
    project.root["security"] = {"api_keys": [{"id": "claude", "hash": digest(KEY)}]}
    project.save()
    loom = project.loom()
    transport = httpx2.ASGITransport(create_app(loom))
    base = "http://127.0.0.1/mcp"
    bodies = [
        (b"x" * 60_000, {413}),
        (b"[" * 20_000, {400}),
        (b"pas du json", {400}),
        (b"[]", {400}),
        (b"\xff\xfe", {400}),
        (json.dumps({**CALL, "method": 3}).encode(), {400}),
    ]
    async with loom, httpx2.AsyncClient(transport=transport) as http:
        for version in ("2025-11-25", "2026-07-28"):
            headers = {**HEADERS, "mcp-protocol-version": version}
            headers["content-type"] = "application/json"
            for body, accepted in bodies:
                answer = await http.post(base, content=body, headers=headers)
                assert answer.status_code in accepted, (version, body[:20], answer.text)
    assert runs(project) == []


@pytest.mark.parametrize("mode", GENERATIONS)
@pytest.mark.parametrize(
    ("scopes", "shown"),
    [
        (("run",), ["devis", "cancel"]),
        (("read",), ["run_status", "run_report"]),
        (("approve", "admin"), []),
    ],
)
async def test_a_key_is_shown_what_it_may_use(
    project: Project, mode: str, scopes: tuple[str, ...], shown: list[str]
) -> None:
    """Tools and resources are those of the scopes; the others are as if they were not."""
    keys(project, *scopes)
    async with served(project) as url, over_http(url, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == shown
        resources = await client.list_resources()
        assert bool(resources.resources) == ("read" in scopes)
        for name in {"devis", "cancel", "run_status"} - set(shown):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {"message": "a", "run_id": "r"})
            assert refused.value.error.code == types.INVALID_PARAMS
        if "read" not in scopes:
            with pytest.raises(MCPError, match="read"):
                await client.read_resource("loom://runs")
    assert runs(project) == []


async def test_a_key_of_some_agents_is_shown_these_alone(project: Project) -> None:
    """A key limited to other agents neither sees this one, nor what it did."""
    keys(project, "run", "read", agents=["devis"])
    project.root["security"]["api_keys"].append(
        {"id": "autre", "hash": digest(OTHER_KEY), "agents": ["second"]}
    )
    project.write("agents/second.yaml", "name: second\nmain: {model: SIMULE, system: Bonjour.}\n")
    project.script *= 2
    async with served(project) as url:
        async with over_http(url, "auto") as client:
            result = await client.call_tool("devis", {"message": "Quel prix ?"})
            run_id = result.structured_content["run_id"]
        async with over_http(url, "auto", key=OTHER_KEY) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["second", "run_status", "run_report", "cancel"]
            with pytest.raises(MCPError):
                await client.call_tool("devis", {"message": "a"})
            status = await client.call_tool("run_status", {"run_id": run_id})
            stopped = await client.call_tool("cancel", {"run_id": run_id})
            assert status.is_error
            assert stopped.is_error
            for uri in (f"loom://runs/{run_id}", f"loom://traces/{run_id}", "loom://sessions"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)


async def test_a_request_is_counted_once(project: Project) -> None:
    """Each HTTP request takes one of those that the key has in a minute; then it is 429."""
    keys(project, "run", "read", rate_limit={"per_minute": 3})
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with served(project) as url, httpx2.AsyncClient() as http:
        told = [await http.post(url, json=message, headers=HEADERS) for _ in range(4)]
    assert [answer.status_code for answer in told] == [200, 200, 200, 429]
    assert int(told[-1].headers["retry-after"]) > 0


async def test_nothing_is_there_unless_it_is_asked_for(project: Project) -> None:
    """Without `server.mcp.http` the address does not exist; the base path is before it."""
    async with project.loom() as loom:
        transport = httpx2.ASGITransport(create_app(loom))
        async with httpx2.AsyncClient(transport=transport) as http:
            assert (await http.post("http://127.0.0.1/mcp", json=CALL)).status_code == 404
    project.root = {
        "server": {"mcp": {"http": True}, "http": {"base_path": "/agents"}},
        "security": {"api_keys": [{"id": "claude", "hash": digest(KEY)}]},
    }
    project.save()
    async with project.loom() as loom:
        transport = httpx2.ASGITransport(create_app(loom))
        async with httpx2.AsyncClient(transport=transport) as http:
            found = await http.post("http://127.0.0.1/agents/mcp", json=CALL, headers=HEADERS)
    assert found.status_code == 200


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_run_goes_on_when_its_caller_goes_away(project: Project, mode: str) -> None:
    """A connection that is lost closes nothing and cuts nothing, as over REST."""
    project.tools = ["envoyer"]
    project.script = [calling(call("envoyer", texte="a")), {"text": "Fini.", "delay": 1}]
    project.save()
    sent = asyncio.Event()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        if "envoyer" in (message or "") and "answered" in (message or ""):
            sent.set()

    async with served(project) as url:

        async def leave() -> None:
            async with over_http(url, mode) as client:
                await client.call_tool("devis", {"message": "Envoie"}, progress_callback=told)

        asking = asyncio.create_task(leave())
        await asyncio.wait_for(sent.wait(), 30)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        (run_id,) = runs(project)
        async with asyncio.timeout(30):
            while project.lines(run_id)[-1]["type"] != "run.completed":  # noqa: ASYNC110 -- it is in a file
                await asyncio.sleep(0.02)
    assert project.effects() == ["envoyer:a"]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_server_that_stops_says_that_runs_can_be_resumed(
    project: Project, mode: str
) -> None:
    """A call under way is answered when the server stops, and its run is handed back."""
    project.tools = ["envoyer"]
    project.script = [calling(call("envoyer", texte="a")), {"text": "Fini.", "delay": 60}]
    project.save()
    servers: list[Any] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        if "envoyer answered" in (message or ""):
            servers[0].should_exit = True

    async with served(project, seen=servers) as url, over_http(url, mode) as client:
        async with asyncio.timeout(30):
            result = await client.call_tool("devis", {"message": "Envoie"}, progress_callback=told)
    (run_id,) = runs(project)
    assert result.is_error
    assert f"run {run_id} can be resumed" in text_of(result)
    assert _is_handed_back(project, run_id)


def _is_handed_back(project: Project, run_id: str) -> bool:
    """Whether nobody holds the run any more."""
    claims = [line for line in project.lines(run_id) if line["type"] == "run.claimed"]
    until = datetime.fromisoformat(claims[-1]["payload"]["lease_until"])
    return len(claims) > 1 and until <= datetime.now(UTC)


def doors(**mcp: Any) -> Doors:
    """Read what a configuration accepts."""
    host = mcp.pop("host", "127.0.0.1")
    return Doors.of(Server(http=HttpServer(host=host), mcp=McpServerSettings(**mcp)))


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8000", True),
        ("localhost:1", True),
        ("LOCALHOST", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("loom.example", True),
        ("loom.example:8443", True),
        ("api.example:444", True),
        ("api.example", False),
        ("api.example:445", False),
        ("192.0.2.1:80", True),
        ("", False),
        ("evil.test", False),
        ("localhost.evil.test", False),
        ("localhost:80@evil.test", False),
        ("localhost:", False),
        ("localhost:x", False),
        ("127.0.0.1:80:80", False),
        ("[::1", False),
        ("[::1]x", False),
        ("user@localhost", False),
    ],
)
def test_hosts(host: str, *, accepted: bool) -> None:
    """Loopback, the host that is listened on and those of the configuration are served."""
    door = doors(host="192.0.2.1", allowed_hosts=("loom.example", "api.example:444"))
    assert door.accepts_host([host]) is accepted


def test_a_request_names_one_host() -> None:
    """None, or two, is as good as a wrong one."""
    assert not doors().accepts_host([])
    assert not doors().accepts_host(["localhost", "localhost"])
    assert doors().refusal(Headers({"host": "localhost"})) is None


LOOPBACK_ORIGINS = (
    "http://localhost",
    "http://localhost:3000",
    "https://127.0.0.1:1",
    "http://[::1]:5",
)
STRANGERS = (
    "http://evil.test",
    "null",
    "http://localhost.evil.test",
    "http://localhost@evil.test",
    "http://evil.test/localhost",
    "http://localhost/",
    "file://localhost",
    "chrome-extension://abc",
    "http://localhost:3000 http://evil.test",
    "",
    "http://",
)


def test_origins_of_the_machine_while_none_is_named() -> None:
    """Pages of this machine are accepted until the configuration names origins."""
    open_, named = doors(), doors(allowed_origins=("https://app.example", "http://dev.example:*"))
    for origin in LOOPBACK_ORIGINS:
        assert open_.accepts_origin([origin]), origin
        assert not named.accepts_origin([origin]), origin
    for origin in STRANGERS:
        assert not open_.accepts_origin([origin]), origin
        assert not named.accepts_origin([origin]), origin
    assert named.accepts_origin(["https://app.example"])
    assert named.accepts_origin(["HTTPS://APP.example"])
    assert named.accepts_origin(["http://dev.example:3000"])
    assert not named.accepts_origin(["http://app.example"])
    assert not named.accepts_origin(["https://app.example:8443"])
    assert named.accepts_origin([])
    assert not named.accepts_origin(["https://app.example", "https://app.example"])
