"""What happens in a run as server-sent events, over real sockets."""

import asyncio
import gc
import json
import resource
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from loom_ia.access.http import create_app, sse
from loom_ia.access.http.serve import Server
from loom_ia.access.http.sse import Frames
from loom_ia.core.errors import ModelError
from loom_ia.core.events import Event
from loom_ia.core.events.run import RunCancelled
from loom_ia.core.model import (
    ModelChunk,
    ModelRequest,
    ModelSpec,
    Retry,
    Stopped,
    TextDelta,
    Usage,
    UsageReported,
)
from tests.access.http.serving import (
    Client,
    Frame,
    Here,
    bearing,
    client,
    config,
    events,
    ids,
    key,
    opened,
    process,
    serving,
    text,
)

CLOSING = ("run.completed", "run.failed", "run.cancelled")


class Stage:
    """A model that says what the test lets it say; `None` in what is said is a failure."""

    def __init__(self) -> None:
        self.spec = ModelSpec(
            id="M",
            sdk="fake",
            model="f",
            retry=Retry(max_attempts=3, initial_delay=0.0, max_delay=0.0),
        )
        self._cues: asyncio.Queue[str | BaseException | None] = asyncio.Queue()

    def say(self, *cues: str | BaseException | None) -> None:
        """Let the model say texts, fail, or end (None)."""
        for cue in cues:
            self._cues.put_nowait(cue)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        del request
        while (cue := await self._cues.get()) is not None:
            if isinstance(cue, BaseException):
                raise cue
            yield TextDelta(cue)
        yield UsageReported(Usage(input_tokens=1, output_tokens=1))
        yield Stopped("end")

    async def close(self) -> None:
        pass


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    """A server of two agents whose model plays a script."""
    async with serving(opened(config(tmp_path))) as here:
        yield here


@pytest.fixture
def stage() -> Stage:
    """A model that waits for its cues."""
    return Stage()


@pytest.fixture
async def staged(tmp_path: Path, stage: Stage) -> AsyncIterator[Here]:
    """A server whose model waits for its cues."""
    async with serving(opened(config(tmp_path), {"M": stage})) as here:
        yield here


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 -- any condition at all
            await asyncio.sleep(0.005)


def _followers(here: Here, session: str) -> int:
    """Count those who follow a session."""
    log = here.loom._instance.known(session)
    return 0 if log is None else max(len(log.followers), len(log.voices.ears))


def is_left_alone(here: Here, session: str) -> bool:
    """Whether nobody follows a session any more."""
    return _followers(here, session) == 0


# -- what a stream is -----------------------------------------------------------------------------


async def test_h2_a_run_in_the_background_is_followed_to_its_end(here: Here) -> None:
    """It can be read at once, and its stream ends with the event that closes it."""
    async with here.client() as c:
        run_id = await c.begin("twice")
        assert (await c.get(f"/v1/runs/{run_id}")).status_code == 200
        async with c.follow(run_id) as reader:
            headers = reader.response.headers
            frames = [frame async for frame in reader]
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert frames[0].retry is not None
    assert events(frames)[-1] == "run.completed"
    stored = await here.loom.events(run_id)
    facts = [frame for frame in frames if frame.id is not None]
    assert [f.data for f in facts] == [e.model_dump(mode="json") for e in stored]
    assert [(f.id, f.event) for f in facts] == [(e.seq, e.type) for e in stored]


async def test_text_comes_as_it_is_said_and_is_never_a_place(staged: Here, stage: Stage) -> None:
    """Pieces add up to the answer; none has an id, so that the last one stays that of a fact."""
    async with staged.client() as c:
        run_id = await c.begin("go")
        async with c.follow(run_id) as reader:
            stage.say("It ")
            async for frame in reader:
                if frame.event == "model.delta":
                    assert frame.data == {"run_id": run_id, "offset": 0, "text": "It "}
                    break
            stage.say("is ", "é\u2028\n\U0001f600.", None)
            async for _ in reader:
                pass
            frames = reader.frames
        told = (await c.get(f"/v1/runs/{run_id}")).json()["text"]
    assert text(frames) == told == "It is é\u2028\n\U0001f600."
    assert all(frame.id is None for frame in frames if frame.event.startswith("model.d"))
    names = events(frames)
    assert names.index("step.started") < names.index("model.delta")
    assert names.index("model.delta") < names.index("model.responded")


async def test_who_comes_back_in_the_middle_of_an_answer_has_it_whole(
    staged: Here, stage: Stage
) -> None:
    """The text so far is given again, from its beginning, to whoever comes."""
    async with staged.client() as c:
        run_id = await c.begin("go")
        stage.say("It is ")
        last = 0
        async with c.follow(run_id) as reader:
            async for frame in reader:
                last = frame.id or last
                if frame.event == "model.delta":
                    break
        async with c.follow(run_id, last) as reader:
            async for frame in reader:
                if frame.event == "model.delta":
                    assert frame.data["offset"] == 0
                    break
            stage.say("done.", None)
            async for _ in reader:
                pass
            assert text(reader.frames) == "It is done."
            assert min(ids(reader.frames)) == last + 1


async def test_an_attempt_that_fails_is_taken_back(staged: Here, stage: Stage) -> None:
    """A model that is cut in the middle and asked again: a reset, and then the whole text."""
    async with staged.client() as c:
        run_id = await c.begin("go")
        async with c.follow(run_id) as reader:
            stage.say("It wa")
            async for frame in reader:
                if frame.event == "model.delta":
                    break
            stage.say(ModelError("transient", "cut"), "It is ", "done.", None)
            async for _ in reader:
                pass
            frames = reader.frames
    assert events(frames).count("model.reset") == 1
    assert text(frames) == "It is done."
    names = events(frames)
    assert names.index("model.reset") < names.index("model.retried")


async def test_silence_is_filled_with_comments(
    staged: Here, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing happens the line is kept alive, also while a human is waited for."""
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.02)
    async with staged.client() as c:
        run_id = await c.begin("go")
        async with c.follow(run_id) as reader:
            async for frame in reader:
                if [f.comment for f in reader.frames].count("still here") == 3:
                    assert frame.id is None
                    break
            stage.say("done", None)
            async for _ in reader:
                pass
        assert events(reader.frames)[-1] == "run.completed"


async def test_a_paused_run_keeps_its_stream_open_until_it_is_decided(here: Here) -> None:
    """The stream goes through the pause, the decision and what follows."""
    async with here.client() as c:
        run_id = await c.begin("send")
        async with c.follow(run_id) as reader:
            async for frame in reader:
                if frame.event == "approval.requested":
                    answer = await c.post(f"/v1/runs/{run_id}/approve", json={})
                    assert answer.status_code == 200
        names = events(reader.frames)
    assert names.index("approval.requested") < names.index("approval.granted")
    assert names[-1] == "run.completed"


# -- going on -------------------------------------------------------------------------------------


async def test_pub_42_every_place_can_be_gone_on_from(here: Here) -> None:
    """What follows each place, with what came before, is the journal: once, and in order."""
    async with here.client() as c:
        run_id = await c.begin("twice")
        whole = await c.all(run_id)
        places = ids(whole)
        for place in places:
            async with c.follow(run_id) as reader:
                async for frame in reader:
                    if frame.id == place:
                        break
                before = ids(reader.frames)
            after = ids(await c.all(run_id, place))
            assert before + after == places
            assert ids(await c.all(run_id, after_seq=place)) == after
        assert places == [event.seq for event in await here.loom.events(run_id)]


async def test_pub_42_a_line_that_drops_after_each_event_of_a_live_run_loses_none(
    tmp_path: Path,
) -> None:
    """A client that reads one event at a time, each on a line of its own, has them all."""
    async with serving(opened(config(tmp_path, delay=0.02))) as here, here.client() as c:
        run_id = await c.begin("delegate")
        seen: list[int] = []
        name = ""
        while name not in CLOSING or len(seen) < len(await here.loom.events(run_id)):
            async with c.follow(run_id, seen[-1] if seen else None) as reader:
                async for frame in reader:
                    if frame.id is not None:
                        seen.append(frame.id)
                        name = frame.event
                        break
                else:
                    break
        assert seen == [event.seq for event in await here.loom.events(run_id)]


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_pub_42_a_server_that_is_killed_loses_nothing(tmp_path: Path, backend: str) -> None:
    """The line is gone on with on the next server, through a pause and to the end."""
    frames: list[Frame] = []
    async with process(tmp_path, backend) as (base, server), client(base) as c:
        run_id = await c.begin("send")
        with pytest.raises(httpx2.TransportError):
            await _killed_while_read(c, run_id, server, frames)
    async with process(tmp_path, backend) as (base, _), client(base) as c:
        answer = await c.post(f"/v1/runs/{run_id}/approve", json={})
        assert answer.status_code == 200, answer.text
        frames += await c.all(run_id, ids(frames)[-1])
        stored = (await c.get(f"/v1/sessions/{run_id}/events")).text.splitlines()
    assert [f.data for f in frames if f.id] == [json.loads(line) for line in stored]
    assert events(frames)[-1] == "run.completed"


async def _killed_while_read(
    c: Client, run_id: str, server: asyncio.subprocess.Process, frames: list[Frame]
) -> None:
    """Read until a human is waited for, and kill the server then."""
    async with c.follow(run_id) as reader:
        async for frame in reader:
            frames.append(frame)
            if frame.event == "approval.requested":
                server.kill()


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_pub_42_a_line_can_be_gone_on_with_on_another_worker(
    tmp_path: Path, backend: str
) -> None:
    """Two servers on one journal give the same events, whichever drives the run."""
    async with (
        process(tmp_path, backend) as (first, _),
        process(tmp_path, backend) as (second, _),
        client(first) as one,
        client(second) as two,
    ):
        run_id = await one.begin("send")
        seen: list[int] = []
        name = ""
        while name != "approval.requested":
            reading = (two, one)[len(seen) % 2]
            async with reading.follow(run_id, seen[-1] if seen else None) as reader:
                async for frame in reader:
                    if frame.id is not None:
                        seen.append(frame.id)
                        name = frame.event
                        break
        following = asyncio.ensure_future(one.all(run_id, seen[-1]))
        answer = await two.post(f"/v1/runs/{run_id}/approve", json={})
        assert answer.status_code == 200, answer.text
        rest = await following
        assert events(rest)[-1] == "run.completed"
        stored = (await two.get(f"/v1/sessions/{run_id}/events")).text.splitlines()
    assert seen + ids(rest) == list(range(1, len(stored) + 1))


@pytest.mark.parametrize("last", ["abc", "-1", "1.5", "%31", "1 2", "99", "9" * 40])
async def test_a_place_that_is_none_is_refused_with_the_last_one(here: Here, last: str) -> None:
    """Malformed or beyond the end: 400, and the last place that can be gone on from."""
    async with here.client() as c:
        run_id = await c.begin("count")
        places = ids(await c.all(run_id))
        for given in ({"headers": {"Last-Event-ID": last}}, {"params": {"after_seq": last}}):
            answer = await c.get(f"/v1/runs/{run_id}/events", **given)  # type: ignore[arg-type]
            assert answer.status_code == 400, answer.text
            assert answer.json()["last"] == places[-1]
            assert str(places[-1]) in answer.json()["detail"]


async def test_the_header_is_stronger_than_the_address(here: Here) -> None:
    """A browser that comes back asks the same address, with the header beside it."""
    async with here.client() as c:
        run_id = await c.begin("count")
        places = ids(await c.all(run_id))
        assert ids(await c.all(run_id, places[-3], after_seq=1)) == places[-2:]


async def test_an_event_source_is_told_not_to_come_back(here: Here) -> None:
    """204 ends its reconnections; any other client is given an empty rest."""
    async with here.client() as c:
        run_id = await c.begin("count")
        last = ids(await c.all(run_id))[-1]
        headers = {"Last-Event-ID": str(last)}
        url = f"/v1/runs/{run_id}/events"
        assert (await c.get(url, headers={**headers, "Accept": sse.MEDIA_TYPE})).status_code == 204
        answer = await c.get(url, headers=headers)
        assert (answer.status_code, "id:" in answer.text) == (200, False)
        before = {"Last-Event-ID": str(last - 1), "Accept": sse.MEDIA_TYPE}
        answer = await c.get(url, headers=before)
        assert (answer.status_code, f"id: {last}\n" in answer.text) == (200, True)


async def test_an_unknown_run_is_told_before_the_stream_begins(here: Here) -> None:
    """404, for GET and for HEAD, and HEAD of a run has the headers alone."""
    async with here.client() as c:
        assert (await c.get("/v1/runs/nope/events")).status_code == 404
        assert (await c.head("/v1/runs/nope/events")).status_code == 404
        run_id = await c.begin("count")
        answer = await c.head(f"/v1/runs/{run_id}/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith(sse.MEDIA_TYPE)
    await until(lambda: is_left_alone(here, run_id))


# -- what is shown --------------------------------------------------------------------------------


async def test_the_runs_below_come_too_unless_they_are_not_wanted(here: Here) -> None:
    """`subruns=false` leaves the run alone; its own stream is that of a run below."""
    async with here.client() as c:
        run_id = await c.begin("delegate")
        whole = await c.all(run_id)
        assert events(whole).count("run.completed") == 2
        own = await c.all(run_id, subruns="false")
        assert {f.data["run_id"] for f in own if f.id} == {run_id}
        below = {f.data["run_id"] for f in whole if f.id} - {run_id}
        assert ids(await c.all(below.pop())) == [i for i in ids(whole) if i not in ids(own)]
        assert ids(await c.all(run_id, ids(whole)[-2], subruns="false")) == [ids(whole)[-1]]


async def test_without_the_scope_for_content_nothing_that_was_said_is_shown(
    tmp_path: Path, stage: Stage
) -> None:
    """Events come masked, and what is being said does not come at all."""
    keys = (key("all", "run", "read", "read_content"), key("few", "run", "read"))
    async with (
        serving(opened(config(tmp_path, keys=keys), {"M": stage})) as here,
        here.client(headers=bearing("all")) as c,
        here.client(headers=bearing("few")) as few,
    ):
        run_id = await c.begin("a secret request")
        following = asyncio.gather(c.all(run_id), few.all(run_id))
        await until(lambda: _followers(here, run_id) == 2)
        stage.say("a secret ", "answer", None)
        whole, masked = await following
        assert "secret" in text(whole)
        assert text(masked) == ""
        assert ids(masked) == ids(whole)
        assert "secret" not in json.dumps([f.data for f in masked])
        url = f"/v1/runs/{run_id}/events"
        assert (await few.get(url, headers={"Authorization": "Bearer x"})).status_code == 401


async def test_an_agent_that_a_key_is_not_for_ends_its_stream(tmp_path: Path) -> None:
    """An `error` event says so where that agent appears, and the rest is not shown."""
    keys = (key("all", "run", "read", "read_content"), key("one", "run", "read", agents=["a"]))
    async with (
        serving(opened(config(tmp_path, keys=keys))) as here,
        here.client(headers=bearing("all")) as c,
        here.client(headers=bearing("one")) as one,
    ):
        run_id = await c.begin("delegate")
        whole = await c.all(run_id)
        some = await one.all(run_id)
        assert events(some)[-1] == "error"
        assert [f.data["status"] for f in some if f.event == "error"] == [403]
        assert {f.data["agent"] for f in some if f.id} == {"a"}
        assert 0 < len(ids(some)) < len(ids(whole))
        own = await one.all(run_id, subruns="false")
        assert events(own)[-1] == "run.completed"


# -- readers that leave, or do not read -----------------------------------------------------------


async def test_pub_43_readers_that_leave_in_any_phase_are_not_felt(
    staged: Here, stage: Stage
) -> None:
    """Whoever leaves while the model thinks or speaks, the run ends as it would have."""
    async with staged.client() as c:
        run_id = await c.begin("go")
        async with c.follow(run_id):
            pass
        async with c.follow(run_id) as reader:
            async for frame in reader:
                if frame.event == "step.started":
                    break
        await until(lambda: is_left_alone(staged, run_id))
        stage.say("It is ")
        async with c.follow(run_id) as reader:
            async for frame in reader:
                if frame.event == "model.delta":
                    break
        await until(lambda: is_left_alone(staged, run_id))
        stage.say("done.", None)
        frames = await c.all(run_id)
        assert events(frames)[-1] == "run.completed"
        assert (await c.get(f"/v1/runs/{run_id}")).json()["text"] == "It is done."


async def test_pub_43_a_client_that_leaves_a_run_in_the_foreground_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on to its end: an effect is never cut between itself and its fact."""
    monkeypatch.setenv("MARKS", str(tmp_path))
    async with serving(opened(config(tmp_path))) as here, here.client() as c:
        asking = asyncio.ensure_future(
            c.post("/v1/agents/a/runs", json={"message": "act", "run_id": "r1"})
        )
        await until((tmp_path / "begun").exists)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        (tmp_path / "go").touch()
        names = events(await c.all("r1"))
    assert names[-1] == "run.completed"
    assert names.count("tool.called") == names.count("tool.completed") == 1
    assert (tmp_path / "done").exists()


async def test_pub_43_a_request_that_is_cut_by_what_serves_it_does_not_stop_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers and middlewares cancel the request of a client that left: the run goes on."""
    monkeypatch.setenv("MARKS", str(tmp_path))
    body = json.dumps({"message": "act", "run_id": "r1"}).encode()
    url = "/v1/agents/a/runs"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": url,
        "raw_path": url.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: object) -> None:
        del message

    async with opened(config(tmp_path)) as loom:
        asking = asyncio.ensure_future(create_app(loom)(scope, receive, send))
        await until((tmp_path / "begun").exists)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        (tmp_path / "go").touch()
        result = await loom.resume("r1")
        names = [event.type for event in await loom.events("r1")]
    assert result.ok
    assert names.count("tool.called") == names.count("tool.completed") == 1
    assert "run.resumed" not in names
    assert names.count("run.claimed") == 1


async def test_a_reader_that_takes_nothing_keeps_neither_the_run_nor_the_memory(
    staged: Here, stage: Stage
) -> None:
    """What a silent reader does not take is not piled up, and the run goes on."""
    async with staged.client() as c:
        run_id = await c.begin("go")
        with _deaf(staged.base, run_id):
            following = asyncio.ensure_future(c.all(run_id))
            await until(lambda: _followers(staged, run_id) == 2)
            before = _kept(staged)
            for _ in range(1_000):
                stage.say("x" * 10_000)
            stage.say(None)
            frames = await following
            assert events(frames)[-1] == "run.completed"
            assert len(text(frames)) == 10_000_000
            assert _kept(staged) - before < 1_000_000
        await until(lambda: is_left_alone(staged, run_id))


async def test_a_reader_that_takes_nothing_for_long_is_let_go(
    staged: Here, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of a reader that does not read is cut: it comes back where it was."""
    monkeypatch.setattr(sse, "STALLED_S", 0.1)
    async with staged.client() as c:
        run_id = await c.begin("go")
        with _deaf(staged.base, run_id):
            await until(lambda: not is_left_alone(staged, run_id))
            stage.say("x" * 12_000_000)
            await until(lambda: is_left_alone(staged, run_id))
        monkeypatch.undo()
        stage.say(None)
        assert events(await c.all(run_id))[-1] == "run.completed"


def _deaf(base: str, run_id: str) -> socket.socket:
    """Ask for a stream, and never read it."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    host, port = base.removeprefix("http://").split(":")
    deaf.connect((host, int(port)))
    deaf.sendall(f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return deaf


def _kept(here: Here) -> int:
    """Count the bytes that wait in the server for somebody to take them."""
    return sum(
        connection.transport.get_write_buffer_size()
        for connection in here.server.server_state.connections
    )


async def test_streams_end_at_once_when_the_server_stops(staged: Here, stage: Stage) -> None:
    """They end with a comment, also those that nobody reads; clients come back to the next one."""
    del stage
    async with staged.client() as c:
        run_id = await c.begin("go")
        deaf = _deaf(staged.base, run_id)
        async with c.follow(run_id) as reader:
            async for frame in reader:
                if frame.event == "step.started":
                    break
            began = time.monotonic()
            staged.app.state.stopping.set()
            async for _ in reader:
                pass
            assert time.monotonic() - began < 30
        assert reader.frames[-1].comment == "to be continued: come back"
        deaf.close()
        await c.post(f"/v1/runs/{run_id}/cancel", json={})


async def test_a_reader_that_takes_nothing_does_not_hold_a_stop_up(
    tmp_path: Path, stage: Stage
) -> None:
    """What it did not take of its stream is dropped with its line, and the server is gone."""
    async with opened(config(tmp_path), {"M": stage}) as loom:
        app = create_app(loom)
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            base = f"http://127.0.0.1:{door.getsockname()[1]}"
            server = Server(loom, app)
            task = asyncio.ensure_future(server.serve(sockets=[door]))
            await until(lambda: server.started)
            async with client(base) as c:
                run_id = await c.begin("go")
                with _deaf(base, run_id):
                    log, _ = await loom._instance.find(run_id)
                    await until(lambda: bool(log.voices.ears))
                    stage.say("x" * 12_000_000, None)
                    lines = server.server_state.connections
                    await until(
                        lambda: any(each.transport.get_write_buffer_size() for each in lines)
                    )
                    began = time.monotonic()
                    server.should_exit = True
                    await task
                    assert time.monotonic() - began < 60


async def test_200_runs_with_200_followers_lose_nothing(tmp_path: Path) -> None:
    """Each follower has every event of its run and all of its text; memory is bounded."""
    async with serving(opened(config(tmp_path, delay=0.05))) as here, here.client() as c:
        await _followed(c, "warm")
        gc.collect()
        before, most = _resident(), 0
        following: set[asyncio.Task[tuple[str, list[Frame]]]] = set()
        began = time.monotonic()
        for number in range(200):
            following.add(asyncio.ensure_future(_followed(c, f"r{number}")))
        told = tuple(following)
        while following:
            _, following = await asyncio.wait(following, timeout=0.1)
            most = max(most, _resident())
        took = time.monotonic() - began
        grown = (most - before) / 1_048_576
        for task in told:
            run_id, frames = task.result()
            stored = [event.seq for event in await here.loom.events(run_id)]
            assert ids(frames) == stored
            assert events(frames)[-1] == "run.completed"
            assert text(frames).endswith("It is done, and well done.")
            assert is_left_alone(here, run_id)
    print(f"200 runs followed in {took:.1f} s, {grown:.0f} MiB more")  # noqa: T201
    assert grown < 150


def _resident() -> int:
    """Count the bytes of memory that this process holds, its client included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def _followed(c: Client, run_id: str) -> tuple[str, list[Frame]]:
    """Begin a run in the background and follow it to its end."""
    await c.begin("twice", run_id=run_id)
    return run_id, await c.all(run_id)


def test_the_last_frames_alone_are_kept() -> None:
    """What was written once is not written again, within a number of bytes."""
    first, second = _event(1), _event(2)
    frames = Frames(1_500)
    written = frames.of(first, content=True)
    assert frames.of(first, content=True) is written
    assert frames.of(first, content=False) is not written
    for _ in range(10):
        frames.of(second, content=True)
        frames.of(second, content=False)
    again = frames.of(first, content=True)
    assert again == written
    assert again is not written


def _event(seq: int) -> Event:
    return Event(
        seq=seq,
        event_id=f"e{seq}",
        ts=datetime(2026, 12, 1, tzinfo=UTC),
        tenant_id="default",
        session_id="s",
        run_id="r",
        root_run_id="r",
        span_id="r",
        agent="a",
        payload=RunCancelled(by="x" * 200, iterations=1),
    )
