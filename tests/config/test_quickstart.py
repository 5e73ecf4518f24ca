"""The example of the product page, as a reader copies it, and the same one in Python."""
# ruff: noqa: E501 (an exact message reads best on one line)

from collections.abc import Iterator
from pathlib import Path

import pytest

from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config import (
    EventsStorage,
    LoadedConfig,
    Logging,
    LoomConfig,
    Storage,
    Telemetry,
    load_config,
    prepare_config,
)
from loom_ia.config.references import is_tool
from loom_ia.core.errors import ConfigError
from loom_ia.core.json import JsonObject
from loom_ia.core.model import ModelSpec

HERE = Path(__file__).parent / "quickstart"
SCRIPT: JsonObject = {
    "script": [
        {
            "text": "Je calcule le prix TTC.",
            "tool_calls": [{"name": "prix_ttc", "arguments": {"montant_ht": 1250, "taux_tva": 10}}],
        },
        {"text": "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."},
    ]
}
IN_PYTHON = LoomConfig(
    version=1,
    imports=("outils",),
    agents_dir="agents/",
    prompts_dir="prompts/",
    models=(ModelSpec(id="SIMULE", sdk="fake", model="fake-1", params=SCRIPT),),
    telemetry=Telemetry(logging=Logging(level="WARNING")),
    storage=Storage(events=EventsStorage(backend="jsonl", path="data")),
    agents=(
        AgentSpec(
            name="devis",
            description="Répond aux questions de prix sur les devis.",
            main=MainRole(model="SIMULE", system_file="devis.md"),
            max_iterations=5,
            tools=(PythonTool(python="prix_ttc"),),
        ),
    ),
)


@pytest.fixture
def loaded() -> Iterator[LoadedConfig]:
    """The quickstart, loaded from its files."""
    loaded = load_config(HERE / "loom.yaml", environ={}, references=True)
    yield loaded
    loaded.references.close()


def test_the_quickstart_loads_as_it_is_written(loaded: LoadedConfig) -> None:
    """Its prompt is read and its tool is found."""
    assert loaded.prompts["devis"].render({}).startswith("Tu es l'assistant d'un artisan.")
    assert is_tool(loaded.references.find("prix_ttc"))
    assert loaded.profile.name is None


def test_b16_the_same_configuration_in_python_is_equal(loaded: LoadedConfig) -> None:
    """The same classes, the same values, and so the same runs."""
    assert loaded.config == IN_PYTHON
    prepared = prepare_config(IN_PYTHON, base_dir=HERE, environ={}, references=True)
    assert prepared.prompts == loaded.prompts
    prepared.references.close()


def test_the_example_without_a_file_is_prepared(tmp_path: Path) -> None:
    """A configuration in Python needs no folder; its tool is registered by hand."""
    config = LoomConfig(
        version=1,
        models=(ModelSpec(id="HAIKU", sdk="fake", model="claude-haiku-5-5"),),
        agents=(
            AgentSpec(
                name="devis",
                main=MainRole(model="HAIKU", system="Tu es l'assistant d'un artisan."),
                tools=(PythonTool(python="prix_ttc"),),
            ),
        ),
    )
    loaded = prepare_config(config, base_dir=tmp_path, environ={"LOOM_PROFILE": "dev"})
    assert (loaded.config, loaded.profile.name) == (config, "dev")
    with pytest.raises(ConfigError) as caught:
        loaded.check_references()
    assert str(caught.value) == (
        "LoomConfig: agents[devis].tools[0].python — nothing is called prix_ttc "
        "(give the object with loom.register('prix_ttc', …), or list its module under imports)"
    )


def test_a_configuration_in_python_passes_the_same_checks() -> None:
    """Its problems have a path and no line."""
    config = LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend="jsonl")),
        agents=(AgentSpec(name="a", main=MainRole(model="X", system="{{ v }}")),),
    )
    with pytest.raises(ConfigError) as caught:
        prepare_config(config, environ={})
    assert [str(problem) for problem in caught.value.problems] == [
        "LoomConfig: agents[a].main.model — unknown model X (no model is declared: add it under models)",
        "LoomConfig: agents[a].main.system — unknown variable v in the system prompt of a (no variable exists for prompts in this version; write \\{{ for a literal {{)",
        "LoomConfig: storage.events — the jsonl backend needs a path (add path: data)",
    ]  # fmt: skip


def test_a_tool_reference_tells_what_it_overrides() -> None:
    """Only what is written replaces what the tool declares."""
    assert PythonTool(python="x").overrides == {}
    reference = PythonTool(python="x", timeout=3, approval="always", idempotent=False)
    assert reference.overrides == {"timeout": 3.0, "approval": "always", "idempotent": False}
