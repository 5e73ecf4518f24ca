"""Pauses as places of a run: in its history, and for a fork."""

from typing import Any

import pytest

from loom_ia.graph import Ask, Graph, MemoryStore, StopReason, fold


def asking(phase: Any) -> Graph[dict[str, Any]]:
    """Give a graph whose first step asks, at its end or in its middle, and a step after it."""
    graph: Graph[dict[str, Any]] = Graph("asking")

    @graph.step(then="last")
    def ask(state: dict[str, Any], ctx: Any) -> Any:
        if ctx.answer is not None:
            return {"day": ctx.answer}
        return Ask("Which day?", phase=phase, into="day" if phase == "after" else None)

    graph.add_step("last", lambda state: {"done": state["day"]})
    return graph


@pytest.mark.parametrize(
    ("phase", "steps"), [("after", ["ask", "last"]), ("mid", ["ask", "ask", "last"])]
)
async def test_a_pause_is_told_as_one(phase: str, steps: list[str]) -> None:
    """The entry of a step that asked says that it paused, whichever way it asked."""
    store, graph = MemoryStore(), asking(phase)
    paused = await graph.run(store=store, run_id="r")
    (first,) = await graph.history("r", store=store)
    assert (first.n, first.step, first.stop) == (1, "ask", StopReason.YIELDED)
    await graph.resume("r", answers={paused.interrupts[0].id: "Monday"}, store=store)
    history = await graph.history("r", store=store)
    assert [entry.step for entry in history] == steps
    assert [entry.stop for entry in history] == [StopReason.YIELDED, *[None] * (len(steps) - 1)]
    assert history[0] == first


@pytest.mark.parametrize("phase", ["after", "mid"])
async def test_a_fork_at_a_pause_asks_again_or_is_answered(phase: str) -> None:
    """Without an input the question comes back under another id; with one it is answered."""
    store, graph = MemoryStore(), asking(phase)
    paused = await graph.run(store=store, run_id="r")
    (question,) = paused.interrupts
    (entry,) = await graph.history("r", store=store)
    again = await graph.fork("r", at=entry.seq, store=store)
    assert [asked.payload for asked in again.interrupts] == ["Which day?"]
    assert again.interrupts[0].id != question.id
    other = await graph.fork("r", at=entry.seq, input={"day": "Monday"}, store=store)
    assert other.stop is StopReason.COMPLETED


async def test_an_input_that_has_the_key_of_the_answer_is_not_put_there_twice() -> None:
    """In the Go style the mapping is the answer; what it has under `into` is already there."""
    g: Graph[Any] = Graph("accord")
    g.add_step("ask", lambda state: Ask("ok?", phase="after", into="accord"))
    store = MemoryStore()
    first = await g.run({}, store=store)
    done = await g.resume(first.run_id, {"accord": True}, store=store)
    assert done.state == {"accord": True}
    assert fold(await g.events(first.run_id, store=store)) == done.state
    other = await g.run({}, store=store)
    done = await g.resume(other.run_id, answers={other.interrupts[0].id: "oui"}, store=store)
    assert done.state == {"accord": "oui"}
