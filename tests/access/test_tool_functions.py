"""Functions that a tool declares are asked under the declarations of an agent's file, too."""

from pathlib import Path
from typing import Any

from loom_ia import AgentSpec, Loom, LoomConfig, MainRole, ModelSpec, PythonTool
from loom_ia.config.root import EventsStorage, Storage
from loom_ia.tools import Assessment, Done, ToolContext, UnknownEffect, tool


def _config(folder: Path, **overrides: Any) -> LoomConfig:
    script = [{"tool_calls": [{"name": "pay", "arguments": {"amount": 12}}]}, {"text": "Done."}]
    model = ModelSpec(id="FAKE", sdk="fake", model="fake", params={"script": script})
    tools = (PythonTool(python="pay", **overrides),)
    main = MainRole(model="FAKE", system="You are a clerk.")
    return LoomConfig(
        version=1,
        models=(model,),
        agents=(AgentSpec(name="clerk", main=main, tools=tools),),
        storage=Storage(events=EventsStorage(backend="jsonl", path=str(folder))),
    )


async def test_reconcile_is_asked_under_another_timeout(tmp_path: Path) -> None:
    """A tool whose timeout the agent changed still asks the outside world."""

    def was_paid(args: dict[str, Any], ctx: ToolContext) -> Done:
        return Done({"paid": args["amount"]})

    @tool(side_effects="irreversible", reconcile=was_paid)
    async def pay(amount: int) -> str:
        """Pay."""
        raise UnknownEffect

    loom = Loom(_config(tmp_path, timeout=5.0))
    loom.register("pay", pay)
    async with loom:
        result = await loom.run("clerk", "Pay")
    (effect,) = result.effects
    assert (effect.status, effect.reconciled) == ("done", True)


async def test_a_call_is_assessed_under_another_timeout(tmp_path: Path) -> None:
    """A tool whose timeout the agent changed still says what its calls call for."""

    @tool(side_effects="irreversible", assess=lambda args: Assessment(approval="always"))
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError

    loom = Loom(_config(tmp_path, timeout=5.0))
    loom.register("pay", pay)
    async with loom:
        result = await loom.run("clerk", "Pay")
    assert [pending.tool_name for pending in result.pending_approvals] == ["pay"]
    assert [effect.status for effect in result.effects] == ["planned"]
