"""A configuration that is written in Python."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config import LoomConfig, prepare_config
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import ModelSpec

MODEL = ModelSpec(id="A", sdk="fake", model="m")
MAIN = MainRole(model="A", system="s")


def agent(**fields: Any) -> AgentSpec:
    """Build an agent without the types of its fields."""
    return AgentSpec(**{"name": "a", "main": MAIN, **fields})


def config(**fields: Any) -> LoomConfig:
    """Build a configuration without the types of its fields."""
    return LoomConfig(**{"version": 1, **fields})


def test_lists_are_taken_for_tuples() -> None:
    """What is kept is the same, and cannot be changed."""
    tool = PythonTool(python="x")
    assert agent(tools=[tool]) == agent(tools=(tool,))
    built = config(models=[MODEL], agents=[agent()], imports=["json"])
    assert built == config(models=(MODEL,), agents=(agent(),), imports=("json",))
    assert isinstance(built.models, tuple)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"models": "A"}, "models\n  Input should be a valid tuple"),
        ({"models": ["A"]}, "models.0\n  Input should be a valid dictionary or instance of Model"),
        ({"imports": [3]}, "imports.0\n  Input should be a valid string"),
        (
            {"agents": [MODEL]},
            "agents.0\n  Input should be a valid dictionary or instance of Agent",
        ),
        ({"storage": {"evnts": {}}}, "storage.evnts\n  Extra inputs are not permitted"),
        ({"agents": [{"name": "a", "main": {"model": "A"}}]}, "give either system or system_file"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(fields: dict[str, Any], said: str) -> None:
    """A wrong value raises where it is built, with its place and in plain words."""
    with pytest.raises(ValidationError) as caught:
        config(**fields)
    assert said in str(caught.value)


def unknown(tmp_path: Path, reference: str, *imports: str) -> str:
    """Tell what is said of a reference that stands for nothing."""
    (tmp_path / "outils.py").write_text(
        "from loom_ia.tools import tool\n@tool\ndef prix() -> str:\n    'Prix.'\n    return ''\n"
    )
    tools = [PythonTool(python=reference)]
    built = config(models=[MODEL], agents=[agent(tools=tools)], imports=imports)
    with pytest.raises(ConfigError) as caught:
        prepare_config(built, base_dir=tmp_path, environ={}, references=True)
    return str(caught.value)


def test_an_unknown_reference_suggests_to_register_it(tmp_path: Path) -> None:
    """In Python one gives the object; the place is the agent's tool."""
    place = "LoomConfig: agents[a].tools[0].python — nothing is called "
    assert unknown(tmp_path, "autre") == (
        f"{place}autre (give the object with loom.register('autre', …), or list its module "
        "under imports)"
    )
    assert unknown(tmp_path, "autre", "outils") == (
        f"{place}autre (known names: prix; others are given with loom.register('autre', …))"
    )
    assert unknown(tmp_path, "prx", "outils") == f"{place}prx (did you mean prix?)"
