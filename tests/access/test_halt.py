"""A process that stops hands its runs back where nothing is under way, and another one goes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access import Loom
from loom_ia.core.errors import HandedBack
from loom_ia.graph import END, Graph, append
from loom_ia.tools import tool

YAML = """\
version: 1
execution: {lease: 600, shutdown_timeout: 20}
storage: {events: {backend: BACKEND, path: data/j}}
models:
  - id: DEUX
    sdk: fake
    model: f
    params:
      script:
        - tool_calls: [{name: tracer, arguments: {texte: un}}]
        - tool_calls: [{name: tracer, arguments: {texte: deux}}]
        - text: Fini.
agents:
  - {name: facteur, main: {model: DEUX, system: Aide.}, tools: [{python: tracer}]}
"""


class Slow:
    """A tool that waits to be let go, and remembers what it did."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.done: list[str] = []

    def registered(self) -> Any:
        """Give the tool."""

        @tool(name="tracer", side_effects="irreversible")
        async def tracer(texte: str) -> str:
            """Trace un texte."""
            self.begun.set()
            await self.go.wait()
            self.done.append(texte)
            return texte

        return tracer


@pytest.fixture(params=["jsonl", "sqlite"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A configuration with an agent that calls a slow tool twice."""
    path = tmp_path / "loom.yaml"
    path.write_text(YAML.replace("BACKEND", request.param))
    (tmp_path / "agents").mkdir()
    return path


def opened(file: Path, slow: Slow) -> Loom:
    """Give a process's share, with the tool."""
    loom = Loom.from_config(file)
    loom.register("tracer", slow.registered())
    return loom


def halt(loom: Loom) -> None:
    """Ask every drive to halt, as if nobody waited for any."""
    for seat in loom._instance.driven.values():
        seat.stop()


async def types(loom: Loom, run_id: str) -> list[str]:
    """Give what happened in a run, leases aside."""
    return [e.type for e in await loom.events(run_id) if e.type != "run.claimed"]


async def test_pub_51_another_process_goes_on_within_two_seconds(file: Path) -> None:
    """The effect under way ends and is written, nothing more is begun, and another goes on."""
    first, second = Slow(), Slow()
    second.go.set()
    async with opened(file, second) as other:
        watching = asyncio.create_task(other.watch())
        async with opened(file, first) as loom:
            run_id = await loom.submit("facteur", "Va")
            await first.begun.wait()
            halting = asyncio.create_task(loom.halt(within=20))
            first.go.set()
            began = asyncio.get_running_loop().time()
            await halting
            async with asyncio.timeout(10):
                while (await other.result(run_id)).status != "completed":  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - began < 2
        assert (first.done, second.done) == (["un"], ["deux"])
        happened = await types(other, run_id)
        assert happened.count("tool.called") == happened.count("tool.completed") == 2
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_whoever_waits_may_have_his_answer(file: Path) -> None:
    """A run that somebody waits for goes on for half of the time, and may end."""
    slow = Slow()
    async with opened(file, slow) as loom:
        asked = asyncio.create_task(loom.see_through(loom.run("facteur", "Va")))
        await slow.begun.wait()
        halting = asyncio.create_task(loom.halt(within=20))
        slow.go.set()
        assert (await asked).status == "completed"
        await halting
        assert slow.done == ["un", "deux"]


async def test_whoever_waits_too_long_is_told(file: Path) -> None:
    """What is under way at the end is cut: the caller is told, and the run is open for others."""
    slow = Slow()
    async with opened(file, slow) as loom:
        asked = asyncio.create_task(loom.run("facteur", "Va", run_id="r1"))
        await slow.begun.wait()
        await loom.halt(within=0.2)
        with pytest.raises(HandedBack, match="r1"):
            await asked
        slow.go.set()
        lease = (await loom.state("r1")).lease
        assert lease is not None
        assert lease.until <= (await loom.events("r1"))[-1].ts
        assert slow.done == []


async def test_nothing_is_begun_after_a_halt(file: Path) -> None:
    """A run that is submitted while the process stops is written, and left to another one."""
    slow = Slow()
    async with opened(file, slow) as loom:
        await loom.halt(within=0)
        run_id = await loom.submit("facteur", "Va")
        await loom.drain()
        assert "tool.called" not in await types(loom, run_id)
        assert (await loom.state(run_id)).is_open


class Branches:
    """A graph whose two branches wait to be let go, each for itself."""

    def __init__(self) -> None:
        self.gates = {"a": asyncio.Event(), "b": asyncio.Event()}
        self.begun = {"a": asyncio.Event(), "b": asyncio.Event()}
        self.done: list[str] = []

    def graph(self) -> Graph[Any]:
        """Give the graph."""
        made: Graph[Any] = Graph("deux", "ouvrir", merge={"fait": append})

        def branch(name: str) -> Any:
            async def step(state: dict[str, Any]) -> dict[str, Any]:
                self.begun[name].set()
                await self.gates[name].wait()
                self.done.append(name)
                return {"fait": [name]}

            return step

        made.add_step("ouvrir", lambda state: None, then=["a", "b"])
        made.add_step("a", branch("a"), then="fin")
        made.add_step("b", branch("b"), then="fin")
        made.add_step("fin", lambda state: self.done.append("fin"), then=END, join="all")
        return made

    def opened(self, file: Path) -> Loom:
        """Give a process's share, with the graph."""
        loom = opened(file, Slow())
        loom.register("deux", self.graph())
        return loom


async def test_branches_under_way_end_before_a_graph_is_handed_back(file: Path) -> None:
    """Both steps that run are seen to their end, and only what follows them is done elsewhere."""
    first, second = Branches(), Branches()
    async with first.opened(file) as loom:
        asked = asyncio.create_task(loom.run_graph("deux", run_id="g1"))
        await first.begun["a"].wait()
        await first.begun["b"].wait()
        halt(loom)
        first.gates["a"].set()
        async with asyncio.timeout(10):
            while (await types(loom, "g1")).count("tool.completed") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        first.gates["b"].set()
        with pytest.raises(HandedBack):
            await asked
        assert sorted(first.done) == ["a", "b"]
    async with second.opened(file) as other:
        assert [result.status for result in await other.recover()] == ["completed"]
        assert second.done == ["fin"]


async def test_branches_that_do_not_end_are_cut(file: Path) -> None:
    """A branch that ends is kept, one that does not is run again by whoever goes on."""
    first, second = Branches(), Branches()
    async with first.opened(file) as loom:
        asked = asyncio.create_task(loom.run_graph("deux", run_id="g1"))
        await first.begun["a"].wait()
        await first.begun["b"].wait()
        first.gates["a"].set()
        await loom.halt(within=0.3)
        with pytest.raises(HandedBack):
            await asked
        assert first.done == ["a"]
    second.gates["b"].set()
    async with second.opened(file) as other:
        assert [result.status for result in await other.recover()] == ["completed"]
        assert second.done == ["b", "fin"]


def with_chief(file: Path) -> None:
    """Add an agent that calls the other one."""
    chief = """  - name: chef
    main: {model: CHEF, system: Aide.}
    subagents: [{agent: facteur, description: Porte.}]
"""
    model = """  - id: CHEF
    sdk: fake
    model: f
    params:
      script:
        - tool_calls: [{name: facteur, arguments: {message: Va}}]
        - text: Porté.
agents:
"""
    file.write_text(file.read_text().replace("agents:\n", model) + chief)


async def test_what_a_call_opened_is_handed_back_with_it(file: Path) -> None:
    """A run below stops after its effect, and its caller with it; another one ends both."""
    with_chief(file)
    first, second = Slow(), Slow()
    second.go.set()
    async with opened(file, first) as loom:
        asked = asyncio.create_task(loom.run("chef", "Va", run_id="r1"))
        await first.begun.wait()
        halt(loom)
        first.go.set()
        with pytest.raises(HandedBack):
            await asked
        assert first.done == ["un"]
    async with opened(file, second) as other:
        assert [result.status for result in await other.recover()] == ["completed"]
        assert (await other.result("r1")).text == "Porté."
        assert second.done == ["deux"]
