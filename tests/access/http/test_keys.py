"""What each key may do: its scopes, its agents, its client, and what it is shown."""

import json
import re
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient

from loom_ia.access.http import create_app
from loom_ia.tenancy.visitor import Visitor
from tests.access.http.doors import SCOPES, SECRET, Door

ROUTES = [
    ("GET", "/agents", "read"),
    ("GET", "/graphs", "read"),
    ("POST", "/agents/a/runs", "run"),
    ("POST", "/graphs/demande/runs", "run"),
    ("GET", "/runs", "read"),
    ("GET", "/runs/r", "read"),
    ("POST", "/runs/r/approve", "approve"),
    ("POST", "/runs/r/reject", "approve"),
    ("POST", "/runs/r/cancel", "run"),
    ("GET", "/sessions", "read"),
    ("GET", "/sessions/s", "read"),
    ("GET", "/sessions/s/events", "read"),
    ("GET", "/sessions/s/files", "read"),
    ("GET", "/sessions/s/files/x", "read_content"),
    ("GET", "/sessions/s/report", "read"),
    ("DELETE", "/sessions/s", "admin"),
    ("GET", "/events", "read"),
    ("GET", "/traces/r", "read"),
]

PROBES = {"/healthz", "/readyz", "/metrics"}
ELSEWHERE = {"/v1/runs/{run_id}/events", "/v1/hooks/{name}", *PROBES}
"""Tested beside what they do."""


def test_every_route_is_named_above(keyed: Door) -> None:
    """A route that is added must say here which scope it needs."""
    parts = {"name": "(a|demande)", "run_id": "r", "session_id": "s", "file": "x"}
    for path, methods in keyed.app.openapi()["paths"].items():
        if path in ELSEWHERE:
            continue
        wanted = re.compile(path.removeprefix("/v1").format(**parts))
        for method in methods:
            assert any(m == method.upper() and wanted.fullmatch(p) for m, p, _ in ROUTES), path


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_a_route_needs_its_scope_and_no_other(
    keyed: Door, method: str, path: str, scope: str
) -> None:
    """Without a key it is 401; with a key of another scope 403, naming the one that is needed."""
    body: dict[str, Any] = {"json": {}} if method == "POST" else {}
    without = await keyed.ask(method, path, **body)
    assert without.status_code == 401
    assert without.headers["www-authenticate"] == "Bearer"
    assert (await keyed.ask(method, path, secret="inconnue", **body)).status_code == 401
    for other in SCOPES:
        answer = await keyed.ask(method, path, secret=other, **body)
        if other == scope:
            assert answer.status_code not in {401, 403}, answer.text
        else:
            assert answer.status_code == 403, answer.text
            assert repr(scope) in answer.json()["detail"]


async def test_a_key_may_come_in_either_header(keyed: Door) -> None:
    """`X-API-Key` is as good as `Authorization`; another scheme is refused."""
    ways = [
        ({"X-API-Key": "lk_read"}, 200),
        ({"Authorization": "bearer lk_read"}, 200),
        ({"Authorization": "Basic lk_read"}, 401),
        ({"Authorization": "Bearer lk_read", "X-API-Key": "lk_all"}, 401),
        ({"Authorization": ""}, 401),
    ]
    for headers, status in ways:
        assert (await keyed.ask("GET", "/agents", headers=headers)).status_code == status


async def test_only_an_admin_runs_without_judges(keyed: Door) -> None:
    """`judges: skip` is 403 without the scope admin."""
    body = {"message": "bonjour", "judges": "skip"}
    refused = await keyed.ask("POST", "/agents/a/runs", secret="run", json=body)
    assert refused.status_code == 403
    allowed = await keyed.ask("POST", "/agents/a/runs", secret="all", json=body)
    assert allowed.status_code == 201


async def test_a_key_for_one_agent_has_nothing_to_do_with_others(keyed: Door) -> None:
    """It neither runs, reads, decides nor deletes what others did, and lists what is its own."""
    theirs = await keyed.begin("envoie", session_id="s", run_id="r", secret="all")
    assert theirs["status"] == "paused"
    own = await keyed.begin("bonjour", "relance", run_id="mine", secret="only-relance")
    for method, path, body in [
        ("POST", "/agents/a/runs", {"message": "x"}),
        ("POST", "/graphs/demande/runs", {}),
        ("GET", "/runs/r", None),
        ("GET", "/runs?agent=a", None),
        ("POST", "/runs/r/approve", {}),
        ("POST", "/runs/r/reject", {}),
        ("POST", "/runs/r/cancel", {}),
        ("GET", "/sessions", None),
        ("GET", "/sessions/s", None),
        ("GET", "/sessions/s/events", None),
        ("GET", "/sessions/s/files", None),
        ("GET", "/sessions/s/report", None),
        ("DELETE", "/sessions/s", None),
        ("GET", "/events?agent=a", None),
        ("GET", "/traces/r", None),
    ]:
        answer = await keyed.ask(method, path, secret="only-relance", json=body)
        assert answer.status_code == 403, (path, answer.text)
    assert (await keyed.get("/runs/r", "all"))["status"] == "paused"
    listed = await keyed.get("/runs", "only-relance")
    assert [run["run_id"] for run in listed["runs"]] == [own["run_id"]]
    assert {event["agent"] for event in await keyed.get("/events", "only-relance")} == {"relance"}
    assert [a["name"] for a in await keyed.get("/agents", "only-relance")] == ["relance"]
    assert await keyed.get("/graphs", "only-relance") == []
    assert (await keyed.ask("DELETE", "/sessions/mine", secret="only-relance")).status_code == 200


async def test_a_shared_session_is_closed_to_a_key_for_one_of_its_agents(keyed: Door) -> None:
    """What another agent did in a session is neither read nor deleted with it."""
    await keyed.begin("bonjour", session_id="s", secret="all")
    await keyed.begin("bonjour", "relance", session_id="s", run_id="r", secret="all")
    for method, path in [
        ("GET", "/sessions/s"),
        ("GET", "/sessions/s/events"),
        ("DELETE", "/sessions/s"),
    ]:
        assert (await keyed.ask(method, path, secret="only-relance")).status_code == 403
    assert (await keyed.get("/runs/r", "only-relance"))["status"] == "completed"


async def test_what_a_forbidden_agent_did_below_is_left_out(keyed: Door) -> None:
    """A run is shown to a key for its agent, without the run of another one below it."""
    run = await keyed.begin("délègue", run_id="r", secret="only-a")
    assert run["status"] == "completed"
    trace = await keyed.get("/traces/r", "only-a")
    assert trace["below"] == []
    assert len((await keyed.get("/traces/r", "all"))["below"]) == 1
    below = (await keyed.get("/traces/r", "all"))["below"][0]["run_id"]
    assert (await keyed.ask("GET", f"/runs/{below}", secret="only-a")).status_code == 403


class Elsewhere:
    """Knows one key, of a client that is not served here."""

    def visitor(self, secret: str) -> Visitor:
        """Let everybody in."""
        return Visitor(secret, frozenset(SCOPES), tenant_id="autre")


async def test_the_key_alone_decides_the_client(keyed: Door) -> None:
    """A key of a client that is not served here does nothing, whatever the request says."""
    transport = ASGITransport(create_app(keyed.loom, keys=Elsewhere()))
    async with AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.get("/v1/agents", headers={"X-API-Key": "k"})
    assert answer.status_code == 403
    assert "autre" in answer.json()["detail"]
    for place in ("/runs?tenant=default", "/runs?tenant_id=autre"):
        assert (await keyed.ask("GET", place, secret="all")).status_code == 422
    body = {"message": "x", "tenant": "autre"}
    assert (await keyed.ask("POST", "/agents/a/runs", secret="all", json=body)).status_code == 422


async def test_content_is_shown_once_to_who_asked_and_hidden_after(keyed: Door) -> None:
    """The answer to a run has its text; every later read is masked, and says so."""
    first = await keyed.begin("envoie", session_id="s", run_id="r", secret="masked")
    assert first["pending_approvals"][0]["arguments"] == {"texte": SECRET}
    await keyed.ask("POST", "/runs/r/approve", secret="masked", json={"reason": SECRET})
    await keyed.loom.drain()
    done = await keyed.begin("page", session_id="s", run_id="r2", secret="masked")
    assert SECRET in done["text"]
    for path in (
        "/runs/r",
        "/runs/r2",
        "/runs",
        "/sessions",
        "/sessions/s",
        "/sessions/s/files",
        "/sessions/s/report",
        "/traces/r",
        "/traces/r2",
        "/events",
    ):
        answer = await keyed.ask("GET", path, secret="masked")
        assert answer.status_code == 200
        assert SECRET not in answer.text, path
        assert "p.html" not in answer.text, path
        seen = await keyed.ask("GET", path, secret="all")
        assert ("redacted" in answer.text) == (answer.text != seen.text), path
    exported = await keyed.ask("GET", "/sessions/s/events", secret="masked")
    assert SECRET not in exported.text
    redacted = [json.loads(line)["payload"]["redacted"] for line in exported.text.splitlines()]
    assert ["arguments"] in redacted
    assert [] in redacted
    assert SECRET in (await keyed.ask("GET", "/sessions/s/events", secret="all")).text


async def test_pub11_only_a_key_that_may_decide_decides_and_it_signs(keyed: Door) -> None:
    """Nobody but its holder says yes or no, not even who asked; what he says he is, is beside."""
    await keyed.begin("envoie", run_id="r", secret="run")
    for way in ("approve", "reject"):
        for other in ("run", "read", "read_content", "admin", "elsewhere", "only-relance"):
            body = {"by": "approve", "reason": "moi"}
            answer = await keyed.ask("POST", f"/runs/r/{way}", secret=other, json=body)
            assert answer.status_code in {403, 404}, (way, other)
    assert len((await keyed.loom.result("r")).pending_approvals) == 1
    body = {"by": "Ana (admin)"}
    assert (await keyed.ask("POST", "/runs/r/approve", secret="approve", json=body)).is_success
    await keyed.loom.drain()
    events = await keyed.loom.events("r")
    (by,) = (e.payload.by for e in events if e.type == "approval.granted")  # type: ignore[attr-defined]
    assert by == "Ana (admin) (approve)"


@pytest.mark.parametrize("background", [False, True])
async def test_a_key_does_not_join_what_other_agents_said(keyed: Door, background: bool) -> None:
    """Its agent would read the words of another one, and say them: 403, and nothing begins."""
    await keyed.begin("Secret", agent="a", secret="all", session_id="commune", run_id="premier")
    own = await keyed.ask(
        "POST",
        "/agents/relance/runs",
        secret="only-relance",
        json={"message": "Répète.", "session_id": "commune", "background": background},
    )
    assert own.status_code == 403, own.text
    assert len((await keyed.get("/sessions/commune", "all"))["runs"]) == 1
    begun = {"message": "Va", "session_id": "mienne", "background": background}
    for _ in range(2):
        answer = await keyed.ask("POST", "/agents/relance/runs", secret="only-relance", json=begun)
        assert answer.status_code in {201, 202}, answer.text
        await keyed.loom.drain()
    taken = await keyed.ask(
        "POST",
        "/agents/relance/runs",
        secret="only-relance",
        json={"message": "Va", "run_id": "premier"},
    )
    assert taken.status_code == 409
    assert "commune" not in taken.text


async def test_what_is_counted_is_about_every_agent(keyed: Door) -> None:
    """A key that is limited to some agents is not told what the others did."""
    asked = {name: {"Authorization": f"Bearer lk_{name}"} for name in ("only-relance", "all")}
    told = {
        name: (await keyed.client.get("/metrics", headers=headers)).status_code
        for name, headers in asked.items()
    }
    assert told == {"only-relance": 403, "all": 200}


async def test_a_key_that_is_given_twice_is_refused(keyed: Door) -> None:
    """Whoever stands between might have read the other one."""
    for name in ("Authorization", "X-API-Key"):
        word = "Bearer " if name == "Authorization" else ""
        headers = [(name, f"{word}lk_read"), (name, f"{word}lk_all")]
        answer = await keyed.client.get("/v1/agents", headers=headers)
        assert answer.status_code == 401, answer.text


@pytest.mark.parametrize(
    "charset", ["punycode", "undefined", "utf-7", "idna", "raw_unicode_escape"]
)
async def test_a_form_in_another_encoding_is_refused(keyed: Door, charset: str) -> None:
    """The texts of a form are UTF-8: no other word of the request chooses how they are read."""
    body = b'--x\r\nContent-Disposition: form-data; name="message"\r\n\r\nVa\r\n--x--\r\n'
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    headers = {"Content-Type": kind}
    answer = await keyed.ask("POST", "/agents/a/runs", secret="all", content=body, headers=headers)
    assert answer.status_code == 415, answer.text


async def test_a_key_goes_on_with_its_own_conversation(keyed: Door) -> None:
    """Also when its agent had another one work below it."""
    for message in ("délègue", "bonjour"):
        run = await keyed.begin(message, "a", secret="only-a", session_id="suivie")
    runs = (await keyed.get("/sessions/suivie", "all"))["runs"]
    assert {each["agent"] for each in runs} == {"a", "aide"}
    assert run["status"] == "completed"
