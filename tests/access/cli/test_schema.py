"""`loom schema` prints what an editor and a validator need."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from loom_ia.access.cli.quickstart import FILES
from tests.access.cli.conftest import Desk


@pytest.mark.parametrize(
    ("options", "file"), [((), "loom.yaml"), (("--agent",), "agents/devis.yaml")]
)
def test_b18_the_printed_schema_accepts_the_first_project(
    loom: Desk, tmp_path: Path, options: tuple[str, ...], file: str
) -> None:
    """It is one JSON document, printed without a configuration at hand."""
    (loom.folder / "loom.yaml").unlink()
    done = loom("schema", *options)
    assert (done.code, done.err) == (0, "")
    schema = json.loads(done.out)
    written = yaml.safe_load(FILES[file])
    for draft in (Draft7Validator, Draft202012Validator):
        draft.check_schema(schema)
        assert draft(schema).is_valid(written)
        assert not draft(schema).is_valid({**written, "unknown_key": 1})


def test_b18_the_first_project_names_the_schema() -> None:
    """The editor looks for the file that the documentation tells to write."""
    first = FILES["loom.yaml"].splitlines()[0]
    assert first == "# yaml-language-server: $schema=./loom.schema.json"
