"""The graphs of a host: what runs them, beside what they share with agents. It only forwards."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from loom_ia.app.instance import Instance
from loom_ia.core.ids import RunId, SessionId

if TYPE_CHECKING:  # graphs are imported when one is run
    from loom_ia.graph.definition import GraphDefinition
    from loom_ia.graph.types import Approver, CheckpointInfo, RunResult


class HostGraphs(Mapping[str, "GraphDefinition[Any]"]):
    """The graphs of an instance by name, and their runs.

    Cancelling, deciding, following, reporting and recovering are those of every run: see `Loom`.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def __getitem__(self, name: str) -> "GraphDefinition[Any]":
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def find(self, name: str) -> "GraphDefinition[Any]":
        """Give a graph; raises `UnknownGraph` naming those that exist."""
        return self._instance.graph(name)

    def _all(self) -> "Mapping[str, GraphDefinition[Any]]":
        house = self._instance.house
        return house.graphs() if house is not None else {}

    async def run(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        approver: "Approver | None" = None,
        raise_on_error: bool = True,
    ) -> "RunResult[Any]":
        """Run a graph from its entry: see `Loom.run_graph`."""
        from loom_ia.app.graphs import hosted
        from loom_ia.app.graphs.driving import Manner

        asked = hosted.Asked(name, input, session_id, run_id, approver)
        return await hosted.run(self._instance, asked, Manner(raise_on_error))

    async def submit(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
    ) -> RunId:
        """Begin a run of a graph in the background: see `Loom.submit_graph`."""
        from loom_ia.app.graphs import hosted

        asked = hosted.Asked(name, input, session_id, run_id)
        return await hosted.submit(self._instance, asked)

    async def resume(
        self,
        run_id: RunId,
        input: Mapping[str, Any] | None = None,
        *,
        answers: Mapping[str, Any] | None = None,
        allow_changed: bool = False,
        take_over: bool = False,
        approver: "Approver | None" = None,
        raise_on_error: bool = True,
        by: str = "python",
    ) -> "RunResult[Any]":
        """Go on with a run of a graph, as `loom_ia.graph.Graph.resume` does."""
        from loom_ia.app.graphs import hosted
        from loom_ia.app.graphs.driving import Manner
        from loom_ia.app.graphs.resuming import Resumption

        said = Resumption(input, answers, allow_changed, take_over, by)
        manner = Manner(raise_on_error)
        return await hosted.resume(self._instance, run_id, said, manner, approver=approver)

    async def fork(
        self,
        run_id: RunId,
        *,
        at: int,
        input: Mapping[str, Any] | None = None,
        new_run_id: RunId | None = None,
        step_budget: int | None = None,
        raise_on_error: bool = True,
    ) -> "RunResult[Any]":
        """Begin a run where another one stood at place `at`, as `loom_ia.graph.Graph.fork` does."""
        from loom_ia.app.graphs import forking, hosted
        from loom_ia.app.graphs.driving import Manner

        what = forking.Fork(at, input, new_run_id, step_budget)
        return await hosted.fork(self._instance, run_id, what, Manner(raise_on_error))

    async def history(self, run_id: RunId) -> "list[CheckpointInfo]":
        """Read the steps of a run that were completed, failed or paused, in order."""
        from loom_ia.app.graphs import hosted

        return await hosted.history(self._instance, run_id)

    async def state_at(self, run_id: RunId, seq: int) -> Any:
        """Read the state of a run as it was at place `seq` of its journal."""
        from loom_ia.app.graphs import hosted

        return await hosted.state_at(self._instance, run_id, seq)
