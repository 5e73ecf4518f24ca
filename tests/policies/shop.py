"""A small shop for tests of policies: agents with scripted models, and what their runs did."""

from collections.abc import Mapping, Sequence
from typing import Any

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, JudgeSpec, MainRole
from loom_ia.config import LoomConfig
from loom_ia.core.events import Event
from loom_ia.core.model import ModelSpec
from loom_ia.core.views.result import RunResult


def scripted(name: str, *replies: Mapping[str, Any]) -> ModelSpec:
    """Give a model that says these things, one after the other."""
    script: list[Any] = list(replies)
    return ModelSpec(id=name, sdk="fake", model=name, params={"script": script})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Give a reply that calls one tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def marks(**scores: float) -> dict[str, Any]:
    """Give a reply of a judge: a score for each criterion."""
    criteria = [{"name": name, "score": score, "reason": "so"} for name, score in scores.items()]
    return call("verdict", criteria=criteria)


def judge(**settings: Any) -> JudgeSpec:
    """Describe a judge on the model J, by one blocking criterion."""
    return JudgeSpec.model_validate(
        {"model": "J", "criteria": [{"name": "fidele", "rule": "True to the quote."}], **settings}
    )


class Shop:
    """One agent, `clerk`, on the model M; `run` gives what came of it and keeps the events."""

    def __init__(self, models: Sequence[ModelSpec], **agent: Any) -> None:
        self.named: dict[str, Any] = agent.pop("named", {})
        self.profile: Any = agent.pop("profile", None)
        spec = AgentSpec.model_validate(
            {"name": "clerk", "main": MainRole(model="M", system="Be brief."), **agent}
        )
        self.config = LoomConfig(
            version=1, models=tuple(models), agents=(spec,), profile=self.profile
        )
        self.events: list[Event] = []

    async def run(self, message: str = "Bonjour", **options: Any) -> RunResult:
        """Run the agent once."""
        loom = Loom(self.config)
        for name, value in self.named.items():
            loom.register(name, value)
        async with loom:
            result = await loom.run("clerk", message, run_id=options.pop("run_id", "r1"), **options)
            self.events = await loom.events(result.run_id)
        return result

    def of(self, *types: str) -> list[Any]:
        """Give the payloads of these types, in order."""
        return [event.payload for event in self.events if event.type in types]

    @property
    def calls_of_main(self) -> int:
        """How often the model of the agent itself answered."""
        return sum(e.type == "model.responded" and e.role == "main" for e in self.events)
