"""A `Loom` with agents of every kind, and keys of every scope, behind its REST API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from loom_ia.access import Loom
from loom_ia.access.http import create_app
from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.agents.spec import Expose, SubagentRef
from loom_ia.config import LoomConfig
from loom_ia.config.root import EventsStorage, Storage
from loom_ia.config.server import ApiKeySpec, HttpServer, Security, Server
from loom_ia.core.json import JsonValue
from loom_ia.core.model import Capabilities, ModelSpec, Pricing
from loom_ia.core.model.scopes import Scope
from loom_ia.graph import END, Ask, Graph
from loom_ia.tenancy.keys import KeyRing, digest_of
from loom_ia.tools import File, tool

SECRET = "devis-confidentiel-4711"
"""A word of users, models and tools, which nobody reads without `read_content`."""

SCOPES = ("run", "read", "read_content", "approve", "admin")
SENT: list[str] = []


@tool
async def somme(a: int, b: int) -> int:
    """Additionne."""
    return a + b


@tool(side_effects="irreversible", approval="always")
async def envoyer(texte: str) -> str:
    """Envoie."""
    SENT.append(texte)
    return texte


@tool
async def page(nom: str) -> File:
    """Fait une page."""
    return File(b"<script>alert(1)</script>", nom, "text/html")


SCRIPT: list[JsonValue] = [
    {
        "with_text": "somme",
        "text": "Je compte.",
        "tool_calls": [{"name": "somme", "arguments": {"a": 1, "b": 2}}],
    },
    {
        "with_text": "deux fois",
        "tool_calls": [
            {"name": "envoyer", "arguments": {"texte": "un"}},
            {"name": "envoyer", "arguments": {"texte": "deux"}},
        ],
    },
    {"with_text": "envoie", "tool_calls": [{"name": "envoyer", "arguments": {"texte": SECRET}}]},
    {"with_text": "page", "tool_calls": [{"name": "page", "arguments": {"nom": "p.html"}}]},
    {"with_text": "délègue", "tool_calls": [{"name": "aide", "arguments": {"message": "somme"}}]},
    {"with_text": "casse", "error": "auth"},
    {"text": f"Voilà {SECRET}."},
]


def key(name: str, *scopes: Scope, agents: tuple[str, ...] = (), **more: Any) -> ApiKeySpec:
    """Declare a key whose secret is its name."""
    return ApiKeySpec(
        id=name, hash=digest_of(f"lk_{name}"), scopes=scopes or ("run",), agents=agents, **more
    )


def config(folder: Path, keys: tuple[ApiKeySpec, ...] = (), **http: Any) -> LoomConfig:
    """Agents `a`, which calls `aide`, `relance`, and `cache` that is not for REST."""
    tools = (PythonTool(python="somme"), PythonTool(python="envoyer"), PythonTool(python="page"))
    main = MainRole(model="M", system="s")
    return LoomConfig(
        version=1,
        storage=Storage(events=EventsStorage(backend="sqlite", path=str(folder / "j.db"))),
        models=(
            ModelSpec(
                id="M",
                sdk="fake",
                model="fake-1",
                pricing=Pricing(input=1.0, output=5.0),
                capabilities=Capabilities(vision=True),
                params={"script": SCRIPT},
            ),
        ),
        agents=(
            AgentSpec(
                name="a",
                description="Fait tout.",
                main=main,
                tools=tools,
                subagents=(SubagentRef(agent="aide"),),
            ),
            AgentSpec(name="aide", description="Aide.", main=main, tools=tools),
            AgentSpec(name="relance", main=main, tools=tools),
            AgentSpec(name="cache", main=main, expose=Expose(rest=False)),
        ),
        server=Server(http=HttpServer(**http)),
        security=Security(api_keys=keys),
    )


def graph() -> Graph[Any]:
    """A graph of one step that asks for a number."""
    made: Graph[Any] = Graph("demande", "demander")

    @made.step(then=END)
    def demander(state: dict[str, Any]) -> Ask:
        return Ask({"combien": state.get("sujet")}, schema=int, phase="after", into="output")

    return made


def opened(made: LoomConfig) -> Loom:
    """The library on a configuration, with what it refers to."""
    loom = Loom(made)
    for name, obj in {"somme": somme, "envoyer": envoyer, "page": page}.items():
        loom.register(name, obj)
    loom.register("demande", graph())
    return loom


@dataclass
class Door:
    """A `Loom`, its application, and a client of it."""

    loom: Loom
    app: FastAPI
    client: httpx2.AsyncClient

    async def ask(
        self, method: str, path: str, *, secret: str = "", **more: Any
    ) -> httpx2.Response:
        """Send a request under `/v1`, with the key of that name."""
        headers: Mapping[str, str] = more.pop("headers", {})
        own = {"Authorization": f"Bearer lk_{secret}"} if secret else {}
        return await self.client.request(method, f"/v1{path}", headers={**own, **headers}, **more)

    async def get(self, path: str, secret: str = "") -> Any:
        """Read what must be there."""
        answer = await self.ask("GET", path, secret=secret)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def begin(self, message: str, agent: str = "a", secret: str = "", **more: Any) -> Any:
        """Run an agent; gives the result."""
        body = {"message": message, **more}
        answer = await self.ask("POST", f"/agents/{agent}/runs", secret=secret, json=body)
        assert answer.status_code in {201, 202}, answer.text
        return answer.json()


@asynccontextmanager
async def door(made: LoomConfig, keys: KeyRing | None = None) -> AsyncIterator[Door]:
    """Open the door of a configuration, to the keys that it declares or to other ones."""
    async with opened(made) as loom:
        app = create_app(loom, keys=keys)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://loom") as client:
            yield Door(loom, app, client)
