"""A server that speaks the protocol by hand, one JSON line at a time, and can do everything wrong.

    python by_hand.py FOLDER

FOLDER has `tools.json`, the definitions, read at each `tools/list`; each start, call and
cancellation adds a line to `starts`, `calls` and `cancelled` there. What a tool does is told by its
name, or by its argument `do`.
"""

import base64
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LOCK = threading.Lock()


ASKED: "queue.Queue[dict[str, Any]]" = queue.Queue()
DEAF = threading.Event()
Message = dict[str, Any]


def note(name: str, text: object) -> None:
    """Add a line to a file."""
    with (FOLDER / name).open("a") as file:
        file.write(f"{json.dumps(text)}\n")


def write(*parts: str) -> None:
    """Write a line."""
    with LOCK:
        for part in parts:
            sys.stdout.write(part)
        sys.stdout.write("\n")
        sys.stdout.flush()


def answer(message: Message, **members: object) -> None:
    """Answer a request."""
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **members}))


def text(said: str) -> Message:
    """A result that is a text."""
    return {"content": [{"type": "text", "text": said}]}


def die(_: Message) -> None:
    """End in the middle of a call."""
    os._exit(3)


def die_once(message: Message) -> None:
    """End in the middle of the first call."""
    if len((FOLDER / "calls").read_text().splitlines()) == 1:
        os._exit(3)
    answer(message, result=text("die_once done"))


def wait(message: Message) -> None:
    """Answer once it is told to."""
    while not (FOLDER / "go").exists():
        time.sleep(0.01)
    answer(message, result=text("wait done"))


def flood(message: Message) -> None:
    """Write 30 MB of errors."""
    for _ in range(300):
        sys.stderr.write("x" * 100_000 + "\n")
    sys.stderr.write("last\x1b[31m words")
    sys.stderr.flush()
    answer(message, result=text("flood done"))


def noise(message: Message) -> None:
    """Write lines that are no message."""
    write("this is no message")
    write('{"jsonrpc": "2.0", "method": "notifications/never_heard_of"}')
    write("[]")
    sys.stdout.buffer.write(b"\xff\xfe\n")
    answer(message, result=text("noise done"))


def raw(result: str) -> Callable[[Message], None]:
    """Answer by what no JSON writer would write."""

    def reply(message: Message) -> None:
        write(f'{{"jsonrpc": "2.0", "id": {message["id"]}, "result": {result}}}')

    return reply


def huge(message: Message) -> None:
    """Answer 200 MB."""
    begin = f'{{"jsonrpc": "2.0", "id": {message["id"]}, "result": {{"content": "'
    write(begin, *["x" * 1_000_000] * 200, '"}}')


def given(result: object) -> Callable[[Message], None]:
    """Answer always the same."""
    return lambda message: answer(message, result=result)


def asks(message: Message) -> None:
    """Ask back, and tell what was answered."""
    write('{"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": {}}')
    answer(message, result=text(json.dumps(ASKED.get(timeout=20))))


def nags(message: Message) -> None:
    """Ask 50 000 questions without reading an answer, then answer."""
    DEAF.set()
    for number in range(50_000):
        write(f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}')
    DEAF.clear()
    answer(message, result=text("nags done"))


def refused(message: Message) -> None:
    """Answer by an error."""
    answer(message, error={"code": -32602, "message": "no such thing"})


def fails(code: int) -> Callable[[Message], None]:
    """Answer by an error of that code."""
    return lambda message: answer(message, error={"code": code, "message": "its own words"})


DATA = base64.b64encode(PNG).decode()
DEEP = '{"structuredContent": {"n": ' + "[" * 100_000 + "]" * 100_000 + "}}"
DOES: dict[str, Callable[[Message], None]] = {
    "die": die,
    "die_once": die_once,
    "wait": wait,
    "flood": flood,
    "noise": noise,
    "huge": huge,
    "surrogate": raw('{"content": [{"type": "text", "text": "a\\ud83d"}]}'),
    "nan": raw('{"content": [], "structuredContent": {"n": NaN}}'),
    "deep": raw(DEEP),
    "cut": raw('{"content": ['),
    "no_object": raw("[1]"),
    "strange": given({"content": [], "resultType": "strange"}),
    **{f"code{code}": fails(code) for code in (-32098, -32097, -32603, 7)},
    "wrong": given({"content": [{"type": "hologram"}, 7, *text("and this")["content"]]}),
    "no_result": given({"content": "all is well"}),
    "image": given(
        {
            "content": [
                *text("a picture")["content"],
                {"type": "image", "data": DATA, "mimeType": "image/jpeg"},
                {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": DATA}},
                {"type": "resource_link", "uri": "http://127.0.0.1:9/never", "name": "a link"},
            ]
        }
    ),
    "structured": given({**text('{"sum": 4}'), "structuredContent": {"sum": 4}}),
    "failed": given({**text("it cannot be done"), "isError": True}),
    "asks": asks,
    "nags": nags,
    "refused": refused,
}


def call(message: Message) -> None:
    """Do what is asked for."""
    params = message["params"]
    arguments = params.get("arguments") or {}
    do = arguments.get("do") or params["name"]
    note("calls", {"name": params["name"], "arguments": arguments, "meta": params.get("_meta")})
    DOES.get(do, given(text(f"{do} done")))(message)


def listed(message: Message) -> None:
    """Give a page of three tools."""
    note("lists", 1)
    tools = json.loads((FOLDER / "tools.json").read_text())
    at = int(((message.get("params") or {}).get("cursor")) or 0)
    size = len(tools) if (FOLDER / "one_page").exists() else 3
    page: Message = {"tools": tools[at : at + size]}
    if at + size < len(tools):
        page["nextCursor"] = str(at + size)
    answer(message, result=page)


def begin(message: Message) -> None:
    """Agree on a protocol."""
    result = {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "by hand", "version": "0"},
    }
    answer(message, result=result)


def pinged(message: Message) -> None:
    """Say that we are there."""
    note("pings", 1)
    answer(message, result={})


def start() -> None:
    """Begin, or do not."""
    note("starts", {"pid": os.getpid(), "secret": os.environ.get("SECRET"), "env": [*os.environ]})
    if (FOLDER / "dies").exists():
        sys.stderr.write("cannot find the moon\n")
        sys.exit(1)
    if (FOLDER / "silent").exists():
        time.sleep(3600)
    if (FOLDER / "deaf").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if (FOLDER / "deaf").exists() or (FOLDER / "parent").exists():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        note("children", child.pid)


ANSWERS: dict[str | None, Callable[[Message], None]] = {
    "initialize": begin,
    "tools/list": listed,
    "tools/call": lambda message: threading.Thread(
        target=call, args=(message,), daemon=True
    ).start(),
    "ping": pinged,
    "notifications/cancelled": lambda message: note("cancelled", message["params"]),
    None: ASKED.put,
}


def main() -> None:
    """Serve until our input ends."""
    start()
    for line in sys.stdin:
        while DEAF.is_set():
            time.sleep(0.01)
        message = json.loads(line)
        method = message.get("method")
        if method == "server/discover" and (FOLDER / "fragile").exists():
            sys.exit(4)
        if method == "server/discover" and (FOLDER / "quiet").exists():
            continue
        if method in ANSWERS:
            ANSWERS[method](message)
        elif "id" in message:
            answer(message, error={"code": -32601, "message": "Method not found"})
        if method == "tools/call" and (FOLDER / "changes").exists():
            write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
    while (FOLDER / "deaf").exists():
        time.sleep(3600)


if __name__ == "__main__":
    main()
