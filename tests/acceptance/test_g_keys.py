"""G and H. Keys and webhooks, as `loom serve` takes them in a process of its own."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import yaml

from tests.acceptance.project import LOOM, Project

ASKED = {"message": "Quel prix TTC ?"}


def made(project: Project, name: str, *words: str) -> tuple[str, dict[str, Any]]:
    """Make a key as the command does; gives it and its entry."""
    done = project.command("keys", "create", name, *words, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document["key"], document["entry"]


@contextmanager
def serving(project: Project, *words: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Serve the project; gives its address, once it is open, and the process."""
    process = subprocess.Popen(
        [LOOM, *words, "serve", "--port", "0"],
        cwd=project.folder,
        env={"PATH": "", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("Serving"):
                break
        else:
            raise AssertionError(said)
        yield line.partition(":")[2].strip(), process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_h14_what_is_made_is_shown_once_and_opens_the_door(project: Project) -> None:
    """H14, G14, G15, G16: a key that is pasted opens; what it may not do is refused."""
    done = project.command("keys", "create", "app")
    secret = done.stdout.strip()
    assert secret.startswith("lk_")
    assert secret not in done.stderr
    entries = yaml.safe_load(done.stderr[done.stderr.index("security:") :])
    assert entries["security"]["api_keys"][0]["hash"].startswith("sha256:")
    slow, of_slow = made(project, "lente", "--rate-limit", "2")
    only, of_only = made(project, "relance", "--agent", "devis", "--scope", "read")
    old, of_old = made(project, "vieille")
    of_old["expires"] = "2020-01-01T00:00:00Z"
    entries["security"]["api_keys"] += [of_slow, of_only, of_old]
    project.root = entries
    project.save()
    with serving(project, "--profile", "prod") as (base, _), httpx2.Client(timeout=60) as client:

        def ask(key: str, method: str = "GET", path: str = "/agents", **more: Any) -> Any:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return client.request(method, f"{base}/v1{path}", headers=headers, **more)

        assert ask(secret, "POST", "/agents/devis/runs", json=ASKED).status_code == 201
        for key in ("", "lk_inconnue", old):
            refused = ask(key)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert ask(only).status_code == 200
        assert ask(only, "POST", "/agents/devis/runs", json=ASKED).status_code == 403
        assert [ask(slow).status_code for _ in range(2)] == [200, 200]
        limited = ask(slow)
        assert limited.status_code == 429
        assert 1 <= int(limited.headers["retry-after"]) <= 60


def test_b11_prod_is_not_served_without_a_key(project: Project) -> None:
    """B11: refused on any address, naming the remedy; without the profile it is served."""
    done = project.command("--profile", "prod", "serve", "--port", "0")
    assert done.returncode == 2
    assert "loom keys create" in done.stderr
    with serving(project) as (base, _):
        assert httpx2.get(f"{base}/v1/agents", timeout=60).status_code == 200


async def test_h5_a_delivery_outlives_the_server_that_took_it(project: Project) -> None:
    """H5: a server is killed at 202; another one gives the same run, which is driven once."""
    project.backend = "sqlite"
    project.root = {
        "triggers": [
            {
                "name": "devis-signe",
                "agent": "devis",
                "message": "Devis {{ payload.numero }}",
                "session": "devis-{{ payload.numero }}",
                "delivery_header": "X-Delivery-Id",
            }
        ]
    }
    project.save()
    posted: dict[str, Any] = {"json": {"numero": 12}, "headers": {"X-Delivery-Id": "d1"}}
    path = "/v1/hooks/devis-signe"
    with serving(project) as (base, process):
        first = httpx2.post(f"{base}{path}", timeout=60, **posted)
        process.kill()
        assert first.status_code == 202
        assert first.json()["session_id"] == "devis-12"
    with serving(project) as (base, _):
        again = httpx2.post(f"{base}{path}", timeout=60, **posted)
        assert (again.status_code, again.json()["repeated"]) == (200, True)
        assert again.json()["run_id"] == first.json()["run_id"]
    async with project.loom() as loom:
        await loom.recover()
        await loom.drain()
        assert (await loom.result(first.json()["run_id"])).ok
        assert len((await loom.runs()).runs) == 1
