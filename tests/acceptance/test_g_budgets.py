"""G. What a run may consume."""

import pytest

from loom_ia.access import Loom
from loom_ia.core.errors import ConfigError
from loom_ia.core.events import BudgetExceeded
from loom_ia.core.state.run import Status
from tests.acceptance.project import PRICE, Project, calling
from tests.acceptance.recording import Recorder

ALWAYS = [*([calling(PRICE)] * 6), {"text": "fini"}]


async def told(project: Project, model: Recorder) -> tuple[Status, list[BudgetExceeded]]:
    """Run, and give how it ended and what was said of limits."""
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    return result.status, [e.payload for e in events if isinstance(e.payload, BudgetExceeded)]


async def test_g5_the_call_after_the_limit_is_the_forced_answer(project: Project) -> None:
    """Two calls are allowed: the third one concludes, without tools, and the limit is told once."""
    project.root = {"budgets": {"run": {"max_calls": 2}}}
    project.save()
    model = Recorder(*ALWAYS)
    status, exceeded = await told(project, model)
    assert status is Status.COMPLETED
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert [(e.limit, e.spent, e.action) for e in exceeded] == [("max_calls", 2, "stop")]


async def test_g6_a_warning_changes_nothing_else(project: Project) -> None:
    """The run goes on to its own end, and the limit is told once."""
    project.root = {"budgets": {"run": {"max_calls": 2}, "on_exceed": "warn"}}
    project.save()
    model = Recorder(*ALWAYS)
    status, exceeded = await told(project, model)
    assert status is Status.COMPLETED
    assert len(model.requests) == 7
    assert [(e.limit, e.action) for e in exceeded] == [("max_calls", "warn")]


async def test_an_agent_overrides_key_by_key(project: Project) -> None:
    """What the agent does not say stays as the root says it."""
    project.root = {"budgets": {"run": {"max_calls": 1, "max_tokens": 1}, "on_exceed": "warn"}}
    project.agent = {"budget": {"run": {"max_calls": 3}}}
    project.save()
    _, exceeded = await told(project, Recorder(*ALWAYS))
    assert [(e.limit, e.value) for e in exceeded] == [("max_tokens", 1), ("max_calls", 3)]


async def test_an_agent_lifts_a_limit_with_null(project: Project) -> None:
    """A limit that an agent gives as null is none for it, whatever the root says."""
    project.root = {"budgets": {"run": {"max_calls": 1}}}
    project.agent = {"budget": {"run": {"max_calls": None}}}
    project.save()
    model = Recorder(*ALWAYS)
    _, exceeded = await told(project, model)
    assert exceeded == []
    assert len(model.requests) == 7


def test_b10_dollars_need_a_price(project: Project) -> None:
    """A limit in dollars on a model without a price is a warning, and in prod an error."""
    project.root = {"budgets": {"run": {"max_cost": 0.05}}}
    project.save()
    done = project.command("validate")
    assert done.returncode == 0
    assert "max_cost limits nothing: SIMULE has no pricing" in done.stdout + done.stderr
    with pytest.raises(ConfigError, match="SIMULE has no pricing"):
        Loom.from_config(project.file, profile="prod")


async def told_in_session(
    project: Project, model: Recorder, runs: int, session_id: str = "s"
) -> list[list[BudgetExceeded]]:
    """Run so many times in one session, and give what each run said of limits."""
    said: list[list[BudgetExceeded]] = []
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        for _ in range(runs):
            result = await loom.run("devis", "Calcule.", session_id=session_id)
            assert result.status is Status.COMPLETED
            events = await loom.events(result.run_id)
            payloads = [e.payload for e in events if e.run_id == result.run_id]
            said.append([p for p in payloads if isinstance(p, BudgetExceeded)])
    return said


async def test_a_session_counts_what_its_earlier_runs_consumed(project: Project) -> None:
    """The run that finds the limit reached only concludes, and tells whose limit it is, once."""
    project.root = {"budgets": {"session": {"max_tokens": 30}}}
    project.save()
    model = Recorder(*([calling(PRICE)] * 3), {"text": "fini"})
    first, second = await told_in_session(project, model, 2)
    assert [(e.scope, e.limit, e.action) for e in first] == [("session", "max_tokens", "stop")]
    assert [(e.scope, e.limit, e.value) for e in second] == [("session", "max_tokens", 30)]
    assert second[0].spent > first[0].spent >= 30
    assert model.requests[-1].tool_choice == "none"
    assert [r.tool_choice for r in model.requests].count("none") == 2


async def test_a_session_under_its_limit_says_nothing(project: Project) -> None:
    """And what one session consumed is nothing to another one."""
    project.root = {"budgets": {"session": {"max_tokens": 100_000}}}
    project.save()
    model = Recorder(*ALWAYS)
    assert await told_in_session(project, model, 2) == [[], []]
    assert all(request.tool_choice == "auto" for request in model.requests)


async def test_the_limit_of_a_session_may_only_be_told(project: Project) -> None:
    """With `warn` each run goes on, and says it once beside the limit of its own."""
    project.root = {"budgets": {"session": {"max_tokens": 1}, "on_exceed": "warn"}}
    project.agent = {"budget": {"run": {"max_tokens": 1}}}
    project.save()
    model = Recorder(*ALWAYS)
    for said in await told_in_session(project, model, 2):
        assert sorted((e.scope, e.action) for e in said) == [("run", "warn"), ("session", "warn")]
    assert len(model.requests) == 14


async def test_an_agent_overrides_the_session_key_by_key(project: Project) -> None:
    """A null lifts one limit, and the other one stays."""
    project.root = {"budgets": {"session": {"max_tokens": 1, "max_cost": 0.5}}}
    project.agent = {"budget": {"session": {"max_tokens": None}}}
    project.save()
    model = Recorder(*ALWAYS)
    assert await told_in_session(project, model, 1) == [[]]
    assert len(model.requests) == 7


async def test_a_report_says_what_was_spent_of_each_limit(project: Project) -> None:
    """Of the run and of its session, from Python and on the command line; so does the result."""
    limits = {"run": {"max_calls": 5, "max_tokens": 90_000}, "session": {"max_tokens": 100_000}}
    project.root = {"budgets": limits, "storage": {"events": {"backend": "jsonl", "path": "j"}}}
    project.save()
    model = Recorder(calling(PRICE), {"text": "fini"})
    async with Loom.from_config(project.file, models={"SIMULE": model}) as loom:
        await loom.run("devis", "Calcule.", session_id="s", run_id="r1")
        result = await loom.run("devis", "Calcule.", session_id="s", run_id="r2")
        report = await loom.report("r2")
        whole = await loom.report(session_id="s")
    own, other = result.usage.total_tokens, whole.total.usage.total_tokens
    assert other > own
    used = [(use.scope, use.limit, use.value, use.spent) for use in report.budget]
    assert used == [
        ("run", "max_tokens", 90_000, own),
        ("run", "max_calls", 5, 2),
        ("session", "max_tokens", 100_000, other),
    ]
    assert result.budget == report.budget
    assert [(use.scope, use.spent) for use in whole.budget] == [("session", other)]
    shown = project.command("report", "r2").stdout
    assert "budget of r2: max_calls 2 of 5" in shown
    assert f"budget of the session: max_tokens {other} of 100000" in shown
