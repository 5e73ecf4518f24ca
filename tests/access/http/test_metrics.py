"""What a server counts: numbers that are right, and that tell nothing of anybody."""

import asyncio
import re
from pathlib import Path

import pytest

from loom_ia.access.http.metrics import Counter, Histogram, escaped
from tests.access.http.doors import SECRET, Door, config, door

SAMPLE = re.compile(r'^[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? [0-9.e+-]+$')


async def numbers(opened: Door, name: str = "") -> str:
    """Give the page of numbers."""
    headers = {"Authorization": f"Bearer lk_{name}"} if name else {}
    answer = await opened.client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


async def test_runs_models_and_tools_are_counted(open_door: Door) -> None:
    """A run with a tool counts one run, two calls of the model and one of the tool."""
    answer = await open_door.client.post("/v1/agents/a/runs", json={"message": "somme"})
    assert answer.status_code == 201, answer.text
    told = await numbers(open_door)
    for line in (
        'loom_runs_started_total{agent="a"} 1',
        'loom_runs_finished_total{agent="a",status="completed"} 1',
        'loom_model_calls_total{model="M",outcome="ok"} 2',
        'loom_tool_calls_total{tool="somme",outcome="ok"} 1',
        "loom_runs_active 0",
    ):
        assert line in told.splitlines()
    assert 'loom_model_cost_dollars_total{model="M"}' in told
    assert re.search(
        r'loom_http_requests_total\{method="POST",route="[^"]*/runs",status="201"', told
    )


async def test_the_format_is_that_of_prometheus(open_door: Door) -> None:
    """Each line is a comment or a sample, and each family is told once, before its samples."""
    await open_door.client.post("/v1/agents/a/runs", json={"message": "somme"})
    told = (await numbers(open_door)).splitlines()
    assert all(SAMPLE.match(line) for line in told if not line.startswith("#"))
    families = [line.split()[2] for line in told if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


async def test_nothing_of_anybody_is_told(open_door: Door) -> None:
    """No content, no id of a run or a session, no name from outside: also of faults."""
    client = open_door.client
    made = await client.post(
        "/v1/agents/a/runs", json={"message": "envoie", "session_id": "session-de-durand"}
    )
    await client.get("/v1/agents/inconnu-4711")
    await client.post("/v1/agents/inconnu-4711/runs", json={"message": "x"})
    await client.request("BREW", "/v1/nulle-part-4711?cle=4711")
    told = await numbers(open_door)
    assert made.json()["run_id"] not in told
    for word in (SECRET, "4711", "durand", "BREW"):
        assert word not in told
    assert 'method="other"' in told


async def test_numbers_need_the_scope_read(keyed: Door) -> None:
    """With keys, numbers are for those that hold `read`; probes are for all."""
    client = keyed.client
    assert (await client.get("/metrics")).status_code == 401
    run = {"Authorization": "Bearer lk_run"}
    assert (await client.get("/metrics", headers=run)).status_code == 403
    assert "loom_info" in await numbers(keyed, "read")
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}


def test_outsiders_do_not_make_series() -> None:
    """Beyond a bound, everything is counted together."""
    counter = Counter("x", "X.", "who")
    for number in range(5000):
        counter.add(str(number))
    assert len(list(counter.lines())) < 2010
    assert 'x{who="other"} 3000' in list(counter.lines())


def test_a_histogram_adds_up() -> None:
    """Buckets hold what is at most their bound, those before included."""
    histogram = Histogram("x", "X.", "who", bounds=(1, 2))
    for seconds in (0.5, 1, 1.5, 9):
        histogram.add("a", seconds=seconds)
    assert list(histogram.lines())[2:] == [
        'x_bucket{who="a",le="1"} 2',
        'x_bucket{who="a",le="2"} 3',
        'x_bucket{who="a",le="+Inf"} 4',
        'x_sum{who="a"} 12',
        'x_count{who="a"} 4',
    ]


def test_values_of_labels_are_escaped() -> None:
    """What would end a value is escaped."""
    assert escaped('a"b\\c\nd') == r"a\"b\\c\nd"


@pytest.mark.slow
async def test_two_thousand_requests_leave_nothing_behind(tmp_path: Path) -> None:
    """Memory and files of the process do not grow with what was answered."""

    def taken(told: str) -> tuple[int, int]:
        found = dict(line.rsplit(" ", 1) for line in told.splitlines() if line[0] != "#")
        return int(found["process_resident_memory_bytes"]), int(found["process_open_fds"])

    async def work(opened: Door, count: int) -> None:
        limit = asyncio.Semaphore(20)

        async def one() -> None:
            async with limit:
                await opened.client.post("/v1/agents/a/runs", json={"message": "bonjour"})

        await asyncio.gather(*(one() for _ in range(count)))

    async with door(config(tmp_path)) as opened:
        await work(opened, 600)  # caches of sessions are full
        memory, files = taken(await numbers(opened))
        await work(opened, 2000)
        after, files_after = taken(await numbers(opened))
        assert after - memory < 40_000_000
        assert files_after <= files + 3
