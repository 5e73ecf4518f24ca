"""The journal as documents that a client reads: `loom://…`, and the files of sessions.

Law. What may be read, and whether content is shown, is decided by the portal. A document is
bounded.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import mcp_types as types

from loom_ia.access.portal import Portal
from loom_ia.core.errors import CallerError, Forbidden
from loom_ia.core.json import JsonObject
from loom_ia.core.model.artifacts import ArtifactAddress
from loom_ia.i18n import translate as _

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
MAX_BYTES: Final = 8_388_608
"""Bytes of a document, before what the protocol adds."""


class NoSuchResource(Exception):
    """Nothing is there."""


class TooLarge(Exception):
    """A document of more than `MAX_BYTES`."""


@dataclass(frozen=True, slots=True)
class Document:
    """What was read: text, or bytes."""

    content: str | bytes
    mime_type: str

    def contents(self, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
        """Give it as the protocol does."""
        if isinstance(self.content, str):
            return types.TextResourceContents(uri=uri, mime_type=self.mime_type, text=self.content)
        blob = base64.b64encode(self.content).decode("ascii")
        return types.BlobResourceContents(uri=uri, mime_type=self.mime_type, blob=blob)


def listed() -> list[types.Resource]:
    """Give the documents that are always there."""
    return [
        types.Resource(
            uri="loom://runs", name="runs", description=_("The latest runs."), mime_type=JSON
        ),
        types.Resource(
            uri="loom://sessions", name="sessions", description=_("The sessions."), mime_type=JSON
        ),
    ]


def templates() -> list[types.ResourceTemplate]:
    """Give the forms of the other addresses."""
    told = (
        ("loom://runs/{id}{?session_id}", "run", _("Where a run stands, and what it gave."), JSON),
        ("loom://runs/{id}/events", "run_events", _("The events of a run, a line each."), LINES),
        ("loom://traces/{id}", "trace", _("A run as a tree."), JSON),
        ("loom://sessions/{id}", "session", _("A session, and its runs."), JSON),
        ("loom://sessions/{id}/events", "session_events", _("The events of a session."), LINES),
        ("loom://artifacts/{client}/{session}/{file}", "artifact", _("A file of a session."), None),
        ("artifact://{client}/{session}/{file}", "artifact_address", _("The same."), None),
    )
    return [
        types.ResourceTemplate(uri_template=uri, name=name, description=said, mime_type=kind)
        for uri, name, said, kind in told
    ]


async def read_resource(portal: Portal, uri: str) -> Document:
    """Read a document; raises `NoSuchResource`, `TooLarge` and `Forbidden`."""
    try:
        parts = urlsplit(uri)
        asked = parse_qs(parts.query, strict_parsing=True, max_num_fields=1) if parts.query else {}
    except ValueError:
        raise NoSuchResource from None
    path = tuple(unquote(part) for part in parts.path.split("/")[1:])
    home = asked.pop("session_id", [None])[0]
    if asked or parts.fragment:
        raise NoSuchResource
    reader = _Reader(portal, home)
    if parts.scheme == "artifact":
        found = await _guarded(reader.artifact, (parts.netloc, *path))
    elif parts.scheme == "loom" and parts.netloc in _READERS:
        found = await _guarded(_READERS[parts.netloc](reader), path)
    else:
        raise NoSuchResource
    if len(found.content) > MAX_BYTES:
        raise TooLarge
    return found


_Path: TypeAlias = tuple[str, ...]
_Read: TypeAlias = Callable[[_Path], Awaitable[Document]]


async def _guarded(read: _Read, path: _Path) -> Document:
    try:
        return await read(path)
    except Forbidden:
        raise
    except CallerError:  # there is none
        raise NoSuchResource from None


@dataclass(frozen=True, slots=True)
class _Reader:
    portal: Portal
    home: str | None = None

    async def runs(self, path: _Path) -> Document:
        match path:
            case ():
                return _json((await self.portal.runs()).model_dump(mode="json"))
            case (run_id,):
                result = await self.portal.result(run_id, session_id=self.home)
                return _json(result.model_dump(mode="json"))
            case (run_id, "events"):
                return _lines(await self.portal.events(run_id, session_id=self.home))
            case _:
                raise NoSuchResource

    async def traces(self, path: _Path) -> Document:
        match path:
            case (run_id,):
                trace = await self.portal.trace(run_id, session_id=self.home)
                return _json(trace.model_dump(mode="json"))
            case _:
                raise NoSuchResource

    async def sessions(self, path: _Path) -> Document:
        match path:
            case ():
                found = await self.portal.sessions()
                return _json([session.model_dump(mode="json") for session in found])
            case (session_id,):
                return _json((await self.portal.session(session_id)).model_dump(mode="json"))
            case (session_id, "events"):
                return _lines(await self.portal.export(session_id))
            case _:
                raise NoSuchResource

    async def artifact(self, path: _Path) -> Document:
        match path:
            case (client, session_id, file) if client == self.portal.visitor.tenant_id:
                uri = ArtifactAddress(client, session_id, file).uri
                kept, data = await self.portal.file(session_id, file)
                if kept.uri != uri:
                    raise NoSuchResource
                return Document(data, kept.media_type)
            case _:
                raise NoSuchResource


_READERS: Final[dict[str, Callable[[_Reader], _Read]]] = {
    "runs": lambda reader: reader.runs,
    "traces": lambda reader: reader.traces,
    "sessions": lambda reader: reader.sessions,
    "artifacts": lambda reader: reader.artifact,
}


def _json(value: object) -> Document:
    return Document(json.dumps(value, ensure_ascii=False), JSON)


def _lines(events: list[JsonObject]) -> Document:
    return Document("".join(f"{json.dumps(e, ensure_ascii=False)}\n" for e in events), LINES)
