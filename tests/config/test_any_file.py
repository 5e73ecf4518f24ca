"""Whatever the files hold, loading them gives a configuration or problems with their place."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom_ia.config import LoomConfig, load_config
from loom_ia.config.availability import UNAVAILABLE_KEYS
from loom_ia.core.errors import ConfigError

KEYS = sorted(
    {*LoomConfig.model_fields, "id", "name", "main", "tools", "python", "model", "system", "events"}
    | {"system_file", "sdk", "params", "backend", "path", "logging", "approval"}
    | {key for keys in UNAVAILABLE_KEYS.values() for key in keys}
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
WORDS = st.sampled_from(
    [1, "fake", "memory", "jsonl", "anthropic", "{{ x }}", "{{", "../x", "a\0b"]
)


def lists(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Lists and mappings of `values`, with keys that mean something."""
    keys = st.sampled_from(KEYS) | st.text(max_size=3)
    return st.lists(values, max_size=3) | st.dictionaries(keys, values, max_size=4)


VALUES: st.SearchStrategy[object] = st.recursive(LEAVES | WORDS, lists, max_leaves=20)
FILES = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), VALUES, max_size=5)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(root=FILES, agent=FILES, inline=VALUES)
def test_any_file_loads_or_tells(
    tmp_path: Path, root: dict[str, object], agent: dict[str, object], inline: object
) -> None:
    """Nothing but a ConfigError comes out, each problem with a sentence."""
    (tmp_path / "agents").mkdir(exist_ok=True)
    root = {"version": 1, "agents": [inline, agent], **root}
    (tmp_path / "loom.yaml").write_text(json.dumps(root))
    (tmp_path / "agents" / "a.yaml").write_text(json.dumps(agent))
    try:
        load_config(tmp_path, environ={}, references=False)
    except ConfigError as error:
        for problem in error.problems:
            assert problem.file
            assert problem.message
            assert "Input should" not in problem.message
    else:
        pytest.fail("an agent without a model was accepted")
