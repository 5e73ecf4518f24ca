"""What a terminal shows beyond the plain text, and that a pipe never has any of it."""

import argparse
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from loom_ia.access.cli.watching import GrowingTree
from loom_ia.core.events import RunStarted, StepStarted, ToolCalled
from tests.access.cli.conftest import Desk, Shell
from tests.access.cli.terminals import MAIN, WITHOUT_RICH, colours, on_terminal, plain
from tests.builders import DAWN, placed, said

GREEN, RED, YELLOW, CYAN = ("\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m")
RUN = ("run", "un", "écris", "--run-id", "r1")


@pytest.fixture
def slow(mail: Path) -> Path:
    """Give a project whose slow agent answers in less than a second."""
    config = mail / "loom.yaml"
    config.write_text(config.read_text("utf-8").replace("delay: 30", "delay: 0.9"), "utf-8")
    return mail


def test_a_terminal_has_colours(mail: Path) -> None:
    """A status, an error and a tree are coloured, and say what they say in a pipe."""
    code, waiting = on_terminal(mail, *RUN)
    assert code == 1
    assert f"{YELLOW}Status     : paused" in waiting
    code, tree = on_terminal(mail, "inspect", "r1")
    assert CYAN in tree
    assert plain(tree) == Shell(mail).run("inspect", "r1").out
    _, refused = on_terminal(mail, "inspect", "nope")
    assert f"{RED}Error      : there is no run nope" in refused
    _, done = on_terminal(mail, "approve", "r1")
    assert f"{GREEN}Status     : completed" in done


@pytest.mark.parametrize(
    ("env", "before", "program"),
    [
        ({"NO_COLOR": "1"}, (), MAIN),
        ({"TERM": "dumb"}, (), MAIN),
        ({}, ("--no-color",), MAIN),
        ({}, (), WITHOUT_RICH),
    ],
    ids=["NO_COLOR", "TERM=dumb", "--no-color", "without rich"],
)
def test_colours_can_be_refused(
    mail: Path, env: dict[str, str], before: tuple[str, ...], program: str
) -> None:
    """Each way to refuse colours leaves exactly the text of a pipe."""
    Shell(mail).run(*RUN)
    words = (*before, "inspect", "r1")
    _, written = on_terminal(mail, *words, program=program, env=env)
    assert written == Shell(mail).run("inspect", "r1").out


def test_an_empty_no_color_refuses_nothing(mail: Path) -> None:
    """`NO_COLOR` counts when it is not empty, as its authors have it."""
    Shell(mail).run(*RUN)
    _, written = on_terminal(mail, "inspect", "r1", env={"NO_COLOR": ""})
    assert colours(written)


def test_the_tree_grows_while_the_run_goes_on(slow: Path) -> None:
    """The run is drawn with its time and cost, then wiped: what stays is the plain text."""
    code, written = on_terminal(slow, "run", "lent", "bonjour", "--run-id", "r1")
    assert code == 0
    assert "run lent — ready_for_model, " in plain(written)
    assert "the model answers… " in plain(written)
    assert "\x1b[2K" in written  # lines are wiped
    left = plain(written[written.rindex("\x1b[2K") :])
    assert left.startswith("Status     : completed")
    assert left.endswith("Me voici.\n")
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # the cursor is given back


def test_the_answer_alone_is_on_standard_output(slow: Path) -> None:
    """With the answer sent to a pipe, the tree is still drawn, on standard error."""
    reading, writing = os.pipe()
    _, written = on_terminal(slow, "run", "lent", "bonjour", stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == "Me voici.\n"
    assert "the model answers… " in plain(written)


@pytest.mark.parametrize(
    ("words", "env", "program"),
    [
        (("--quiet",), {}, MAIN),
        (("--stream",), {}, MAIN),
        ((), {"TERM": "dumb"}, MAIN),
        ((), {}, WITHOUT_RICH),
    ],
    ids=["quiet", "stream", "dumb", "without rich"],
)
def test_nothing_is_drawn_where_it_would_disturb(
    slow: Path, words: tuple[str, ...], env: dict[str, str], program: str
) -> None:
    """No tree is drawn for who wants none, nor where it cannot be wiped."""
    written = on_terminal(slow, "run", "lent", "x", *words, program=program, env=env)[1]
    assert "Me voici.\n" in written
    assert "run lent" not in written


def test_colours_and_the_tree_are_apart(slow: Path) -> None:
    """Without colours the tree is still drawn, in none."""
    _, written = on_terminal(slow, "--no-color", "run", "lent", "bonjour")
    assert "the model answers… " in written
    assert colours(written) <= {"\x1b[0m"}


def test_a_resumed_run_is_drawn_from_its_beginning(slow: Path) -> None:
    """What was done before the interruption is in the tree of `resume` and of `approve`."""
    config = slow / "loom.yaml"
    text = config.read_text("utf-8")
    config.write_text(text.replace("text: C'est fait.", "{text: Fait., delay: 0.9}"), "utf-8")
    Shell(slow).run(*RUN)
    code, written = on_terminal(slow, "approve", "r1")
    assert code == 0
    assert "model fake-1 (main)" in plain(written)
    assert "the model answers… " in plain(written)


def test_the_log_stands_above_the_tree(slow: Path) -> None:
    """A line of the log that comes while the tree is drawn is not lost, nor wiped with it."""
    config = slow / "loom.yaml"
    config.write_text(config.read_text("utf-8").replace("level: ERROR", "level: INFO"), "utf-8")
    _, written = on_terminal(slow, "run", "lent", "bonjour", "--run-id", "r1")
    begins = r"(?:\n|\x1b\[2K)\d{4}-\d\d-\d\dT\S+ INFO"  # on a line of its own, or one just wiped
    assert re.search(begins + r" loom_ia\.engine\.model: model LENT: end,", written)


def test_a_pipe_is_the_same_with_rich_and_without(mail: Path) -> None:
    """In a pipe every command writes the same bytes, asked for colours or not, and no escape."""
    shell = Shell(mail)
    shell.run(*RUN)
    shell.run("run", "panne", "x", "--run-id", "r2", "--session", "s")
    for words in (
        ("inspect", "r1"),
        ("inspect", "r1", "--full"),
        ("resume", "r1"),
        ("report", "r2"),
        ("runs",),
        ("sessions", "list"),
        ("sessions", "show", "r1"),
        ("sessions", "export", "--all"),
        ("recover",),
        ("inspect", "nope"),
    ):
        here = {"CLICOLOR_FORCE": "1", "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}
        coloured = Shell(mail, env=here).run(*words)
        bare = subprocess.run(
            [sys.executable, "-c", WITHOUT_RICH, *words],
            cwd=mail,
            env={**os.environ, "LOOM_LANG": "en", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (coloured.code, coloured.out, coloured.err) == (
            bare.returncode,
            bare.stdout,
            bare.stderr,
        )
        assert "\x1b" not in coloured.out + coloured.err


def test_rich_is_not_imported_for_a_pipe(mail: Path) -> None:
    """Nothing of `rich` is loaded when nobody watches."""
    code = (
        "import sys; from loom_ia.access.cli.main import main;"
        "main(['run', 'echo', 'x']); main(['sessions', 'export', '--all']); main(['recover']);"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=mail, check=True
    )
    assert done.stdout.endswith("\nFalse\n")


@pytest.mark.parametrize("words", [("sessions", "export", "--all"), ("runs",), ("inspect", "r1")])
def test_pub_56_a_reader_who_goes_away_is_no_failure(mail: Path, words: tuple[str, ...]) -> None:
    """A pipe that is closed early ends the command as if everything had been read."""
    Shell(mail).run(*RUN)
    reading, writing = os.pipe()
    os.close(reading)
    process = Shell(mail).start(*words, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 2), ("\x04", 2)])
def test_g4_a_person_at_a_terminal_is_asked(mail: Path, typed: str, code: int) -> None:
    """Yes deletes; an empty answer and an end of input do not."""
    Shell(mail).run("run", "echo", "x", "--session", "s")
    ended, written = on_terminal(mail, "sessions", "delete", "s", typed=typed)
    assert "Delete s for good, with its 1 run(s) and 0 file(s)? [y/N] " in written
    assert ended == code
    assert (mail / "data" / "default" / "s.jsonl").exists() == (code == 2)


def test_what_is_under_way_has_its_time() -> None:
    """A call that was launched is under way for as long as it takes, and so is the whole run."""
    growing = GrowingTree(argparse.Namespace())
    assert growing.lines(DAWN) == []
    events = placed(
        [
            RunStarted(),
            said("x"),
            StepStarted(step_no=1, effect="tool_batch"),
            ToolCalled(call_id="c", tool_name="add", arguments={}),
        ]
    )
    for event in events:
        growing.take(event)
    lines = [text for text, _ in growing.lines(DAWN + timedelta(seconds=64))]
    assert lines[0].endswith("1 min 03 s, $0.000000")
    assert "    tool add — 1 min 00 s, under way" in lines


def test_the_tree_of_python_is_the_one_of_the_command(loom: Desk) -> None:
    """`str` of a trace gives what `loom inspect` shows, but for the commands to type."""
    loom("run", "panne", "x", "--run-id", "r1")
    code = (
        "import asyncio\n"
        "from loom_ia.access import Loom\n"
        "async def main():\n"
        "    async with Loom.from_config('loom.yaml') as loom:\n"
        "        print(await loom.trace('r1'))\n"
        "asyncio.run(main())\n"
    )
    words = [sys.executable, "-c", code]
    env = {**os.environ, "LOOM_LANG": "fr"}
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=loom.folder, env=env, check=True
    )
    assert done.stdout == loom("inspect", "r1").out
