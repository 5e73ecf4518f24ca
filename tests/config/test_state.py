"""The keys of the state of a session: what a configuration may say of them."""

from pathlib import Path

import pytest

from loom_ia.agents import AgentSpec, MainRole, StateKeySpec, StateSourceSpec
from loom_ia.assembly.session_state import state_rules
from loom_ia.config import prepare_config
from loom_ia.config.root import LoomConfig, Profiles, StateLimits
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.session_state import StateSource
from tests.config.projects import ROOT, Folder

SOUND = """\
name: devis
main: {model: HAIKU, system: Bonjour., context: [session_state]}
state:
  client:
    description: Who the quote is for.
    schema: {type: object, required: [id]}
    from:
      - {tool: chercher, path: /client, on_missing: ignore}
      - {tool: oublier, value: null}
    required: true
  ton: {schema: {enum: [tu, vous]}, default: vous}
"""


def test_the_rules_are_those_that_are_written(folder: Folder) -> None:
    """Every word of the file reaches the rules that the engine applies."""
    folder.write("agents/devis.yaml", SOUND)
    folder.write("loom.yaml", ROOT + "sessions: {state: {max_value_bytes: 100}}\n")
    loaded = folder.load()
    rules = state_rules(loaded.config.agents[0], loaded.config.sessions.state)
    assert rules.shown
    assert (rules.max_value_bytes, rules.max_total_bytes) == (100, 4096)
    client = rules.keys["client"]
    assert client.required
    assert client.sources == (
        StateSource("chercher", "/client", None, "ignore"),
        StateSource("oublier", None, None, "refuse"),
    )
    assert client.schema == {"type": "object", "required": ["id"]}
    assert rules.declared == {"client": None, "ton": "vous"}


FAULTS = """\
name: devis
main: {model: HAIKU, system: Bonjour., context: [session_state]}
state:
  a: {schema: {type: thing}}
  b: {schema: {type: string, maxLength: 3}, default: four}
  c:
    from:
      - {tool: t, path: client}
      - {tool: t, value: 1}
  d: {schema: {type: string, pattern: "(?=a)b"}}
  e: {schema: {type: object, patternProperties: {"(a+)+$": {}}}}
  f: {default: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
"""


def test_everything_that_is_wrong_is_said_at_once(folder: Folder) -> None:
    """Each fault has its place and its words, those of all the keys together."""
    folder.write("agents/devis.yaml", FAULTS)
    limits = "sessions: {state: {max_value_bytes: 20, max_total_bytes: 30}}\n"
    folder.write("loom.yaml", ROOT + limits)
    place = "agents/devis.yaml"
    no_schema = (
        "this is not a JSON Schema: type: 'thing' is not valid under any of the given schemas"
    )
    pointer = (
        "(write / before each name, ~1 for / and ~0 for ~ inside of one; 1024 characters and 64"
        " names at most)"
    )
    too_large = "the default is too large: sessions.state.max_value_bytes is 20"
    unbounded = (
        "may take for ever (write it without looking around or back, and not under"
        " patternProperties)"
    )
    assert folder.problems() == [
        f"{place}:3: state — the defaults take 49 bytes, and sessions.state.max_total_bytes is 30",
        f"{place}:4: state.a.schema — {no_schema}",
        (
            f"{place}:5: state.b.default — the default does not fit the schema of the key:"
            " 'four' is too long"
        ),
        f"{place}:8: state.c.from[0].path — client is not a JSON Pointer {pointer}",
        f"{place}:9: state.c.from[1].tool — the tool t is named twice for this key",
        f"{place}:10: state.d.schema — the pattern (?=a)b {unbounded}",
        f"{place}:11: state.e.schema — the pattern (a+)+$ {unbounded}",
        f"{place}:12: state.f.default — {too_large}",
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("{'a b': {}}", "must match"),
        ("{2x: {}}", "must match"),
        ("{a: {required: true, default: 1}}", "give either required or default"),
        ("{a: {from: [{tool: t}]}}", "give either path or value"),
        ("{a: {from: [{tool: t, path: /x, value: 1}]}}", "give either path or value"),
        ("{a: {from: [{tool: t, path: /x, on_missing: hide}]}}", "'refuse', 'ignore'"),
        ("{a: {form: []}}", "did you mean from?"),
        ("{a: {schema: text}}", "must be a mapping"),
    ],
)
def test_a_wrong_key_is_refused(folder: Folder, state: str, said: str) -> None:
    """What a key cannot say is told with what it can."""
    agent = f"name: devis\nmain: {{model: HAIKU, system: s}}\nstate: {state}\n"
    folder.write("agents/devis.yaml", agent)
    (problem,) = folder.problems()
    assert problem.startswith("agents/devis.yaml:3: state")
    assert said in problem


def test_a_state_that_is_shown_must_be_declared(folder: Folder) -> None:
    """The context `session_state` of an agent without keys shows nothing, and is refused."""
    text = "name: devis\nmain: {model: HAIKU, system: s, context: [session_state]}\n"
    folder.write("agents/devis.yaml", text)
    assert folder.problems() == [
        (
            "agents/devis.yaml:2: main.context — the agent has no state to show (declare its keys"
            " under state)"
        )
    ]


def test_the_context_of_the_main_role_is_the_state_alone(folder: Folder) -> None:
    """Nothing else may stand there, and nothing twice."""
    start = "name: devis\nstate: {a: {}}\nmain: {model: HAIKU, system: s, context: "
    folder.write("agents/devis.yaml", start + "[user_input]}\n")
    assert "session_state" in folder.problems()[0]
    folder.write("agents/devis.yaml", start + "[session_state, session_state]}\n")
    assert "written twice" in folder.problems()[0]


@pytest.mark.parametrize("limit", ["0", "-1", "2000000"])
def test_the_limits_are_bounded(folder: Folder, limit: str) -> None:
    """A limit of bytes is positive, and no more than a megabyte."""
    text = f"sessions: {{state: {{max_value_bytes: {limit}}}}}\n"
    folder.write("loom.yaml", ROOT + text)
    (problem,) = folder.problems()
    assert "sessions.state.max_value_bytes — must be" in problem


def test_a_state_written_in_python_passes_through_a_profile(tmp_path: Path) -> None:
    """A source keeps its path, or its null value, when a profile rebuilds the configuration."""
    sources = (
        StateSourceSpec(tool="look", path="/id"),
        StateSourceSpec(tool="forget", value=None),
    )
    key = StateKeySpec(schema={"type": "string"}, sources=sources)
    config = LoomConfig(
        version=1,
        profiles=Profiles(dev={"sessions": {"state": {"max_value_bytes": 7}}}),
        models=(ModelSpec(id="M", sdk="fake", model="fake-1"),),
        agents=(AgentSpec(name="clerk", main=MainRole(model="M", system="s"), state={"id": key}),),
    )
    loaded = prepare_config(config, base_dir=tmp_path, profile="dev", environ={})
    assert loaded.config.agents[0].state == {"id": key}
    assert loaded.config.sessions.state == StateLimits(max_value_bytes=7)


def test_too_many_keys_are_refused(tmp_path: Path) -> None:
    """The number of keys is bounded."""
    keys = {f"k{i}": StateKeySpec() for i in range(65)}
    config = LoomConfig(
        version=1,
        models=(ModelSpec(id="M", sdk="fake", model="fake-1"),),
        agents=(AgentSpec(name="clerk", main=MainRole(model="M", system="s"), state=keys),),
    )
    with pytest.raises(ConfigError, match="there are 65 keys; 64 are read at most"):
        prepare_config(config, base_dir=tmp_path, environ={})
