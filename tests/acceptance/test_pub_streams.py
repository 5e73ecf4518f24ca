"""H and the field cases: a run is followed over lost lines and servers that are killed."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.acceptance.project import Project, call, calling

Facts = list[tuple[int, str]]

SCRIPT = [
    calling(call("lire", cle="a"), call("lire", cle="b"), text="Je lis."),
    calling(call("envoyer", texte="bonjour")),
    {"text": "C'est envoyé."},
]


@contextlib.contextmanager
def served(project: Project) -> Iterator[httpx2.Client]:
    """Type `loom serve`, and kill it at the end; a client of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with project.start("serve", "--port", str(port)) as server:
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                _answers(client)
                yield client
        finally:
            server.kill()


def _answers(client: httpx2.Client) -> None:
    """Wait until the server answers."""
    until = time.monotonic() + 60
    while True:
        try:
            client.get("/v1/agents").raise_for_status()
        except httpx2.TransportError:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
        else:
            return


def facts(client: httpx2.Client, last: int, most: int | None = None) -> Facts:
    """Follow the run after a place, to its end or until that many facts were read."""
    headers = {"Last-Event-ID": str(last)} if last else {}
    read: Facts = []
    seq = 0
    with client.stream("GET", "/v1/runs/r1/events", headers=headers) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                seq = int(value)
            elif name == "event" and seq:
                read.append((seq, value))
                if len(read) == most:
                    break
            elif not line:
                seq = 0
    return read


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
def test_pub_42_a_line_that_is_lost_at_each_fact_loses_none(project: Project, backend: str) -> None:
    """H2, PUB-42: also where the server is killed, while a human is awaited, and started again."""
    project.backend, project.script = backend, SCRIPT
    project.tools = ["lire", {"python": "envoyer", "approval": "always"}]
    project.save()
    seen: Facts = []
    with served(project) as client:
        asked = {"message": "envoie", "run_id": "r1", "background": True}
        assert client.post("/v1/agents/devis/runs", json=asked).status_code == 202
        assert client.get("/v1/runs/r1").status_code == 200
        while not seen or seen[-1][1] != "approval.requested":
            seen += facts(client, seen[-1][0] if seen else 0, most=1)
    with served(project) as client:
        assert client.post("/v1/runs/r1/approve", json={}).status_code == 200
        seen += facts(client, seen[-1][0])
        whole = facts(client, 0)
        assert seen == whole
        for place in range(1, len(whole)):
            assert facts(client, 0, most=place) + facts(client, place) == whole
        lines = client.get("/v1/sessions/r1/events").text.splitlines()
    assert [(e["seq"], e["type"]) for e in map(json.loads, lines)] == whole
    assert whole[-1][1] == "run.completed"
    assert project.effects().count("envoyer:bonjour") == 1
