"""The HTTP server: two routes, on this machine only, one thread to a connection."""

import json
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from scripts.local_llm.asked import Asked, read
from scripts.local_llm.chat import answer
from scripts.local_llm.engine import Engine
from scripts.local_llm.refusal import Refusal
from scripts.local_llm.shapes import Shapes
from scripts.local_llm.written import CallBegun, Piece

MODEL: Final = "gemma-3-270m"
HOST: Final = "127.0.0.1"

_MODELS: Final = "/v1/models"
_CHAT: Final = "/v1/chat/completions"
_METHODS: Final = {_MODELS: "GET", _CHAT: "POST"}
_LARGEST: Final = 4 << 20
_GONE: Final = (BrokenPipeError, ConnectionResetError)


def open_server(engine: Engine, port: int, *, free_numbers: bool = False) -> ThreadingHTTPServer:
    """Listen on `port`, 0 for a free one; the address is `server_address`."""
    handler = partial(_Handler, engine, free_numbers)
    server = ThreadingHTTPServer((HOST, port), handler)
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, engine: Engine, free_numbers: bool, *args: Any) -> None:
        self._engine, self._free_numbers = engine, free_numbers
        super().__init__(*args)

    def do_GET(self) -> None:
        """List the only model."""
        self._guarded("GET")

    def do_POST(self) -> None:
        """Answer a chat."""
        self._guarded("POST")

    def _guarded(self, method: str) -> None:
        """Do what is asked, or say why not; a client that left is none to tell."""
        try:
            self._route(method)
        except Refusal as refusal:
            self._send(refusal.status, refusal.body)
        except _GONE:
            self.close_connection = True

    def _route(self, method: str) -> None:
        body = self._body() if method == "POST" else b""
        path = self.path.partition("?")[0]
        if path not in _METHODS:
            raise Refusal(404, f"unknown path: {method} {path}", "unknown_url")
        if method != _METHODS[path]:
            raise Refusal(405, f"{path} takes {_METHODS[path]}, not {method}", "method_not_allowed")
        if path == _MODELS:
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "local"}
            return self._send(200, {"object": "list", "data": [model]})
        try:
            value = json.loads(body)
        except ValueError as error:
            raise Refusal(400, f"the body is no JSON: {error}") from None
        asked = read(value, MODEL)
        return self._stream(asked) if asked.stream else self._whole(asked)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST:
            self.close_connection = True
            raise Refusal(413 if length.isdecimal() else 411, f"Content-Length: {length or 'none'}")
        return self.rfile.read(int(length))

    def _whole(self, asked: Asked) -> None:
        pieces: list[Piece] = []
        ended = answer(self._engine, asked, pieces.append, free_numbers=self._free_numbers)
        self._send(200, Shapes(MODEL).whole(pieces, ended))

    def _stream(self, asked: Asked) -> None:
        """Send each piece as it is written; until the first one, an error is still an answer."""
        shapes = Shapes(MODEL, asked.with_usage)
        seen: list[type[Piece]] = []

        def take(piece: Piece | None) -> None:
            if not seen:
                self._open_stream()
                self._event(shapes.first(piece))
            if piece is not None:
                seen.append(type(piece))
                self._event(shapes.piece(piece))

        try:
            ended = answer(self._engine, asked, take, free_numbers=self._free_numbers)
            if not seen:
                take(None)
            for chunk in shapes.last(ended, called=CallBegun in seen):
                self._event(chunk)
            self.wfile.write(b"data: [DONE]\n\n")
        except Refusal as refusal:
            if not seen:
                raise
            self._event(refusal.body)

    def _open_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()

    def _event(self, value: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())
        self.wfile.flush()

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of ours in the same shape as the rest."""
        self.close_connection = True
        self._send(code, Refusal(code, message or explain or "bad request").body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests; a fault of the server itself is shown by `handle_error`."""
