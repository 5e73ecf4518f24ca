"""Rules on tools: what is seen, what may be called, what waits for a human."""

from typing import Any

import pytest

from loom_ia.graph.dispatch import dispatch
from loom_ia.graph.errors import PatternError
from loom_ia.graph.permissions import permissions
from loom_ia.graph.tools import ToolCall, ToolHook
from loom_ia.graph.toolset import Toolset
from loom_ia.tools import tool


def named(name: str) -> Any:
    """Make a tool that takes a text and a note, and says its name."""

    @tool(name=name)
    async def act(text: str = "", note: str = "", times: int = 1) -> str:
        """Act."""
        return f"{name} {text}".strip()

    return act


TOOLS = [named(name) for name in ("Bash", "Read", "db_delete", "db_read", "send_mail")]


async def errors(tools: Toolset, *calls: tuple[str, dict[str, Any]]) -> list[str | None]:
    """Give how calls end."""
    asked = [ToolCall(str(i), name, arguments) for i, (name, arguments) in enumerate(calls)]
    return [result.error for result in await dispatch(tools, asked)]


async def test_pm01_what_is_denied_is_not_called() -> None:
    """The rest is."""
    tools = permissions(TOOLS, deny=["Bash"])
    assert await errors(tools, ("Bash", {}), ("Read", {})) == ["denied", None]


def test_pm03_what_is_denied_is_not_visible() -> None:
    """Neither by name nor to the model."""
    tools = permissions(TOOLS, deny=["Bash", "db_*"])
    assert tools.names == ("Read", "send_mail")
    assert [spec.name for spec in tools.specs] == ["Read", "send_mail"]
    assert "Bash" not in tools


async def test_pm04_deny_wins_over_allow() -> None:
    """Whatever else names the tool."""
    tools = permissions(TOOLS, deny=["Bash"], allow=["Bash"], ask=["Bash"])
    assert await errors(tools, ("Bash", {})) == ["denied"]


async def test_w32_a_glob_is_on_the_whole_name() -> None:
    """A star at the front is one like another, and case counts."""
    tools = permissions(TOOLS, deny=["*_delete", "[A-C]ash", "R??d"])
    assert tools.names == ("db_read", "send_mail")
    assert await errors(tools, ("db_delete", {}), ("db_read", {})) == ["denied", None]
    with pytest.raises(PatternError):
        permissions(TOOLS, deny=["bash"])


async def test_w32_a_pattern_looks_at_the_first_text_of_a_call() -> None:
    """The tool stays visible, and its other calls pass."""
    tools = permissions(TOOLS, deny=["Bash(rm *)"])
    assert "Bash" in tools
    calls = ({"text": "rm -rf /"}, {"text": "rm \n-rf /"}, {"text": "ls"}, {"times": 2}, {})
    assert await errors(tools, *[("Bash", arguments) for arguments in calls]) == [
        "denied",
        "denied",
        None,
        None,
        None,
    ]


async def test_w32_the_order_of_the_arguments_hides_nothing() -> None:
    """A model chooses how it writes a call, not what is looked at."""
    denied = permissions(TOOLS, deny=["Bash(rm *)"])
    allowed = permissions(TOOLS, allow=["Bash(ls*)"])
    hidden = {"note": "ls", "text": "rm -rf /"}
    assert await errors(denied, ("Bash", hidden)) == ["denied"]
    assert await errors(allowed, ("Bash", hidden)) == ["not_allowed"]


@pytest.mark.parametrize(
    "wrong",
    ["", "(", "Bash(", "Bash(rm", "Bash()", "Bash)", "(rm)", "B[ash", "Bash([)", "[z-a]*", "Nope"],
)
@pytest.mark.parametrize("option", ["deny", "allow", "ask"])
def test_w32_a_pattern_that_means_nothing_is_refused(option: str, wrong: str) -> None:
    """A guard that never matches is worse than none."""
    with pytest.raises(PatternError):
        permissions(TOOLS, **{option: [wrong]})


@pytest.mark.parametrize("option", ["deny", "allow", "ask"])
def test_a_text_is_no_list_of_patterns(option: str) -> None:
    """Its letters would be patterns."""
    with pytest.raises(PatternError, match="list"):
        permissions(TOOLS, **{option: "Bash"})


async def test_w33_an_empty_list_allows_nothing() -> None:
    """And no list at all allows everything."""
    assert permissions(TOOLS, allow=[]).names == ()
    assert await errors(permissions(TOOLS, allow=[]), ("Read", {})) == ["not_allowed"]
    assert len(permissions(TOOLS, allow=None)) == len(TOOLS)


async def test_a_list_allows_what_it_names() -> None:
    """The rest is neither visible nor callable."""
    tools = permissions(TOOLS, allow=["db_read", "Bash(ls*)"])
    assert tools.names == ("Bash", "db_read")
    calls = (("Bash", {"text": "ls -l"}), ("Bash", {"text": "cat"}), ("db_read", {}), ("Read", {}))
    assert await errors(tools, *calls) == [None, "not_allowed", None, "not_allowed"]


async def test_w92_what_is_asked_waits_for_a_human() -> None:
    """Ask wins over allow: such a tool need not be in the list."""
    tools = permissions(TOOLS, allow=["Read"], ask=["send_*"])
    assert tools.names == ("Read", "send_mail")
    assert await errors(tools, ("send_mail", {}), ("Read", {})) == ["needs_approval", None]


async def test_permissions_of_permissions_hold_both() -> None:
    """A layer can only take away."""
    inner = permissions(TOOLS, deny=["Bash"], ask=["Read"])
    outer = permissions(inner, allow=["Bash", "Read", "db_*"], deny=["db_delete"])
    assert outer.names == ("Read", "db_read")
    calls = [(name, {}) for name in ("Bash", "Read", "db_delete", "db_read", "send_mail")]
    assert await errors(outer, *calls) == [
        "denied",
        "needs_approval",
        "denied",
        None,
        "not_allowed",
    ]


async def test_a_hook_cannot_rewrite_a_call_around_the_rules() -> None:
    """Rules judge the call that would be made."""
    tools = permissions(TOOLS, deny=["Bash"])
    hook = ToolHook(pre=lambda call: ToolCall(call.id, "Bash", {}))
    (result,) = await dispatch(tools, [ToolCall("1", "Read", {})], hooks=[hook])
    assert result.error == "denied"


async def test_the_names_of_hidden_tools_are_not_told() -> None:
    """A model that asks for an unknown tool is told the visible ones."""
    (result,) = await dispatch(permissions(TOOLS, deny=["Bash"]), [ToolCall("1", "nope", {})])
    assert "Read" in result.content
    assert "Bash" not in result.content
