"""Arguments that stand for results: all of one arrives, and the journal keeps the reference."""

from typing import Any

import pytest

from loom_ia.core.events.tool import ToolCalled
from tests.roles.studio import Studio, call, calling, of_type

REF = {"$ref": "result:1"}


@pytest.fixture
def relay(studio: Studio) -> Studio:
    """A role that is handed a text, and whose model is asked by the one of the agent."""
    studio.agents["devis"]["roles"] = [
        {
            "name": "resumer",
            "description": "Résume un texte.",
            "model": "PLUME",
            "system": "Tu résumes.",
            "input_schema": {
                "type": "object",
                "properties": {"texte": {"type": "string"}},
                "required": ["texte"],
            },
            "input_template": "{{ args.texte }}",
        }
    ]
    return studio


def script(studio: Studio, first: dict[str, Any], value: Any, **more: Any) -> None:
    """Have the main model call a tool, then the role with that value."""
    again = calling(call("resumer", texte=value, **more))
    studio.scripts["CHEF"] = [calling(first), again, {"text": "fini"}]


@pytest.mark.parametrize("value", [REF, '{"$ref": "result:1"}', ' {"$ref":"result:1"} '])
async def test_a_reference_gives_the_content_and_the_journal_keeps_it(
    relay: Studio, value: Any
) -> None:
    """Written as an object or as a text, it stands for the result; the call lists it."""
    script(relay, call("lire", cle="loi"), value)
    async with relay.open() as loom:
        result = await loom.run("devis", "Résume.")
        events = await loom.events(result.run_id)
    assert relay["PLUME"].read() == "lu loi"
    assert relay["CHEF"].results() == ["[result:1]\nlu loi", "[result:2]\nBonjour, 1 200 €."]
    called = of_type(events, "tool.called")[-1].payload
    assert isinstance(called, ToolCalled)
    assert called.refs == ("result:1",)
    assert called.arguments == {"texte": value}


async def test_a_document_is_given_as_it_is(relay: Studio) -> None:
    """Data of a tool comes as JSON where a text is asked for, and as data where it is not."""
    script(relay, call("prix_ttc", montant_ht=1000), REF)
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert relay["PLUME"].read() == '{"montant_ttc": 1200.0}'
    role = relay.agents["devis"]["roles"][0]
    role["input_schema"]["properties"]["texte"] = {"type": "object"}
    role["input_template"] = "{{ args.texte.montant_ttc }}"
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert relay["PLUME"].read() == "1200.0"


async def test_a_result_that_was_put_away_arrives_whole(relay: Studio) -> None:
    """The main model read its beginning, and the role reads all of it."""
    script(relay, call("long_texte"), REF)
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert relay["PLUME"].read() == "mot " * 100 + "fin"
    assert "artifact_read" in relay["CHEF"].results()[0]


@pytest.mark.parametrize(
    ("first", "reference", "told"),
    [
        (call("lire"), "result:7", "there is no result 'result:7' (results: result:1 to result:1)"),
        (call("lire"), "resultat", "there is no result 'resultat'"),
        (call("lire"), "result:2", "there is no result 'result:2'"),
        (call("casser"), "result:1", "'result:1' is an error"),
        (call("rien"), "result:1", "'result:1' is empty"),
    ],
)
async def test_d7_a_reference_to_nothing_good_is_an_error(
    relay: Studio, first: dict[str, Any], reference: str, told: str
) -> None:
    """The model reads which argument is wrong, and no run of the role begins."""
    script(relay, first, {"$ref": reference})
    async with relay.open() as loom:
        result = await loom.run("devis", "Résume.")
        events = await loom.events(result.run_id)
    assert relay["PLUME"].requests == []
    assert f"texte: {told}" in relay["CHEF"].results()[-1]
    assert len(of_type(events, "run.started")) == 1


async def test_a_result_of_the_same_turn_cannot_be_given(relay: Studio) -> None:
    """Calls of one answer run together: what one gives is not there when the other begins."""
    both = calling(call("lire"), call("resumer", texte=REF))
    relay.scripts["CHEF"] = [both, {"text": "fini"}]
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert "there is no result 'result:1'" in relay["CHEF"].results()[-1]


async def test_ranks_follow_the_order_that_was_asked(relay: Studio) -> None:
    """Results of one answer are numbered in the order of the calls, refused ones included."""
    both = calling(call("inconnu"), call("lire", cle="a"), call("lire", cle="b"))
    again = calling(call("resumer", texte={"$ref": "result:3"}))
    relay.scripts["CHEF"] = [both, again, {"text": "fini"}]
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert relay["PLUME"].read() == "lu b"
    assert [text.split("\n")[0] for text in relay["CHEF"].results()] == [
        "[result:1]",
        "[result:2]",
        "[result:3]",
        "[result:4]",
    ]


async def test_nothing_is_numbered_without_somebody_to_hand_it_to(relay: Studio) -> None:
    """An agent with tools alone reads results as they are, and no word about references."""
    script(relay, call("lire", cle="loi"), REF)
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert "$ref" in relay["CHEF"].requests[0].system
    del relay.agents["devis"]["roles"]
    async with relay.open() as loom:
        await loom.run("devis", "Résume.")
    assert "$ref" not in relay["CHEF"].requests[0].system
    assert relay["CHEF"].results(1) == ["lu loi"]


async def test_the_next_run_reads_no_ranks_of_the_last_one(relay: Studio) -> None:
    """Ranks count in one run: those of an earlier run are not shown, so never confused."""
    script(relay, call("lire", cle="loi"), REF)
    async with relay.open() as loom:
        await loom.run("devis", "Résume.", session_id="s")
        relay["CHEF"].requests.clear()
        await loom.run("devis", "Encore.", session_id="s")
    assert relay["CHEF"].results(0) == ["lu loi", "Bonjour, 1 200 €."]


async def test_a_reference_reaches_an_agent_below_as_its_message(relay: Studio) -> None:
    """What an agent is asked can be a result, too."""
    relay.agents["lecteur"] = {
        "description": "Lit.",
        "main": {"model": "PLUME", "system": "Tu lis."},
    }
    relay.agents["devis"]["subagents"] = [{"agent": "lecteur"}]
    relay.scripts["CHEF"] = [
        calling(call("prix_ttc", montant_ht=1000)),
        calling(call("lecteur", message=REF)),
        {"text": "fini"},
    ]
    async with relay.open() as loom:
        await loom.run("devis", "Lis.")
    assert relay["PLUME"].read() == '{"montant_ttc": 1200.0}'


async def test_a_tool_takes_an_object_of_that_shape_as_it_is(relay: Studio) -> None:
    """Only roles and agents below take references; a tool is given what the model wrote."""
    relay.scripts["CHEF"] = [
        calling(call("lire", cle="loi")),
        calling(call("lire", cle='{"$ref": "result:1"}')),
        {"text": "fini"},
    ]
    async with relay.open() as loom:
        await loom.run("devis", "Lis.")
    assert relay["CHEF"].results()[-1] == '[result:2]\nlu {"$ref": "result:1"}'
