"""The library beyond running: in the background, following, listing, reporting, deleting."""

import json
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config import LoomConfig
from loom_ia.config.root import EventsStorage, Storage
from loom_ia.core.errors import LoomClosed, RunExists, SessionBusy, UnknownRun, UnknownSession
from loom_ia.core.events import EventQuery, from_full
from loom_ia.core.model import ModelSpec, Pricing, TextDelta
from loom_ia.core.state.run import Status
from loom_ia.tools import tool


@tool
async def somme(a: int, b: int) -> int:
    """Additionne."""
    return a + b


@tool(side_effects="irreversible", approval="always")
async def envoyer(texte: str) -> str:
    """Envoie."""
    return texte


SCRIPT = [
    {
        "with_text": "somme",
        "text": "Je compte.",
        "tool_calls": [{"name": "somme", "arguments": {"a": 1, "b": 2}}],
    },
    {
        "with_text": "envoie",
        "tool_calls": [{"name": "envoyer", "arguments": {"texte": "bonjour"}}],
    },
    {"text": "Voilà."},
]


def config(folder: Path) -> LoomConfig:
    """An agent that counts and sends, at a price."""
    return LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend="sqlite", path=str(folder / "j.db"))),
        models=(
            ModelSpec(
                id="M",
                sdk="fake",
                model="fake-1",
                pricing=Pricing(input=1.0, output=5.0),
                params={"script": SCRIPT},
            ),
        ),
        agents=(
            AgentSpec(
                name="a",
                main=MainRole(model="M", system="s"),
                tools=(PythonTool(python="somme"), PythonTool(python="envoyer")),
            ),
        ),
    )


def opened(folder: Path) -> Loom:
    """The library on the journal of `folder`."""
    loom = Loom(config(folder))
    loom.register("somme", somme)
    loom.register("envoyer", envoyer)
    return loom


@pytest.fixture
async def loom(tmp_path: Path):
    """The library, closed at the end."""
    async with opened(tmp_path) as loom:
        yield loom


async def test_a_submitted_run_is_written_at_once(loom: Loom) -> None:
    """Its id can be followed, read and cancelled as soon as it is given."""
    run_id = await loom.submit("a", "somme", run_id="r1")
    assert run_id == "r1"
    assert (await loom.events("r1"))[0].type == "run.started"
    types = [event.type async for event in loom.follow("r1")]
    assert types[0] == "run.started"
    assert types[-1] == "run.completed"
    assert (await loom.result("r1")).text == "Voilà."
    with pytest.raises(RunExists):
        await loom.submit("a", "somme", run_id="r1")


async def test_leaving_waits_for_what_was_submitted(tmp_path: Path) -> None:
    """Nothing that was accepted is dropped when the library closes."""
    async with opened(tmp_path) as loom:
        await loom.submit("a", "somme", run_id="r1")
    async with opened(tmp_path) as loom:
        assert (await loom.result("r1")).status is Status.COMPLETED


async def test_following_goes_on_from_a_place(loom: Loom) -> None:
    """What was seen is not given again, and nothing between is lost."""
    await loom.run("a", "somme", run_id="r1")
    whole = [event.seq async for event in loom.follow("r1")]
    assert whole == list(range(1, len(whole) + 1))
    rest = [event.seq async for event in loom.follow("r1", after_seq=5)]
    assert rest == whole[5:]


async def test_following_sees_what_another_instance_writes(tmp_path: Path) -> None:
    """A follower in one instance sees the end that another one writes."""
    async with opened(tmp_path) as writer, opened(tmp_path) as reader:
        await writer.run("a", "envoie", run_id="r1")
        followed = reader.follow("r1")
        seen = [(await anext(followed)).type]
        assert await writer.approve("r1", by="ada")
        seen += [event.type async for event in followed]
    assert seen.count("approval.granted") == 1
    assert seen[-1] == "run.completed"


async def test_unknown_names_are_told(loom: Loom) -> None:
    """What is not there is said by name, and an empty report is no report."""
    with pytest.raises(UnknownRun, match="r9"):
        _ = [event async for event in loom.follow("r9")]
    with pytest.raises(UnknownRun, match="r9"):
        await loom.report("r9")
    with pytest.raises(UnknownSession, match="s9"):
        await loom.report(session_id="s9")
    with pytest.raises(UnknownSession, match="s9"):
        await loom.session("s9")
    with pytest.raises(ValueError, match="a report needs"):
        await loom.report()


async def test_a5_a_report_adds_up(loom: Loom) -> None:
    """Tokens and cost of every call are summed, by run, role and model."""
    first = await loom.run("a", "somme", session_id="s")
    second = await loom.run("a", "rien", session_id="s")
    report = await loom.report(first.run_id)
    assert report.total.calls == 2
    assert report.total.usage == first.usage
    assert report.total.cost_usd == pytest.approx(first.cost_usd, abs=1e-12)
    assert [(role.name, role.calls) for role in report.roles] == [("main", 2)]
    assert [(model.name, model.model_id) for model in report.models] == [("M", "fake-1")]
    assert [(run.agent, run.depth, run.status) for run in report.runs] == [
        ("a", 0, Status.COMPLETED)
    ]
    whole = await loom.report(session_id="s")
    assert whole.total.usage == first.usage + second.usage
    assert [run.run_id for run in whole.runs] == [first.run_id, second.run_id]
    usage = first.usage
    price = (usage.input_tokens * 1 + usage.output_tokens * 5) / 1_000_000
    assert report.total.cost_usd == pytest.approx(price, abs=1e-12)


async def test_runs_are_listed_from_the_latest(loom: Loom) -> None:
    """A listing is filtered by agent, status and time, and says when it is cut."""
    done = await loom.run("a", "somme")
    paused = await loom.run("a", "envoie")
    page = await loom.runs()
    assert [run.run_id for run in page.runs] == [paused.run_id, done.run_id]
    assert not page.truncated
    assert [r.status for r in (await loom.runs(status=["paused"])).runs] == [Status.PAUSED]
    assert (await loom.runs(agent="b")).runs == ()
    assert [r.run_id for r in (await loom.runs(limit=1)).runs] == [paused.run_id]
    assert (await loom.runs(limit=1)).truncated
    assert (await loom.runs(sessions=1)).truncated
    begun = page.runs[0].started_at
    assert [r.run_id for r in (await loom.runs(since=begun)).runs] == [paused.run_id]
    assert [r.run_id for r in (await loom.runs(until=begun)).runs] == [done.run_id]
    with pytest.raises(ValueError, match="limit must be between"):
        await loom.runs(limit=201)


async def test_a_session_is_described(loom: Loom) -> None:
    """Its runs, its last place, and what waits for a human in it."""
    await loom.run("a", "somme", session_id="s")
    paused = await loom.run("a", "envoie", session_id="s")
    info = await loom.session("s")
    assert [run.status for run in info.runs] == [Status.COMPLETED, Status.PAUSED]
    assert [call.run_id for call in info.pending_approvals] == [paused.run_id]
    assert info.last_seq == len(await loom.query(EventQuery("default", session_id="s")))
    assert [s.session_id for s in await loom.sessions()] == ["s"]


async def test_an_export_reads_back(loom: Loom) -> None:
    """Each line is an event in its full form."""
    await loom.run("a", "somme", session_id="s")
    lines = (await loom.export_session("s")).splitlines()
    events = await loom.query(EventQuery("default", session_id="s"))
    assert [from_full(json.loads(line)) for line in lines] == events
    assert all(json.loads(line)["category"] for line in lines)


async def test_g4_a_session_is_deleted_once(loom: Loom) -> None:
    """The journal goes, its run's id is free again, and a second deletion finds nothing."""
    await loom.run("a", "somme", session_id="s", run_id="r1")
    deleted = await loom.delete_session("s")
    assert deleted.events > 0
    with pytest.raises(UnknownSession):
        await loom.delete_session("s")
    with pytest.raises(UnknownRun):
        await loom.result("r1")
    assert (await loom.run("a", "somme", session_id="s", run_id="r1")).ok


async def test_a_paused_session_can_be_deleted(loom: Loom) -> None:
    """Nobody drives it, so nothing is in the way."""
    await loom.run("a", "envoie", session_id="s")
    assert (await loom.delete_session("s")).events > 0


async def test_a_session_at_work_is_not_deleted(tmp_path: Path) -> None:
    """A run that is being driven is named, and nothing is removed."""

    @tool
    async def supprimer() -> str:
        """Essaie de supprimer sa propre session."""
        async with opened(tmp_path) as other:
            with pytest.raises(SessionBusy, match="r1"):
                await other.delete_session("s")
        return "refusé"

    async with opened(tmp_path) as loom:
        loom.register("somme_et_plus", supprimer)
        agent = loom.config.agents[0]
        tools = (PythonTool(python="somme_et_plus"),)
        changed = loom.config.model_copy(
            update={
                "agents": (agent.model_copy(update={"tools": tools}),),
                "models": (
                    ModelSpec(
                        id="M",
                        sdk="fake",
                        model="f",
                        params={
                            "script": [{"tool_calls": [{"name": "supprimer"}]}, {"text": "ok"}]
                        },
                    ),
                ),
            }
        )
    busy = Loom(changed)
    busy.register("somme_et_plus", supprimer)
    async with busy:
        result = await busy.run("a", "va", session_id="s", run_id="r1")
        assert result.text == "ok"
        assert "tool.completed" in {e.type for e in await busy.events("r1")}


async def test_a_library_that_was_left_says_so(tmp_path: Path) -> None:
    """Entering it again, or running on it, tells to make another one."""
    async with opened(tmp_path) as loom:
        pass
    with pytest.raises(LoomClosed, match="make another one"):
        await loom.run("a", "somme")
    with pytest.raises(LoomClosed, match="make another one"):
        await loom.__aenter__()


async def test_a_message_of_another_type_is_refused(loom: Loom) -> None:
    """The type that was given is named."""
    with pytest.raises(TypeError, match="not int"):
        await loom.run("a", 3)  # pyright: ignore[reportArgumentType]


async def test_pieces_are_told_as_they_come(loom: Loom) -> None:
    """A listener hears the answer in pieces, and what it raises never touches the run."""
    heard: list[str] = []
    result = await loom.run(
        "a", "rien", on_chunk=lambda c: heard.append(c.text) if isinstance(c, TextDelta) else None
    )
    assert "".join(heard) == result.text
    assert len(heard) >= 3

    def deaf(_: object) -> None:
        heard.append("x")
        raise ValueError

    heard.clear()
    assert (await loom.run("a", "rien", on_chunk=deaf)).ok
    assert heard == ["x"]


async def test_draining_waits_for_the_background(loom: Loom) -> None:
    """What a decision set off is over when `drain` returns."""
    paused = await loom.run("a", "envoie")
    await loom.approve(paused.run_id)
    await loom.drain()
    assert (await loom.result(paused.run_id)).ok


async def test_the_trace_tells_the_steps(loom: Loom) -> None:
    """Steps, calls, arguments and results, in order."""
    result = await loom.run("a", "somme")
    trace = await loom.trace(result.run_id)
    assert [step.effect for step in trace.steps] == ["model_call", "tool_batch", "model_call"]
    assert trace.status is Status.COMPLETED
