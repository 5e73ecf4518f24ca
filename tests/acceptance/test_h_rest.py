"""H. The REST API, over the project as a user has it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from loom_ia.access import Loom
from loom_ia.access.http import create_app
from loom_ia.tenancy.keys import digest_of
from tests.acceptance.project import ANSWER, PRICE, Project, call, calling
from tests.acceptance.provided import Api, entry, loom_of, provided
from tests.pictures import png
from tests.providers.server import Provider, Says

RUNS = "/v1/agents/devis/runs"


@asynccontextmanager
async def served(loom: Loom) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API of a `Loom`, which is entered."""
    async with loom:
        transport = httpx2.ASGITransport(create_app(loom))
        async with httpx2.AsyncClient(transport=transport, base_url="http://loom") as client:
            yield client


def key(name: str, *scopes: str, **more: Any) -> dict[str, Any]:
    """Declare a key whose secret is its name."""
    return {"id": name, "hash": digest_of(name), "scopes": list(scopes), **more}


async def test_h1_a_run_gives_its_answer_and_its_cost(project: Project) -> None:
    """H1: 201 with the text, the usage and the cost; a run that failed is 201 as well."""
    async with served(project.loom()) as client:
        answer = await client.post(RUNS, json={"message": "Quel prix TTC ?"})
        result = answer.json()
        assert (answer.status_code, result["status"]) == (201, "completed")
        assert result["text"] == ANSWER
        assert result["usage"]["output_tokens"] > 0
        assert "cost_usd" in result
    project.script = [{"error": "auth"}]
    async with served(project.save().loom()) as client:
        answer = await client.post(RUNS, json={"message": "Quel prix TTC ?"})
        assert (answer.status_code, answer.json()["status"]) == (201, "failed")


async def test_h2_a_run_in_the_background_is_there_at_once(project: Project) -> None:
    """H2: 202 with an id that can be read before anything else is done."""
    loom = project.loom()
    async with served(loom) as client:
        body = {"message": "Quel prix TTC ?", "background": True}
        answer = await client.post(RUNS, json=body)
        assert answer.status_code == 202
        path = f"/v1/runs/{answer.json()['run_id']}"
        assert (await client.get(path)).status_code == 200
        await loom.drain()
        assert (await client.get(path)).json()["status"] == "completed"


@pytest.mark.parametrize("api", ["anthropic"])
async def test_h4_an_image_of_a_form_is_seen(
    project: Project, provider: Provider, api: Api
) -> None:
    """H4: a PNG in a form reaches the model that sees."""
    provided(project, entry(api, provider, capabilities={"vision": True}))
    provider.reply(Says("Un chantier."))
    async with served(loom_of(project)) as client:
        files = [("attachments", ("chantier.png", png(3, 2), "image/png"))]
        answer = await client.post(RUNS, data={"message": "Que vois-tu ?"}, files=files)
        assert answer.status_code == 201, answer.text
    blocks = provider.requests[0].body["messages"][0]["content"]
    assert "image" in {block["type"] for block in blocks}


async def test_h7_an_agent_that_is_not_exposed_is_not_there(project: Project) -> None:
    """H7: it is absent from the list, and running it is 404."""
    project.agent = {"expose": {"rest": False}}
    async with served(project.save().loom()) as client:
        assert (await client.get("/v1/agents")).json() == []
        assert (await client.post(RUNS, json={"message": "x"})).status_code == 404


@pytest.mark.parametrize(
    "files",
    [
        [("devis.png", b"du texte")],
        [("grand.png", png(size=6 * 1024 * 1024))],
        [(f"{n}.png", png(n + 1)) for n in range(11)],
    ],
    ids=["renamed", "too large", "too many"],
)
async def test_d9_files_that_are_refused_leave_nothing(
    project: Project, files: list[tuple[str, bytes]]
) -> None:
    """D9: 422 with every fault, and nothing is written."""
    async with served(project.loom()) as client:
        parts = [("attachments", (name, data, "image/png")) for name, data in files]
        answer = await client.post(RUNS, data={"message": "regarde"}, files=parts)
        assert answer.status_code == 422
        assert answer.json()["problems"]
        assert (await client.get("/v1/events")).json() == []
    assert not [path for path in project.data.rglob("*.jsonl") if path.stat().st_size]


async def test_g15_a_key_for_another_agent_is_refused(project: Project) -> None:
    """G15: 403, naming the agent."""
    project.root = {"security": {"api_keys": [key("k", "run", agents=["relance"])]}}
    project.save().write("agents/relance.yaml", "name: relance\nmain: {model: SIMULE, system: s}\n")
    async with served(project.loom()) as client:
        headers = {"Authorization": "Bearer k"}
        answer = await client.post(RUNS, json={"message": "x"}, headers=headers)
        assert answer.status_code == 403
        assert "devis" in answer.json()["detail"]


async def test_e16_judges_are_skipped_by_an_admin_alone_and_never_in_prod(
    project: Project,
) -> None:
    """E16: 403 without the scope admin, 403 in prod with it."""
    keys = [key("small", "run"), key("great", "run", "admin")]
    project.root = {"security": {"api_keys": keys}}
    body = {"message": "Quel prix ?", "judges": "skip"}
    async with served(project.save().loom()) as client:
        for secret, status in (("small", 403), ("great", 201)):
            answer = await client.post(RUNS, json=body, headers={"X-API-Key": secret})
            assert answer.status_code == status
    project.root["profile"] = "prod"
    async with served(project.save().loom()) as client:
        answer = await client.post(RUNS, json=body, headers={"X-API-Key": "great"})
        assert answer.status_code == 403
        assert "prod" in answer.json()["detail"]


@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
async def test_the_same_question_leaves_the_same_events(project: Project, approved: bool) -> None:
    """Asked in Python, over REST and on the command line, a run leaves the same types of events."""
    project.tools = ["prix_ttc", "relancer"]
    project.script = [
        calling(PRICE, text="Je calcule."),
        calling(call("relancer", texte="Bonjour")),
        {"text": ANSWER},
    ]
    project.save()
    question = "Quel prix ?"
    async with project.loom() as loom:
        run = await loom.run("devis", question, run_id="python")
        (pending,) = run.pending_approvals
        decide = loom.approve if approved else loom.reject
        await decide("python", call_id=pending.call_id)
        await loom.drain()
    loom = project.loom()
    async with served(loom) as client:
        begun = await client.post(RUNS, json={"message": question, "run_id": "rest"})
        (asked,) = begun.json()["pending_approvals"]
        path = f"/v1/runs/rest/{'approve' if approved else 'reject'}"
        assert (await client.post(path, json={"call_id": asked["call_id"]})).status_code == 200
        await loom.drain()
    project.command("run", "devis", question, "--run-id", "cli")
    project.command("approve" if approved else "reject", "cli")
    async with project.loom() as loom:
        left = {
            name: [event.type for event in await loom.events(name)]
            for name in ("python", "rest", "cli")
        }
        assert all([(await loom.result(name)).ok for name in left])
    assert left["rest"] == left["python"]
    assert left["cli"] == left["python"]
    assert json.dumps(left["rest"]).count("approval.") == 2
