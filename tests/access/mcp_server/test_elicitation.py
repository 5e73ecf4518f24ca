"""Approvals, asked of the person in front of the client: with a form, or elsewhere."""

import base64
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from loom_ia.access.mcp_server.results import asked_text
from loom_ia.core.views.result import PendingApproval
from tests.acceptance.project import Project, call, calling
from tests.access.mcp_server.clients import (
    GENERATIONS,
    KEY,
    content_of,
    over_http,
    over_stdio,
    served,
    text_of,
)


@pytest.fixture
def relance(project: Project) -> Project:
    """The project, whose agent asks for a call that a human must grant."""
    project.tools = ["relancer"]
    project.script = [calling(call("relancer", texte="facture")), {"text": "Fini."}]
    return project.save()


class Person:
    """Who is in front of the client: answers forms in turn, and keeps what was shown."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.shown: list[types.ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        del context
        self.shown.append(params)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return types.ElicitResult(action=answer)  # type: ignore[arg-type]
        return types.ElicitResult(action="accept", content=answer)


GRANT = {"decision": "accorder"}


def decisions(project: Project, run_id: str) -> list[dict[str, Any]]:
    """List the decisions of a run."""
    return [
        line
        for line in project.lines(run_id)
        if line["type"] in {"approval.granted", "approval.rejected"}
    ]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_form_that_is_accepted_grants_the_call(relance: Project, mode: str) -> None:
    """The person reads what will be done, agrees, and the run goes on to its answer, once."""
    person = Person({**GRANT, "motif": "vu avec Ana"})
    info = types.Implementation(name="Claude Desktop", version="1")
    async with over_stdio(relance, mode, elicitation_callback=person, client_info=info) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
        runs = json.loads(content_of(await client.read_resource("loom://runs")))
    assert text_of(result) == "Fini."
    assert not result.is_error
    assert relance.effects() == ["relancer:facture"]
    assert len(runs["runs"]) == 1
    (form,) = person.shown
    assert "relancer" in form.message
    assert '{"texte": "facture"}' in form.message
    assert form.requested_schema["properties"]["decision"]["enum"] == ["accorder", "refuser"]
    (granted,) = decisions(relance, result.structured_content["run_id"])
    assert granted["type"] == "approval.granted"
    assert '"mcp:Claude-Desktop"' in json.dumps(granted)
    assert "vu avec Ana" in json.dumps(granted)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_form_may_refuse(relance: Project, mode: str) -> None:
    """A refusal makes no call, and its reason is written."""
    person = Person({"decision": "refuser", "motif": "pas lui"})
    async with over_stdio(relance, mode, elicitation_callback=person) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
    assert text_of(result) == "Fini."
    assert relance.effects() == []
    (rejected,) = decisions(relance, result.structured_content["run_id"])
    assert rejected["type"] == "approval.rejected"
    assert "pas lui" in json.dumps(rejected)


@pytest.mark.parametrize("mode", GENERATIONS)
@pytest.mark.parametrize(
    "answer", ["decline", "cancel", {}, {"decision": "oui"}, {"decision": "accorder", "motif": 3}]
)
async def test_what_is_no_decision_decides_nothing(
    relance: Project, mode: str, answer: Any
) -> None:
    """A form that is declined, dismissed or wrongly filled in leaves the run paused."""
    async with over_stdio(relance, mode, elicitation_callback=Person(answer)) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
    assert result.structured_content["status"] == "paused"
    assert not result.is_error
    assert relance.effects() == []
    run_id = result.structured_content["run_id"]
    assert decisions(relance, run_id) == []
    done = relance.command("approve", run_id)
    assert done.returncode == 0, done.stderr
    assert relance.effects() == ["relancer:facture"]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_without_forms_the_run_waits_and_says_how(relance: Project, mode: str) -> None:
    """A client that cannot ask is told, not as an error, what waits and how a person decides."""
    async with over_stdio(relance, mode) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
        run_id = result.structured_content["run_id"]
        assert result.structured_content["status"] == "paused"
        (pending,) = result.structured_content["pending_approvals"]
        assert pending["tool_name"] == "relancer"
        assert not result.is_error
        told = text_of(result)
        assert f"approve {run_id} --call {pending['call_id']}" in told
        assert "facture" in told
        command = told.partition("terminal: ")[2].partition(" — ")[0].split()
        assert command[0] == "loom"
        done = relance.command(*command[1:])
        assert done.returncode == 0, done.stderr
        status = await client.call_tool("run_status", {"run_id": run_id})
        assert status.structured_content["status"] == "completed"
        assert relance.effects() == ["relancer:facture"]
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert not [name for name in names if "appro" in name or "reject" in name]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_several_calls_are_asked_about_one_by_one(project: Project, mode: str) -> None:
    """Each call has its own form, and its own answer."""
    project.tools = ["relancer"]
    project.script = [
        calling(call("relancer", texte="a"), call("relancer", texte="b")),
        {"text": "Fini."},
    ]
    project.save()
    person = Person(GRANT, {"decision": "refuser"})
    async with over_stdio(project, mode, elicitation_callback=person) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
    assert text_of(result) == "Fini."
    assert ['"a"' in form.message for form in person.shown] == [True, False]
    assert project.effects() == ["relancer:a"]
    given = [line["type"] for line in decisions(project, result.structured_content["run_id"])]
    assert given == ["approval.granted", "approval.rejected"]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_somebody_who_decided_meanwhile_is_the_one(relance: Project, mode: str) -> None:
    """A form that is filled in too late decides nothing, and says who did."""

    async def late(context: Any, params: Any) -> types.ElicitResult:
        del context, params
        (path,) = (relance.data / "default").glob("*.jsonl")
        done = relance.command("reject", path.stem, "--by", "Ana", "--reason", "non")
        assert done.returncode == 0, done.stderr
        return types.ElicitResult(action="accept", content=dict(GRANT))

    async with over_stdio(relance, mode, elicitation_callback=late) as client:
        result = await client.call_tool("devis", {"message": "Relance"})
    assert relance.effects() == []
    assert result.structured_content["status"] == "completed"
    assert "Nothing was decided" in text_of(result)


async def test_an_answer_that_comes_back_twice_is_used_once(relance: Project) -> None:
    """The state of an unfinished call decides once, and begins no other run."""
    async with over_stdio(relance, "auto", elicitation_callback=Person()) as client:
        asked = await _ask(client)
        first = await _answer(client, asked.request_state)
        again = await _answer(client, asked.request_state)
        runs = json.loads(content_of(await client.read_resource("loom://runs")))
    assert text_of(first) == "Fini."
    assert again.is_error
    assert "Nothing was decided" in text_of(again)
    assert len(runs["runs"]) == 1
    assert len(decisions(relance, first.structured_content["run_id"])) == 1
    assert relance.effects() == ["relancer:facture"]


async def test_a_state_that_was_made_up_or_moved_is_refused(relance: Project) -> None:
    """A state that is forged, changed, or brought back with another request decides nothing."""
    async with over_stdio(relance, "auto", elicitation_callback=Person()) as client:
        asked = await _ask(client)
        state = asked.request_state
        assert state is not None
        forged = base64.urlsafe_b64encode(b'["r","r","c","d",0]').decode()
        for wrong in ("", "x", forged, f"v1.{forged}", state[:-2] + "AA", "v1." + "A" * 200):
            with pytest.raises(MCPError) as refused:
                await _answer(client, wrong)
            assert refused.value.error.code == types.INVALID_PARAMS
        with pytest.raises(MCPError):
            await _answer(client, state, message="Autre chose")
        with pytest.raises(MCPError):
            await _answer(client, state, name="run_status")
        runs = json.loads(content_of(await client.read_resource("loom://runs")))
    assert len(runs["runs"]) == 1
    assert runs["runs"][0]["status"] == "paused"
    assert relance.effects() == []


async def test_a_state_of_another_process_is_refused(relance: Project) -> None:
    """The seal is of one process: what it asked is not answered to another one."""
    async with over_stdio(relance, "auto", elicitation_callback=Person()) as client:
        asked = await _ask(client)
    async with over_stdio(relance, "auto", elicitation_callback=Person()) as client:
        with pytest.raises(MCPError):
            await _answer(client, asked.request_state)
    assert relance.effects() == []


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_nobody_is_asked_over_http(relance: Project, mode: str) -> None:
    """Over HTTP a run that waits is told as such, with the way to decide over REST."""
    relance.root = {
        "security": {
            "api_keys": [
                {
                    "id": "claude",
                    "hash": _digest(),
                    "scopes": ["run", "read", "read_content", "approve", "admin"],
                }
            ]
        }
    }
    person = Person(GRANT)
    async with (
        served(relance) as url,
        over_http(url, mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("devis", {"message": "Relance"})
    assert person.shown == []
    assert result.structured_content["status"] == "paused"
    assert not result.is_error
    assert f"/v1/runs/{result.structured_content['run_id']}/approve" in text_of(result)
    assert relance.effects() == []


def _digest() -> str:
    from tests.access.mcp_server.clients import digest

    return digest(KEY)


async def _ask(client: Client) -> types.InputRequiredResult:
    asked = await client.session.call_tool(
        "devis", {"message": "Relance"}, allow_input_required=True
    )
    assert isinstance(asked, types.InputRequiredResult)
    return asked


async def _answer(
    client: Client, state: str | None, *, message: str = "Relance", name: str = "devis"
) -> types.CallToolResult:
    answered = await client.session.call_tool(
        name,
        {"message": message},
        input_responses={"decision": types.ElicitResult(action="accept", content=dict(GRANT))},
        request_state=state,
        allow_input_required=True,
    )
    assert isinstance(answered, types.CallToolResult)
    return answered


def test_what_hides_in_arguments_is_shown_by_its_number() -> None:
    """What would turn a text around, or not be seen, is written out for whoever decides."""
    said = asked_text(
        PendingApproval(
            run_id="r",
            call_id="c",
            tool_name="envoyer",
            arguments={"a": "1\u202e5 \u200b€"},
            reason="\u2066x",
        )
    )
    assert "1[U+202E]5 [U+200B]€" in said
    assert "[U+2066]x" in said
