"""What loading a configuration accepts, and what it says otherwise."""
# ruff: noqa: E501 (an exact message reads best on one line)

from pathlib import Path

import pytest

from loom_ia.config import LoadedConfig, load_config
from loom_ia.core.errors import ConfigError
from tests.config.projects import AGENT, ROOT, Folder


def test_a_sound_project_is_loaded(folder: Folder) -> None:
    """Defaults fill what is not written."""
    config = folder.load().config
    assert [agent.name for agent in config.agents] == ["devis"]
    assert config.models[0].id == "HAIKU"
    assert (config.storage.events.backend, config.execution.lease) == ("memory", 60.0)


def test_b1_unknown_key_names_file_model_and_key(folder: Folder) -> None:
    """A typing error is located, and its remedy is given."""
    folder.write("loom.yaml", ROOT + "    max_token: 100\n")
    assert folder.problems() == [
        "loom.yaml:6: models[HAIKU].max_token — unknown key (did you mean max_tokens?)"
    ]


def test_b2_errors_of_two_agents_are_both_reported(folder: Folder) -> None:
    """One faulty file does not hide the next, whatever kind of fault it has."""
    folder.write("agents/a.yaml", "name: a\nmain: {modle: HAIKU, system: s}\n")
    folder.write("agents/b.yml", "name: b\nmain: {model: GROS, system: s}\nfoo: 1\n")
    folder.write("agents/c.yaml", "name: [c\n")
    folder.write("loom.yaml", ROOT + "language: es\n")
    assert folder.problems() == [
        "agents/a.yaml:2: main.model — this key is required",
        "agents/a.yaml:2: main.modle — unknown key (did you mean model?)",
        "agents/b.yml:2: main.model — unknown model GROS (declared models: HAIKU)",
        "agents/b.yml:3: foo — unknown key (known keys: name, description, expose, main, max_iterations, timeout, approval, budget, output, judge, policies, stream_output, language, tools, roles, subagents, max_depth, state)",
        "agents/c.yaml:2: this is not valid YAML: while parsing a flow sequence: did not find expected ',' or ']'",
        "loom.yaml:6: language — must be one of 'en', 'fr', not \"es\"",
    ]


def test_b3_unknown_model_lists_the_known_ones(folder: Folder) -> None:
    """The agent's file and line are named, and what may be written instead."""
    folder.write("agents/devis.yaml", AGENT.replace("HAIKU", "X"))
    expected = "agents/devis.yaml:2: main.model — unknown model X (declared models: HAIKU)"
    assert folder.problems() == [expected]


def test_b3_unknown_tool_is_reported_with_the_rest(folder: Folder) -> None:
    """References to Python are checked in the same go as everything else when asked."""
    folder.write(
        "outils.py", "from loom_ia.tools import tool\n@tool\ndef prix() -> str:\n  'Prix.'\n"
    )
    folder.write("loom.yaml", "imports: [outils]\n" + ROOT)
    folder.write("agents/devis.yaml", AGENT + "tools:\n  - python: prix\n  - python: prx\n")
    folder.write("agents/z.yaml", "name: z\nmain: {model: X, system: s}\n")
    assert folder.problems(references=True) == [
        "agents/devis.yaml:5: tools[1].python — nothing is called prx (did you mean prix?)",
        "agents/z.yaml:2: main.model — unknown model X (declared models: HAIKU)",
    ]


@pytest.mark.parametrize(
    ("main", "problem"),
    [
        ("{model: HAIKU, system: 'a {{ inconnue }}'}", "agents/devis.yaml:2: main.system — "),
        (
            "\n  model: HAIKU\n  system: |\n    un\n    {{ inconnue }}\n",
            "agents/devis.yaml:6: main.system — ",
        ),
        ("{model: HAIKU, system_file: devis.md}", "prompts/devis.md:2: "),
    ],
)
def test_b4_unknown_prompt_variable_names_the_variable_and_the_file(
    folder: Folder, main: str, problem: str
) -> None:
    """The line is that of the variable, in the file that holds the text."""
    folder.write("prompts/devis.md", "Un.\n{{ inconnue }}\n")
    folder.write("agents/devis.yaml", f"name: devis\nmain: {main}")
    assert folder.problems() == [
        problem
        + "unknown variable inconnue in the system prompt of devis (no variable exists for prompts in this version; write \\{{ for a literal {{)"
    ]


def test_pub_27_a_prompt_may_hold_braces(folder: Folder) -> None:
    """JSON, expressions, tags and escaped braces load, and come out as they were meant."""
    text = 'Réponds {"a": {"b": 1}} ou {x}, ${expr}, {% if %} ou \\{{ nom }}.\r\n'
    folder.write("prompts/devis.md", text.encode())
    folder.write("agents/devis.yaml", AGENT.replace("system: Bonjour.", "system_file: devis.md"))
    rendered = folder.load().prompts["devis"].render({})
    assert rendered == 'Réponds {"a": {"b": 1}} ou {x}, ${expr}, {% if %} ou {{ nom }}.\n'


ROOT_PROBLEMS = [
    ("version: 1\nversion: 1\n", "loom.yaml:2: the key version is written twice, first at line 1"),
    ("models: []\n", "loom.yaml:1: version — this key is required (write version: 1)"),
    ("", "loom.yaml:1: version — this key is required (write version: 1)"),
    ("version: 2\n", "loom.yaml:1: version — must be 1, not 2"),
    ("version: '1'\n", 'loom.yaml:1: version — must be 1, not "1"'),
    ("version: 1\nprofile: test\n",
     "loom.yaml:2: profile — must be one of 'dev', 'prod', not \"test\""),
    ("version: 1\nmodel: []\n", "loom.yaml:2: model — unknown key (did you mean models?)"),
    ("version: 1\nAgents-Dir: x\n", "loom.yaml:2: Agents-Dir — unknown key (did you mean agents_dir?)"),
    ("version: 1\ntenant: []\n", "loom.yaml:2: tenant — unknown key (did you mean tenants?)"),
    ("version: 1\nimports: outils\n", 'loom.yaml:2: imports — must be a list, not "outils"'),
    ("version: 1\nstorage: jsonl\n", 'loom.yaml:2: storage — must be a mapping, not "jsonl"'),
    ("version: 1\nstorage:\n  events:\n    backend: jsonl\n",
     "loom.yaml:3: storage.events — the jsonl backend needs a path (add path: data)"),
    ("version: 1\nstorage: {events: {backend: sqlite}}\n",
     "loom.yaml:2: storage.events — the sqlite backend needs a path (add path: data)"),
    ("version: 1\nstorage: {events: {path: data}}\n",
     "loom.yaml:2: storage.events.path — the memory backend keeps nothing and takes no path (remove it)"),
    ("version: 1\nstorage: {events: {backend: mysql}}\n",
     "loom.yaml:2: storage.events.backend — must be one of 'memory', 'jsonl', 'sqlite', not \"mysql\""),
    ("version: 1\nexecution: {lease: 0}\n", "loom.yaml:2: execution.lease — must be greater than 0, not 0"),
    ("version: 1\nexecution: {lease: '60'}\n",
     'loom.yaml:2: execution.lease — must be a number, not "60"'),
    ("version: 1\nexecution: {shutdown_timeout: -1}\n",
     "loom.yaml:2: execution.shutdown_timeout — must be at least 0, not -1"),
    ("version: 1\nmodels: [3]\n", "loom.yaml:2: models[0] — must be a mapping, not 3"),
    ("version: 1\nmodels: [{id: A, sdk: fake, model: 4}]\n",
     "loom.yaml:2: models[A].model — must be text, not 4 (put it in quotes)"),
    ("version: 1\nmodels: [{id: A, sdk: fake, model: ''}]\n",
     "loom.yaml:2: models[A].model — must not be empty"),
    ("version: 1\nmodels: [{id: A, sdk: fake, model: m, max_tokens: 1.5}]\n",
     "loom.yaml:2: models[A].max_tokens — must be a whole number, not 1.5"),
    ("version: 1\nmodels: [{id: A, sdk: fake, model: m, params: [x]}]\n",
     "loom.yaml:2: models[A].params — must be a mapping, not […]"),
    ("version: 1\nmodels:\n  - {id: A, sdk: fake, model: m}\n  - {id: A, sdk: fake, model: m}\n",
     "loom.yaml:4: models[A].id — A is already defined at loom.yaml:3"),
    ("version: 1\nagents: [3]\n", "loom.yaml:2: agents[0] — must be a mapping, not 3"),
    ("version: 1\nagents: 3\n", "loom.yaml:2: agents — must be a list, not 3"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), ROOT_PROBLEMS)
def test_a_fault_of_the_root_is_said_exactly(tmp_path: Path, text: str, problem: str) -> None:
    """The file, the line, the key, the fault and the remedy."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "loom.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, environ={})
    assert str(caught.value) == problem


AGENT_PROBLEMS = [
    ("main: {model: HAIKU, system: s}\n", "agents/devis.yaml:1: name — this key is required"),
    ("", "agents/devis.yaml:1: main — this key is required"),
    ("name: d\nmain: {model: HAIKU}\n",
     "agents/devis.yaml:2: main — give either system or system_file"),
    ("name: d\nmain: {model: HAIKU, system: s, system_file: f}\n",
     "agents/devis.yaml:2: main — give either system or system_file"),
    ("name: d e\nmain: {model: HAIKU, system: s}\n",
     'agents/devis.yaml:1: name — must match ^[A-Za-z0-9_-]{1,64}$, and "d e" does not'),
    ("name: _compaction\nmain: {model: HAIKU, system: s}\n",
     "agents/devis.yaml:1: name — the name _compaction is reserved (choose another)"),
    (AGENT + "max_iterations: 0\n",
     "agents/devis.yaml:3: max_iterations — must be greater than 0, not 0"),
    (AGENT + "tools:\n  - python: x\n    idempotent: yes\n",
     'agents/devis.yaml:5: tools[0].idempotent — must be true or false, not "yes" (YAML 1.2 has no other booleans)'),
    (AGENT + "tools:\n  - {}\n", "agents/devis.yaml:4: tools[0].python — this key is required"),
    (AGENT + "tools: [prix_ttc]\n",
     'agents/devis.yaml:3: tools[0] — must be a mapping, not "prix_ttc" (write - python: prix_ttc)'),
    (AGENT + "tools:\n  - python: x\n  - python: x\n",
     "agents/devis.yaml:5: tools[1].python — the tool x is already named at agents/devis.yaml:4"),
    (AGENT + "approval: {on_expire: deny}\n",
     "agents/devis.yaml:3: approval.on_expire — unknown key (did you mean on_expiry?)"),
    ("name: d\nmain: {model: HAIKU, system_file: absent.md}\n",
     "agents/devis.yaml:2: main.system_file — there is no file prompts/absent.md (system_file is relative to prompts_dir)"),
    ("name: d\nmain: {model: HAIKU, system_file: ../agents}\n",
     "agents/devis.yaml:2: main.system_file — agents cannot be read: Is a directory"),
    ("name: d\nmain: {model: HAIKU, system: 'a {{ b'}\n",
     "agents/devis.yaml:2: main.system — column 3: {{ is not closed on its line (write \\{{ for a literal one)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), AGENT_PROBLEMS)
def test_a_fault_of_an_agent_is_said_exactly(folder: Folder, text: str, problem: str) -> None:
    """The agent's own file and line."""
    folder.write("agents/devis.yaml", text)
    assert problem in folder.problems()


def test_a_prompt_outside_the_project_is_refused(folder: Folder) -> None:
    """A path that climbs out of the folder is not followed; one that stays in it is."""
    folder.write("commun.md", "Bonjour.")
    folder.write(
        "agents/devis.yaml", AGENT.replace("system: Bonjour.", "system_file: ../commun.md")
    )
    assert folder.load().prompts["devis"].render({}) == "Bonjour."
    folder.write("agents/devis.yaml", AGENT.replace("system: Bonjour.", "system_file: /etc/passwd"))
    assert folder.problems() == [
        "agents/devis.yaml:2: main.system_file — /etc/passwd is outside the folder of the configuration (move it inside)"
    ]


def test_a_prompt_that_is_not_utf_8_has_its_line(folder: Folder) -> None:
    """The prompt's own file is named."""
    folder.write("prompts/devis.md", b"un\ndeux \xe9\n")
    folder.write("agents/devis.yaml", AGENT.replace("system: Bonjour.", "system_file: devis.md"))
    assert folder.problems() == [
        "prompts/devis.md:2: the text is not in UTF-8; save the file in UTF-8"
    ]


def test_the_same_name_in_two_files_is_refused(folder: Folder) -> None:
    """The second file is at fault, and the first is named."""
    folder.write("agents/e.yaml", AGENT)
    assert folder.problems() == [
        "agents/e.yaml:1: name — devis is already defined at agents/devis.yaml:1"
    ]


def test_inline_agents_come_first_and_need_no_folder(folder: Folder) -> None:
    """Agents of the root and of the folder are one list."""
    inline = "agents:\n  - name: zoe\n    main: {model: HAIKU, system: s}\n"
    folder.write("loom.yaml", ROOT + inline)
    assert [agent.name for agent in folder.load().config.agents] == ["zoe", "devis"]
    folder.write("loom.yaml", ROOT + inline + "agents_dir: absent\n")
    assert [agent.name for agent in folder.load().config.agents] == ["zoe"]


def test_an_inline_agent_is_located_in_the_root(folder: Folder) -> None:
    """The item is shown by its name."""
    folder.write(
        "loom.yaml",
        ROOT + "agents:\n  - name: zoe\n    main: {model: X, system: s}\n    rols: []\n",
    )
    assert folder.problems() == [
        "loom.yaml:8: agents[zoe].main.model — unknown model X (declared models: HAIKU)",
        "loom.yaml:9: agents[zoe].rols — unknown key (did you mean roles?)",
    ]


def test_a_missing_agents_folder_has_a_remedy(folder: Folder) -> None:
    """Without any agent, the folder must be there."""
    folder.write("loom.yaml", ROOT + "agents_dir: agent\n")
    assert folder.problems() == [
        "loom.yaml:6: agents_dir — there is no folder agent (create it with a file for each agent, or list them under agents)"
    ]


def test_a_missing_root_has_a_remedy(tmp_path: Path) -> None:
    """The first error that a newcomer meets says what to do."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "loom.yaml", environ={})
    assert str(caught.value) == (
        "loom.yaml: there is no such file (create a project with `loom init`, or give --config)"
    )


def test_other_files_of_the_agents_folder_are_left_alone(folder: Folder) -> None:
    """Notes, hidden files and folders are no agents."""
    folder.write("agents/README.md", "x: [")
    folder.write("agents/.devis.yaml", "x: [")
    folder.write("agents/old.yaml/x", "")
    assert len(folder.load().config.agents) == 1


def test_files_are_shown_from_the_working_directory(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place can be clicked on where the command was typed."""
    monkeypatch.chdir(folder.path.parent)
    folder.write("agents/devis.yaml", "name: ]")
    (problem,) = folder.problems()
    assert problem.startswith(f"{folder.path.name}/agents/devis.yaml:1: ")


def test_b8_the_flag_wins_over_the_variable_and_the_file(folder: Folder) -> None:
    """Flag, then variable, then file; an empty variable chooses nothing."""

    def active(flag: str | None, variable: str | None) -> tuple[str | None, str | None]:
        environ = {} if variable is None else {"LOOM_PROFILE": variable}
        profile = folder.load(profile=flag, environ=environ).profile
        return profile.name, profile.origin

    assert active(None, None) == (None, None)
    folder.write("loom.yaml", ROOT + "profile: dev\n")
    assert active(None, None) == ("dev", "file")
    assert active(None, "") == ("dev", "file")
    assert active(None, "prod") == ("prod", "LOOM_PROFILE")
    assert active("prod", "dev") == ("prod", "--profile")


def test_an_unknown_profile_is_refused_with_its_origin(folder: Folder) -> None:
    """The flag and the variable are places too, reported with the rest."""
    folder.write("loom.yaml", ROOT + "foo: 1\n")
    first, second = folder.problems(profile="test")
    assert first == "--profile: unknown profile 'test' (the profiles are dev, prod)"
    assert second.startswith("loom.yaml:6: foo — unknown key")


def test_the_language_of_an_agent_is_its_own_or_the_roots(folder: Folder) -> None:
    """The agent's word wins."""
    folder.write("agents/en.yaml", "name: en\nlanguage: en\nmain: {model: HAIKU, system: s}\n")
    folder.write("loom.yaml", ROOT + "language: fr\n")
    loaded = folder.load()
    assert [loaded.language(agent) for agent in loaded.config.agents] == ["fr", "en"]


def test_a_later_fault_still_finds_its_place(folder: Folder) -> None:
    """What is found wrong once loaded is told in the file where it was written."""
    folder.write("agents/devis.yaml", AGENT + "tools:\n  - python: x\n")
    loaded: LoadedConfig = folder.load()
    problem = loaded.problem(("agents", 0, "tools", 0, "python"), "{name} is odd", name="x")
    assert str(problem) == "agents/devis.yaml:4: tools[0].python — x is odd"
    assert str(loaded.problem(("models", 0), "odd")) == "loom.yaml:3: models[HAIKU] — odd"
    assert loaded.path("data") == folder.path / "data"


def test_folders_and_files_that_cannot_be_read_are_told(folder: Folder) -> None:
    """The system's reason is given, at the key or for the file."""
    folder.write("agents/lien.yaml", "")
    (folder.path / "agents/lien.yaml").unlink()
    (folder.path / "agents/lien.yaml").symlink_to("lien.yaml")
    (problem,) = folder.problems()
    assert problem.startswith("agents/lien.yaml: the file cannot be read: ")
    folder.write("loom.yaml", ROOT + "agents_dir: loom.yaml\n")
    assert folder.problems() == [
        "loom.yaml:6: agents_dir — loom.yaml cannot be read: Not a directory"
    ]


DURABLE = "storage: {events: {backend: jsonl, path: data}}\n"
OUTILS = """\
from loom_ia.tools import tool

@tool(side_effects="irreversible", approval="always")
def envoyer(texte: str) -> str:
    \"\"\"Envoie un message.\"\"\"
    return texte
"""


@pytest.mark.parametrize(
    ("tool", "key"),
    [("{python: envoyer}", "python"), ("{python: envoyer, approval: always}", "approval")],
)
def test_b12_pub_09_an_agent_that_may_pause_needs_a_durable_journal(
    folder: Folder, tool: str, key: str
) -> None:
    """It is refused when it is validated, not when it is resumed; the dev profile accepts it."""
    folder.write("outils.py", OUTILS)
    folder.write("agents/devis.yaml", AGENT + f"tools:\n  - {tool}\n")
    folder.write("loom.yaml", ROOT + "imports: [outils]\n")
    said = f"agents/devis.yaml:4: tools[0].{key} — envoyer may wait for a human, and the memory backend forgets the run when the process ends (use jsonl or sqlite under storage.events; only the dev profile accepts it)"
    assert folder.problems(references=True) == [said]
    assert folder.problems(profile="prod", references=True) == [said]
    loaded = folder.load(profile="dev", references=True)
    assert list(map(str, loaded.warnings)) == [said]
    assert loaded.check_references() == loaded.warnings
    folder.write("loom.yaml", ROOT + "imports: [outils]\n" + DURABLE)
    assert folder.load(references=True).warnings == ()


def test_a_faulty_tool_is_told_with_everything_else(folder: Folder) -> None:
    """A function that cannot be a tool has its own place, beside the faults of the files."""
    broken = (
        '"""Outils."""\nfrom loom_ia.tools import tool\n\n\n@tool\ndef f(a):\n    """Fait."""\n'
    )
    folder.write("outils.py", broken)
    folder.write("loom.yaml", ROOT + DURABLE + "imports: [outils]\n")
    folder.write("agents/devis.yaml", AGENT.replace("HAIKU", "HAIK") + "tools: [{python: f}]\n")
    problems = folder.problems(references=True)
    assert "outils.py:5: f(a) — it has no type: annotate it, such as a: str" in problems
    assert any("unknown model HAIK" in problem for problem in problems)
    assert len(problems) == len(set(problems))


def test_an_approval_that_the_agent_lifts_pauses_nothing(folder: Folder) -> None:
    """What the agent's file says replaces what the tool declares."""
    folder.write("outils.py", OUTILS)
    folder.write("loom.yaml", ROOT + "imports: [outils]\n")
    folder.write("agents/devis.yaml", AGENT + "tools: [{python: envoyer, approval: never}]\n")
    assert folder.load(references=True).warnings == ()


def test_models_that_cannot_be_read_blame_no_agent(folder: Folder) -> None:
    """One fault is not told twice; models whose entry is faulty are still known."""
    folder.write("loom.yaml", "version: 1\nmodels: HAIKU\n")
    assert folder.problems() == ['loom.yaml:2: models — must be a list, not "HAIKU"']
    folder.write("loom.yaml", ROOT.replace("fake-1", "3"))
    assert folder.problems() == [
        "loom.yaml:5: models[HAIKU].model — must be text, not 3 (put it in quotes)"
    ]


def test_a_faulty_model_does_not_hide_an_unknown_one(folder: Folder) -> None:
    """Names are compared with what was written, sound or not."""
    folder.write("loom.yaml", ROOT.replace("sdk: fake", "sdk: litellm"))
    folder.write("agents/e.yaml", "name: e\nmain: {model: X, system: s}\n")
    assert folder.problems() == [
        "agents/e.yaml:2: main.model — unknown model X (declared models: HAIKU)",
        "loom.yaml:4: models[HAIKU].sdk — must be one of 'anthropic', 'openai', 'fake', not \"litellm\"",
    ]
