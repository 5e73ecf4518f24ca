"""A project whose agent calls specialists and other agents; its models keep what they read."""

from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from loom_ia.access import Loom
from loom_ia.adapters.models.fake import FakeModel
from loom_ia.core.events import Event
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.content import ToolResultBlock
from loom_ia.core.model.request import ModelRequest

TOOLS = '''\
from loom_ia.tools import ToolError, tool


@tool
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
    """Calcule le montant TTC."""
    return {"montant_ttc": round(montant_ht * (1 + taux_tva / 100), 2)}


@tool
def lire(cle: str = "") -> str:
    """Lit sans rien changer."""
    return f"lu {cle}"


@tool(offload_over=100)
def long_texte() -> str:
    """Donne un long texte."""
    return "mot " * 100 + "fin"


@tool
def casser() -> str:
    """Échoue."""
    raise ToolError("cassé")


@tool
def rien() -> None:
    """Ne rend rien."""


@tool(side_effects="irreversible", approval="always")
def envoyer(texte: str) -> str:
    """Envoie pour de bon."""
    return f"envoyé {texte}"
'''


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Write a call."""
    return {"name": name, "arguments": arguments}


def calling(*calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Write a reply that asks for calls."""
    return {"tool_calls": [dict(each) for each in calls], **more}


class Voice(FakeModel):
    """A model that plays a script and remembers what it was asked."""

    def __init__(self, model: str, script: list[dict[str, Any]], spec: Mapping[str, Any]) -> None:
        fields = {"id": model, "sdk": "fake", "model": model.lower(), **spec}
        super().__init__(ModelSpec.model_validate({**fields, "params": {"script": script}}))
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest):
        """Remember, then play."""
        self.requests.append(request)
        async for chunk in super().stream(request):
            yield chunk

    def results(self, request: int = -1) -> list[str]:
        """Give the texts of the tool results that a request shows, in order."""
        return [
            block.output.text
            for message in self.requests[request].conversation()
            for block in message.blocks
            if isinstance(block, ToolResultBlock)
        ]

    def read(self, request: int = -1) -> str:
        """Give all the words of a request, its prompt aside."""
        asked = self.requests[request]
        return "\n".join(message.text for message in (*asked.conversation(), *asked.notes))

    def tools(self, request: int = -1) -> list[str]:
        """Give the names of what a request offers."""
        return [tool.name for tool in self.requests[request].tools]


@dataclass
class Studio:
    """Agents by name, and the scripts of their models by id."""

    folder: Path
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    root: dict[str, Any] = field(default_factory=dict)
    voices: dict[str, Voice] = field(default_factory=dict)
    more_tools: str = ""

    def save(self) -> "Studio":
        """Write every file."""
        models = [
            {
                "id": name,
                "sdk": "fake",
                "model": name.lower(),
                **self.models.get(name, {}),
                "params": {"script": script},
            }
            for name, script in self.scripts.items()
        ]
        events = {"backend": "jsonl", "path": "data"}
        root = {
            "version": 1,
            "imports": ["outils"],
            "models": models,
            "storage": {"events": events},
            **self.root,
        }
        self.write("loom.yaml", root)
        for name, agent in self.agents.items():
            main = {"model": "CHEF", "system": "Tu réponds."}
            self.write(f"agents/{name}.yaml", {"name": name, "main": main, **agent})
        (self.folder / "outils.py").write_text(TOOLS + self.more_tools)
        self.voices = {
            name: Voice(name, script, self.models.get(name, {}))
            for name, script in self.scripts.items()
        }
        return self

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Write one file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(value, allow_unicode=True, sort_keys=False))

    def __getitem__(self, model: str) -> Voice:
        """Give the model of that id."""
        return self.voices[model]

    @asynccontextmanager
    async def open(self, **more: Any):
        """Open the library on the project, whose models are those of the test."""
        self.save()
        path = self.folder / "loom.yaml"
        async with Loom.from_config(path, models=dict(self.voices), **more) as loom:
            yield loom


def of_type(events: list[Event], kind: str) -> list[Event]:
    """Give the events of one type."""
    return [event for event in events if event.type == kind]
