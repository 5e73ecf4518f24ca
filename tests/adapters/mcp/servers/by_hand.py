"""A server that speaks the protocol by hand, one JSON line at a time, and can do everything wrong.

    python by_hand.py FOLDER

FOLDER has `tools.json`, the definitions, read at each `tools/list`; each start, call and
cancellation adds a line to `starts`, `calls` and `cancelled` there. What a tool does is told by its
name, or by its argument `do`.
"""

import base64
import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LOCK = threading.Lock()


def note(name: str, text: object) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{json.dumps(text)}\n")


def write(text: str) -> None:
    with LOCK:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def answer(message: dict, **members: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **members}))


def text(said: str) -> dict:
    return {"content": [{"type": "text", "text": said}]}


def call(message: dict) -> None:
    params = message["params"]
    arguments = params.get("arguments") or {}
    do = arguments.get("do") or params["name"]
    note("calls", {"name": params["name"], "arguments": arguments, "meta": params.get("_meta")})
    if do == "die":
        os._exit(3)
    if do == "die_once" and len((FOLDER / "calls").read_text().splitlines()) == 1:
        os._exit(3)
    if do == "wait":
        while not (FOLDER / "go").exists():
            time.sleep(0.01)
    result: object = text(f"{do} done")
    if do == "flood":
        for _ in range(300):
            sys.stderr.write("x" * 100_000 + "\n")
        sys.stderr.write("last\x1b[31m words")
        sys.stderr.flush()
    if do == "noise":
        write("this is no message")
        write('{"jsonrpc": "2.0", "method": "notifications/never_heard_of"}')
        write("[]")
        sys.stdout.buffer.write(b"\xff\xfe\n")
    if do == "huge":
        with LOCK:
            sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": "' % message["id"])
            for _ in range(200):
                sys.stdout.write("x" * 1_000_000)
            sys.stdout.write('"}}\n')
            sys.stdout.flush()
        return
    if do == "surrogate":
        write(
            '{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "a\\ud83d"}]}}'
            % message["id"]
        )
        return
    if do == "nan":
        write(
            '{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "structuredContent": {"n": NaN}}}'
            % message["id"]
        )
        return
    if do == "deep":
        write(
            '{"jsonrpc": "2.0", "id": %d, "result": {"structuredContent": {"n": %s}}}'
            % (message["id"], "[" * 100_000 + "]" * 100_000)
        )
        return
    if do == "wrong":
        result = {"content": [{"type": "hologram"}, 7, *text("and this")["content"]]}
    if do == "no_result":
        result = {"content": "all is well"}
    if do == "image":
        data = base64.b64encode(PNG).decode()
        result = {
            "content": [
                *text("a picture")["content"],
                {"type": "image", "data": data, "mimeType": "image/jpeg"},
                {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": data}},
                {"type": "resource_link", "uri": "http://127.0.0.1:9/never", "name": "a link"},
            ]
        }
    if do == "structured":
        result = {**text('{"sum": 4}'), "structuredContent": {"sum": 4}}
    if do == "failed":
        result = {**text("it cannot be done"), "isError": True}
    if do == "asks":
        write('{"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": {}}')
        result = text(json.dumps(ASKED.get(timeout=20)))
    if do == "refused":
        answer(message, error={"code": -32602, "message": "no such thing"})
        return
    answer(message, result=result)


def listed(message: dict) -> None:
    tools = json.loads((FOLDER / "tools.json").read_text())
    at = int(((message.get("params") or {}).get("cursor")) or 0)
    page: dict = {"tools": tools[at : at + 3]}
    if at + 3 < len(tools):
        page["nextCursor"] = str(at + 3)
    answer(message, result=page)


def main() -> None:
    note("starts", {"pid": os.getpid(), "secret": os.environ.get("SECRET"), "env": [*os.environ]})
    if (FOLDER / "dies").exists():
        sys.stderr.write("cannot find the moon\n")
        sys.exit(1)
    if (FOLDER / "silent").exists():
        time.sleep(3600)
    if (FOLDER / "deaf").exists():
        import signal
        import subprocess

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        note("children", child.pid)
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "server/discover" and (FOLDER / "fragile").exists():
            sys.exit(4)
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            answer(
                message,
                result={
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "by hand", "version": "0"},
                },
            )
        elif method == "tools/list":
            note("lists", 1)
            listed(message)
        elif method == "tools/call":
            threading.Thread(target=call, args=(message,), daemon=True).start()
        elif method == "ping":
            note("pings", 1)
            answer(message, result={})
        elif method == "notifications/cancelled":
            note("cancelled", message["params"])
        elif method is None:
            ASKED.put(message)
        elif "id" in message:
            answer(message, error={"code": -32601, "message": "Method not found"})
        if method == "tools/call" and (FOLDER / "changes").exists():
            write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
    while (FOLDER / "deaf").exists():
        time.sleep(3600)


if __name__ == "__main__":
    import queue

    ASKED: "queue.Queue[dict]" = queue.Queue()
    main()
