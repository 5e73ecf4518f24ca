"""What the API says of itself: valid, whole, and shown without a network."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient

from loom_ia.access.http import create_app
from loom_ia.access.http.bodies import (
    ApproveRequest,
    CancelRequest,
    NewGraphRun,
    NewRun,
    RejectRequest,
)
from tests.access.http.doors import Door, config, door, key, opened

TAGS = {"agents", "runs", "sessions", "hooks", "journal", "graphs", "health"}


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """List the operations of a document."""
    return [(p, m, op) for p, ms in document["paths"].items() for m, op in ms.items()]


async def test_every_operation_is_whole(keyed: Door) -> None:
    """It has an id of its own, a tag, words, every problem with its shape, and the keys."""
    document = (await keyed.client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert {tag["name"] for tag in document["tags"]} == TAGS
    assert set(document["components"]["securitySchemes"]) == {"bearer", "apiKey"}
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    for path, method, operation in operations(document):
        assert set(operation["tags"]) <= TAGS, path
        if not path.startswith("/v1/"):
            continue
        assert operation["summary"], path
        assert "Scope" in operation["description"] or "approve" in operation["description"], path
        assert {"400", "401", "403", "422", "429", "500", "503"} <= set(operation["responses"])
        if method == "post":
            assert {"413", "415"} <= set(operation["responses"]), path
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert set(response["content"]) == {"application/problem+json"}, path


async def test_every_reference_leads_somewhere(open_door: Door) -> None:
    """No schema is named that is not in the document, and each is a schema."""
    document = (await open_door.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    text = (await open_door.client.get("/openapi.json")).text
    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) <= set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_the_examples_are_what_they_are_examples_of(open_door: Door) -> None:
    """An example of a body is one, and so is an example of an answer."""
    document = (await open_door.client.get("/openapi.json")).json()
    for kind in (NewRun, NewGraphRun, ApproveRequest, RejectRequest, CancelRequest):
        examples = document["components"]["schemas"][kind.__name__]["examples"]
        assert examples
        for example in examples:
            kind.model_validate(example)
    found = 0
    for path, _, operation in operations(document):
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                if "example" not in content or "schema" not in content:
                    continue
                found += 1
                schema = {**content["schema"], "components": document["components"]}
                jsonschema.Draft202012Validator(schema).validate(content["example"])
        success = next(r for s, r in operation["responses"].items() if int(s) < 300)
        for kind_of, content in success.get("content", {}).items():
            assert kind_of != "application/json" or "example" in content, path
    assert found > 50


async def test_answers_are_what_the_document_says(open_door: Door) -> None:
    """What is really answered fits the schemas, a paused run and a failed one included."""
    document = (await open_door.client.get("/openapi.json")).json()
    await open_door.begin("délègue", run_id="r1")
    await open_door.begin("envoie", run_id="r2", session_id="s")
    await open_door.begin("casse", run_id="r3")
    await open_door.begin("page", run_id="r4", session_id="s")
    for path, operation in {
        **{f"/runs/r{n}": "/v1/runs/{run_id}" for n in range(1, 5)},
        **{f"/traces/r{n}": "/v1/traces/{run_id}" for n in range(1, 5)},
        "/runs": "/v1/runs",
        "/sessions/s": "/v1/sessions/{session_id}",
        "/sessions/s/files": "/v1/sessions/{session_id}/files",
        "/sessions/s/report": "/v1/sessions/{session_id}/report",
        "/events": "/v1/events",
        "/runs/x": "/v1/runs/{run_id}",
    }.items():
        answer = await open_door.ask("GET", path)
        responses = document["paths"][operation]["get"]["responses"]
        (content,) = responses[str(answer.status_code)]["content"].values()
        schema = {**content["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


async def test_the_page_needs_nothing_from_elsewhere(open_door: Door) -> None:
    """`/docs` and `/redoc` are one page that fetches the document alone."""
    for name in ("/docs", "/redoc"):
        page = await open_door.client.get(name)
        assert page.status_code == 200
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", page.text)
        assert "openapi.json" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("profile", "docs", "served"),
    [("dev", None, True), ("prod", None, False), ("prod", True, True), ("dev", False, False)],
)
async def test_in_prod_the_page_is_served_when_it_is_wanted(
    tmp_path: Path, profile: str, docs: bool | None, served: bool
) -> None:
    """Without `server.http.docs`, prod serves neither the page nor the document."""
    made = config(tmp_path, (key("k", "read"),), docs=docs).model_copy(update={"profile": profile})
    async with door(made) as found:
        for name in ("/docs", "/redoc", "/openapi.json"):
            assert ((await found.client.get(name)).status_code == 200) is served


async def test_it_can_be_mounted_in_an_application(tmp_path: Path) -> None:
    """Mounted under a path, everything works there, and the `Loom` is left to its owner."""
    async with opened(config(tmp_path)) as loom:
        host = FastAPI()
        host.mount("/loom", create_app(loom))
        async with (
            host.router.lifespan_context(host),
            AsyncClient(transport=ASGITransport(host), base_url="http://x") as client,
        ):
            begun = await client.post("/loom/v1/agents/a/runs", json={"message": "somme"})
            assert begun.headers["location"].startswith("/loom/v1/runs/")
            assert (await client.get(begun.headers["location"])).json() == begun.json()
            refused = await client.post("/loom/v1/agents/a/runs", json={"messag": "somme"})
            assert refused.headers["content-type"] == "application/problem+json"
            wrong = await client.put("/loom/v1/sessions/x")
            assert wrong.headers["allow"] == "DELETE, GET"
            document = (await client.get("/loom/openapi.json")).json()
            assert document["servers"] == [{"url": "/loom"}]
        assert (await loom.result(begun.json()["run_id"])).ok


async def test_an_application_that_owns_its_loom_closes_it(tmp_path: Path) -> None:
    """With `own`, leaving the application leaves the `Loom`."""
    from loom_ia.core.errors import LoomClosed

    loom = opened(config(tmp_path))
    app = create_app(loom, own=True)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://x") as client,
    ):
        assert (await client.get("/v1/runs")).status_code == 200
    with pytest.raises(LoomClosed):
        await loom.run("a", "bonjour")
