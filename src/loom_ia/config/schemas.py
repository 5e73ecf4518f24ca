"""The JSON Schemas of contracts: written in the agent, or read from the file that it names.

Law. A `schema_file` is JSON or YAML, inside the folder of `loom.yaml`. A schema is checked as a
schema here, once: whoever takes it afterwards need not.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from loom_ia.agents import AgentSpec, Contract, PythonTool, SourcedTools
from loom_ia.config.document import KeyPath, read_document
from loom_ia.config.files import read_bytes
from loom_ia.config.places import Show, Source, reason
from loom_ia.config.project import AnswerSchema, WrittenAgent
from loom_ia.config.root import LoomConfig
from loom_ia.core.json import JsonObject

IN_ROOT: Final = -1
"""Stands for the position of an agent, for what is written in the root."""


def contracts_of(spec: AgentSpec) -> Iterator[tuple[KeyPath, Contract]]:
    """Give the contracts of an agent, each with its place."""
    if spec.output is not None:
        yield ("output",), spec.output
    for position, role in enumerate(spec.roles):
        if role.output is not None:
            yield ("roles", position, "output"), role.output
    for position, tool in enumerate(spec.tools):
        if isinstance(tool, PythonTool) and tool.output is not None:
            yield ("tools", position, "output"), tool.output
        if isinstance(tool, SourcedTools):
            for own, over in tool.tools.items():
                if over.output is not None:
                    yield ("tools", position, "tools", own, "output"), over.output


def contracts_in(root: LoomConfig) -> Iterator[tuple[KeyPath, Contract]]:
    """Give the contracts of the tools of servers and sources, each with its place."""
    for section in ("mcp_servers", "tool_sources"):
        for position, source in enumerate(getattr(root, section)):
            for own, over in source.tools.items():
                if over.output is not None:
                    yield (section, position, "tools", own, "output"), over.output


def read_schemas(
    agents: Sequence[WrittenAgent], root: LoomConfig, source: Source, base_dir: Path, show: Show
) -> dict[tuple[int, KeyPath], AnswerSchema]:
    """Read the schema of each contract that has one, by the position of its agent and its place.

    Those of the root have the position `IN_ROOT`.
    """
    schemas: dict[tuple[int, KeyPath], AnswerSchema] = {}
    written = [
        (position, agent.source, path, contract)
        for position, agent in enumerate(agents)
        for path, contract in contracts_of(agent.spec)
        if path[0] not in agent.broken
    ]
    written += [(IN_ROOT, source, path, contract) for path, contract in contracts_in(root)]
    for position, at, path, contract in written:
        if contract.json_schema is not None:
            found = _checked(at, (*path, "schema"), contract.json_schema)
        elif contract.schema_file is not None:
            found = _read(at, base_dir, (*path, "schema_file"), contract.schema_file, show)
        else:
            continue
        schemas[position, path] = found
    return schemas


def _read(source: Source, base_dir: Path, place: KeyPath, name: str, show: Show) -> AnswerSchema:
    path = Path(os.path.normpath(base_dir / name))

    def refused(template: str, **params: object) -> AnswerSchema:
        return AnswerSchema(problems=(source.problem(place, template, file=show(path), **params),))

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
    return _checked(source, place, document.value)


def _checked(source: Source, place: KeyPath, schema: JsonObject) -> AnswerSchema:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".") or "$"
        template = "this is not a JSON Schema: {where}: {problem}"
        problem = source.problem(place, template, where=where, problem=error.message)
        return AnswerSchema(problems=(problem,))
    if place[0] == "output" and schema.get("type") != "object":
        template = "the schema of an answer must be of type object"
        return AnswerSchema(problems=(source.problem(place, template),))
    return AnswerSchema(schema)
