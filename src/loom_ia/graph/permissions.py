"""Who may call what: rules put around tools, as another set of tools."""

from collections.abc import Iterable

from loom_ia.graph.patterns import patterns
from loom_ia.graph.toolset import Rules, Tools, Toolset, toolset


def permissions(
    tools: Tools,
    *,
    deny: Iterable[str] = (),
    allow: Iterable[str] | None = None,
    ask: Iterable[str] = (),
) -> Toolset:
    """Give the same tools under rules, themselves valid as `tools`.

    `deny` wins over `ask`, whose calls wait for a human, which wins over `allow`. `allow=None` is
    no list; an empty one allows nothing. Patterns are globs on the whole name, case-sensitive;
    `name(glob)` also looks at the first text among the arguments of the call. What is denied, or
    not allowed, is neither visible nor callable; a tool of which some calls pass stays visible.

    Permissions of permissions hold both. Raises `PatternError` for a pattern that is malformed or
    matches no tool.
    """
    given = toolset(tools)
    names = tuple(given.tools)
    rules = Rules(
        deny=patterns("deny", deny, names),
        allow=None if allow is None else patterns("allow", allow, names),
        ask=patterns("ask", ask, names),
    )
    return Toolset(given.tools, (*given.rules, rules))
