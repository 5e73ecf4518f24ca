"""What `--stream` shows, piece by piece, and what it makes of a broken attempt."""

import pytest

from loom_ia.access.cli.live import Live
from loom_ia.core.events import ModelResponded, ToolCompleted
from loom_ia.core.model import Message, Usage
from loom_ia.core.model.chunks import Reset, TextDelta
from loom_ia.core.model.content import ToolOutput
from loom_ia.engine.streaming import LiveItem
from tests.builders import placed


def _answered(text: str) -> LiveItem:
    payload = ModelResponded(
        model="M",
        model_id="m",
        message=Message.text("assistant", text),
        usage=Usage(),
        stop_reason="end",
        request_hash="",
        request_parts={},
    )
    return placed([payload])[0]


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([TextDelta("a"), TextDelta("b"), _answered("ab")], "ab\n"),
        ([TextDelta("a\n"), _answered("a\n")], "a\n"),
        ([_answered("ab")], "ab\n"),
        ([TextDelta("a"), Reset(), TextDelta("x"), _answered("ab")], "a\nab\n"),
        ([Reset(), TextDelta("b"), _answered("ab")], "ab\n"),
        (
            [TextDelta("a"), Reset(), _answered("ab"), TextDelta("c"), _answered("c")],
            "a\nab\nc\n",
        ),
        ([TextDelta("a"), _answered("a"), TextDelta("b"), _answered("b")], "a\nb\n"),
        ([TextDelta("cut")], "cut\n"),
        ([_answered("")], ""),
    ],
)
def test_what_is_shown_ends_as_what_was_said(
    items: list[LiveItem], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each answer stands whole on its own lines, whatever pieces were lost or taken back."""
    live = Live(in_pieces=True)
    for item in items:
        live.take(item)
    live.end()
    assert capsys.readouterr().out == shown


def test_a_call_that_failed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The error of a call is one line on standard error."""
    failed = ToolCompleted(call_id="c", tool_name="add", output=ToolOutput.of_error("no\nway"))
    Live(in_pieces=True).take(placed([failed])[0])
    assert capsys.readouterr() == ("", "Call error : add: no way\n")


def test_a_pipe_is_only_given_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """What a broken attempt said never stands in a file; nobody could take it back."""
    live = Live(in_pieces=False)
    for item in [TextDelta("it is 1000 "), Reset(), TextDelta("it is"), _answered("it is 540")]:
        live.take(item)
    live.end()
    assert capsys.readouterr() == ("it is 540\n", "")


def test_a_terminal_is_told_what_is_void(capsys: pytest.CaptureFixture[str]) -> None:
    """Its reader must not believe what was withdrawn."""
    live = Live(in_pieces=True)
    for item in [TextDelta("it is 1000"), Reset(), _answered("it is 540")]:
        live.take(item)
    live.end()
    said = capsys.readouterr()
    assert said.out == "it is 1000\nit is 540\n"
    assert said.err == "Withdrawn  : the text above is void, another one follows\n"
