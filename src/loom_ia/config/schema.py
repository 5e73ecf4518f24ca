"""The JSON Schema of the configuration: what an editor needs to complete it and to find faults.

Law. It is made from the classes, so that it has the keys that are available and no other. It says
draft-07, which every editor reads, and uses no word that means something else in 2020-12. What
depends on several parts (a declared model, a path for a backend) is for `loom validate`.
"""

from copy import deepcopy
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from loom_ia.agents import AgentSpec
from loom_ia.config.overrides import ROOT_ONLY
from loom_ia.config.root import LoomConfig
from loom_ia.graph.spec import GraphSpec

Schema: TypeAlias = dict[str, Any]

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_REFERENCE: Final = "#/definitions/{model}"


def root_schema() -> Schema:
    """Give the schema of `loom.yaml`."""
    schema = _schema_of(LoomConfig, "loom.yaml")
    definitions = schema["definitions"]
    definitions["Profile"] = part = _partial(schema)
    for value in definitions["Profiles"]["properties"].values():
        value.pop("additionalProperties", None)
        value.pop("type", None)
        value["allOf"] = [{"$ref": _REFERENCE.format(model="Profile")}]
    part["description"] = "A part of a configuration, merged when its profile is active."
    return schema


def agent_schema() -> Schema:
    """Give the schema of a file of `agents_dir`."""
    return _schema_of(AgentSpec, "An agent")


def graph_schema() -> Schema:
    """Give the schema of a file of `graphs_dir`."""
    return _schema_of(GraphSpec, "A graph")


class _Generator(GenerateJsonSchema):
    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out titles that only repeat the name of the key."""
        return False


def _schema_of(model: type[BaseModel], title: str) -> Schema:
    made = model.model_json_schema(ref_template=_REFERENCE, schema_generator=_Generator)
    schema = cast("Schema", _portable(made))
    definitions = schema.pop("$defs", {})
    return {"$schema": DIALECT, **schema, "title": title, "definitions": definitions}


def _portable(value: Any) -> Any:
    """Write a reference that has neighbours in a way that draft-07 does not ignore them."""
    if isinstance(value, list):
        return [_portable(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = {key: _portable(inner) for key, inner in cast("Schema", value).items()}
    if isinstance(found.get("$ref"), str) and len(found) > 1:
        found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
    return found


def _partial(schema: Schema) -> Schema:
    """Give what a profile may hold: every key of the root but its own, none of them required."""
    names = schema["properties"].keys() - ROOT_ONLY.keys()
    kept = {key: value for key, value in schema["properties"].items() if key in names}
    return {"type": "object", "additionalProperties": False, "properties": deepcopy(kept)}
