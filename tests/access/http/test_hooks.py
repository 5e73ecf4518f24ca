"""Webhooks over REST: let in by a key or by a signature, bounded, and taken once."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from loom_ia.access.http.routes.hooks import MOST_BYTES
from loom_ia.app.triggers import run_id_of
from loom_ia.config.server import TriggerSpec
from loom_ia.tenancy.signatures import signature_of
from tests.access.http.doors import SCOPES, Door, config, door, key

MESSAGE = "Devis {{ payload.numero }}: {{ payload.texte }}"
TRIGGERS = (
    TriggerSpec(name="cle", agent="relance", message=MESSAGE, delivery_header="X-Delivery-Id"),
    TriggerSpec(
        name="signe",
        agent="relance",
        message=MESSAGE,
        session="devis-{{ payload.numero }}",
        delivery_header="X-GitHub-Delivery",
        secret_env="HOOK_SECRET",
    ),
    TriggerSpec(name="cache", agent="cache", message=MESSAGE),
)
SECRET = "un secret partagé"
POSTED = {"numero": "D-1", "texte": "signé"}


@pytest.fixture
async def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    """A door with triggers, and keys."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    keys = (
        *(key(scope, scope) for scope in SCOPES),
        key("only-a", "run", agents=("a",)),
    )
    async with door(_config(tmp_path, *keys)) as opened:
        yield opened


@pytest.fixture
async def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    """A door with triggers, open to everybody."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with door(_config(tmp_path)) as opened:
        yield opened


def _config(folder: Path, *keys: Any) -> Any:
    return config(folder, keys).model_copy(update={"triggers": TRIGGERS})


async def _post(
    opened: Door, name: str, body: object = POSTED, secret: str = "", **headers: str
) -> httpx2.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if "Content-Type" in headers else {"Content-Type": "application/json"}
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return await opened.ask(
        "POST", f"/hooks/{name}", secret=secret, content=data, headers={**kind, **named}
    )


async def test_h5_a_delivery_is_202_and_then_200(hooked: Door) -> None:
    """The run is the same, its address is given, and one run was begun."""
    first = await _post(hooked, "cle", secret="run", X_Delivery_Id="d1")
    assert first.status_code == 202, first.text
    done = first.json()
    assert done == {
        "trigger": "cle",
        "run_id": run_id_of("cle", "d1"),
        "session_id": run_id_of("cle", "d1"),
        "status": "ready_for_model",
        "repeated": False,
    }
    assert first.headers["location"] == f"/v1/runs/{done['run_id']}"
    again = await _post(hooked, "cle", {"autre": 1}, secret="run", X_Delivery_Id="d1")
    assert again.status_code == 200
    assert again.json()["repeated"] is True
    assert again.json()["run_id"] == done["run_id"]
    runs = await hooked.get("/runs", "read")
    assert [run["run_id"] for run in runs["runs"]] == [done["run_id"]]


async def test_a_trigger_without_a_secret_asks_for_the_scope_run(hooked: Door) -> None:
    """401 without a key, whatever the name; 403 with another scope, or for another agent."""
    for name in ("cle", "inconnu"):
        answer = await _post(hooked, name, X_Delivery_Id="d")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    for other in ("read", "read_content", "approve", "admin", "only-a"):
        assert (await _post(hooked, "cle", secret=other, X_Delivery_Id="d")).status_code == 403
        unread = await _post(hooked, "cle", b"texte", other, Content_Type="text/plain")
        assert unread.status_code == 403  # before anything of the body is looked at
    assert (await _post(hooked, "inconnu", secret="run")).status_code == 404
    assert (await hooked.get("/runs", "read"))["runs"] == []


async def test_a_signature_stands_for_the_key(hooked: Door) -> None:
    """The bytes that were posted, signed with the secret, begin a run; nothing else does."""
    body = b'{ "numero": "D-7",\n "texte": "\xc3\xa9" }'
    signature = signature_of(body, SECRET)
    computed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert signature == f"sha256={computed}"
    good = {"X_GitHub_Delivery": "d1", "X_Hub_Signature_256": signature}
    bad: list[tuple[bytes, dict[str, str]]] = [
        (body, {"X_GitHub_Delivery": "d1"}),
        (body + b" ", good),
        (body, {**good, "X_Hub_Signature_256": signature[:-1] + "x"}),
        (body, {**good, "X_Hub_Signature_256": signature.removeprefix("sha256=")}),
        (body, {**good, "X_Hub_Signature_256": signature_of(body, "autre")}),
        (body, {**good, "X_Hub_Signature_256": signature_of(body, "")}),
        (body, {**good, "X_Hub_Signature_256": ""}),
        (body, {**good, "X_Hub_Signature_256": "x" * 300}),
        (b"not json", good),
    ]
    for data, headers in bad:
        for secret in ("", "run"):  # a key does not replace the signature
            answer = await _post(hooked, "signe", data, secret, **headers)
            assert answer.status_code == 401, (data, headers)
            assert answer.json()["type"] == "urn:loom-ia:problem:signature-refused"
            assert computed not in answer.text
            assert SECRET not in answer.text
    assert (await hooked.get("/runs", "read"))["runs"] == []
    done = await _post(hooked, "signe", body, **good)
    assert done.status_code == 202, done.text
    assert done.json()["session_id"] == "devis-D-7"
    capital = {**good, "X_Hub_Signature_256": f"sha256={computed.upper()}"}
    assert (await _post(hooked, "signe", body, **capital)).status_code == 200


async def test_a_missing_delivery_is_400(hooked: Door) -> None:
    """The header must be there, once, and say something."""
    ways: list[list[tuple[str, str]]] = [
        [],
        [("X-Delivery-Id", " ")],
        [("X-Delivery-Id", "a"), ("X-Delivery-Id", "b")],
    ]
    for headers in ways:
        answer = await hooked.client.post(
            "/v1/hooks/cle",
            json=POSTED,
            headers=[("Authorization", "Bearer lk_run"), *headers],
        )
        assert answer.status_code == 400, answer.text
        assert "X-Delivery-Id" in answer.json()["detail"]
    assert (await hooked.get("/runs", "read"))["runs"] == []


async def test_an_agent_that_is_not_offered_may_be_behind_a_trigger(hooked: Door) -> None:
    """`expose: {rest: false}` hides an agent from callers, not from its trigger."""
    assert (await _post(hooked, "cache", secret="run")).status_code == 202


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "", 202),
        (b"  \n", "application/json", 202),
        (b"[1, 2]", "application/json; charset=utf-8", 202),
        (b'"texte"', "application/cloudevents+json", 202),
        (b"{}", "text/plain", 415),
        (b"a=1", "application/x-www-form-urlencoded", 415),
        (b"{", "application/json", 422),
        (b"NaN", "application/json", 422),
        (b'{"a": 1, "a": 2}', "application/json", 422),
        (b"[" * 70 + b"]" * 70, "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b"\xff", "application/json", 422),
        (b'"' + b"x" * 100_001 + b'"', "application/json", 202),  # not in the message
        (b'{"texte": "' + b"x" * 100_001 + b'"}', "application/json", 422),
        (b" " * (MOST_BYTES + 1), "application/json", 413),
    ],
)
async def test_what_is_posted_is_bounded_json(
    free: Door, body: bytes, kind: str, status: int
) -> None:
    """Any JSON within bounds, and nothing counts as an empty object."""
    answer = await _post(free, "cache", body, Content_Type=kind)
    assert answer.status_code == status, answer.text
    if status != 202:
        assert answer.headers["content-type"] == "application/problem+json"


async def test_without_a_key_a_page_in_a_browser_is_kept_out(free: Door) -> None:
    """Any site could post to a server that is open on this machine; a signature lets in."""
    assert (await _post(free, "cache", Origin="https://site.test")).status_code == 403
    body = json.dumps(POSTED).encode()
    headers = {"X_GitHub_Delivery": "d", "X_Hub_Signature_256": signature_of(body, SECRET)}
    answer = await _post(free, "signe", body, Origin="https://site.test", **headers)
    assert answer.status_code == 202
    assert (await _post(free, "cache")).status_code == 202


async def test_a_secret_that_is_gone_signs_nothing(
    free: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty secret is not a secret that everybody knows."""
    monkeypatch.setenv("HOOK_SECRET", "")
    body = json.dumps(POSTED).encode()
    signature = "sha256=" + hmac.new(b"", body, hashlib.sha256).hexdigest()
    headers = {"X_GitHub_Delivery": "d", "X_Hub_Signature_256": signature}
    assert (await _post(free, "signe", body, **headers)).status_code == 401


async def test_the_bound_of_the_server_holds_for_webhooks(tmp_path: Path) -> None:
    """`server.http.max_body_bytes` is for them, too, whether or not the length is told."""
    made = config(tmp_path, max_body_bytes=100).model_copy(update={"triggers": TRIGGERS[2:]})
    async with door(made) as opened:
        assert (await _post(opened, "cache", b'"' + b"x" * 200 + b'"')).status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"          "

        headers = {"Content-Type": "application/json"}
        answer = await opened.ask("POST", "/hooks/cache", content=pieces(), headers=headers)
        assert answer.status_code == 413, answer.text
