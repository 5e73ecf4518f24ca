"""What a run of a graph is given on the command line, and how its end is told there."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from loom_ia.access.cli.arguments import command_line
from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
from loom_ia.access.cli.terminal import Style, answer, is_terminal, printable, say, show_json
from loom_ia.core.errors import CallerError, LoomError
from loom_ia.core.json import readable
from loom_ia.graph.types import Interrupt, RunResult, StopReason
from loom_ia.graph.written import plain
from loom_ia.i18n import render
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk

_STYLES: Final[Mapping[StopReason, Style]] = {
    StopReason.COMPLETED: "green",
    StopReason.YIELDED: "yellow",
}


def inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Read the keys of the state that are given: of the file, then one by one."""
    given: dict[str, Any] = {}
    if args.input_file is not None:
        given |= _of_file(args.input_file)
    for pair in args.input:
        key, value = _pair(pair, "--input")
        given[key] = value
    return given


def answers(pairs: Sequence[str]) -> dict[str, Any]:
    """Read what answers questions, by their ids."""
    return dict(_pair(pair, "--answer") for pair in pairs)


def value_of(text: str) -> Any:
    """Read a value: JSON when it is, else the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def _pair(written: str, option: str) -> tuple[str, Any]:
    key, equals, value = written.partition("=")
    if not key or not equals:
        raise CallerError(
            "{option} {written}: write a name, =, and a value", option=option, written=written
        )
    return key, value_of(value)


def _of_file(name: str) -> dict[str, Any]:
    try:
        value: object = json.loads(Path(name).read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CallerError("{file} cannot be read: {reason}", file=name, reason=reason) from error
    except (ValueError, RecursionError) as error:
        raise CallerError("{file} is not JSON: {reason}", file=name, reason=str(error)) from error
    if not isinstance(value, dict):
        raise CallerError("{file} must hold a JSON object", file=name)
    return cast("dict[str, Any]", value)


async def finished(desk: "Desk", args: argparse.Namespace, result: RunResult[Any]) -> int:
    """Ask a person what the run asks, as long as it does; then tell its end and give the code."""
    while result.yielded and _may_ask(args):
        for interrupt in result.interrupts:
            if not await _asked(desk, result.run_id, interrupt):
                return tell(result, args, durable=desk.store.durable)
        result = await desk.graphs.resume(result.run_id, raise_on_error=False)
    return tell(result, args, durable=desk.store.durable)


def _may_ask(args: argparse.Namespace) -> bool:
    return not args.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)


async def _asked(desk: "Desk", run_id: str, interrupt: Interrupt) -> bool:
    """Ask one question until its answer is taken; False when the person leaves."""
    from loom_ia.access.cli.desk import local_user

    say(
        printable(
            _("Question   : {step} — {payload}", step=interrupt.step, payload=_shown(interrupt))
        )
    )
    while True:
        prompt = _("approve? (yes/no)") if interrupt.kind != "input" else _("answer")
        said = _read_line(f"{prompt} > ")
        if said is None:
            return False
        try:
            if interrupt.kind == "input":
                await desk.approve(
                    run_id,
                    call_id=interrupt.id,
                    answer=value_of(said),
                    by=local_user(),
                    resume=False,
                )
            elif said.strip().lower() in _yes():
                await desk.approve(run_id, call_id=interrupt.id, by=local_user(), resume=False)
            elif said.strip().lower() in _no():
                await desk.reject(run_id, call_id=interrupt.id, by=local_user(), resume=False)
            else:
                continue
        except LoomError as error:
            say(printable(render(error)), "red")
            continue
        return True


def _yes() -> frozenset[str]:
    return frozenset({"yes", "y", _("yes"), _("yes")[:1]})


def _no() -> frozenset[str]:
    return frozenset({"no", "n", _("no"), _("no")[:1]})


def _read_line(prompt: str) -> str | None:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _shown(interrupt: Interrupt) -> str:
    payload = plain(interrupt.payload)
    return payload if isinstance(payload, str) else readable(payload)


def tell(result: RunResult[Any], args: argparse.Namespace, *, durable: bool = True) -> int:
    """Show a result: the output or one JSON document, and its summary; give the exit code."""
    is_completed = result.stop is StopReason.COMPLETED
    code = COMPLETED if is_completed else NOT_COMPLETED
    if args.json:
        show_json(as_json(result))
        return code
    if not (is_completed and args.quiet):
        _tell_status(result, args, durable=durable)
    if is_completed:
        state = as_state(result)
        output = state.get("output")
        answer(output if isinstance(output, str) else json.dumps(state, ensure_ascii=False))
    return code


def _tell_status(result: RunResult[Any], args: argparse.Namespace, *, durable: bool) -> None:
    said = _(
        "Status     : {stop} · steps: {steps} · last step: {step}",
        stop=result.stop.value,
        steps=result.total_steps,
        step=result.last_step or "-",
    )
    say(printable(said), _STYLES.get(result.stop, "red"))
    say(_("Run        : {run_id}", run_id=result.run_id))
    if result.error is not None:
        error = result.error
        told = render(error) if isinstance(error, LoomError) else str(error)
        say(printable(_("Error      : {error}", error=told)), "red")
    for interrupt in result.interrupts:
        say(printable(_waiting(interrupt, result, args, durable=durable)), "yellow")
    if not durable:
        from loom_ia.access.cli.summary import forgotten

        if result.stop is not StopReason.COMPLETED:
            say(_("Forgotten  : {reason}", reason=forgotten()), "yellow")
    elif result.error is not None:
        command = command_line(args, "graph", "resume", result.run_id)
        say(_("Go on with : {command}", command=command))


def _waiting(
    interrupt: Interrupt, result: RunResult[Any], args: argparse.Namespace, *, durable: bool
) -> str:
    said = _(
        "Waiting    : {step} ({id}) — {payload}",
        step=interrupt.step,
        id=interrupt.id,
        payload=_shown(interrupt),
    )
    if not durable:
        return said
    words = ["approve", result.run_id, "--call", interrupt.id]
    if interrupt.kind == "input":
        words = ["graph", "resume", result.run_id, "--answer", f"{interrupt.id}=…"]
    return f"{said} — {command_line(args, *words)}"


def as_json(result: RunResult[Any]) -> dict[str, Any]:
    """Write a result as one JSON document."""
    error, usage = result.error, result.usage
    return {
        "run_id": result.run_id,
        "graph": result.graph,
        "stop": result.stop.value,
        "state": as_state(result),
        "last_step": result.last_step,
        "steps": result.steps,
        "total_steps": result.total_steps,
        "interrupts": [_interrupt(interrupt) for interrupt in result.interrupts],
        "error_type": None if error is None else type(error).__name__,
        "error": None if error is None else str(error),
        "failed_step": result.failed_step,
        "blocked": result.blocked,
        "usage": None if usage is None else usage.model_dump(mode="json"),
        "budget_left": result.budget_left,
        "parent": None if result.parent is None else list(result.parent),
    }


def as_state(result: RunResult[Any]) -> dict[str, Any]:
    """Give the state of a result as JSON holds it."""
    state: object = result.state
    if isinstance(state, Mapping):
        return plain(state)
    fields: Any = getattr(state, "model_dump", None)
    return plain(fields() if fields is not None else vars(state))


def _interrupt(interrupt: Interrupt) -> dict[str, Any]:
    return {
        "id": interrupt.id,
        "kind": interrupt.kind,
        "payload": plain(interrupt.payload),
        "key": interrupt.key,
        "step": interrupt.step,
        "run_id": interrupt.run_id,
        "graph": interrupt.graph,
        "path": list(interrupt.path),
        "schema": interrupt.schema,
        "expires_at": interrupt.expires_at.isoformat() if interrupt.expires_at else None,
        "tool": interrupt.tool,
    }
