"""What a profile changes, and where its faults are said to be."""
# ruff: noqa: E501 (an exact message reads best on one line)

from pathlib import Path

import pytest

from loom_ia.agents import AgentSpec, MainRole
from loom_ia.config import (
    EventsStorage,
    LoomConfig,
    Override,
    Profiles,
    Storage,
    load_config,
    prepare_config,
)
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import ModelSpec
from tests.config.projects import ROOT, Folder

PROFILES = (
    ROOT
    + """\
language: fr
storage:
  events: {backend: jsonl, path: data}
imports: [json, csv]
profiles:
  prod:
    storage:
      events:
        backend: sqlite
        path: prod.db
    imports: [math]
    telemetry: {logging: {level: ERROR}}
  dev:
    language: en
"""
)


def test_b15_a_profile_is_merged_over_the_rest(folder: Folder) -> None:
    """Mappings are merged, lists are replaced, and what the profile leaves out stays."""
    folder.write("loom.yaml", PROFILES)
    plain, prod, dev = (folder.load(profile=name).config for name in (None, "prod", "dev"))
    assert (plain.storage.events.backend, plain.imports) == ("jsonl", ("json", "csv"))
    assert prod.storage.events == EventsStorage(backend="sqlite", path="prod.db")
    assert (prod.imports, prod.language, prod.telemetry.logging.format) == (
        ("math",),
        "fr",
        "console",
    )
    assert (dev.language, dev.storage) == ("en", plain.storage)
    assert dev.models == plain.models


def test_b15_each_overridden_key_is_told_with_both_values(folder: Folder) -> None:
    """The value without the profile is the one that is written, else the default."""
    folder.write("loom.yaml", PROFILES)
    assert folder.load().overrides == ()
    assert folder.load(profile="prod").overrides == (
        Override("loom.yaml", 14, "storage.events.backend", "jsonl", "sqlite"),
        Override("loom.yaml", 15, "storage.events.path", "data", "prod.db"),
        Override("loom.yaml", 16, "imports", ["json", "csv"], ["math"]),
        Override("loom.yaml", 17, "telemetry.logging.level", "INFO", "ERROR"),
    )
    assert folder.load(environ={"LOOM_PROFILE": "dev"}).overrides == (
        Override("loom.yaml", 19, "language", "fr", "en"),
    )


FAULTS = [
    ("storage: {events: {backend: mysql}}",
     "loom.yaml:9: storage.events.backend — must be one of 'memory', 'jsonl', 'sqlite', not \"mysql\""),
    ("storage: {events: {backend: sqlite}}",
     "loom.yaml:9: storage.events — the sqlite backend needs a path (add path: data)"),
    ("langage: fr", "loom.yaml:9: langage — unknown key (did you mean language?)"),
    ("tenants: []", "loom.yaml:9: tenants — not available in this version"),
    ("models: [{id: HAIKU, sdk: fake, model: 3}]",
     "loom.yaml:9: models[HAIKU].model — must be text, not 3 (put it in quotes)"),
    ("agents: [{name: zoe, main: {model: X, system: s}}]",
     "loom.yaml:9: agents[zoe].main.model — unknown model X (declared models: HAIKU)"),
    ("execution: {lease: 0}", "loom.yaml:9: execution.lease — must be greater than 0, not 0"),
    ("storage: 3", "loom.yaml:9: storage — must be a mapping, not 3"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "problem"), FAULTS)
def test_b15_a_fault_of_a_profile_has_the_line_of_the_profile(
    folder: Folder, written: str, problem: str
) -> None:
    """It is found when the profile is active; the rest of the file is not blamed for it."""
    folder.write("loom.yaml", f"{ROOT}profiles:\n  dev: {{}}\n  prod:\n    {written}\n")
    assert folder.load(profile="dev").overrides == ()
    assert folder.problems(profile="prod") == [problem]


def test_b15_a_section_that_the_profile_broke_is_told_there(folder: Folder) -> None:
    """The root alone was sound: the line is where the profile changes the section."""
    folder.write("loom.yaml", PROFILES.replace("path: prod.db", "path:"))
    assert folder.problems(profile="prod") == [
        "loom.yaml:13: storage.events — the sqlite backend needs a path (add path: data)"
    ]


def test_b15_a_fault_that_the_profile_replaces_is_gone(folder: Folder) -> None:
    """Only what is in force is checked, and what the profile leaves alone keeps its own line."""
    folder.write("loom.yaml", f"{ROOT}language: es\nfoo: 1\nprofiles:\n  prod:\n    language: fr\n")
    assert len(folder.problems()) == 2
    (problem,) = folder.problems(profile="prod")
    assert problem.startswith("loom.yaml:7: foo — unknown key")


@pytest.mark.parametrize("profile", [None, "dev", "prod"])
def test_what_only_the_root_may_say_is_refused_in_a_profile(
    folder: Folder, profile: str | None
) -> None:
    """Whichever profile is active."""
    folder.write(
        "loom.yaml",
        f"{ROOT}profiles:\n  prod:\n    env_file: 3\n    profiles: {{}}\n    profile: dev\n",
    )
    assert folder.problems(profile=profile) == [
        "loom.yaml:8: profiles.prod.env_file — a profile cannot name the file of variables (write env_file at the root)",
        "loom.yaml:9: profiles.prod.profiles — a profile has no profiles of its own",
        "loom.yaml:10: profiles.prod.profile — a profile cannot choose the profile (write profile at the root)",
    ]  # fmt: skip


def test_the_profiles_are_two_mappings(folder: Folder) -> None:
    """Another name, or another value, is refused."""
    folder.write("loom.yaml", ROOT + "profiles:\n  test: {}\n  prod: 3\n")
    assert folder.problems(profile="prod") == [
        "loom.yaml:7: profiles.test — unknown key (known keys: dev, prod)",
        "loom.yaml:8: profiles.prod — must be a mapping, not 3",
    ]


def test_a_block_of_a_model_is_replaced_whole(folder: Folder) -> None:
    """`params` and `llm` belong together: no key of the former block is left."""
    from loom_ia.config.overrides import override_values

    value, overrides = override_values(
        {"a": {"params": {"x": 1, "y": 2}}, "profiles": {"prod": {"a": {"params": {"x": 3}}}}},
        "prod",
        "loom.yaml",
    )
    assert value["a"] == {"params": {"x": 3}}
    assert overrides == (Override("loom.yaml", None, "a.params", {"x": 1, "y": 2}, {"x": 3}),)


def test_the_folder_of_agents_may_depend_on_the_profile(folder: Folder) -> None:
    """The profile is merged before the other files are read."""
    folder.write("loom.yaml", ROOT + "profiles: {prod: {agents_dir: prod}}\n")
    folder.write("prod/zoe.yaml", "name: zoe\nmain: {model: HAIKU, system: s}\n")
    assert [agent.name for agent in folder.load(profile="prod").config.agents] == ["zoe"]


def test_a_profile_in_python_is_merged_too(tmp_path: Path) -> None:
    """The same rules, and problems without a line."""
    config = LoomConfig(
        version=1,
        models=[ModelSpec(id="A", sdk="fake", model="m")],  # type: ignore[arg-type]
        agents=[AgentSpec(name="a", main=MainRole(model="A", system="s"))],  # type: ignore[arg-type]
        storage=Storage(events=EventsStorage(backend="jsonl", path="data")),
        profiles=Profiles(
            prod={"storage": {"events": {"path": "prod"}}}, dev={"language": "es", "agents": []}
        ),
    )
    loaded = prepare_config(config, base_dir=tmp_path, profile="prod")
    assert loaded.config.storage.events.path == "prod"
    assert loaded.config.agents == config.agents
    assert loaded.overrides == (
        Override("LoomConfig", None, "storage.events.path", "data", "prod"),
    )
    with pytest.raises(ConfigError) as caught:
        prepare_config(config, base_dir=tmp_path, profile="dev")
    assert str(caught.value) == "LoomConfig: language — must be one of 'en', 'fr', not \"es\""


def test_the_quickstart_has_no_override() -> None:
    """A project without profiles is the same in each."""
    loaded = load_config(Path(__file__).parents[2] / "examples/quickstart", profile="prod")
    assert loaded.overrides == ()
