"""An office whose agent asks before it sends: a real server, and a receiver of its notices."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
import yaml

from loom_ia.access import Loom
from loom_ia.access.http import create_app

SECRETS = {"LINKS": "drawn at random, long enough", "HOOK": "another one, long enough too"}
MAIL = {
    "destinataire": "compta@dupont.example",
    "objet": "Relance facture F-2041",
    "montant": "1 842,50",
    "corps": (
        "Bonjour,\n\nSauf erreur de notre part, la facture F-2041 du 12 octobre reste impayée.\n"
        "Merci de nous dire quand elle sera réglée.\n\nBien à vous,\nLe service comptable"
    ),
}
TOOLS = '''\
from pathlib import Path

from loom_ia.graph import Ask, END, Graph, tool_step
from loom_ia.tools import tool

SENT = Path(__file__).parent / "sent"


@tool(
    side_effects="irreversible",
    approval="always",
    notice="Envoyer à {{ destinataire }} : « {{ objet }} » ({{ montant }} €)",
)
def envoyer_email(destinataire: str, objet: str, montant: str, corps: str) -> str:
    """Envoie un courriel."""
    with SENT.open("a") as file:
        file.write(f"{destinataire}\\n")
    return "envoyé"


async def demander(state, ctx):
    """Demande à une personne."""
    return Ask(state["question"], schema=state["schema"], into="reponse")


questions = Graph("questions", "demander").add_step("demander", demander, then=END)
envoi = tool_step(envoyer_email, args=lambda state: state["mail"], into="envoi")
envois = Graph("envois", "envoyer").add_step("envoyer", envoi, then=END)
'''


@dataclass
class Received:
    """A webhook on loopback: what it was posted, and the statuses that it answers, then 200.

    With a `gate` it takes what it is posted, and answers nothing before it opens.
    """

    statuses: list[int] = field(default_factory=list[int])
    posts: list[tuple[dict[str, str], bytes]] = field(
        default_factory=list[tuple[dict[str, str], bytes]]
    )
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event | None = None

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What was posted, read."""
        return [json.loads(body) for _, body in self.posts]

    @property
    def token(self) -> str:
        """The end of the link that was posted last."""
        return str(self.notices[-1]["link"]).rpartition("/")[2]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.posts.append((headers, body))
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        more = "Location: /elsewhere\r\n" if 300 <= status < 400 else ""
        answer = f"HTTP/1.1 {status} X\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(ConnectionError):  # whoever posted may be dead
            writer.write(answer.encode())
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[tuple[Received, str]]:
    """A webhook that listens, and its address."""
    received = Received(list(statuses))
    server = await asyncio.start_server(received.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield received, f"http://127.0.0.1:{port}/hook"
    finally:
        server.close()
        await server.wait_closed()


def written(folder: Path, url: str, port: int = 80, **changes: Any) -> Path:
    """Write the project; `changes` are those of `notices`."""
    (folder / "outils.py").write_text(TOOLS)
    mail = {"name": "envoyer_email", "arguments": MAIL}
    document = {
        "version": 1,
        "language": "fr",
        "imports": ["outils"],
        "storage": {"events": {"backend": "jsonl", "path": "data"}},
        "models": [
            {
                "id": "M",
                "sdk": "fake",
                "model": "fake",
                "params": {"script": [{"tool_calls": [mail]}, {"text": "C'est fait."}]},
            }
        ],
        "agents": [
            {
                "name": "relance",
                "main": {"model": "M", "system": "Relance les clients."},
                "tools": [{"python": "envoyer_email"}],
            }
        ],
        "notices": {
            "public_url": f"http://127.0.0.1:{port}",
            "secret_env": "LINKS",
            "targets": [{"name": "chef", "url": url, "secret_env": "HOOK"}],
            **changes,
        },
    }
    file = folder / "loom.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=True, sort_keys=False))
    return file


@dataclass
class Office:
    """The parts of an open office; `base` is the address of its server."""

    loom: Loom
    hook: Received
    folder: Path
    base: str
    client: httpx2.AsyncClient

    @property
    def sent(self) -> list[str]:
        """What was really sent, a line each."""
        file = self.folder / "sent"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def url(self) -> str:
        """The link of the last notice, on this server."""
        return f"{self.base}/decide/{self.hook.token}"

    async def ask(self, run_id: str = "r1") -> str:
        """Have the agent ask, and give the link that was posted."""
        await self.loom.run("relance", "Relance Dupont", run_id=run_id)
        await self.loom.drain()
        return self.url

    async def question(self, question: Any, schema: Any, run_id: str = "q1") -> str:
        """Have the graph ask, and give the link that was posted."""
        given = {"question": question, "schema": schema}
        await self.loom.run_graph("questions", given, run_id=run_id)
        await self.loom.drain()
        return self.url

    async def decided(self, run_id: str = "r1") -> list[dict[str, Any]]:
        """Read the decisions in the journal."""
        events = await self.loom.events(run_id)
        kinds = ("approval.granted", "approval.rejected")
        return [e.payload.model_dump(mode="json") for e in events if e.type in kinds]

    async def post(self, url: str, **fields: str) -> httpx2.Response:
        """Send the form of the page."""
        token = url.partition("?")[0].rpartition("/")[2]
        return await self.client.post(url, data={"token": token, **fields})


@asynccontextmanager
async def office(folder: Path, **changes: Any) -> AsyncIterator[Office]:
    """Serve the project on loopback, with its webhook."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with receiver() as (hook, url):
            file = written(folder, url, port, **changes)
            environ = {**os.environ, **SECRETS}
            async with Loom.from_config(file, environ=environ) as loom:
                app = create_app(loom)
                settings = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
                server = uvicorn.Server(settings)
                task = asyncio.create_task(server.serve([taken]))
                await until(lambda: server.started)
                base = f"http://127.0.0.1:{port}"
                try:
                    async with httpx2.AsyncClient(timeout=20, trust_env=False) as client:
                        yield Office(loom, hook, folder, base, client)
                finally:
                    server.should_exit = True
                    await task


async def until(holds: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 -- what it waits for tells nobody
            await asyncio.sleep(0.01)
