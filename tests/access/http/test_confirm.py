"""The page of decisions over a real socket: who may, what decides, and what only looks."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access.http.confirm import MOST_BODY, Turnstile
from loom_ia.adapters.notices.webhook import signature
from tests.access.http.confirming import MAIL, SECRETS, Office, office, until

FORM = {"content-type": "application/x-www-form-urlencoded"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "remise": {"type": "number", "maximum": 15, "title": "Remise (%)"},
        "urgent": {"type": "boolean"},
        "canal": {"enum": ["courriel", "téléphone"]},
        "motif": {"type": "string"},
    },
    "required": ["remise", "urgent"],
}


@pytest.fixture
async def bureau(tmp_path: Path) -> AsyncIterator[Office]:
    """An office that is open."""
    async with office(tmp_path) as opened:
        yield opened


async def test_pub12_a_decision_comes_back_by_the_link(bureau: Office) -> None:
    """The notice says who, what and how much; its link decides, once, signed by its target."""
    url = await bureau.ask()
    (notice,) = bureau.hook.notices
    assert notice["agent"] == "relance"
    assert notice["sentence"] == (
        "Envoyer à compta@dupont.example : « Relance facture F-2041 » (1 842,50 €)"
    )
    assert notice["arguments"] == MAIL
    assert bureau.sent == []
    done = await bureau.post(url, decision="accorder", name="Ana", reason="vu")
    assert done.status_code == 303
    await bureau.loom.drain()
    assert bureau.sent == ["compta@dupont.example"]
    (decision,) = await bureau.decided()
    assert (decision["by"], decision["reason"]) == ("Ana (link:chef)", "vu")
    after = await bureau.client.get(url, headers={"accept-language": "en"})
    assert after.status_code == 200
    assert "Approved" in after.text
    assert "Ana (link:chef)" in after.text
    second = await bureau.post(url, decision="refuser")
    assert second.status_code == 409
    assert "Ana (link:chef)" in second.text
    await bureau.loom.drain()
    assert len(await bureau.decided()) == 1


async def test_a_refusal_is_read_by_the_model(bureau: Office) -> None:
    """The button refuses, with its reason, and nothing is sent."""
    url = await bureau.ask()
    await bureau.post(url, decision="refuser", reason="pas lui")
    await bureau.loom.drain()
    (decision,) = await bureau.decided()
    assert (decision["by"], decision["reason"]) == ("link:chef", "pas lui")
    assert bureau.sent == []
    assert (await bureau.loom.result("r1")).ok


async def test_what_only_looks_decides_nothing(bureau: Office) -> None:
    """Scanners and previews that open the link fifty times leave the run as it is."""
    url = await bureau.ask()
    before = await bureau.loom.events("r1")
    for turn in range(50):
        method = ("GET", "HEAD")[turn % 2]
        seen = await bureau.client.request(method, url, headers={"user-agent": f"scanner/{turn}"})
        assert seen.status_code == 200
        for query in ("?decision=accorder", "?lang=fr&decision=accorder&token=x"):
            assert (await bureau.client.request(method, url + query)).status_code == 200
    for method in ("OPTIONS", "PUT", "DELETE", "PATCH"):
        assert (await bureau.client.request(method, url)).status_code in (404, 405)
    assert await bureau.loom.events("r1") == before
    assert bureau.sent == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"decision": ""},
        {"decision": "oui"},
        {"decision": "true"},
        {"decision": "Accorder"},
        {"decision": "accorder "},
        {"decision": "null"},
        {"approved": "true"},
    ],
)
async def test_pub03_only_an_exact_word_decides(bureau: Office, fields: dict[str, str]) -> None:
    """A form that says nothing, or something near, decides nothing."""
    url = await bureau.ask()
    answer = await bureau.post(url, **fields)
    assert answer.status_code == 422
    assert await bureau.decided() == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"decision": "accorder"}', {"content-type": "application/json"}, 415),
        (b"decision=accorder", {}, 415),
        (b"decision=accorder", FORM, 422),
        (b"token=x&decision=accorder", FORM, 422),
        (b"token=%s&decision=accorder&decision=accorder", FORM, 422),
        (b"token=%s&decision=refuser&decision=accorder", FORM, 422),
        (b"token=%s&decision=accorder&x=\xff", FORM, 422),
        (b"token=%s&decision=accorder" + b"&a=1" * 100, FORM, 422),
        (b"token=%s&decision=accorder&x=" + b"a" * MOST_BODY, FORM, 413),
        (b"token=%s&decision=accorder", {**FORM, "origin": "https://evil.example"}, 403),
        (b"token=%s&decision=accorder", {**FORM, "sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_an_odd_form_decides_nothing(
    bureau: Office, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Another type, another token, a word said twice, too much, or another site: a page says so."""
    url = await bureau.ask()
    sent = body.replace(b"%s", bureau.hook.token.encode())
    answer = await bureau.client.post(url, content=sent, headers=headers)
    assert answer.status_code == status
    assert "text/html" in answer.headers["content-type"]
    assert await bureau.decided() == []


async def test_two_clicks_at_once_make_one_decision(bureau: Office) -> None:
    """Of two forms sent together one decides, and the other is told of it."""
    url = await bureau.ask()
    words = ("accorder", "refuser") * 4
    answers = await asyncio.gather(*(bureau.post(url, decision=word) for word in words))
    assert sorted(answer.status_code for answer in answers) == [303, *[409] * 7]
    assert len(await bureau.decided()) == 1


async def test_a_link_that_is_not_ours_says_what_to_do(bureau: Office) -> None:
    """Forged, cut, or about what is gone: a page in the language of the reader, and no more."""
    url = await bureau.ask()
    for bad in (
        url[:-1],
        url + "A",
        url[:-43] + "A" * 43,
        f"{bureau.base}/decide/x%0a",
        url + "%00",
    ):
        for method in ("GET", "POST"):
            answer = await bureau.client.request(method, bad, headers={"accept-language": "en"})
            assert answer.status_code == 404
            assert "not one of ours" in answer.text
    assert await bureau.decided() == []


async def test_the_page_holds_nothing_that_runs(bureau: Office) -> None:
    """What the agent wrote is text: no markup of it, no script, nothing kept, framed or told on."""
    nasty = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
    url = await bureau.question(
        nasty, {"type": "object", "properties": {nasty: {"type": "string"}}}
    )
    page = await bureau.client.get(url)
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "onerror=alert(2)&gt;" in page.text
    assert "\u202e" not in page.text
    headers = page.headers
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "noindex" in headers["x-robots-tag"]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy


async def test_the_language_is_the_reader_s(bureau: Office) -> None:
    """The header of the browser chooses, and the address wins over it."""
    url = await bureau.ask()
    for asked, accepted, told in (
        ("", "fr-CA,fr;q=0.9", "fr"),
        ("", "de", "en"),
        ("?lang=en", "fr", "en"),
        ("?lang=fr", "en", "fr"),
        ("?lang=xx", "fr", "fr"),
    ):
        page = await bureau.client.get(url + asked, headers={"accept-language": accepted})
        assert f'<html lang="{told}">' in page.text


async def test_a_link_past_its_time_is_gone(tmp_path: Path) -> None:
    """After `expires_in` it opens a page that says so, and decides nothing."""
    async with office(tmp_path, expires_in=0.3) as bureau:
        url = await bureau.ask()
        statuses: list[int] = []
        async with asyncio.timeout(20):
            while not statuses or statuses[-1] != 410:
                statuses.append((await bureau.client.get(url)).status_code)
        answer = await bureau.post(url, decision="accorder")
        assert answer.status_code == 410
        assert await bureau.decided() == []


async def test_without_a_secret_there_is_no_page(tmp_path: Path) -> None:
    """No link is sent, and nothing answers at its address."""
    async with office(tmp_path, public_url=None, secret_env=None) as bureau:
        await bureau.loom.run("relance", "Relance", run_id="r1")
        await bureau.loom.drain()
        (notice,) = bureau.hook.notices
        assert notice["link"] is None
        answer = await bureau.client.get(f"{bureau.base}/decide/x.{'A' * 43}")
        assert answer.status_code == 404
        assert "text/html" not in answer.headers["content-type"]


# -- questions ------------------------------------------------------------------------------------


async def test_a_question_is_a_form_and_its_answer_is_checked(bureau: Office) -> None:
    """What does not fit is said on the page, which keeps what was typed; what fits goes on."""
    url = await bureau.question("Quelle remise ?", SCHEMA)
    page = await bureau.client.get(url)
    assert 'name="answer.remise"' in page.text
    assert "Refuser" not in page.text
    typed = {"decision": "accorder", "answer.urgent": "true", "answer.motif": "fidèle & <b>"}
    for wrong in ("", "abc", "50", "NaN", "1e999"):
        answer = await bureau.post(url, **typed, **{"answer.remise": wrong})
        assert answer.status_code == 422, wrong
        assert "fidèle &amp; &lt;b&gt;" in answer.text
        assert 'role="alert"' in answer.text
    assert await bureau.decided("q1") == []
    assert (await bureau.post(url, **{**typed, "decision": "refuser"})).status_code == 422
    done = await bureau.post(url, **typed, **{"answer.remise": "7,5", "answer.canal": "1"})
    assert done.status_code == 303
    await bureau.loom.drain()
    (decision,) = await bureau.decided("q1")
    assert decision["answer"] == {
        "remise": 7.5,
        "urgent": True,
        "canal": "téléphone",
        "motif": "fidèle & <b>",
    }


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, '{"a": {}}', {"a": {}}),
        ({"type": "integer"}, "12", 12),
        ({"type": "string"}, "deux\r\nlignes", "deux\nlignes"),
        ({"type": "boolean"}, "false", False),
        ({"enum": ["a", 2]}, "1", 2),
    ],
)
async def test_an_answer_of_any_shape_can_be_given(
    bureau: Office, schema: dict[str, Any], typed: str, answer: object
) -> None:
    """One plain value has a field of its own, and what is no form is a text in JSON."""
    url = await bureau.question("Quoi ?", schema)
    assert (
        await bureau.post(url, decision="accorder", **{"answer.value": typed})
    ).status_code == 303
    (decision,) = await bureau.decided("q1")
    assert decision["answer"] == answer


async def test_a_step_that_calls_a_tool_asks_as_an_agent_does(bureau: Office) -> None:
    """The sentence of the tool, its arguments and its two buttons: the link decides on the step."""
    await bureau.loom.run_graph("envois", {"mail": MAIL}, run_id="g1")
    await bureau.loom.drain()
    (notice,) = bureau.hook.notices
    assert notice["sentence"].startswith("Envoyer à compta@dupont.example")
    assert (notice["tool"], notice["arguments"]) == ("envoyer_email", MAIL)
    page = await bureau.client.get(bureau.url)
    assert "F-2041 du 12 octobre" in page.text
    assert (await bureau.post(bureau.url, decision="accorder", name="Ana")).status_code == 303
    await bureau.loom.drain()
    assert bureau.sent == ["compta@dupont.example"]
    assert "Ana (link:chef)" in (await bureau.client.get(bureau.url)).text


# -- what is posted -------------------------------------------------------------------------------


async def test_what_is_posted_is_signed(bureau: Office) -> None:
    """The receiver can tell that it is ours, when it was sent, and whether it had it already."""
    await bureau.ask()
    ((headers, body),) = bureau.hook.posts
    assert headers["content-type"] == "application/json"
    assert headers["loom-delivery"] == bureau.hook.notices[0]["id"]
    said = signature(SECRETS["HOOK"], headers["loom-timestamp"], body)
    assert headers["loom-signature"] == said


async def test_a_hook_that_fails_is_posted_to_again_the_same(bureau: Office) -> None:
    """After 500s and a redirect that is not followed: one id, one body, one request."""
    bureau.hook.statuses = [500, 503]
    await bureau.ask()
    assert len(bureau.hook.posts) == 3
    assert len({body for _, body in bureau.hook.posts}) == 1
    events = await bureau.loom.events("r1")
    kinds = [event.type for event in events]
    assert kinds.count("approval.requested") == kinds.count("approval.notified") == 1
    bureau.hook.statuses = [302]
    await bureau.loom.run("relance", "Encore", run_id="r2")
    await bureau.loom.drain()
    assert len(bureau.hook.posts) == 4
    (fact,) = [e for e in await bureau.loom.events("r2") if e.type == "approval.notified"]
    assert fact.facets["outcome"] == "failed"


def test_a_caller_who_asks_too_often_waits() -> None:
    """So many times in a minute, each caller on his own."""
    now = 0.0
    turnstile = Turnstile(2, lambda: now)
    assert [turnstile.lets("a") for _ in range(3)] == [True, True, False]
    assert turnstile.lets("b")
    now = timedelta(minutes=1).total_seconds()
    assert turnstile.lets("a")


async def test_a_server_goes_on_with_what_was_decided(bureau: Office) -> None:
    """Nobody has to resume: the process that took the decision does."""
    url = await bureau.ask()
    await bureau.post(url, decision="accorder")
    await until(lambda: bureau.sent != [])
    await bureau.loom.drain()
    assert (await bureau.loom.result("r1")).text == "C'est fait."
