"""The JSON Schemas of answers: written in the agent, or read from the file that it names.

Law. A `schema_file` is JSON or YAML, inside the folder of `loom.yaml`. A schema is checked as a
schema here, once: whoever takes it afterwards need not.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from loom_ia.agents import AnswerSpec
from loom_ia.config.document import KeyPath, read_document
from loom_ia.config.files import read_bytes
from loom_ia.config.places import Show, reason
from loom_ia.config.project import AnswerSchema, Spoken, WrittenAgent
from loom_ia.core.json import JsonObject


def read_schemas(
    agents: Sequence[WrittenAgent], base_dir: Path, show: Show
) -> dict[Spoken, AnswerSchema]:
    """Read the schema of each agent, and of each of its roles, that has one."""
    schemas: dict[Spoken, AnswerSchema] = {}
    for position, agent in enumerate(agents):
        for role, output, at in _outputs(agent):
            if output.json_schema is not None:
                place = (*at, "schema")
                schemas[position, role] = _checked(agent, place, output.json_schema)
            elif output.schema_file is not None:
                place = (*at, "schema_file")
                schemas[position, role] = _read(agent, place, base_dir, output.schema_file, show)
    return schemas


def _outputs(agent: WrittenAgent) -> Iterator[tuple[str, AnswerSpec, KeyPath]]:
    if agent.spec.output is not None and "output" not in agent.broken:
        yield "", agent.spec.output, ("output",)
    for position, role in enumerate(agent.spec.roles):
        if role.output is not None:
            yield role.name, role.output, ("roles", position, "output")


def _read(
    agent: WrittenAgent, place: KeyPath, base_dir: Path, name: str, show: Show
) -> AnswerSchema:
    path = Path(os.path.normpath(base_dir / name))

    def refused(template: str, **params: object) -> AnswerSchema:
        return AnswerSchema(
            problems=(agent.source.problem(place, template, file=show(path), **params),)
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
    return _checked(agent, place, document.value)


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
