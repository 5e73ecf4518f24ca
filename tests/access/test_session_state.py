"""The state of a session as an application uses it: pose, read, and read again after a restart."""

from pathlib import Path

import pytest

from loom_ia import Loom
from loom_ia.agents import AgentSpec, MainRole, PythonTool, StateKeySpec, StateSourceSpec
from loom_ia.config import LoomConfig
from loom_ia.config.root import EventsStorage, Storage
from loom_ia.core.errors import ConfigError, StateRefused, UnknownSession
from loom_ia.core.model import ModelSpec
from loom_ia.core.views.sessions import StateValue
from loom_ia.i18n import render
from loom_ia.tools import ToolContext, tool


@tool
def look(ctx: ToolContext) -> dict[str, str]:
    """Look the client up."""
    return {"id": f"seen {ctx.state['client']}"}


SCRIPT = [{"tool_calls": [{"name": "look"}]}, {"text": "Done."}]


def config(folder: Path, source: str = "look") -> LoomConfig:
    """An agent that looks a client up."""
    keys = {
        "client": StateKeySpec(schema={"type": "string"}, required=True),
        "file": StateKeySpec(sources=(StateSourceSpec(tool=source, path="/id"),)),
    }
    main = MainRole(model="M", system="s", context=("session_state",))
    return LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend="sqlite", path=str(folder / "j.db"))),
        models=(ModelSpec(id="M", sdk="fake", model="fake-1", params={"script": SCRIPT}),),
        agents=(
            AgentSpec(name="clerk", main=main, tools=(PythonTool(python="look"),), state=keys),
        ),
    )


def made(folder: Path, source: str = "look") -> Loom:
    """Make the instance."""
    loom = Loom(config(folder, source))
    loom.register("look", look)
    return loom


SEEN = {"client": "ana", "file": "seen ana"}


async def test_each_way_to_begin_a_run_takes_a_state(tmp_path: Path) -> None:
    """Waiting, streaming or in the background, the values are those of the run."""
    async with made(tmp_path) as loom:
        result = await loom.run("clerk", "go", run_id="r1", state={"client": "ana"})
        assert result.state == SEEN
        async for _ in loom.stream("clerk", "go", run_id="r2", state={"client": "ana"}):
            pass
        await loom.submit("clerk", "go", run_id="r3", state={"client": "ana"})
        await loom.drain()
        for run_id in ("r2", "r3"):
            assert (await loom.result(run_id)).state == SEEN


async def test_what_a_session_keeps_is_read_after_a_restart(tmp_path: Path) -> None:
    """Each value has its author: the caller of a run, or a tool in it."""
    async with made(tmp_path) as loom:
        await loom.run("clerk", "go", session_id="s", run_id="r1", state={"client": "ana"})
    async with made(tmp_path) as loom:
        assert await loom.session_state("s") == (
            StateValue(key="client", value="ana", run_id="r1", agent="clerk"),
            StateValue(key="file", value="seen ana", run_id="r1", agent="clerk", tool="look"),
        )
        assert (await loom.run("clerk", "go", session_id="s", run_id="r2")).state == SEEN
        with pytest.raises(UnknownSession):
            await loom.session_state("t")


async def test_a_result_is_nobodys_way_into_the_state(tmp_path: Path) -> None:
    """Who changes the result that he was given changes no fact."""
    async with made(tmp_path) as loom:
        result = await loom.run("clerk", "go", run_id="r1", state={"client": "ana"})
        result.state["client"] = "eve"
        assert (await loom.result("r1")).state == SEEN


async def test_a_refusal_is_said_in_the_language_of_the_reader(tmp_path: Path) -> None:
    """The problem, its place and its remedy have a sentence in French, too."""
    async with made(tmp_path) as loom:
        with pytest.raises(StateRefused) as caught:
            await loom.run("clerk", "go", session_id="s", state={})
        assert render(caught.value, "fr").startswith(
            "state.client — l'agent clerk a besoin d'une valeur"
        )
        with pytest.raises(UnknownSession):
            await loom.session("s")


async def test_a_source_names_a_tool_of_the_agent(tmp_path: Path) -> None:
    """A tool that the agent has not is refused before anything is run."""
    with pytest.raises(ConfigError) as caught:
        async with made(tmp_path, "lok"):
            pass
    assert str(caught.value) == (
        "LoomConfig: agents[clerk].state.file.from[0].tool — the agent has no tool lok (its tools:"
        " look)"
    )
