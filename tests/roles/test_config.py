"""What is refused of roles and of agents below when the configuration is loaded."""

from typing import Any

import pytest

from loom_ia.config import load_config
from loom_ia.core.errors import ConfigError
from tests.roles.conftest import WRITE
from tests.roles.studio import Studio


def problems(studio: Studio, *, references: bool = False) -> list[str]:
    """Give what is wrong with the agent `devis`, without the file."""
    studio.save()
    with pytest.raises(ConfigError) as caught:
        load_config(studio.folder, environ={}, references=references)
    return [line.split(": ", 1)[1] for line in str(caught.value).splitlines()]


def role(**changes: Any) -> dict[str, Any]:
    """Give the role of the tests with other declarations; None takes one away."""
    return {key: value for key, value in {**WRITE, **changes}.items() if value is not None}


NOTHING = "the role rediger would read nothing (add properties to input_schema, or a context)"
UNUSED = (
    "the role receives tool_results.prix_ttc, and its template does not use it (write "
    "{{ context.tool_results.prix_ttc }})"
)
KNOWN = "available: args.ton, context.user_input, context.tool_results.prix_ttc"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"input_schema": None, "context": None}, f"roles[rediger] — {NOTHING}"),
        ({"description": None}, "roles[rediger].description — this key is required"),
        ({"system": None}, "roles[rediger] — give either system or system_file"),
        (
            {"input_template": "{{ context.user_input }} {{ args.ton }}"},
            f"roles[rediger].input_template — {UNUSED}",
        ),
        (
            {"context": ["user_input", "user_input"]},
            (
                "roles[rediger].context[1] — user_input is already given to the role rediger (name "
                "each once)"
            ),
        ),
        (
            {"context": ["historique"]},
            (
                "roles[rediger].context[0] — must be one of 'user_input', 'caller_context', "
                "'attachments', 'session_summary', 'session_state', not \"historique\""
            ),
        ),
        (
            {"context": [{"last_turns": 0}]},
            "roles[rediger].context[0].last_turns — must be greater than 0, not 0",
        ),
        (
            {"context": [{"tool_result": ["prix_ttc"]}]},
            "roles[rediger].context[0].tool_result — unknown key (did you mean tool_results?)",
        ),
        (
            {"input_schema": {"type": "array"}},
            "roles[rediger].input_schema — the schema of arguments must be of type object",
        ),
        (
            {"input_schema": {"type": "object", "properties": {"ton": {"type": "texte"}}}},
            (
                "roles[rediger].input_schema — this is not a JSON Schema: properties.ton.type: "
                "'texte' is not valid under any of the given schemas"
            ),
        ),
        (
            {"model": "GROS"},
            "roles[rediger].model — unknown model GROS (declared models: CHEF, PLUME)",
        ),
        (
            {"fallbacks": ["PLUME"]},
            (
                "roles[rediger].fallbacks[0] — the model PLUME is already in this chain (name each "
                "once)"
            ),
        ),
        (
            {"context": ["attachments"]},
            (
                "roles[rediger].model — rediger is given attachments, and PLUME sees no image (add "
                "capabilities: {vision: true} to the model, or choose another)"
            ),
        ),
        ({"name": "main"}, "roles[main].name — the name main is reserved (choose another)"),
        (
            {"system": "Bonjour {{ nom }}"},
            (
                "roles[rediger].system — unknown variable nom in the system prompt of devis (no "
                "variable exists for prompts in this version; write \\{{ for a literal {{)"
            ),
        ),
    ],
)
def test_a_role_that_cannot_be_is_refused(
    studio: Studio, changes: dict[str, Any], told: str
) -> None:
    """The message names the role, the key and what to write."""
    studio.agents["devis"]["roles"] = [role(**changes)]
    assert told in problems(studio)


def test_a_template_names_what_it_may_use(studio: Studio) -> None:
    """A variable that nobody gives is refused at its line, with those that there are."""
    template = "{{ context.user_input }} {{ context.tool_results.prix_ttc.x }}\n{{ args.tone }}"
    studio.agents["devis"]["roles"] = [role(input_template=template)]
    (told,) = problems(studio)
    assert told == f"roles[rediger].input_template — unknown variable args.tone ({KNOWN})"


def test_results_of_what_is_no_tool_are_refused_once_tools_are_known(studio: Studio) -> None:
    """The tools that there are stand in the message."""
    studio.agents["devis"]["tools"] = [{"python": "lire"}]
    (told,) = problems(studio, references=True)
    assert told == (
        "roles[rediger].context[1].tool_results[0] — devis has no tool prix_ttc (tools: lire)"
    )


def test_one_name_serves_once(studio: Studio) -> None:
    """A role and an agent below cannot share the name by which they are called."""
    studio.agents["devis"]["subagents"] = [{"agent": "autre", "name": "rediger"}]
    studio.agents["autre"] = {"description": "Fait."}
    (told,) = problems(studio)
    assert told.startswith("subagents[rediger].name — rediger is already defined at ")


@pytest.mark.parametrize(
    ("below", "told"),
    [
        (
            {"agent": "absent"},
            "subagents[0].agent — there is no agent absent (agents: autre, devis)",
        ),
        (
            {"agent": "autre"},
            "subagents[0].agent — a model must be told what the agent autre does (add description)",
        ),
        (
            {"agent": "autre", "description": "Fait.", "budget_share": 0.5},
            (
                "subagents[0].budget_share — devis has no budget to share (add max_cost, "
                "max_tokens or max_calls under budget.run)"
            ),
        ),
        (
            {"agent": "devis", "description": "Boucle."},
            (
                "subagents[0].agent — a run would open itself for ever: devis → devis (cut one of "
                "these calls)"
            ),
        ),
        (
            {"agent": "autre", "description": "Fait.", "budget_share": 1.5},
            "subagents[0].budget_share — must be at most 1, not 1.5",
        ),
    ],
)
def test_an_agent_below_that_cannot_be_is_refused(
    studio: Studio, below: dict[str, Any], told: str
) -> None:
    """The message names the agent and what to write."""
    studio.agents["devis"]["subagents"] = [below]
    studio.agents["autre"] = {}
    assert told in problems(studio)


def test_a_circle_of_agents_is_named(studio: Studio) -> None:
    """Each agent of the circle stands in the message."""
    studio.agents["devis"]["subagents"] = [{"agent": "autre", "description": "Fait."}]
    studio.agents["autre"] = {"subagents": [{"agent": "devis", "description": "Fait."}]}
    (told,) = problems(studio)
    assert "autre → devis → autre" in told


def test_a_model_that_calls_no_tool_leads_no_agent_with_roles(studio: Studio) -> None:
    """Roles and agents below are tools for the model that leads; a role itself calls none."""
    studio.models["CHEF"] = {"capabilities": {"tools": False}}
    studio.models["PLUME"] = {"capabilities": {"tools": False}}
    studio.agents["devis"]["tools"] = []
    studio.agents["devis"]["roles"] = [role(context=["user_input"])]
    (told,) = problems(studio)
    assert told == ("main.model — devis has tools, and CHEF calls none (capabilities.tools: false)")


async def test_a_role_may_not_bear_the_name_of_a_tool(studio: Studio) -> None:
    """Names of tools are known once they are imported; the clash is told then."""
    studio.agents["devis"]["roles"] = [role(name="lire", context=["user_input"])]
    with pytest.raises(ConfigError, match="two tools of agent devis are called lire"):
        async with studio.open() as loom:
            await loom.run("devis", "Devis ?")
