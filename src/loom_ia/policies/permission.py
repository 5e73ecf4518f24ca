"""Which tools may be called, and with which arguments: two lists of patterns.

`deny` wins over `allow`. Without `allow` everything that is not denied may be called; an empty
`allow` lets nothing through. A pattern names tools by a glob, `send_*`, and may look at arguments,
`send_*(to=*@example.fr)`: each `name=glob`, separated by commas, must match the argument of that
name as text.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final, NamedTuple, cast

from loom_ia.core.errors import InvalidDecision
from loom_ia.core.json import JsonObject, JsonValue, readable
from loom_ia.core.model.decisions import CONTINUE, Decision, Deny
from loom_ia.core.ports.policies import BeforeTool, PolicyContext
from loom_ia.policies.function import policy

_KEYS: Final = frozenset({"allow", "deny"})
LONGEST: Final = 500
"""Characters of a pattern."""


class Pattern(NamedTuple):
    """One pattern that was read."""

    text: str
    tool: re.Pattern[str]
    arguments: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def matches(self, tool: str, arguments: JsonObject) -> bool:
        """Tell whether a call is one of those that the pattern names."""
        if not self.tool.match(tool):
            return False
        return all(
            name in arguments and glob.match(_text(arguments[name])) is not None
            for name, glob in self.arguments
        )


def read(text: str) -> Pattern:
    """Read a pattern. Raises `InvalidDecision` for one that cannot mean anything."""
    name, opened, rest = text.partition("(")
    if not text or len(text) > LONGEST:
        raise InvalidDecision(
            "the pattern {text!r} is empty, or longer than {most} characters",
            text=text[:40],
            most=LONGEST,
        )
    if not opened:
        return Pattern(text, _glob(name))
    if not rest.endswith(")"):
        raise InvalidDecision("the pattern {text!r} does not end with )", text=text)
    pairs: list[tuple[str, re.Pattern[str]]] = []
    for part in rest[:-1].split(","):
        argument, equals, glob = part.partition("=")
        if not equals or not argument.strip() or not glob:
            raise InvalidDecision(
                "the pattern {text!r} needs name=glob between its parentheses", text=text
            )
        pairs.append((argument.strip(), _glob(glob.strip())))
    return Pattern(text, _glob(name), tuple(pairs))


@lru_cache(maxsize=512)
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else readable(value)


@policy(points=["before_tool"], decisions=["deny"], name="permission")
async def permission(subject: BeforeTool, context: PolicyContext) -> Decision:
    """Let through only the calls that the lists allow."""
    denied = _patterns(context.params, "deny") or ()
    allowed = _patterns(context.params, "allow")
    tool, arguments = subject.spec.name, subject.arguments
    for pattern in denied:
        if pattern.matches(tool, arguments):
            return Deny(f"{tool} is denied here ({pattern.text})")
    if allowed is not None and not any(p.matches(tool, arguments) for p in allowed):
        return Deny(f"{tool} is not among what is allowed here")
    return CONTINUE


def _patterns(params: Mapping[str, JsonValue], key: str) -> tuple[Pattern, ...] | None:
    given = params.get(key)
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise InvalidDecision("{key} of loom.permission is a list of patterns", key=key)
    return tuple(read(text) for text in cast("Sequence[str]", given))


def faults_in(params: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Tell what is wrong with the params of the policy, before any run."""
    faults = [f"there is no {key} (known: allow, deny)" for key in sorted(params.keys() - _KEYS)]
    if not params.keys() & _KEYS:
        faults.append("give allow, deny or both")
    for key in sorted(_KEYS & params.keys()):
        try:
            _patterns(params, key)
        except InvalidDecision as error:
            faults.append(str(error))
    return tuple(faults)
