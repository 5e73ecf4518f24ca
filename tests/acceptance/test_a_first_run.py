"""A. First run, loop, streaming."""

import asyncio
import re
import time

import pytest

from loom_ia.core.errors import RunExists
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.run import RunCompleted
from loom_ia.core.model.chunks import TextDelta
from loom_ia.core.state.run import Status
from tests.acceptance.project import ANSWER, PRICE, Project, call, calling, wait_for
from tests.acceptance.recording import Recorder

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_a1_validate(project: Project) -> None:
    """Validating names the models, agents and tools, and ends with the agents mounted."""
    done = project.command("validate")
    assert done.returncode == 0, done.stderr
    for name in ("SIMULE", "devis", "prix_ttc"):
        assert name in done.stdout
    assert done.stdout.splitlines()[-1] == "1 agent(s) mounted without error."


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory):
    """Project P after one run by the command: the project, what was said, the run's id."""
    project = Project(tmp_path_factory.mktemp("ran")).save()
    done = project.command("run", "devis", "Quel prix TTC pour 1 250 € HT ?")
    found = UUID7.search(done.stderr)
    assert found, done.stderr
    runs = [match.group() for match in UUID7.finditer(done.stderr) if "Run " in done.stderr]
    return project, done, runs[-1]


def test_a2_run(ran) -> None:
    """A run shows the answer alone on its output, and on its errors how it went."""
    _, done, run_id = ran
    assert done.returncode == 0
    assert done.stdout == f"{ANSWER}\n"
    assert "1 375" in done.stdout
    for text in ("completed", "iterations: 2", "0.0000", run_id):
        assert text in done.stderr


def test_a3_journal(ran) -> None:
    """The journal of a run is a file with an event on each line, without a hole."""
    project, _, run_id = ran
    lines = project.lines(run_id)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    types = [line["type"] for line in lines]
    assert types[0] == "run.started"
    assert types[-1] == "run.completed"
    counts = {name: types.count(name) for name in ("model.responded", "tool.called")}
    assert counts == {"model.responded": 2, "tool.called": 1}
    (completed,) = [line for line in lines if line["type"] == "tool.completed"]
    assert "1375.0" in str(completed)


def test_a4_inspect(ran) -> None:
    """Inspecting shows three steps, the arguments and the result."""
    project, _, run_id = ran
    done = project.command("inspect", run_id)
    assert done.returncode == 0, done.stderr
    kinds = re.findall(r"\b(model|prix_ttc)\b", done.stdout)
    assert [kind for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]][:3] == [
        "model",
        "prix_ttc",
        "model",
    ]
    assert "1250" in done.stdout
    assert "1375" in done.stdout


async def test_a5_report(project: Project) -> None:
    """The report of a run sums the tokens of both calls, all of them by the main model."""
    async with project.loom() as loom:
        result = await loom.run("devis", "Quel prix ?")
        events = await loom.events(result.run_id)
        report = await loom.report(result.run_id)
    assert report.total.calls == 2
    assert report.total.usage == result.usage
    assert [(role.name, role.calls) for role in report.roles] == [("main", 2)]
    answers = [e.payload for e in events if isinstance(e.payload, ModelResponded)]
    assert len(answers) == 2
    assert result.usage.output_tokens == sum(answer.usage.output_tokens for answer in answers)
    assert result.usage.input_tokens == sum(answer.usage.input_tokens for answer in answers)


async def test_a6_stream(project: Project) -> None:
    """A stream gives the text piece by piece, the calls as they come, and the end at the end."""
    async with project.loom() as loom:
        items = [item async for item in loom.stream("devis", "Quel prix ?")]
    before, after, called = "", "", False
    for item in items:
        if isinstance(item, Event):
            called = called or item.type == "tool.called"
        elif isinstance(item, TextDelta):
            before, after = (before, after + item.text) if called else (before + item.text, after)
    assert (before, after) == ("Je calcule.", ANSWER)
    last = items[-1]
    assert isinstance(last, Event)
    assert isinstance(last.payload, RunCompleted)
    assert last.payload.output.as_text() == after


async def test_a7_forced_answer(project: Project) -> None:
    """A run that used up its iterations concludes without tools, whatever the model asks."""
    project.agent["max_iterations"] = 1
    project.save()
    model = Recorder(*[calling(PRICE, text=f"Encore {n}.") for n in range(5)])
    async with project.loom(models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Quel prix ?")
    assert result.status is Status.COMPLETED
    assert result.iterations == 2
    assert model.requests[-1].tool_choice == "none"
    assert project.effects() == ["prix_ttc"]


SLOW = '''

@tool
def dormir(nom: str, secondes: float) -> str:
    """Dort."""
    time.sleep(secondes)
    return nom
'''


async def test_a8_parallel_calls(project: Project) -> None:
    """Two slow calls overlap, and their results come in call order."""
    project.more_tools, project.tools = SLOW, ["dormir"]
    project.save()
    model = Recorder(
        calling(call("dormir", nom="a", secondes=0.5), call("dormir", nom="b", secondes=0.4)),
        {"text": "Fini."},
    )
    async with project.loom(models={"SIMULE": model}) as loom:
        started = time.monotonic()
        result = await loom.run("devis", "Dors")
        took = time.monotonic() - started
        types = [event.type for event in await loom.events(result.run_id)]
    assert took < 0.9
    assert model.results() == ["a", "b"]
    order = [name for name in types if name.startswith("tool.")]
    assert order == ["tool.called", "tool.called", "tool.completed", "tool.completed"]


async def test_a9_unknown_tool(project: Project) -> None:
    """A tool that does not exist is told to the model, with those that do."""
    model = Recorder(calling(call("abc")), {"text": "Tant pis."})
    async with project.loom(models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Quel prix ?")
        types = [event.type for event in await loom.events(result.run_id)]
    assert result.ok
    assert "tool.called" not in types
    assert "prix_ttc" in model.results()[0]


async def test_a10_invalid_arguments(project: Project) -> None:
    """Arguments that cannot be read are told, and the corrected call works."""
    wrong = call("prix_ttc", montant_ht="abc")
    model = Recorder(calling(wrong), calling(PRICE), {"text": ANSWER})
    async with project.loom(models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Quel prix ?")
    assert result.ok
    first, second = model.results()
    assert "montant_ht" in first
    assert "1375.0" in second
    assert project.effects() == ["prix_ttc"]


FAILING = '''

@tool
def rater(comment: str) -> str:
    """Rate."""
    raise ToolError("x") if comment == "dit" else ValueError("cassé")
'''


async def test_a12_failing_tool(project: Project) -> None:
    """A tool that raises gives the model an error, in its own words when it has some."""
    project.more_tools, project.tools = FAILING, ["rater"]
    project.save()
    model = Recorder(
        calling(call("rater", comment="?"), call("rater", comment="dit")), {"text": "Raté."}
    )
    async with project.loom(models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Essaie")
    assert result.ok
    first, second = model.results()
    assert "cassé" in first
    assert second == "x"


async def test_a16_agent_timeout(project: Project) -> None:
    """A run that is driven longer than its agent allows fails, and says so."""
    project.more_tools, project.tools = SLOW, ["dormir"]
    project.agent["timeout"] = 0.3
    project.script = [
        calling(call("dormir", nom="a", secondes=0.2)),
        calling(call("dormir", nom="b", secondes=0.2)),
        {"text": "Fini."},
    ]
    project.save()
    async with project.loom() as loom:
        result = await loom.run("devis", "Dors")
        last = (await loom.events(result.run_id))[-1]
    assert result.status is Status.FAILED
    assert result.error_type == "timeout"
    assert last.type == "run.failed"


def test_a18_cancel_from_another_process(project: Project) -> None:
    """A run that another process cancels ends there too; a second cancel changes nothing."""
    project.tools, project.execution = ["lire"], {"lease": 1.5, "shutdown_timeout": 1.0}
    project.script = [calling(call("lire", cle="a")), {"text": "Lu."}]
    project.save()
    gate = project.gate()
    with project.start("run", "devis", "Lis", "--run-id", "r1", HANG="1") as driver:
        wait_for(driver, "hanging")
        cancelled = project.command("cancel", "r1")
        gate.write_text("")  # the tool may end: it was asked to stop
        assert driver.wait(timeout=30) == 1
    assert cancelled.returncode == 0, cancelled.stderr
    types = [line["type"] for line in project.lines("r1")]
    assert types.count("run.cancelled") == 1

    async def again() -> bool:
        async with project.loom() as loom:
            assert (await loom.state("r1")).status is Status.CANCELLED
            return await loom.cancel("r1")

    assert asyncio.run(again()) is False


async def test_a19_run_id_used_twice(project: Project) -> None:
    """A run id is good for one run, whatever the session, and the refused run writes nothing."""
    async with project.loom() as loom:
        await loom.run("devis", "Quel prix ?", run_id="r1", session_id="s1")
        with pytest.raises(RunExists):
            await loom.run("devis", "Quel prix ?", run_id="r1", session_id="s2")
        done = project.command("run", "devis", "Quel prix ?", "--run-id", "r1", "--session", "s3")
        page = await loom.store.sessions("default")
    assert done.returncode == 2
    assert "r1" in done.stderr
    assert [entry.session_id for entry in page.sessions] == ["s1"]
