"""What comes from outside is bounded, and refused with its place."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access.http import create_app
from loom_ia.access.http.problems import language_of
from loom_ia.core.errors import JournalBusy, JournalCorrupted
from tests.access.http.doors import Door, config, door, opened
from tests.pictures import png

JSON = {"Content-Type": "application/json"}
RUN = "/agents/a/runs"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "JSON object"),
        (b"[]", "JSON object"),
        (b"{", "no JSON"),
        (b"\xff", "UTF-8"),
        (b'{"message": "a", "message": "b"}', "twice"),
        (b'{"message": NaN}', "NaN"),
        (b'{"message": "a", "metadata": {"x": 1e999}}', "metadata"),
        (b'{"message": "a", "metadata": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}", "nested"),
        (b'{"message": "a", "metadata": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", "nested"),
        (b'{"message": "a", "metadata": {"x": ' + b"9" * 6_000 + b"}}", ""),
        (b'{"message": 1}', "body.message"),
        (b'{"message": "  "}', "body.message"),
        (b'{"message": "a", "background": "true"}', "body.background"),
        (b'{"message": "a", "judges": "never"}', "body.judges"),
        (b'{"message": "a", "session_id": "../x"}', "body.session_id"),
        (b'{"message": "a", "run_id": ""}', "body.run_id"),
        (b'{"message": "a", "user_id": null}', "body.user_id"),
        (b'{"message": "a", "surprise": 1}', "body.surprise"),
        (b'{"message": "a", "state": {"inconnue": 1}}', "state.inconnue"),
        (b"{}", "body.message"),
    ],
)
async def test_a_body_that_is_wrong_is_refused_with_its_place(
    open_door: Door, body: bytes, place: str
) -> None:
    """It is 422, tells where, and nothing is written."""
    answer = await open_door.ask("POST", RUN, content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert place in answer.json()["detail"]
    assert await open_door.get("/events") == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_another_type_of_body_is_refused(open_door: Door, kind: str) -> None:
    """What is neither JSON nor a form with files is 415."""
    answer = await open_door.ask(
        "POST", RUN, content=b'{"message": "a"}', headers={"Content-Type": kind}
    )
    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("data", "files", "place"),
    [
        ({"message": "a", "surprise": "1"}, [], "body.surprise"),
        ({"message": "a", "metadata": "{"}, [], "body.metadata"),
        ({"message": "a", "background": "1"}, [], "body.background"),
        ({"message": ["a", "b"]}, [], "body.message"),
        ({"attachments": "texte"}, [("x", ("x.png", png()))], "body"),
        ({}, [("message", ("x.png", png()))], "body.message"),
        ({"message": ""}, [("attachments", ("x.png", b""))], "x.png"),
    ],
)
async def test_a_form_that_is_wrong_is_refused_with_its_place(
    open_door: Door, data: dict[str, Any], files: list[Any], place: str
) -> None:
    """A form is held to the same shape as JSON."""
    files = files or [("attachments", ("x.png", png()))]
    answer = await open_door.ask("POST", RUN, data=data, files=files)
    assert answer.status_code == 422, answer.text
    assert place in answer.json()["detail"]
    assert await open_door.get("/events") == []


async def test_a_form_that_is_cut_is_told(open_door: Door) -> None:
    """What no parser can read is a problem, too."""
    answer = await open_door.ask(
        "POST", RUN, content=b"--x\r\nbroken", headers={"Content-Type": "multipart/form-data"}
    )
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=1.5",
        "limit=x",
        "sessions=0",
        "status=over",
        "since=2026-01-01",
        "since=2026-01-01T00:00:00",
        "since=0",
        "since=0001-01-01T00:00:00%2B14:00",
        "until=9999-12-31T23:59:59-14:00",
        "unknown=1",
        "Limit=1",
    ],
)
async def test_a_parameter_that_is_wrong_is_refused(open_door: Door, query: str) -> None:
    """It is 422 and named; one that is unknown is not ignored."""
    answer = await open_door.ask("GET", f"/runs?{query}")
    assert answer.status_code == 422
    assert f"query.{query.partition('=')[0]}" in answer.json()["detail"]


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Door]:
    """A door that lets a thousand bytes in."""
    async with door(config(tmp_path, max_body_bytes=1_000)) as found:
        yield found


async def test_a_body_that_is_too_large_is_refused(narrow: Door) -> None:
    """It is 413, in JSON and in a form, with what is accepted written where to change it."""
    asked: tuple[dict[str, Any], ...] = (
        {"json": {"message": "x" * 2_000}},
        {"data": {"message": "x"}, "files": [("attachments", ("a.png", png(size=2_000)))]},
    )
    for more in asked:
        answer = await narrow.ask("POST", RUN, **more)
        assert answer.status_code == 413
        assert "max_body_bytes" in answer.json()["remedy"]


async def test_a_body_without_a_length_is_counted_as_it_comes(narrow: Door) -> None:
    """A body in pieces is refused at the piece that is too much, and the rest is not read."""
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"message": "'
        for _ in range(100):
            sent += 1
            yield b"x" * 100

    answer = await narrow.ask("POST", RUN, content=pieces(), headers=JSON)
    assert answer.status_code == 413
    assert sent < 100


async def test_a_problem_is_told_in_the_language_that_is_accepted(open_door: Door) -> None:
    """`Accept-Language` chooses among ours, by weight, and English is said otherwise."""
    assert language_of("de, fr-FR;q=0.5, en;q=0.4") == "fr"
    assert language_of("fr;q=0, en") == "en"
    assert language_of("fr;q=x") == "en"
    assert language_of("") == "en"
    answer = await open_door.ask("GET", "/runs/rien", headers={"Accept-Language": "fr"})
    assert "rien" in answer.json()["detail"]
    assert answer.json()["detail"] != (await open_door.ask("GET", "/runs/rien")).json()["detail"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (JournalBusy("the journal is busy"), 503),
        (JournalCorrupted("damaged"), 500),
        (RuntimeError("mot-secret"), 500),
    ],
)
async def test_what_breaks_here_is_told_without_a_word_of_anybody(
    open_door: Door,
    error: Exception,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unreadable journal is 500, a busy one 503 with the time to wait; the log names a type."""

    async def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(open_door.loom, "runs", broken)
    answer = await open_door.ask("GET", "/runs")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.headers.get("retry-after") is not None) == (status == 503)
    assert type(error).__name__ in caplog.text
    assert "mot-secret" not in caplog.text + answer.text


async def test_a_base_path_comes_before_every_route(tmp_path: Path) -> None:
    """`server.http.base_path` is what every address begins with, the pages included."""
    async with door(config(tmp_path, base_path="/ia/agents")) as found:
        client = found.client
        assert (await client.get("/ia/agents/v1/agents")).status_code == 200
        assert (await client.get("/ia/agents/docs")).status_code == 200
        assert (await client.get("/v1/agents")).status_code == 404
        begun = await client.post("/ia/agents/v1/agents/a/runs", json={"message": "x"})
        assert (await client.get(begun.headers["location"])).status_code == 200


async def test_a_socket_that_says_nonsense_is_answered(tmp_path: Path) -> None:
    """Over a real server, what is no HTTP is 400 and the next request is served."""
    import uvicorn

    async with opened(config(tmp_path)) as loom:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(create_app(loom), log_level="critical"))
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            host, port = listening.getsockname()
            reply = await _said(host, port, b"\x00\x01nonsense\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 400")
            body = json.dumps({"message": "bonjour"}).encode()
            head = b"POST /v1/agents/a/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            assert (await _said(host, port, head + chunk)).startswith(b"HTTP/1.1 201")
            server.should_exit = True
            await serving


async def _said(host: str, port: int, words: bytes) -> bytes:
    for _ in range(500):
        try:
            reader, writer = await asyncio.open_connection(host, port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
    else:
        pytest.fail("the server did not listen")
    writer.write(words)
    await writer.drain()
    said = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await writer.wait_closed()
    return said


@pytest.mark.parametrize(
    "body",
    [
        '{"message": "a", "metadata": {"a": [' + ",".join(["[]"] * 100_001) + "]}}",
        '{"message": "a", "metadata": {' + ",".join(f'"{n}": 0' for n in range(100_001)) + "}}",
        '{"message": "a", "metadata": {"a": "' + "x" * 65_536 + '"}}',
    ],
    ids=["many lists", "many keys", "long metadata"],
)
async def test_a_body_of_many_values_is_refused(open_door: Door, body: str) -> None:
    """Each value costs far more than it is long, so that they are counted before they are read."""
    headers = {"Content-Type": "application/json"}
    answer = await open_door.ask("POST", RUN, content=body.encode(), headers=headers)
    assert answer.status_code == 422, answer.text
    assert "at most" in answer.text or "more than" in answer.text


async def test_a_long_text_is_one_value(open_door: Door) -> None:
    """Commas and brackets in what is said are counted for nothing."""
    said = '[{"a, b"}], ' * 50_000
    answer = await open_door.ask("POST", RUN, json={"message": said})
    assert answer.status_code == 201, answer.text
