"""Runs over REST: begun, read, listed, in their sessions."""

import json
from typing import Any

import pytest

from tests.access.http.doors import SECRET, Door
from tests.pictures import png


async def test_a_run_is_created_with_its_answer_and_its_cost(open_door: Door) -> None:
    """A run is 201 with its text, what it consumed and what it cost, and tells where it is."""
    answer = await open_door.ask("POST", "/agents/a/runs", json={"message": "somme"})
    result = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/runs/{result['run_id']}"
    assert result["text"] == f"Voilà {SECRET}."
    assert result["usage"]["input_tokens"] > 0
    assert result["cost_usd"] > 0
    assert (await open_door.client.get(answer.headers["location"])).json() == result


async def test_a_run_that_failed_was_created_too(open_door: Door) -> None:
    """The status of the response is about the request, that of the run is in its result."""
    answer = await open_door.ask("POST", "/agents/a/runs", json={"message": "casse"})
    assert answer.status_code == 201
    assert answer.json()["status"] == "failed"
    assert answer.json()["error_type"] == "model.auth"


async def test_a_run_in_the_background_can_be_read_at_once(open_door: Door) -> None:
    """The answer is 202 with the id of a run that is written already."""
    body = {"message": "somme", "background": True, "session_id": "s-1"}
    answer = await open_door.ask("POST", "/agents/a/runs", json=body)
    accepted = answer.json()
    assert answer.status_code == 202
    assert accepted["session_id"] == "s-1"
    assert (await open_door.get(f"/runs/{accepted['run_id']}"))["run_id"] == accepted["run_id"]
    await open_door.loom.drain()
    assert (await open_door.get(f"/runs/{accepted['run_id']}"))["status"] == "completed"


async def test_what_a_request_says_is_kept_with_the_run(open_door: Door) -> None:
    """The ids that were chosen, the user and the metadata are those of the run."""
    await open_door.begin(
        "bonjour", session_id="s", run_id="r", user_id="ana", metadata={"plan": {"gold": [1]}}
    )
    state = await open_door.loom.state("r")
    assert state.header.session_id == "s"
    assert state.header.context.user_id == "ana"
    assert state.header.context.metadata == {"plan": {"gold": [1]}}


async def test_an_id_that_was_used_is_a_conflict(open_door: Door) -> None:
    """A run id that is taken is 409, and nothing is written."""
    await open_door.begin("bonjour", run_id="r")
    answer = await open_door.ask("POST", "/agents/a/runs", json={"message": "x", "run_id": "r"})
    assert answer.status_code == 409
    assert "r" in answer.json()["detail"]


async def test_lone_surrogates_are_mended_and_told(open_door: Door) -> None:
    """Half of a character is replaced in the journal, which keeps that it was."""
    answer = await open_door.ask(
        "POST",
        "/agents/a/runs",
        content=rb'{"message": "caf\ud83d", "run_id": "r"}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 201
    (said,) = await open_door.get("/events?type=message.user")
    assert said["payload"]["mended"] == ["message"]
    assert said["payload"]["message"]["blocks"][0]["text"] == "caf\ufffd"


async def test_a_form_brings_images(open_door: Door) -> None:
    """A form says what JSON says, and the files are with the message."""
    answer = await open_door.ask(
        "POST",
        "/agents/a/runs",
        data={"message": "regarde", "run_id": "r", "metadata": '{"a": 1}', "background": "false"},
        files=[("attachments", ("chantier.png", png(3, 2), "image/png"))],
    )
    assert answer.status_code == 201, answer.text
    (kept,) = answer.json()["artifacts"]
    assert (kept["name"], kept["media_type"], kept["origin"]) == (
        "chantier.png",
        "image/png",
        "attachment",
    )
    assert (await open_door.loom.state("r")).header.context.metadata == {"a": 1}


async def test_runs_are_listed_with_what_is_asked(open_door: Door) -> None:
    """The page holds the runs of an agent and of a status, the latest first."""
    await open_door.begin("bonjour", run_id="r1")
    await open_door.begin("casse", run_id="r2")
    await open_door.begin("bonjour", "relance", run_id="r3")
    page = await open_door.get("/runs?agent=a&status=failed&status=completed")
    assert [run["run_id"] for run in page["runs"]] == ["r2", "r1"]
    assert not page["truncated"]
    assert [run["run_id"] for run in (await open_door.get("/runs?limit=1"))["runs"]] == ["r3"]
    later = await open_door.get("/runs?since=2030-01-01T00:00:00Z")
    assert later["runs"] == []


async def test_a_session_is_described_exported_and_deleted(open_door: Door) -> None:
    """What a session holds is read in every way, then it is gone for good."""
    await open_door.begin("somme", session_id="s", run_id="r1")
    await open_door.begin("page", session_id="s", run_id="r2")
    info = await open_door.get("/sessions/s")
    assert [run["run_id"] for run in info["runs"]] == ["r1", "r2"]
    assert [each["session_id"] for each in await open_door.get("/sessions")] == ["s"]
    exported = await open_door.ask("GET", "/sessions/s/events")
    assert exported.headers["content-type"] == "application/x-ndjson"
    events = [json.loads(line) for line in exported.text.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, info["last_seq"] + 1))
    report = await open_door.get("/sessions/s/report")
    assert report["total"]["calls"] == 4
    deleted = (await open_door.ask("DELETE", "/sessions/s")).json()
    assert deleted["events"] == info["last_seq"]
    assert deleted["artifacts"] == 1
    assert (await open_door.ask("GET", "/sessions/s")).status_code == 404
    assert (await open_door.ask("DELETE", "/sessions/s")).status_code == 404


async def test_a_file_of_a_tool_is_saved_and_never_opened(open_door: Door) -> None:
    """A page that a tool made is downloaded as octets, which no browser runs."""
    await open_door.begin("page", session_id="s")
    (file,) = await open_door.get("/sessions/s/files")
    assert (file["name"], file["origin"], file["tool_name"]) == ("p.html", "tool_output", "page")
    answer = await open_door.ask("GET", f"/sessions/s/files/{file['file']}")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    other = await open_door.ask("GET", f"/sessions/s/files/{'0' * 64}.html")
    assert other.status_code == 404


async def test_the_journal_is_searched_and_read_as_a_tree(open_door: Door) -> None:
    """Events are found by their facets, page after page, and a trace has the steps of a run."""
    await open_door.begin("somme", run_id="r")
    (called,) = await open_door.get("/events?type=tool.called&tool_name=somme&run_id=r")
    assert called["facets"]["tool_name"] == "somme"
    first = await open_door.get("/events?limit=1")
    second = await open_door.get(f"/events?limit=1&after={first[0]['event_id']}")
    assert second[0]["seq"] == 2
    last = (await open_door.get("/events"))[-1]["event_id"]
    assert await open_door.get(f"/events?after={last}") == []
    beyond = await open_door.ask("GET", f"/events?after={'f' * 8}{last[8:]}")
    assert beyond.status_code == 400
    assert (await open_door.ask("GET", "/events?after=x")).status_code == 400
    trace = await open_door.get("/traces/r")
    assert len(trace["steps"]) == 3
    assert trace["request"] == "somme"


async def test_a_run_of_a_graph_asks_and_is_answered(open_door: Door) -> None:
    """A graph runs over the same routes, and its question wants an answer that fits."""
    assert await open_door.get("/graphs") == [{"name": "demande"}]
    answer = await open_door.ask(
        "POST", "/graphs/demande/runs", json={"input": {"sujet": "thé"}, "background": True}
    )
    assert answer.status_code == 202, answer.text
    await open_door.loom.drain()
    path = f"/runs/{answer.json()['run_id']}"
    (pending,) = (await open_door.get(path))["pending_approvals"]
    assert pending["payload"] == {"combien": "thé"}
    for body, status in (({}, 422), ({"answer": "trois"}, 422), ({"answer": 3}, 200)):
        assert (await open_door.ask("POST", f"{path}/approve", json=body)).status_code == status
    await open_door.loom.drain()
    assert (await open_door.get(path))["status"] == "completed"


async def test_a_run_of_a_graph_is_created_when_it_waits(open_door: Door) -> None:
    """Without `background`, the answer tells what the graph asks."""
    answer = await open_door.ask("POST", "/graphs/demande/runs", json={})
    assert answer.status_code == 201
    assert answer.json()["pending_approvals"][0]["kind"] == "input"
    unknown = await open_door.ask("POST", "/graphs/rien/runs", json={})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    "path", ["/runs/rien", "/traces/rien", "/sessions/rien", "/sessions/rien/files", "/runs/a/b"]
)
async def test_what_is_not_there_is_told(open_door: Door, path: str) -> None:
    """What does not exist is 404, with its name and what to do about it."""
    answer = await open_door.ask("GET", path)
    problem: Any = answer.json()
    assert answer.status_code == problem["status"] == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["remedy"]


async def test_an_agent_that_is_not_for_rest_is_not_there(open_door: Door) -> None:
    """It is not listed, and asking for it is told like asking for nothing."""
    assert [a["name"] for a in await open_door.get("/agents")] == ["a", "aide", "relance"]
    hidden = await open_door.ask("POST", "/agents/cache/runs", json={"message": "x"})
    unknown = await open_door.ask("POST", "/agents/xxxxx/runs", json={"message": "x"})
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.text.replace("cache", "xxxxx") == unknown.text
