"""What an agent makes of the tools that a source offers."""
# ruff: noqa: E501 (an exact message reads best on one line)

import logging

import pytest

from loom_ia.agents import McpTool, SourceTool, ToolOverrides
from loom_ia.assembly.fitting import Fitting, Reference
from loom_ia.config.root import ToolExecution
from loom_ia.core.json import JsonObject
from loom_ia.core.model import ToolOutput
from loom_ia.core.ports.sources import OfferedTool
from loom_ia.core.ports.tools import ToolContext
from loom_ia.tools import tool
from tests.engine.world import Hand

DEFAULTS = ToolExecution(timeout=7, offload_over=70)


def fitting(
    *written: McpTool | SourceTool, said: dict[str, ToolOverrides] | None = None
) -> Fitting:
    """Fit the tools of `crm`, under these references."""
    references = tuple(Reference(each, {**(said or {}), **each.tools}) for each in written)
    return Fitting("crm", references, DEFAULTS)


def offer(*tools: Hand, **named: Hand) -> list[OfferedTool]:
    """Offer tools, by their own names or by others."""
    return [OfferedTool(each.spec.name, each) for each in tools] + [
        OfferedTool(name, each) for name, each in named.items()
    ]


def test_tools_are_named_and_chosen() -> None:
    """By each reference on its own."""
    fit = fitting(McpTool(mcp="crm", include=("a",)), McpTool(mcp="crm", alias="c", exclude=("a",)))
    fitted = fit(offer(Hand("a"), Hand("b"), Hand("z")), {})
    assert list(fitted.tools) == ["crm__a", "c__b", "c__z"]
    assert [each.spec.name for each in fitted.tools.values()] == list(fitted.tools)
    assert fitted.own == {"crm__a": "a", "c__b": "b", "c__z": "z"}


def test_what_is_said_last_holds() -> None:
    """What the configuration says wins over what the tool declares; the rest is its own."""
    over = ToolOverrides(
        description="Other.", side_effects="irreversible", approval="always", timeout=3
    )
    fitted = fitting(McpTool(mcp="crm", tools={"a": over}))(offer(Hand("a", idempotent=True)), {})
    spec = fitted.tools["crm__a"].spec
    assert (spec.description, spec.side_effects, spec.approval) == (
        "Other.",
        "irreversible",
        "always",
    )
    assert (spec.timeout, spec.offload_over, spec.idempotent, spec.kind) == (3, 70, True, "mcp")


def test_a_tool_of_a_package_keeps_what_it_declares() -> None:
    """Defaults are for what nobody declared."""

    @tool(timeout=2)
    def look(word: str) -> str:
        """Look."""
        return word

    fitted = fitting(SourceTool(source="crm"))([OfferedTool("look", look)], {})
    spec = fitted.tools["crm__look"].spec
    assert (spec.timeout, spec.offload_over, spec.kind) == (2, 70, "python")


async def test_what_it_gives_passes_the_gate() -> None:
    """Anything that a tool may return becomes an output."""

    class Raw(Hand):
        async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
            return {"given": 1}  # type: ignore[return-value]

    fitted = fitting(McpTool(mcp="crm"))(offer(Raw("a")), {})
    given = await fitted.tools["crm__a"].call({}, ToolContext("t", "s", "r", "c", "clerk"))
    assert given.data == {"given": 1}


class NoTool:
    """What a package may offer by mistake."""

    spec = "none"


def test_what_is_no_tool_is_withheld() -> None:
    """Each with its reason; the others are offered."""
    array = Hand("array")
    array.spec = array.spec.model_copy(update={"input_schema": {"type": "array"}})
    key = Hand("key", remembers="key")
    endless = Hand("endless")
    endless.spec = endless.spec.model_copy(update={"input_schema": {"default": float("nan")}})
    given = [*offer(array, key, endless, Hand("good")), OfferedTool("odd", NoTool())]  # type: ignore[arg-type]
    fitted = fitting(McpTool(mcp="crm"))([*given, *offer(Hand("good"))], {"bad": "told by it"})
    assert list(fitted.tools) == ["crm__good"]
    assert "input_schema.default" in fitted.withheld["endless"]
    assert fitted.withheld == {
        "bad": "told by it",
        "array": "the schema of its arguments is not of type object",
        "key": "it remembers under a key of its own, which needs a store that runs share (storage.idempotency)",
        "endless": fitted.withheld["endless"],
        "odd": "NoTool is no tool: its spec is none",
        "good": "another tool has this name",
    }


def test_what_is_not_taken_is_not_withheld() -> None:
    """A tool that the agent leaves out needs no reason."""
    fitted = fitting(McpTool(mcp="crm", include=("a",)))(offer(Hand("a")), {"bad": "told by it"})
    assert fitted.withheld == {}


def test_the_same_listing_is_fitted_once() -> None:
    """The very same objects give the very same result; other ones give the same digest."""
    fit, given = fitting(McpTool(mcp="crm")), offer(Hand("a"))
    first = fit(given, {})
    assert fit(list(given), {}) is first
    other = fit(offer(Hand("a")), {})
    assert other is not first
    assert other.digest == first.digest
    assert fit(offer(Hand("a", idempotent=True)), {}).digest != first.digest


def test_unknown_names_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A name of the configuration that the source does not know is probably a typing error."""
    fit = fitting(McpTool(mcp="crm", include=("a", "b"), tools={"c": ToolOverrides(timeout=1)}))
    with caplog.at_level(logging.WARNING, "loom_ia.assembly"):
        fit(offer(Hand("a")), {})
        fit(offer(Hand("a")), {"d": "x"})
    assert [record.getMessage() for record in caplog.records] == [
        "source crm has no tool b, which the agent names",
        "source crm has no tool c, which the agent names",
    ]
