"""A role: one call of another model, with what it declares and nothing else."""

from loom_ia.core.model.content import ArtifactBlock
from loom_ia.engine.attachments import Attachment
from tests.pictures import png
from tests.roles.studio import Studio, call, calling, of_type


async def test_d1_a_role_reads_what_it_declares_and_nothing_of_the_history(studio: Studio) -> None:
    """The words of the user verbatim and the result; the cost goes to the run, under its name."""
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis pour <Mme Durand> & fils ?")
        events = await loom.events(result.run_id)
        report = await loom.report(result.run_id)
    (request,) = studio["PLUME"].requests
    assert request.system == "Tu rédiges."
    assert request.tools == ()
    (message,) = request.conversation()
    assert message.text == (
        "<user_input>\nDevis pour <Mme Durand> & fils ?\n</user_input>\n\n"
        '<tool_result tool="prix_ttc" ref="result:1">\n{"montant_ttc": 1200.0}\n</tool_result>\n\n'
        "<arguments>\nton: bref\n</arguments>"
    )
    assert studio["CHEF"].results()[-1] == "[result:2]\nBonjour, 1 200 €."
    assert result.text == "C'est fait."
    assert result.cost_usd > 0
    assert [e.role for e in of_type(events, "model.responded")] == [
        "main",
        "main",
        "rediger",
        "main",
    ]
    spent = {role.name: role for role in report.roles}
    assert spent["rediger"].calls == 1
    assert spent["rediger"].cost_usd == result.cost_usd
    assert result.iterations == 3


async def test_d2_a_missing_result_is_told_before_any_call(studio: Studio) -> None:
    """The main model is told which tool to call first; the role's model is not called."""
    studio.scripts["CHEF"] = [calling(call("rediger", ton="bref")), {"text": "fini"}]
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    assert studio["PLUME"].requests == []
    (told,) = studio["CHEF"].results()
    assert "prix_ttc" in told
    assert [e.run_id for e in of_type(events, "run.started")] == [result.run_id]
    (done,) = of_type(events, "tool.completed")
    assert done.status == "error"


async def test_d3_a_terminal_role_alone_gives_the_answer(studio: Studio) -> None:
    """Its output is the final text, and the main model is not called again."""
    studio.agents["devis"]["roles"][0]["terminal"] = True
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?", session_id="s")
        assert result.text == "Bonjour, 1 200 €."
        assert len(studio["CHEF"].requests) == 2
        assert "Call it alone" in studio["CHEF"].requests[0].tools[-1].description
        studio["CHEF"].requests.clear()
        again = await loom.run("devis", "Merci", session_id="s")
    assert again.status.value == "completed"
    history = list(studio["CHEF"].requests[0].conversation())
    assert [m.role for m in history[:6]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert history[5].text == "Bonjour, 1 200 €."


async def test_a_terminal_role_that_fails_is_a_tool_like_others(studio: Studio) -> None:
    """The main model reads the error and goes on."""
    studio.agents["devis"]["roles"][0]["terminal"] = True
    studio.scripts["PLUME"] = [{"error": "invalid_request"}]
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
    assert result.text == "C'est fait."
    assert len(studio["CHEF"].requests) == 3


async def test_calls_in_the_answer_of_a_role_are_dropped(studio: Studio) -> None:
    """A role has no tool: what it asks for is not done, and its words are its answer."""
    studio.scripts["PLUME"] = [calling(call("lire", cle="x"), text="Voici.")]
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    assert studio["CHEF"].results()[-1] == "[result:2]\nVoici."
    assert [e.facets["tool_name"] for e in of_type(events, "tool.called")] == [
        "prix_ttc",
        "rediger",
    ]


async def test_an_empty_answer_of_a_role_is_an_error(studio: Studio) -> None:
    """There is nothing to read, and the main model is told so."""
    studio.scripts["PLUME"] = [calling(call("lire", cle="x"))]
    async with studio.open() as loom:
        await loom.run("devis", "Devis ?")
    assert studio["CHEF"].results()[-1] == "[result:2]\nrediger gave nothing."


async def test_d4_a_terminal_role_beside_another_call_is_a_tool_like_it(studio: Studio) -> None:
    """The main model reads both results, and the journal says why the role gave no answer."""
    studio.agents["devis"]["roles"][0]["terminal"] = True
    studio.scripts["CHEF"][1] = calling(call("rediger", ton="bref"), call("lire", cle="x"))
    async with studio.open() as loom:
        result = await loom.run("devis", "Devis ?")
        events = await loom.events(result.run_id)
    assert result.text == "C'est fait."
    assert len(studio["CHEF"].requests) == 3
    (decided,) = of_type(events, "policy.decided")
    assert decided.facets == {
        "policy": "loom.terminal",
        "point": "after_tool",
        "decision": "continue",
    }
    called = next(e for e in of_type(events, "tool.called") if e.facets["tool_name"] == "rediger")
    assert decided.span_id == called.span_id


PNG = png(3, 2)


async def test_d8_a_role_that_sees_is_offered_when_there_is_an_image(studio: Studio) -> None:
    """Its model is given the image; without one, the main model does not know the role."""
    studio.models["PLUME"] = {"capabilities": {"vision": True}}
    studio.agents["devis"]["roles"][0]["context"] = ["user_input", "attachments"]
    studio.scripts["CHEF"] = [calling(call("rediger", ton="bref")), {"text": "fini"}]
    async with studio.open() as loom:
        await loom.run("devis", "Que vois-tu ?")
        assert "rediger" not in studio["CHEF"].tools(0)
        assert "There is no tool 'rediger'" in studio["CHEF"].results()[0]
        studio["CHEF"].requests.clear()
        await loom.run("devis", "Que vois-tu ?", attachments=[Attachment(PNG, "a.png")])
    assert "rediger" in studio["CHEF"].tools(0)
    (message,) = studio["PLUME"].requests[0].conversation()
    assert [block.name for block in message.blocks if isinstance(block, ArtifactBlock)] == ["a.png"]
    assert "<attachments>\na.png (image/png)\n</attachments>" in message.text
    assert "<user_input>\nQue vois-tu ?\n</user_input>" in message.text
