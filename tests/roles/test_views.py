"""What listings, traces and reports show of roles and of agents below."""

import pytest

from loom_ia.access.cli.main import main
from loom_ia.core.views.trace_items import ModelItem, ToolItem
from tests.roles.studio import Studio


async def test_a_role_is_no_run_of_a_listing(studio: Studio) -> None:
    """What it consumed is listed with the run that called it."""
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        page = await loom.runs()
        session = await loom.session(result.session_id)
    assert [run.run_id for run in page.runs] == [result.run_id]
    assert [run.run_id for run in session.runs] == [result.run_id]
    assert page.runs[0].cost_usd == result.cost_usd
    assert page.runs[0].usage == result.usage


async def test_a_trace_shows_the_call_of_a_role_and_its_model_below(studio: Studio) -> None:
    """No run stands between them, and the model's line says whose it is."""
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        trace = await loom.trace(result.run_id)
    lines = str(trace).splitlines()
    called = next(i for i, line in enumerate(lines) if line.strip().startswith("role rediger — "))
    model = next(i for i, line in enumerate(lines) if "model plume (rediger)" in line)
    assert model > called
    assert not any("run devis" in line for line in lines[1:])
    items = [item for step in trace.steps for item in step.items]
    (item,) = [i for i in items if isinstance(i, ToolItem) and i.tool_kind == "role"]
    (below,) = trace.below
    assert (below.run_id, below.role) == (item.child_run_id, "rediger")
    assert [i.role for s in below.steps for i in s.items if isinstance(i, ModelItem)] == ["rediger"]


@pytest.mark.parametrize("by", ["run", "session", "period"])
async def test_a_report_gives_a_role_its_own_line(studio: Studio, by: str) -> None:
    """It is a line of the roles, and a part of the run that called it."""
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        match by:
            case "run":
                report = await loom.report(result.run_id)
            case "session":
                report = await loom.report(session_id=result.session_id)
            case _:
                report = await loom.report(period="day")
    assert [run.run_id for run in report.runs] == [result.run_id]
    assert report.runs[0].calls == report.total.calls == 4
    assert [(role.name, role.calls) for role in report.roles] == [("main", 3), ("rediger", 1)]


def test_validate_lists_roles_and_agents_below(
    studio: Studio, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each agent's line names them."""
    studio.agents["autre"] = {"description": "Fait."}
    studio.agents["devis"]["subagents"] = [{"agent": "autre", "name": "aider"}]
    studio.save()
    assert main(["validate", "--lang", "en"]) == 0
    shown = capsys.readouterr().out
    assert (
        "  devis : model CHEF, 6 Python tool(s), 1 role(s) (rediger), 1 sub-agent(s) (aider)"
        in (shown.splitlines())
    )
