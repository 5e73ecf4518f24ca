"""The keys of the state of a session: names, schemas, sources and defaults that can work."""

from collections.abc import Iterator
from typing import Final

from loom_ia.agents import StateKeySpec
from loom_ia.config.document import KeyPath
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.root import StateLimits
from loom_ia.core.errors import Problem, UnstorableValue
from loom_ia.core.json import JsonObject, storable
from loom_ia.core.pointer import is_pointer
from loom_ia.core.schema import misfit, unbounded_pattern
from loom_ia.core.session_values import size_of

MOST_KEYS: Final = 64
LARGEST_SCHEMA: Final = 65_536


def check_state(project: Project) -> Iterator[Problem]:
    """Refuse keys that no value could have, and defaults larger than what may be kept."""
    limits = StateLimits() if "sessions" in project.broken else project.root.sessions.state
    for agent in project.agents:
        if "state" not in agent.broken:
            yield from _of_agent(agent, limits)
        shows = "main" not in agent.broken and "session_state" in agent.spec.main.context
        if shows and not agent.spec.state and "state" not in agent.broken:
            template = "the agent has no state to show (declare its keys under state)"
            yield agent.source.problem(("main", "context"), template)


def _of_agent(agent: WrittenAgent, limits: StateLimits) -> Iterator[Problem]:
    keys = agent.spec.state
    if len(keys) > MOST_KEYS:
        template = "there are {count} keys; {most} are read at most (put some in one object)"
        yield agent.source.problem(("state",), template, count=len(keys), most=MOST_KEYS)
        return
    for name, key in keys.items():
        path = ("state", name)
        yield from _schema(agent, (*path, "schema"), key.json_schema)
        yield from _sources(agent, (*path, "from"), key)
        yield from _default(agent, (*path, "default"), key, limits)
    defaults = {name: key.default for name, key in keys.items() if key.default is not None}
    total = _size(defaults)
    if defaults and total is not None and total > limits.max_total_bytes:
        template = "the defaults take {size} bytes, and sessions.state.max_total_bytes is {most}"
        most = limits.max_total_bytes
        yield agent.source.problem(("state",), template, size=total, most=most)


def _schema(agent: WrittenAgent, path: KeyPath, schema: JsonObject | None) -> Iterator[Problem]:
    from jsonschema import Draft202012Validator, SchemaError

    if schema is None:
        return
    size = _size(schema)
    if size is None or size > LARGEST_SCHEMA:
        template = "the schema takes more than {most} bytes (shorten it)"
        yield agent.source.problem(path, template, most=LARGEST_SCHEMA)
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".") or "$"
        template = "this is not a JSON Schema: {where}: {problem}"
        yield agent.source.problem(path, template, where=where, problem=error.message)
        return
    if pattern := unbounded_pattern(schema):
        template = (
            "the pattern {pattern} may take for ever (write it without looking around or back,"
            " and not under patternProperties)"
        )
        yield agent.source.problem(path, template, pattern=pattern)


def _sources(agent: WrittenAgent, path: KeyPath, key: StateKeySpec) -> Iterator[Problem]:
    named: set[str] = set()
    for position, source in enumerate(key.sources):
        if source.tool in named:
            template = "the tool {tool} is named twice for this key"
            yield agent.source.problem((*path, position, "tool"), template, tool=source.tool)
        named.add(source.tool)
        if source.path is not None and not is_pointer(source.path):
            template = (
                "{pointer} is not a JSON Pointer (write / before each name, ~1 for / and ~0 for ~"
                " inside of one; 1024 characters and 64 names at most)"
            )
            yield agent.source.problem((*path, position, "path"), template, pointer=source.path)


def _default(
    agent: WrittenAgent, path: KeyPath, key: StateKeySpec, limits: StateLimits
) -> Iterator[Problem]:
    if key.default is None:
        return
    size = _size(key.default)
    if size is None or size > limits.max_value_bytes:
        template = "the default is too large: sessions.state.max_value_bytes is {most}"
        yield agent.source.problem(path, template, most=limits.max_value_bytes)
    elif problem := _misfit(key):
        template = "the default does not fit the schema of the key: {problem}"
        yield agent.source.problem(path, template, problem=problem)


def _misfit(key: StateKeySpec) -> str:
    from jsonschema import Draft202012Validator, SchemaError

    schema = key.json_schema
    try:
        Draft202012Validator.check_schema(schema or {})
    except SchemaError:
        return ""  # told already
    return "" if schema and unbounded_pattern(schema) else misfit(key.default, schema)


def _size(value: object) -> int | None:
    """Count the bytes of a value; None when JSON cannot hold it."""
    try:
        return size_of(storable(value)[0])
    except UnstorableValue:
        return None
