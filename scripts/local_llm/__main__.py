"""Serve the local model, show an agent on it, or measure it: `python -m scripts.local_llm …`.

serve     listen until stopped; the first line of the standard output is `ready` and the address
demo      serve, run the quickstart agent on it, stop
measure   serve, count how often the model is right, stop
"""

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from scripts.local_llm.demo import PORT, demo
from scripts.local_llm.running import PYTHON, READY, NotStarted, end_with_parent, running
from scripts.local_llm.server import HOST, open_server
from scripts.local_llm.weights import FOLDER, WeightsUnusable, weights

_FREE = "--free-numbers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the first argument says; the code is not 0 when it could not be done."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "serve":
                return _serve(options)
            case "demo":
                return demo(options.python)
            case _:
                return _measure(options)
    except KeyboardInterrupt:
        return 130


def _serve(options: argparse.Namespace) -> int:
    from scripts.local_llm.engine import Llama

    signal.signal(signal.SIGTERM, _end)
    try:
        if options.with_parent:
            end_with_parent()
        if options.port:  # said before the weights are read, which takes seconds
            socket.create_server((HOST, options.port)).close()
        engine = Llama(weights(options.models))
        with open_server(engine, options.port, free_numbers=options.free_numbers) as server:
            print(f"{READY}http://{HOST}:{server.server_port}/v1", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        return 0
    except ModuleNotFoundError as error:
        print(f"local_llm: {error}: make demo-llm installs it", file=sys.stderr)
    except WeightsUnusable as error:
        print(f"local_llm: {error}", file=sys.stderr)
    except OSError as error:
        print(f"local_llm: port {options.port} is taken: {error.strerror}", file=sys.stderr)
    return 1


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would break what ends meanwhile
    raise KeyboardInterrupt


def _measure(options: argparse.Namespace) -> int:
    from scripts.local_llm.measure import measure

    more = [_FREE] if options.free_numbers else []
    try:
        with running(0, *more, python=options.python) as address:
            measure(address)
    except NotStarted as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.local_llm",
        description="A small real model behind OpenAI's chat API",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="answer OpenAI's chat API on this machine")
    serve.add_argument("--port", type=int, default=PORT, help="0 takes a free one")
    serve.add_argument("--models", type=Path, default=FOLDER, help="the folder of the weights")
    serve.add_argument(
        "--with-parent", action="store_true", help="stop when the standard input is closed"
    )
    shown = commands.add_parser("demo", help="run the quickstart agent on the model")
    measured = commands.add_parser("measure", help="count how often the model is right")
    for command in (shown, measured):
        command.add_argument(
            "--python", type=Path, default=PYTHON, help="the interpreter that has the engine"
        )
    for command in (serve, measured):
        command.add_argument(
            _FREE, action="store_true", help="let the model write any number in arguments and JSON"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
