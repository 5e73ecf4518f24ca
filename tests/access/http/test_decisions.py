"""What people decide over REST: only a decision is one, and only the first counts."""

import asyncio

import pytest

from tests.access.http.doors import SECRET, SENT, Door

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"null", 422),
        (b"true", 422),
        (b'"false"', 422),
        (b"[]", 422),
        (b"{", 422),
        (b'{"approved": false}', 422),
        (b'{"approve": "false"}', 422),
        (b'{"call_id": null, "decision": "no"}', 422),
        (b'{"call_id": 1}', 422),
        (b'{"by": true}', 422),
        (b'{"call_id": "x"}', 404),
        (b'{"call_id": ""}', 404),
        (b'{"arguments": {"texte": "autre"}}', 422),
        (b'{"answer": 1}', 422),
    ],
)
async def test_what_is_no_decision_lets_nothing_happen(
    open_door: Door, body: bytes, status: int
) -> None:
    """Anything but an explicit approval is refused, the tool is not called, the run still waits."""
    run = await open_door.begin("envoie")
    path = f"/runs/{run['run_id']}"
    answer = await open_door.ask("POST", f"{path}/approve", content=body, headers=JSON)
    await open_door.loom.drain()
    assert answer.status_code == status, answer.text
    assert (await open_door.get(path))["status"] == "paused"
    assert SENT == []


async def test_a_method_that_is_none_decides_nothing(open_door: Door) -> None:
    """An unknown verb is 405 with those that exist."""
    run = await open_door.begin("envoie")
    answer = await open_door.ask("PUT", f"/runs/{run['run_id']}/approve", json={})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_an_approval_goes_on_and_is_signed(keyed: Door) -> None:
    """The run goes on in the background; the journal has the name that was given and the key."""
    run = await keyed.begin("envoie", secret="all")
    path = f"/runs/{run['run_id']}"
    body = {"by": "Ana", "reason": "oui"}
    answer = await keyed.ask("POST", f"{path}/approve", secret="approve", json=body)
    assert answer.status_code == 200
    await keyed.loom.drain()
    assert SENT == [SECRET]
    assert (await keyed.get(path, "all"))["status"] == "completed"
    (granted,) = await keyed.get("/events?type=approval.granted", "all")
    assert granted["payload"]["by"] == "Ana (approve)"


@pytest.mark.parametrize("second", ["approve", "reject"])
async def test_a_second_decision_is_a_conflict(open_door: Door, second: str) -> None:
    """Who decided and when is told, whether the run goes on or is over."""
    run = await open_door.begin("envoie")
    path, body = f"/runs/{run['run_id']}", {"call_id": run["pending_approvals"][0]["call_id"]}
    first = await open_door.ask("POST", f"{path}/approve", json=body)
    assert first.json()["calls"] == [body["call_id"]]
    await open_door.loom.drain()
    again = await open_door.ask("POST", f"{path}/{second}", json=body)
    assert again.status_code == 409
    assert "anonymous" in again.json()["detail"]
    assert SENT == [SECRET]


async def test_of_two_decisions_at_once_one_is_written(open_door: Door) -> None:
    """Whatever both say, one is written and the other one is refused."""
    run = await open_door.begin("envoie")
    path, body = f"/runs/{run['run_id']}", {"call_id": run["pending_approvals"][0]["call_id"]}
    answers = await asyncio.gather(
        *(open_door.ask("POST", f"{path}/{verb}", json=body) for verb in ("approve", "reject"))
    )
    await open_door.loom.drain()
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    decided = await open_door.get("/events?type=approval.granted&type=approval.rejected")
    assert len(decided) == 1
    assert len(SENT) == (decided[0]["type"] == "approval.granted")


async def test_one_of_several_must_be_named(open_door: Door) -> None:
    """While two calls wait, a decision without an id is 409 and lists them."""
    run = await open_door.begin("deux fois")
    path = f"/runs/{run['run_id']}"
    names = [pending["call_id"] for pending in run["pending_approvals"]]
    answer = await open_door.ask("POST", f"{path}/approve", json={})
    assert answer.status_code == 409
    assert answer.json()["pending"] == names
    unknown = await open_door.ask("POST", f"{path}/reject", json={"call_id": "x"})
    assert unknown.status_code == 404
    assert unknown.json()["pending"] == names
    assert SENT == []


async def test_edited_arguments_are_checked(open_door: Door) -> None:
    """What the tool would not take is 422 and the run still waits; what it takes is used."""
    run = await open_door.begin("envoie")
    path, call_id = f"/runs/{run['run_id']}", run["pending_approvals"][0]["call_id"]
    bad = {"call_id": call_id, "arguments": {"texte": 1}}
    refused = await open_door.ask("POST", f"{path}/approve", json=bad)
    assert refused.status_code == 422
    assert (await open_door.get(path))["status"] == "paused"
    good = {"call_id": call_id, "arguments": {"texte": "corrigé"}}
    assert (await open_door.ask("POST", f"{path}/approve", json=good)).status_code == 200
    await open_door.loom.drain()
    assert SENT == ["corrigé"]


async def test_a_refusal_is_read_by_the_model(open_door: Door) -> None:
    """Nothing is sent, and the run ends."""
    run = await open_door.begin("envoie")
    path = f"/runs/{run['run_id']}"
    answer = await open_door.ask("POST", f"{path}/reject", json={"reason": "trop cher"})
    assert answer.status_code == 200
    await open_door.loom.drain()
    assert SENT == []
    assert (await open_door.get(path))["status"] == "completed"
    (rejected,) = await open_door.get("/events?type=approval.rejected")
    assert rejected["payload"]["reason"] == "trop cher"


async def test_a_run_is_stopped_once(open_door: Door) -> None:
    """The second time tells that it was over; the body may be left out."""
    run = await open_door.begin("envoie")
    path = f"/runs/{run['run_id']}/cancel"
    assert (await open_door.ask("POST", path)).json()["cancelled"] is True
    assert (await open_door.ask("POST", path, json={"by": "Ana"})).json()["cancelled"] is False


@pytest.mark.parametrize("verb", ["approve", "reject"])
@pytest.mark.parametrize("body", [{}, {"call_id": "fake_0_0"}], ids=["any", "named"])
@pytest.mark.parametrize("end", ["approve", "cancel"])
async def test_a_decision_that_comes_too_late_is_no_success(
    open_door: Door, verb: str, body: dict[str, str], end: str
) -> None:
    """Whoever refuses an act that is done, or a run that is over, must not believe that he did."""
    run = await open_door.begin("envoie", run_id="tard")
    assert run["status"] == "paused"
    assert (await open_door.ask("POST", f"/runs/tard/{end}", json={})).status_code == 200
    await open_door.loom.drain()
    late = await open_door.ask("POST", f"/runs/tard/{verb}", json=body)
    assert late.status_code == 409, late.text
