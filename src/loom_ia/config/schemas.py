"""The JSON Schemas of answers: written in the agent, or read from the file that it names.

Law. A `schema_file` is JSON or YAML, inside the folder of `loom.yaml`. A schema is checked as a
schema here, once: whoever takes it afterwards need not.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loom_ia.config.document import KeyPath, read_document
from loom_ia.config.files import read_bytes
from loom_ia.config.places import Show, reason
from loom_ia.config.project import AnswerSchema, WrittenAgent
from loom_ia.core.json import JsonObject

_SCHEMA: Final[KeyPath] = ("output", "schema")
_FILE: Final[KeyPath] = ("output", "schema_file")


def read_schemas(
    agents: Sequence[WrittenAgent], base_dir: Path, show: Show
) -> dict[int, AnswerSchema]:
    """Read the schema of each agent that has one, by position in `agents`."""
    schemas: dict[int, AnswerSchema] = {}
    for position, agent in enumerate(agents):
        output = agent.spec.output
        if output is None or "output" in agent.broken:
            continue
        if output.json_schema is not None:
            schemas[position] = _checked(agent, _SCHEMA, output.json_schema)
        elif output.schema_file is not None:
            schemas[position] = _read(agent, base_dir, output.schema_file, show)
    return schemas


def _read(agent: WrittenAgent, base_dir: Path, name: str, show: Show) -> AnswerSchema:
    path = Path(os.path.normpath(base_dir / name))

    def refused(template: str, **params: object) -> AnswerSchema:
        return AnswerSchema(
            problems=(agent.source.problem(_FILE, template, file=show(path), **params),)
        )

    if not path.is_relative_to(os.path.normpath(base_dir)):
        return refused("{file} is outside the folder of the configuration (move it inside)")
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return refused("there is no file {file} (schema_file is relative to loom.yaml)")
    except (OSError, ValueError) as error:
        return refused("{file} cannot be read: {reason}", reason=reason(error))
    document = read_document(data, show(path))
    if document.problems:
        return AnswerSchema(problems=document.problems)
    return _checked(agent, _FILE, document.value)


def _checked(agent: WrittenAgent, path: KeyPath, schema: JsonObject) -> AnswerSchema:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".") or "$"
        template = "this is not a JSON Schema: {where}: {problem}"
        problem = agent.source.problem(path, template, where=where, problem=error.message)
        return AnswerSchema(problems=(problem,))
    if schema.get("type") != "object":
        template = "the schema of an answer must be of type object"
        return AnswerSchema(problems=(agent.source.problem(path, template),))
    return AnswerSchema(schema)
