"""What is called around the steps and the calls of a graph, and what it may decide."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loom_ia.graph import (
    END,
    Ask,
    Blocked,
    BudgetExhausted,
    CheckpointFailed,
    Graph,
    HookAborted,
    Hooks,
    InvalidAnswer,
    MaxIterationsExceeded,
    MemoryStore,
    MergeError,
    NotResumable,
    Refused,
    RunError,
    RunFinished,
    RunInfo,
    RunResult,
    StepContext,
    StepFailed,
    StopReason,
    StreamItem,
    UnknownInterrupt,
    add,
    append,
)
from loom_ia.policies import CONTINUE, Deny, Fail, Pause, Stop

State = Mapping[str, Any]


async def last(g: Graph[Any], store: Any) -> int:
    """Give the place of the last event of the run."""
    return (await g.events("r", store=store))[-1].seq


def chain(*names: str, ran: list[str] | None = None, **options: Any) -> Graph[Any]:
    """Make a graph of steps, one after the other, that say when they ran."""
    g: Graph[Any] = Graph("chain", **options)
    log = [] if ran is None else ran

    def step(name: str) -> Any:
        def call(s: State) -> dict[str, Any]:
            log.append(name)
            return {name: 1}

        return call

    for index, name in enumerate(names):
        g.add_step(name, step(name), names[index + 1] if index + 1 < len(names) else END)
    return g


# -- before and after ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before", "after"])
async def test_hk01_a_hook_that_raises_stops_the_run(where: str) -> None:
    """Its error is the cause; the step ran only when the hook came after it."""
    boom, ran = ValueError("not today"), list[str]()
    g = chain("a", "b", ran=ran)

    def hook(step: str, s: State) -> None:
        if step == "b":
            raise boom

    (g.before if where == "before" else g.after)(hook)
    with pytest.raises(HookAborted, match="not today") as caught:
        await g.run(run_id="r")
    error = caught.value
    assert error.__cause__ is boom
    assert (error.step, error.graph, error.run_id) == ("b", "chain", "r")
    result = error.result
    assert result.stop is StopReason.HOOK_ABORT
    assert result.stop == "hook_abort"
    if where == "before":
        assert (ran, result.last_step, result.steps, result.total_steps) == (["a"], "a", 1, 1)
        assert result.state == {"a": 1}
    else:
        assert (ran, result.last_step, result.steps, result.total_steps) == (["a", "b"], "b", 2, 2)
        assert result.state == {"a": 1, "b": 1}


async def test_hk03_the_order_of_everything() -> None:
    """Hooks before in order, the step, hooks after in order, then the router."""
    seen: list[str] = []

    def note(what: str) -> Any:
        return lambda *given: seen.append(what)

    def router(s: State) -> str:
        seen.append("router")
        return ""

    hooks = Hooks(before=[note("before1")], after=[note("after1")])
    g: Graph[Any] = Graph("g", hooks=hooks)
    g.add_step("s", lambda s: seen.append("step"), router)

    @g.before
    async def before2(step: str, s: State) -> None:
        seen.append("before2")

    @g.after
    async def after2(step: str, s: State, ctx: Any) -> None:
        seen.append(f"after2 {ctx.step} {ctx.occurrence} {ctx.run_id} {ctx.graph}")

    assert callable(before2)
    await g.run(run_id="r")
    assert seen == ["before1", "before2", "step", "after1", "after2 s 1 r g", "router"]
    assert hooks.before is not g.hooks.before


async def test_hk04_a_hook_is_told_the_step() -> None:
    """Its name, and the state as it is then."""
    seen: list[tuple[str, dict[str, Any]]] = []
    g = chain("alpha", "beta")
    g.before(lambda step, s: seen.append((step, dict(s))))
    g.after(lambda step, s: seen.append((step, dict(s))))
    await g.run()
    assert seen == [
        ("alpha", {}),
        ("alpha", {"alpha": 1}),
        ("beta", {"alpha": 1}),
        ("beta", {"alpha": 1, "beta": 1}),
    ]


async def test_w63_a_hook_may_give_a_delta() -> None:
    """It is merged by the merges of the graph, journalled, and seen by what follows."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", merge={"log": append, "n": add})
    g.add_step("s", lambda s: {"log": ["step"], "seen": list(s["log"])})
    g.before(lambda step, s: {"log": ["before"], "n": 1})
    g.before(lambda step, s: {"n": s["n"] * 10})
    g.after(lambda step, s: {"log": ["after"]})
    result = await g.run({"log": [], "n": 1}, store=store, run_id="r")
    assert result.state == {"log": ["before", "step", "after"], "n": 22, "seen": ["before"]}
    assert await g.state_at("r", await last(g, store), store=store) == result.state


async def test_a_wrong_delta_of_a_hook_stops_the_run() -> None:
    """A value that a merge does not take is the hook's failure, with its key."""
    g: Graph[Any] = Graph("g", merge={"l": append}).add_step("s", lambda s: None)
    g.before(lambda step, s: {"l": "text"})
    with pytest.raises(HookAborted) as caught:
        await g.run()
    assert isinstance(caught.value.__cause__, MergeError)
    assert caught.value.__cause__.key == "l"
    g = chain("s")
    g.before(lambda step, s: 3)
    with pytest.raises(HookAborted) as other:
        await g.run()
    assert isinstance(other.value.__cause__, TypeError)


async def test_a_refusal_of_a_hook_keeps_its_meaning() -> None:
    """The run is blocked, at the step, with what the refusal says to the state."""
    for where in ("before", "after"):
        g = chain("a")

        def refuse(step: str, s: State) -> None:
            raise Refused("closed", update={"why": "sunday"})

        getattr(g, where)(refuse)
        with pytest.raises(Blocked) as caught:
            await g.run()
        assert caught.value.reason == "closed"
        assert caught.value.result.stop is StopReason.BLOCKED
        assert caught.value.result.blocked == "closed"
        assert caught.value.result.state["why"] == "sunday"
        assert isinstance(caught.value.__cause__, Refused)


async def test_a_refusal_of_a_hook_whose_update_cannot_be_written() -> None:
    """The hook is what failed, and the run ends with a result."""
    g = chain("a")

    def refuse(step: str, s: State) -> None:
        raise Refused("closed", update={"__x": 1})

    g.before(refuse)
    with pytest.raises(HookAborted) as caught:
        await g.run()
    assert caught.value.result.stop is StopReason.HOOK_ABORT


async def test_a_budget_of_a_hook_keeps_its_meaning() -> None:
    """BudgetExhausted stops the run as its budget."""
    g = chain("a")

    def spend(step: str, s: State) -> None:
        raise BudgetExhausted("too dear")

    g.after(spend)
    with pytest.raises(BudgetExhausted) as caught:
        await g.run(run_id="r")
    assert caught.value.result.stop is StopReason.BUDGET
    assert (caught.value.run_id, caught.value.graph, caught.value.step) == ("r", "chain", "a")


# -- decisions ----------------------------------------------------------------------------------


async def test_continue_goes_on() -> None:
    """It says nothing."""
    g = chain("a", "b")
    g.before(lambda step, s: CONTINUE)
    g.after(lambda step, s: CONTINUE)
    assert (await g.run()).stop is StopReason.COMPLETED


async def test_deny_before_a_step() -> None:
    """The step does not run; the run is blocked, and goes on when nothing denies it any more."""
    store, ran, closed = MemoryStore(), list[str](), [True]
    g = chain("a", "b", ran=ran)
    g.before(lambda step, s: Deny("closed") if step == "b" and closed[0] else None)
    with pytest.raises(Blocked) as caught:
        await g.run(store=store, run_id="r")
    assert (caught.value.reason, caught.value.step) == ("closed", "b")
    result = caught.value.result
    assert (result.stop, result.blocked, result.last_step) == (StopReason.BLOCKED, "closed", "a")
    assert ran == ["a"]
    closed[0] = False
    assert (await g.resume("r", store=store)).state == {"a": 1, "b": 1}
    assert ran == ["a", "b"]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_stop_completes_the_run_here(where: str) -> None:
    """Nothing more runs; before a step, that one neither."""
    ran: list[str] = []
    g = chain("a", "b", "c", ran=ran)
    getattr(g, where)(lambda step, s: Stop("enough") if step == "b" else None)
    result = await g.run()
    assert result.stop is StopReason.COMPLETED
    assert ran == (["a"] if where == "before" else ["a", "b"])
    assert result.last_step == ran[-1]
    assert result.error is None


@pytest.mark.parametrize("where", ["before", "after"])
async def test_fail_stops_the_run(where: str) -> None:
    """As a hook that raises, with its reason."""
    g = chain("a")
    getattr(g, where)(lambda step, s: Fail("bad luck"))
    with pytest.raises(HookAborted, match="bad luck") as caught:
        await g.run()
    assert caught.value.result.stop is StopReason.HOOK_ABORT
    assert caught.value.step == "a"


@pytest.mark.parametrize("where", ["before", "after"])
async def test_pause_asks_and_goes_on(where: str) -> None:
    """A question of the kind approve; approved, the run goes on and the hook is not asked again."""
    store, ran, asked = MemoryStore(), list[str](), list[str]()
    g = chain("a", "b", ran=ran)

    def hook(step: str, s: State) -> Any:
        asked.append(step)
        return Pause("sure?") if step == "b" else None

    getattr(g, where)(hook)
    paused = await g.run(store=store, run_id="r")
    assert paused.stop is StopReason.YIELDED
    (ask,) = paused.interrupts
    assert (ask.kind, ask.step, ask.occurrence, ask.path) == ("approve", "b", 1, ("b",))
    assert ask.payload["reason"] == "sure?"
    assert ran == (["a"] if where == "before" else ["a", "b"])
    assert paused.last_step == ran[-1]
    for wrong in (True, "yes", {}, {"approved": "yes"}, {"approved": True, "more": 1}, None):
        with pytest.raises(InvalidAnswer):
            await g.resume("r", store=store, answers={ask.id: wrong})
    done = await g.resume("r", store=store, answers={ask.id: {"approved": True}})
    assert done.stop is StopReason.COMPLETED
    assert ran == ["a", "b"]
    assert asked == ["a", "b"]
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={ask.id: {"approved": True}})


async def test_pause_refused_blocks_the_run() -> None:
    """With the reason that was given; the step did not run."""
    store, ran = MemoryStore(), list[str]()
    g = chain("a", ran=ran)
    g.before(lambda step, s: Pause("sure?"))
    paused = await g.run(store=store, run_id="r")
    answer = {"approved": False, "reason": "not now"}
    with pytest.raises(Blocked) as caught:
        await g.resume("r", store=store, answers={paused.interrupts[0].id: answer})
    assert caught.value.reason == "not now"
    assert ran == []


async def test_several_hooks_each_pass_once() -> None:
    """A hook that let the step pass is not asked again after the pause of the next one."""
    store, asked = MemoryStore(), list[str]()
    g = chain("a")
    g.before(lambda step, s: asked.append("first") or {"first": 1})

    def second(step: str, s: State) -> Any:
        asked.append("second")
        return Pause("?")

    g.before(second)
    g.before(lambda step, s: asked.append("third"))
    paused = await g.run(store=store, run_id="r")
    assert paused.state == {"first": 1}
    done = await g.resume("r", {"approved": True}, store=store)
    assert asked == ["first", "second", "third"]
    assert done.stop is StopReason.COMPLETED


async def test_an_approver_answers_hooks_too() -> None:
    """In line, without a pause."""
    ran: list[str] = []
    g = chain("a", ran=ran)
    g.before(lambda step, s: Pause("sure?"))
    result = await g.run(approver=lambda question: {"approved": question.kind == "approve"})
    assert (result.stop, ran) == (StopReason.COMPLETED, ["a"])


async def test_hooks_do_not_apply_to_children() -> None:
    """A child has its own."""
    seen: list[str] = []
    child = chain("x", "y")
    child.before(lambda step, s: seen.append(f"child {step}"))
    g: Graph[Any] = Graph("parent").add_step("child", child.as_step())
    g.before(lambda step, s: seen.append(f"parent {step}"))
    await g.run()
    assert seen == ["parent child", "child x", "child y"]


# -- the life of a run --------------------------------------------------------------------------


class Life:
    """Hooks that remember in which order they were called."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.infos: list[RunInfo] = []
        self.results: list[RunResult[Any]] = []
        self.fails: BaseException | None = None
        self.context_fails: BaseException | None = None

    def hooks(self, **more: Any) -> Hooks:
        """Give the hooks."""
        return Hooks(
            run_started=[self.started],
            run_context=self.context,
            run_finished=[self.finished],
            **more,
        )

    def started(self, info: RunInfo) -> None:
        """Note the beginning."""
        self.log.append("started")
        self.infos.append(info)

    @asynccontextmanager
    async def context(self, info: RunInfo) -> AsyncIterator[None]:
        """Note the way in and the way out."""
        self.log.append(f"enter {'again' if info.resumed else 'new'}")
        self.infos.append(info)
        if self.context_fails is not None:
            raise self.context_fails
        try:
            yield
        except BaseException as error:
            self.log.append(f"cut by {type(error).__name__}")
            raise
        self.log.append("leave")

    async def finished(self, result: RunResult[Any]) -> None:
        """Note the end."""
        self.log.append(f"finished {result.stop}")
        self.results.append(result)
        if self.fails is not None:
            raise self.fails

    def take(self) -> list[str]:
        """Give what was noted since the last time, the end and the way out in one order."""
        log, self.log = self.log, []
        return sorted(log, key=lambda line: line == "leave")


async def test_ll01_the_beginning_comes_before_anything() -> None:
    """It is told of the run; what it does to its copy is nobody's business."""
    life, store = Life(), MemoryStore()
    g: Graph[Any] = Graph("g", hooks=life.hooks())
    given = {"items": [1], "n": 1}

    def step(s: State) -> None:
        life.log.append(f"step {s['items']}")

    g.add_step("s", step)

    def spoil(info: RunInfo) -> None:
        info.input["items"].append("spoiled")
        info.input["n"] = 9  # pyright: ignore[reportIndexIssue] -- a plain copy
        life.log.append("spoil")

    g2: Graph[Any] = Graph(
        "g", hooks=Hooks(run_started=[life.started, spoil], run_finished=[life.finished])
    )
    g2.add_step("s", step)
    await g.run(given, store=store, run_id="r1")
    assert life.take() == ["started", "enter new", "step [1]", "finished completed", "leave"]
    info = life.infos[0]
    assert (info.run_id, info.graph, info.input) == ("r1", "g", {"items": [1], "n": 1})
    assert (info.parent, info.resumed) == (None, False)
    result = await g2.run(given, store=store)
    assert life.take() == ["started", "spoil", "step [1]", "finished completed"]
    assert given == {"items": [1], "n": 1}
    assert result.state == {"items": [1], "n": 1}


async def test_the_end_sees_the_result_of_the_caller() -> None:
    """The very same, whatever the stop reason, once per call that drove."""
    life, store = Life(), MemoryStore()
    g: Graph[Any] = Graph("g", hooks=life.hooks())
    g.add_step("s", lambda s: Ask("?", phase="after"), "t").add_step("t", lambda s: None)
    paused = await g.run(store=store, run_id="r")
    assert life.take() == ["started", "enter new", "finished yielded", "leave"]
    assert life.results[-1] is paused
    await g.resume("r", store=store)
    assert life.take() == []
    done = await g.resume("r", {}, store=store)
    assert life.take() == ["enter again", "finished completed", "leave"]
    assert life.results[-1] is done
    assert life.infos[-1].resumed
    await g.resume("r", store=store)
    assert life.take() == []


@pytest.mark.parametrize(
    ("fn", "options", "stop", "error"),
    [
        (lambda s: 1 / 0, {}, "error", StepFailed),
        (lambda s: None, {"max_iterations": 2}, "max_iter", MaxIterationsExceeded),
        (lambda s: None, {"step_budget": 2}, "budget", BudgetExhausted),
    ],
    ids=["error", "max_iter", "budget"],
)
async def test_the_context_is_left_normally(
    fn: Any, options: Any, stop: str, error: type[RunError]
) -> None:
    """A run that fails is no exception inside its context."""
    life = Life()
    g: Graph[Any] = Graph("g", hooks=life.hooks(), **options).add_step("s", fn, "s")
    with pytest.raises(error) as caught:
        await g.run()
    assert life.take() == ["started", "enter new", f"finished {stop}", "leave"]
    assert life.results[-1] is caught.value.result
    quiet = await g.run(raise_on_error=False)
    assert life.results[-1] is quiet


async def test_the_end_of_a_pause_without_a_store() -> None:
    """It is told as yielded, then NotResumable is raised."""
    life = Life()
    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", lambda s: Ask("?"))
    with pytest.raises(NotResumable):
        await g.run()
    assert life.take() == ["started", "enter new", "finished yielded", "leave"]


async def test_a_cancelled_task_goes_through_the_context() -> None:
    """As the exception that it is."""
    life, began = Life(), asyncio.Event()

    async def slow(s: State) -> None:
        began.set()
        await asyncio.Event().wait()

    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", slow)
    task = asyncio.create_task(g.run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert life.take() == ["started", "enter new", "cut by CancelledError"]


async def test_ll03_both_errors_are_seen() -> None:
    """The run's own is raised, with the one of its end in `.also`."""
    life = Life()
    life.fails = OSError("the books are closed")
    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", lambda s: 1 / 0)
    with pytest.raises(StepFailed) as caught:
        await g.run()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.also == (life.fails,)
    quiet = await g.run(raise_on_error=False)
    assert isinstance(quiet.error, StepFailed)
    assert quiet.error.also == (life.fails,)


async def test_the_end_of_a_run_that_went_well_fails() -> None:
    """HookAborted is raised, and the recorded result stays."""
    life, store = Life(), MemoryStore()
    life.fails = OSError("the books are closed")
    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", lambda s: {"x": 1})
    with pytest.raises(HookAborted) as caught:
        await g.run(store=store, run_id="r")
    assert caught.value.__cause__ is life.fails
    assert caught.value.result.stop is StopReason.COMPLETED
    assert caught.value.run_id == "r"
    recorded = await g.resume("r", store=store)
    assert (recorded.stop, recorded.state) == (StopReason.COMPLETED, {"x": 1})
    quiet = await g.run(store=store, raise_on_error=False)
    assert isinstance(quiet.error, HookAborted)


async def test_every_end_hook_is_called() -> None:
    """One that raises does not keep the next from being told."""
    told: list[str] = []

    def bad(result: Any) -> None:
        told.append("bad")
        raise ValueError("bad")

    hooks = Hooks(run_finished=[bad, lambda result: told.append("good")])
    g: Graph[Any] = Graph("g", hooks=hooks).add_step("s", lambda s: None)
    with pytest.raises(HookAborted):
        await g.run()
    assert told == ["bad", "good"]


async def test_ll04_a_question_after_the_last_step() -> None:
    """The run is completed by the resume, and told once."""
    life, store = Life(), MemoryStore()
    g: Graph[Any] = Graph("g", hooks=life.hooks())
    g.add_step("s", lambda s: Ask("?", phase="after"))
    await g.run(store=store, run_id="r")
    life.take()
    done = await g.resume("r", {"approved": True}, store=store)
    assert done.stop is StopReason.COMPLETED
    assert life.take() == ["enter again", "finished completed", "leave"]


async def test_a_partial_answer_drives_nothing() -> None:
    """It is written, and no hook of the run is called."""
    life, store = Life(), MemoryStore()

    async def step(s: State, ctx: Any) -> None:
        await asyncio.gather(ctx.interrupt("1", key="1"), ctx.interrupt("2", key="2"))

    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    life.take()
    one, two = paused.interrupts
    await g.resume("r", store=store, answers={one.id: 1})
    assert life.take() == []
    await g.resume("r", store=store, answers={two.id: 2})
    assert life.take() == ["enter again", "finished completed", "leave"]


@pytest.mark.parametrize("gives", ["raises", "nothing"])
async def test_a_context_that_refuses(gives: str) -> None:
    """No step runs, the end is not told, nothing is written, and HookAborted is raised."""
    life, store, ran = Life(), MemoryStore(), list[int]()
    boom = OSError("no room")
    life.context_fails = boom
    hooks = life.hooks()
    if gives == "nothing":
        hooks = Hooks(run_context=lambda info: None, run_finished=[life.finished])
    g: Graph[Any] = Graph("g", hooks=hooks).add_step("s", lambda s: ran.append(1))
    with pytest.raises(HookAborted) as caught:
        await g.run(store=store, run_id="r")
    assert caught.value.run_id == "r"
    assert caught.value.graph == "g"
    if gives == "raises":
        assert caught.value.__cause__ is boom
    assert ran == []
    assert not [line for line in life.log if line.startswith("finished")]


async def test_a_beginning_that_refuses() -> None:
    """The same for run_started."""
    ran: list[int] = []

    def refuse(info: RunInfo) -> None:
        raise ValueError("no")

    g: Graph[Any] = Graph("g", hooks=Hooks(run_started=[refuse]))
    g.add_step("s", lambda s: ran.append(1))
    with pytest.raises(HookAborted) as caught:
        await g.run()
    assert isinstance(caught.value.__cause__, ValueError)
    assert ran == []


async def test_ll07_a_fork_is_a_run_of_its_own() -> None:
    """It begins, is entered, routed and ended; a terminal step is not run again."""
    life, store, ran = Life(), MemoryStore(), list[str]()
    g = chain("a", ran=ran, hooks=life.hooks())
    await g.run(store=store, run_id="r")
    life.take()
    (last,) = await g.history("r", store=store)
    fork = await g.fork("r", at=last.seq, store=store, new_run_id="f")
    assert (fork.run_id, fork.stop, fork.steps) == ("f", StopReason.COMPLETED, 0)
    assert ran == ["a"]
    assert life.take() == ["started", "enter new", "finished completed", "leave"]
    assert life.infos[-1].parent == ("r", last.seq) == fork.parent
    assert life.infos[-1].run_id == "f"


async def test_ll10_hooks_of_a_child() -> None:
    """It begins once, and ends once for each call that drove it."""
    life, store = Life(), MemoryStore()
    child: Graph[Any] = Graph("child", hooks=life.hooks())
    child.add_step("ask", lambda s: Ask("?", phase="after"))
    g: Graph[Any] = Graph("parent").add_step("child", child.as_step())
    await g.run(store=store, run_id="r")
    assert life.take() == ["started", "enter new", "finished yielded", "leave"]
    assert life.infos[0].run_id == "r/child/1"
    await g.resume("r", {}, store=store)
    assert life.take() == ["enter again", "finished completed", "leave"]
    assert {result.run_id for result in life.results} == {"r/child/1"}


async def test_ll09_the_context_reaches_the_steps() -> None:
    """What it sets is seen by steps, sync and async, by hooks and by routers."""
    from contextvars import ContextVar

    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[str] = []

    @asynccontextmanager
    async def context(info: RunInfo) -> AsyncIterator[None]:
        token = who.set(info.run_id)
        try:
            yield
        finally:
            who.reset(token)

    async def later(s: State) -> None:
        seen.append(who.get())

    def router(s: State) -> str:
        seen.append(who.get())
        return "b"

    g: Graph[Any] = Graph("g", hooks=Hooks(run_context=context))
    g.add_step("a", lambda s: seen.append(who.get()), router).add_step("b", later)
    g.before(lambda step, s: seen.append(who.get()))
    await g.run(run_id="r")
    assert seen == ["r"] * 5
    assert who.get() == "nobody"


async def test_a_stream_tells_the_same_result() -> None:
    """The end of a stream is that of the hooks."""
    life = Life()
    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", lambda s: 1 / 0)
    items: list[StreamItem] = [item async for item in g.stream()]
    assert isinstance(items[-1], RunFinished)
    assert life.results[-1] is items[-1].result
    assert isinstance(items[-1].result.error, StepFailed)


async def test_the_end_of_a_cancelled_run() -> None:
    """It is told, once, and the context is left normally."""
    life, store, began = Life(), MemoryStore(), asyncio.Event()

    async def slow(s: State) -> None:
        began.set()
        await asyncio.Event().wait()

    g: Graph[Any] = Graph("g", hooks=life.hooks()).add_step("s", slow)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    await g.cancel("r", store=store)
    result = await task
    assert life.take() == ["started", "enter new", "finished cancelled", "leave"]
    assert life.results == [result]


async def test_the_end_of_a_run_whose_store_failed() -> None:
    """It is told as an error, once."""
    life = Life()

    inner, broken = MemoryStore(), list[bool]()

    class Store:
        async def get(self, ns: str, key: str) -> bytes:
            return await inner.get(ns, key)

        async def put(self, ns: str, key: str, value: bytes) -> None:
            await inner.put(ns, key, value)

        async def delete(self, ns: str, key: str) -> None:
            await inner.delete(ns, key)

        async def list(self, ns: str, prefix: str = "") -> Any:
            return await inner.list(ns, prefix)

        def tx(self) -> Any:
            if broken:
                raise OSError("full")
            return inner.tx()

    g: Graph[Any] = Graph("g", hooks=life.hooks())
    g.add_step("s", lambda s: broken.append(True))
    with pytest.raises(CheckpointFailed) as caught:
        await g.run(store=Store(), run_id="r")
    assert life.take() == ["started", "enter new", "finished error", "leave"]
    assert life.results == [caught.value.result]


# -- the life of a run below another ------------------------------------------------------------


async def test_a_child_begins_once_whatever_goes_on_beside_it() -> None:
    """A branch that writes at that instant does not have it told again."""
    life, store = Life(), MemoryStore()
    child: Graph[Any] = Graph("child", hooks=life.hooks())
    child.add_step("c", lambda s: {"c": 1})
    written = asyncio.Event()

    async def busy(s: State, ctx: StepContext) -> None:
        for n in range(50):
            await ctx.effect(f"e{n}", lambda: 1)
        written.set()

    async def first(s: State) -> None:
        await asyncio.sleep(0)

    async def given(s: State) -> dict[str, Any]:
        await written.wait()
        return {}

    inputs: Any = given
    g: Graph[Any] = Graph("g").add_step("split", lambda s: None, ["busy", "first"])
    g.add_step("busy", busy, "join").add_step("first", first, "child")
    g.add_step("child", child.as_step(inputs=inputs), "join")
    g.add_step("join", lambda s: None, join="all")
    result = await g.run(store=store, run_id="r")
    assert result.state == {"c": 1}
    assert life.take() == ["started", "enter new", "finished completed", "leave"]
    assert life.infos[0].run_id == "r/split.1/child/1"


async def test_the_context_of_a_child_refuses() -> None:
    """The step of the parent fails, its cause names the child, and no step of the child runs."""
    life, ran = Life(), list[str]()
    life.context_fails = OSError("no room")
    child = chain("c", ran=ran, hooks=life.hooks())
    g: Graph[Any] = Graph("parent").add_step("child", child.as_step())
    with pytest.raises(StepFailed) as caught:
        await g.run()
    cause = caught.value.__cause__
    assert isinstance(cause, HookAborted)
    assert cause.graph == "chain"
    assert cause.__cause__ is life.context_fails
    assert ran == []
    assert not [line for line in life.log if line.startswith("finished")]


async def test_the_end_of_a_child_that_failed() -> None:
    """Its exception carries its result, and what its last hooks raised."""
    life = Life()
    life.fails = OSError("the books are closed")
    child: Graph[Any] = Graph("child", hooks=life.hooks()).add_step("c", lambda s: 1 / 0)
    g: Graph[Any] = Graph("parent").add_step("child", child.as_step())
    with pytest.raises(StepFailed) as caught:
        await g.run(run_id="r")
    cause = caught.value.__cause__
    assert isinstance(cause, StepFailed)
    assert (cause.graph, cause.run_id, cause.step) == ("child", "r/child/1", "c")
    assert isinstance(cause.__cause__, ZeroDivisionError)
    assert cause.also == (life.fails,)
    assert cause.result is life.results[-1]
    assert cause.result.stop is StopReason.ERROR
    assert cause.result.steps == 1
    assert caught.value.also == ()


async def test_the_end_of_a_child_that_went_well_fails() -> None:
    """The step of the parent fails; a resume takes the result that is recorded."""
    life, store, ran = Life(), MemoryStore(), list[str]()
    life.fails = OSError("the books are closed")
    child = chain("c", ran=ran, hooks=life.hooks())
    g: Graph[Any] = Graph("parent").add_step("child", child.as_step())
    with pytest.raises(StepFailed) as caught:
        await g.run(store=store, run_id="r")
    assert isinstance(caught.value.__cause__, HookAborted)
    assert caught.value.__cause__.__cause__ is life.fails
    assert (await g.resume("r", store=store)).state == {"c": 1}
    assert ran == ["c"]
