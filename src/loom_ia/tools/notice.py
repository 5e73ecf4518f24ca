"""The sentence that a tool says of a call to whoever must let it go."""

from collections.abc import Iterator, Mapping
from typing import cast

from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.json import JsonObject
from loom_ia.core.template import Template


def notice_faults(notice: str, schema: JsonObject) -> Iterator[Problem]:
    """Say what is wrong with a sentence for calls whose arguments fit `schema`, a problem each."""
    try:
        template = Template.parse(notice, "")
    except ConfigError as error:
        yield from error.problems
        return
    written = schema.get("properties")
    properties = cast("Mapping[str, object]", written if isinstance(written, dict) else {})
    if schema.get("additionalProperties", not properties) not in (False, None):
        return  # any name may be an argument
    known = ", ".join(properties) or "none"
    for variable in template.variables:
        if variable.path[0] not in properties:
            params: dict[str, object] = {"name": variable.path[0], "known": known}
            said = "{name} is no argument of the tool (its arguments: {known})"
            yield Problem("", variable.line, "", said, params)
