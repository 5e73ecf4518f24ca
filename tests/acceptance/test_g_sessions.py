"""G. Sessions."""

from loom_ia.core.model.content import ToolCallBlock, ToolResultBlock
from tests.acceptance.project import ANSWER, PRICE, Project, calling
from tests.acceptance.recording import Recorder


async def test_g1_second_run_of_a_session(project: Project) -> None:
    """The second run of a session reads the first one, calls included, without its reasoning."""
    script = [
        calling(PRICE, text="Je calcule.", reasoning="Il faut la TVA."),
        {"text": ANSWER, "reasoning": "C'est simple."},
    ]
    async with project.loom(models={"SIMULE": Recorder(*script)}) as loom:
        await loom.run("devis", "Quel prix ?", session_id="s")
    model = Recorder({"text": "De rien."})  # another process would know no more than the journal
    async with project.loom(models={"SIMULE": model}) as loom:
        await loom.run("devis", "Merci", session_id="s")
    (request,) = model.requests
    messages = tuple(request.conversation())
    said = [(message.role, message.as_text()) for message in messages]
    assert said[0] == ("user", "Quel prix ?")
    assert said[-2:] == [("assistant", ANSWER), ("user", "Merci")]
    blocks = [block for message in messages for block in message.blocks]
    assert sum(isinstance(block, ToolCallBlock) for block in blocks) == 1
    assert sum(isinstance(block, ToolResultBlock) for block in blocks) == 1
    assert "Je calcule." in str(messages)
    assert "TVA." not in str(messages)
    assert "simple" not in str(messages)


async def test_g1_a_failed_attempt_is_not_told(project: Project) -> None:
    """A run that failed leaves nothing in the conversation of its session."""
    failing = Recorder({"text": "", "error": "auth"})
    async with project.loom(models={"SIMULE": failing}) as loom:
        result = await loom.run("devis", "Refusé", session_id="s")
        assert result.error_type == "model.auth"
    model = Recorder({"text": "Oui."})
    async with project.loom(models={"SIMULE": model}) as loom:
        await loom.run("devis", "Et maintenant ?", session_id="s")
    assert [m.as_text() for m in model.requests[0].conversation()] == ["Et maintenant ?"]
