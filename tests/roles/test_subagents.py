"""An agent that a configuration lets another one call."""

from typing import Any

import pytest

from loom_ia.core.events.run import RunStarted
from tests.roles.studio import Studio, call, calling, of_type


def started(events: list[Any], run_id: str) -> RunStarted:
    """Give the first fact of a run."""
    (event,) = [e for e in of_type(events, "run.started") if e.run_id == run_id]
    assert isinstance(event.payload, RunStarted)
    return event.payload


@pytest.fixture
def team(studio: Studio) -> Studio:
    """An agent `devis` that calls `verificateur` under the name `verifier`."""
    studio.scripts = {
        "CHEF": [calling(call("verifier", message="Vérifie 1200.")), {"text": "Vérifié."}],
        "VERIF": [calling(call("lire", cle="loi")), {"text": "C'est juste."}],
    }
    studio.models = {"VERIF": {"pricing": {"input": 1000.0, "output": 1000.0}}}
    studio.agents = {
        "devis": {
            "subagents": [{"agent": "verificateur", "name": "verifier"}],
        },
        "verificateur": {
            "description": "Vérifie les calculs.",
            "main": {"model": "VERIF", "system": "Tu vérifies."},
            "tools": [{"python": "lire"}],
        },
    }
    return studio


async def test_d10_only_the_final_text_comes_back_and_its_cost(team: Studio) -> None:
    """The child is a run of the same session with its parent's id; the parent pays for it."""
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    (child_id,) = {e.run_id for e in events} - {result.run_id}
    assert started(events, child_id).parent_run_id == result.run_id
    assert {e.session_id for e in events} == {result.session_id}
    assert team["CHEF"].results() == ["[result:1]\nC'est juste."]
    assert [m.text for m in team["VERIF"].requests[0].conversation()] == ["Vérifie 1200."]
    assert "Vérifie les calculs." in team["CHEF"].requests[0].tools[0].description
    assert result.cost_usd > 0
    assert result.text == "Vérifié."


async def test_d11_an_agent_at_the_limit_of_depth_is_offered_none(team: Studio) -> None:
    """The child of depth 1 may not call its own agents, whatever it declares."""
    team.agents["verificateur"]["subagents"] = [{"agent": "juriste"}]
    team.agents["juriste"] = {
        "description": "Dit le droit.",
        "main": {"model": "VERIF", "system": "."},
    }
    async with team.open() as loom:
        await loom.run("devis", "Devis ?")
    assert team["VERIF"].tools(0) == ["lire"]
    team.agents["verificateur"]["max_depth"] = 2
    async with team.open() as loom:
        await loom.run("devis", "Devis ?")
    assert team["VERIF"].tools(0) == ["lire", "juriste"]


async def test_d12_a_child_may_consume_a_share_of_what_is_left(team: Studio) -> None:
    """0.3 of the 0.10 dollars that are left are 0.03; tokens and calls are rounded down."""
    team.agents["devis"]["budget"] = {"run": {"max_cost": 0.10, "max_calls": 5}}
    team.agents["devis"]["subagents"][0]["budget_share"] = 0.3
    team.models = {"VERIF": {}}
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    (child_id,) = {e.run_id for e in events} - {result.run_id}
    budget = started(events, child_id).budget
    assert budget is not None
    assert budget.max_cost == pytest.approx(0.03)
    assert budget.max_calls == 1
    assert budget.max_tokens is None
    assert team["VERIF"].requests[-1].tool_choice == "none"  # its one call was spent on `lire`


async def test_nothing_left_to_share_launches_nothing(team: Studio) -> None:
    """The call is an error that the model reads, and no run begins."""
    team.agents["devis"]["budget"] = {"run": {"max_calls": 1}, "on_exceed": "warn"}
    team.agents["devis"]["subagents"][0]["budget_share"] = 0.5
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    assert {e.run_id for e in events} == {result.run_id}
    assert "nothing left" in team["CHEF"].results()[0]


async def test_d13_what_a_child_asks_is_decided_on_the_root(team: Studio) -> None:
    """The root waits and shows the request; a yes on the root completes both."""
    team.scripts["VERIF"] = [calling(call("envoyer", texte="ok")), {"text": "Envoyé."}]
    team.agents["verificateur"]["tools"] = [{"python": "envoyer"}]
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?")
        assert result.status.value == "waiting_child"
        (pending,) = result.pending_approvals
        assert pending.tool_name == "envoyer"
        await loom.approve(result.run_id, by="anna")
        result = await loom.resume(result.run_id)
        events = await loom.events(result.run_id)
    assert result.text == "Vérifié."
    (child_id,) = {e.run_id for e in events} - {result.run_id}
    assert [e.run_id for e in of_type(events, "run.completed")] == [child_id, result.run_id]


async def test_the_tools_of_a_child_know_who_asks(team: Studio) -> None:
    """What the caller said of its user is what the run below has, too."""
    from loom_ia.core.model.caller import CallerContext

    context = CallerContext(user_id="anna", metadata={"client": "durand"})
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?", context=context)
        events = await loom.events(result.run_id)
    runs = dict.fromkeys(event.run_id for event in events)
    assert [started(events, run_id).context for run_id in runs] == [context, context]


async def test_files_of_a_child_reach_the_parent(team: Studio) -> None:
    """The model is given them with the answer, and the result of the run lists them."""
    team.more_tools = '''

from loom_ia.core.model import NewFile, ToolOutput


@tool
def dessiner() -> ToolOutput:
    """Dessine."""
    return ToolOutput(files=(NewFile(data=b"%PDF-1", media_type="application/pdf", name="p.pdf"),))
'''
    team.scripts["VERIF"] = [calling(call("dessiner")), {"text": "Voilà."}]
    team.agents["verificateur"]["tools"] = [{"python": "dessiner"}]
    async with team.open() as loom:
        result = await loom.run("devis", "Devis ?")
    assert [file.name for file in result.artifacts] == ["p.pdf"]
    assert "p.pdf" in team["CHEF"].results()[0]
