"""A source of tools that a test holds in its hands."""

from collections.abc import Iterable, Mapping

from loom_ia.core.errors import SourceUnavailable
from loom_ia.core.ports.sources import OfferedTool, SourceContext
from loom_ia.core.ports.tools import Tool


class FakeSource:
    """Gives the tools that a test says; they may appear, disappear, or fail to come.

    `down` is why it cannot be reached, empty while it can: an exception is raised as it is. Each
    tool is offered under its own name, or under the one that it is given. `opened` has for whom it
    was opened, in order; `open_now` counts what was not closed yet.
    """

    def __init__(
        self,
        *tools: Tool,
        named: Mapping[str, Tool] | None = None,
        withheld: Mapping[str, str] | None = None,
        down: str | BaseException = "",
    ) -> None:
        self.down = down
        self.withheld: dict[str, str] = dict(withheld or {})
        self.opened: list[SourceContext] = []
        self.open_now = 0
        self.closed = False
        self._tools: tuple[OfferedTool, ...] = ()
        self.offer(*tools, named=named)

    def offer(self, *tools: Tool, named: Mapping[str, Tool] | None = None) -> None:
        """Give these tools, and no other, from the next opening on."""
        own: Iterable[tuple[str, Tool]] = ((tool.spec.name, tool) for tool in tools)
        self._tools = tuple(OfferedTool(*each) for each in (*own, *(named or {}).items()))

    async def open(self, context: SourceContext) -> "_Open":
        """Give the tools; raises `SourceUnavailable` while it is down."""
        self.opened.append(context)
        if isinstance(self.down, BaseException):
            raise self.down
        if self.down:
            raise SourceUnavailable("{reason}", reason=self.down)
        self.open_now += 1
        return _Open(self, self._tools, dict(self.withheld))

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True


class _Open:
    def __init__(
        self, source: FakeSource, tools: tuple[OfferedTool, ...], withheld: Mapping[str, str]
    ) -> None:
        self.tools = tools
        self.withheld = withheld
        self._source: FakeSource | None = source

    async def close(self) -> None:
        if self._source is not None:
            self._source.open_now -= 1
            self._source = None
