"""MCP servers and sources of tools: what is refused when they are declared, and named by agents."""
# ruff: noqa: E501 (an exact message reads best on one line)

import pytest

from loom_ia.agents import McpTool, SourceTool
from loom_ia.config.tool_kinds import always_asked, may_come_from_source, said_of_tools
from tests.config.projects import ROOT, Folder

CRM = "mcp_servers: [{name: crm, transport: stdio, command: crm-server}]\n"


def written(folder: Folder, tools: str, servers: str = CRM, agent: str = "") -> Folder:
    """Write an agent with these tools, and these servers."""
    folder.write("loom.yaml", ROOT + servers)
    folder.write(
        "agents/devis.yaml",
        f"name: devis\nmain: {{model: HAIKU, system: s}}\n{agent}tools: {tools}\n",
    )
    return folder


def test_an_agent_names_servers_and_sources(folder: Folder) -> None:
    """Each with its prefix, its choice of tools and what is said of them."""
    servers = (
        CRM + "tool_sources: [{name: carnet, entry_point: carnet, params: {fichier: c.json}}]\n"
    )
    tools = "[{mcp: crm, alias: c, include: [find], tools: {find: {timeout: 3}}}, {source: carnet, required: true}]"
    loaded = written(folder, tools, servers).load()
    crm, carnet = loaded.config.agents[0].tools
    assert isinstance(crm, McpTool)
    assert (crm.prefix, crm.named("find"), crm.takes("drop")) == ("c", "c__find", False)
    assert isinstance(carnet, SourceTool)
    assert (carnet.prefix, carnet.required) == ("carnet", True)


@pytest.mark.parametrize(
    ("tools", "servers", "problem"),
    [
        (
            "[{mcp: crm}]",
            "",
            "agents/devis.yaml:3: tools[0].mcp — the MCP server crm is not declared under mcp_servers (declared: none)",
        ),
        (
            "[{source: crm}]",
            CRM,
            "agents/devis.yaml:3: tools[0].source — the source crm is not declared under tool_sources (declared: none)",
        ),
        (
            "[{mcp: crm}, {mcp: crm}]",
            CRM,
            "agents/devis.yaml:3: tools[1].mcp — the tools of agents/devis.yaml:3 begin with crm__ already (give this one another alias)",
        ),
        (
            "[{mcp: crm, include: [a], exclude: [b]}]",
            CRM,
            "agents/devis.yaml:3: tools[0] — give either include or exclude, not both",
        ),
        (
            "[{mcp: crm, alais: c}]",
            CRM,
            "agents/devis.yaml:3: tools[0].alais — unknown key (did you mean alias?)",
        ),
        (
            "[{mcp: crm, tools: {find: {aproval: always}}}]",
            CRM,
            "agents/devis.yaml:3: tools[0].tools.find.aproval — unknown key (did you mean approval?)",
        ),
        (
            "[{mcp: crm, alias: a__b}]",
            CRM,
            'agents/devis.yaml:3: tools[0].alias — must match ^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$, and "a__b" does not',
        ),
        (
            "[]",
            "mcp_servers: [{name: crm, transport: stdio}]\n",
            "loom.yaml:6: mcp_servers[crm] — a server that speaks stdio needs command",
        ),
        (
            "[]",
            "mcp_servers: [{name: crm, transport: http, url: 'http://x/mcp', args: [a]}]\n",
            "loom.yaml:6: mcp_servers[crm].args — args is for transport: stdio, not http (remove it)",
        ),
        (
            "[]",
            CRM + "tool_sources: [{name: crm, entry_point: x}]\n",
            "loom.yaml:7: tool_sources[crm].name — crm is already defined at loom.yaml:6",
        ),
        (
            "[]",
            "mcp_servers: [{name: crm, transport: stdio, command: x, tools: {f: {output: {must_match: '('}}}}]\n",
            "loom.yaml:6: mcp_servers[crm].tools.f.output.must_match — this is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place(
    folder: Folder, tools: str, servers: str, problem: str
) -> None:
    """One fault, one line."""
    assert written(folder, tools, servers).problems() == [problem]


def test_a_role_cannot_have_the_name_of_a_tool_of_a_server(folder: Folder) -> None:
    """The tools are not known yet, but how their names begin is."""
    role = "roles: [{name: crm__find, description: d, model: HAIKU, system: s, context: [user_input]}]\n"
    written(folder, "[{mcp: crm}]", agent=role)
    assert folder.problems() == [
        "agents/devis.yaml:3: roles[crm__find].name — crm__find begins like the tools of agents/devis.yaml:4 (choose another name)"
    ]


def test_two_references_that_overlap_are_told(folder: Folder) -> None:
    """They may be meant; with tools of their own, nothing is said."""
    loaded = written(folder, "[{mcp: crm}, {mcp: crm, alias: c}]").load()
    assert [str(warning) for warning in loaded.warnings] == [
        "agents/devis.yaml:3: tools[1].mcp — tools of crm are offered twice, as crm__… and c__… (give each its include)"
    ]
    apart = "[{mcp: crm, include: [a]}, {mcp: crm, alias: c, exclude: [a]}]"
    assert written(folder, apart).load().warnings == ()


def test_a_tool_that_waits_needs_a_journal_that_lasts(folder: Folder) -> None:
    """`approval: always` is written: it is known before the server is asked."""
    always = "mcp_servers: [{name: crm, transport: stdio, command: x, tools: {send: {approval: always}}}]\nstorage: {events: {backend: memory}}\n"
    (problem,) = written(folder, "[{mcp: crm}]", always).problems()
    assert problem.startswith("agents/devis.yaml:3: tools[0].mcp — crm__send may wait for a human")
    loaded = folder.load(profile="dev")
    assert any("crm__send" in str(warning) for warning in loaded.warnings)
    written(folder, "[{mcp: crm, exclude: [send]}]", always).load()


def test_the_agent_has_the_last_word_key_by_key(folder: Folder) -> None:
    """What the server's entry says stands where the agent says nothing."""
    servers = "mcp_servers: [{name: crm, transport: stdio, command: x, tools: {send: {timeout: 3, approval: always}}}]\n"
    tools = "[{mcp: crm, tools: {send: {approval: never}, find: {idempotent: true}}}]"
    loaded = written(folder, tools, servers).load()
    (reference,) = loaded.config.agents[0].tools
    assert isinstance(reference, McpTool)
    said = said_of_tools(loaded.config, reference)
    assert (said["send"].timeout, said["send"].approval) == (3.0, "never")
    assert said["find"].idempotent is True
    assert always_asked(loaded.config, reference) == ()


@pytest.mark.parametrize(
    ("tools", "name", "may"),
    [
        ("[{mcp: crm}]", "crm__find", True),
        ("[{mcp: crm}]", "crn__find", False),
        ("[{mcp: crm, alias: c}]", "crm__find", False),
        ("[{mcp: crm, include: [find]}]", "crm__drop", False),
        ("[{mcp: crm, exclude: [find]}]", "crm__find", False),
        ("[{mcp: crm, include: [a.b]}]", "crm__a_b_6fd23fa4", True),
        ("[]", "find", False),
    ],
)
def test_a_name_is_believed_when_its_source_may_give_it(
    folder: Folder, tools: str, name: str, may: bool
) -> None:
    """Else it is a typing error."""
    agent = written(folder, tools).load().config.agents[0]
    assert may_come_from_source(agent, name) is may


def test_results_of_a_tool_that_no_source_gives_are_refused(folder: Folder) -> None:
    """What a role is given is checked as far as it can be."""
    roles = "roles: [{{name: r, description: d, model: HAIKU, system: s, context: [{{tool_results: [{}]}}]}}]\n"
    written(folder, "[{mcp: crm}]", agent=roles.format("crm__find")).load(references=True)
    written(folder, "[{mcp: crm}]", agent=roles.format("crm_find"))
    (problem,) = folder.problems(references=True)
    assert "devis has no tool crm_find" in problem
