"""Two servers of one journal, each a process: a delivery is taken once, and no key is in a log."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from loom_ia.access import Loom
from loom_ia.core.events.query import EventQuery
from loom_ia.tenancy.keys import new_key
from loom_ia.tenancy.signatures import signature_of

SERVER = """\
import logging
import socket

import uvicorn

from loom_ia.access import Loom
from loom_ia.access.http import create_app

logging.basicConfig(level=logging.DEBUG)
door = socket.create_server(("127.0.0.1", 0))
app = create_app(Loom.from_config("loom.yaml"), own=True)
print(door.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="trace")).run(sockets=[door])
"""
PROJECT = """\
version: 1
storage: {{events: {{backend: {backend}, path: {path}}}}}
telemetry: {{logging: {{level: DEBUG}}}}
models: [{{id: FAUX, sdk: fake, model: fake-1}}]
agents: [{{name: relance, main: {{model: FAUX, system: Relance.}}}}]
security:
  api_keys:
    - {{id: crm, hash: "{digest}"}}
    - {{id: vieille, hash: "{old}", expires: "2020-01-01T00:00:00Z"}}
    - {{id: lente, hash: "{slow}", rate_limit: {{per_minute: 2}}}}
triggers:
  - name: devis-signe
    agent: relance
    message: "Devis {{{{ payload.numero }}}}"
    session: "devis-{{{{ payload.numero }}}}"
    delivery_header: X-Delivery-Id
  - name: signe
    agent: relance
    message: "Devis {{{{ payload.numero }}}}"
    secret_env: HOOK_SECRET
"""
SECRET = "secret-of-the-sender"


@contextmanager
def _server(folder: Path, log: Path) -> Iterator[str]:
    """Serve in a process of its own; gives the address, and keeps what it writes."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=folder,
            env={"HOOK_SECRET": SECRET, "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=written,
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().decode().strip()
            assert port.isdigit(), log.read_text()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            requests, _ = process.communicate(timeout=30)
            written.write(requests)


def _write(folder: Path, backend: str, digest: str, old: str = "", slow: str = "") -> None:
    path = "data" if backend == "jsonl" else "data/journal.db"
    others = {"old": old or new_key()[1], "slow": slow or new_key()[1]}
    text = PROJECT.format(backend=backend, path=path, digest=digest, **others)
    (folder / "loom.yaml").write_text(text)


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_pub55_a_delivery_posted_to_two_servers_at_once_is_one_run(
    tmp_path: Path, backend: str
) -> None:
    """Ten calls, five on each, with two payloads: one 202, nine 200, one run, also later."""
    secret, digest = new_key()
    _write(tmp_path, backend, digest)
    headers = {"Authorization": f"Bearer {secret}", "X-Delivery-Id": "d/é?".encode().hex()}
    with (
        _server(tmp_path, tmp_path / "one.log") as one,
        _server(tmp_path, tmp_path / "two.log") as two,
    ):
        async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
            answers = await asyncio.gather(
                *(
                    client.post(f"{base}/hooks/devis-signe", json={"numero": i % 2})
                    for i in range(5)
                    for base in (one, two)
                )
            )
            told = [(a.status_code, a.text) for a in answers]
            assert sorted(a.status_code for a in answers) == [200] * 9 + [202], told
            assert len({a.json()["run_id"] for a in answers}) == 1
            missing = await client.post(
                f"{one}/hooks/devis-signe", json={}, headers={"X-Delivery-Id": ""}
            )
            assert missing.status_code == 400
    with _server(tmp_path, tmp_path / "three.log") as three:
        async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
            late = await client.post(f"{three}/hooks/devis-signe", json={"numero": 3})
            assert (late.status_code, late.json()["run_id"]) == (200, answers[0].json()["run_id"])
    async with Loom.from_config(tmp_path, environ={"HOOK_SECRET": SECRET}) as loom:
        started = await loom.query(EventQuery("default", types=("run.started",)))
        assert len(started) == 1


async def test_g14_g16_keys_are_refused_and_are_in_no_log(tmp_path: Path) -> None:
    """Expired and unknown keys are 401, a third call in a minute 429; nothing of a key is said."""
    (good, digest), (old, of_old), (slow, of_slow) = new_key(), new_key(), new_key()
    unknown = new_key()[0]
    _write(tmp_path, "sqlite", digest, of_old, of_slow)
    log = tmp_path / "server.log"
    bodies: list[str] = []
    body = b'{"numero": 1}'
    signed = {"X-Hub-Signature-256": signature_of(body, SECRET), "Content-Type": "application/json"}
    with _server(tmp_path, log) as base:
        async with httpx2.AsyncClient(timeout=60) as client:

            async def ask(status: int, headers: dict[str, str], **more: Any) -> httpx2.Response:
                method = "POST" if more else "GET"
                path = more.pop("path", "/agents")
                answer = await client.request(method, f"{base}{path}", headers=headers, **more)
                assert answer.status_code == status, answer.text
                bodies.append(f"{answer.text} {answer.headers!r}")
                return answer

            await ask(200, {"Authorization": f"Bearer {good}"})
            await ask(200, {"X-API-Key": good})
            for key in (old, unknown, "lk_" + "x" * 5_000):
                for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
                    refused = await ask(401, headers)
                    assert refused.headers["www-authenticate"] == "Bearer"
            for status in (200, 200, 429, 429):
                limited = await ask(status, {"X-API-Key": slow})
            assert 1 <= int(limited.headers["retry-after"]) <= 60
            hook = {"path": "/hooks/signe", "content": body}
            await ask(202, signed, **hook)
            await ask(401, {**signed, "X-Hub-Signature-256": "sha256=0"}, **hook)
            await ask(422, {"X-API-Key": good}, path="/agents/relance/runs", json={"message": 1})
    said = log.read_text() + "".join(bodies)
    assert "GET /v1/agents" in said  # the log is that of requests, too
    digests = [each.removeprefix("sha256:") for each in (digest, of_old, of_slow)]
    signature = signed["X-Hub-Signature-256"].removeprefix("sha256=")
    for hidden in (good, old, slow, unknown, SECRET, signature, *digests):
        assert hidden not in said
