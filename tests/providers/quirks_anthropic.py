"""What stands in the streams of the Messages API, of Anthropic and of who imitates it."""

import json
from typing import Any, Final

from tests.providers.blocks import (
    COUNTED,
    OUTPUT,
    PING,
    STOP,
    block,
    closed,
    delta,
    ended,
    opened,
    raw,
    said,
    start,
    tool,
)
from tests.providers.formats.anthropic import error, event
from tests.providers.quirk import Broken, Quirk, Understood
from tests.providers.replies import Fails, Raw, Tokens, sse

_JSON: Final = {"content-type": "application/json"}
_TOKENS: Final = Tokens(12, 7)


def _call(arguments: Any, usage: Tokens = _TOKENS) -> Understood:
    return Understood(calls=(("add", arguments),), ids=("toolu_a",), usage=usage, stop="tool_use")


_TEXT: Final = Understood("Bonjour toi", usage=_TOKENS)
_BONJOUR: Final = said("Bonjour", " toi")
_OVERLOADED: Final = event(error("overloaded_error", "Overloaded"))

_BLOCKS: Final = (
    Quirk(
        "pings anywhere",
        raw(PING, start(), PING, _BONJOUR, PING, PING, ended(), PING, STOP),
        _TEXT,
    ),
    Quirk(
        "a ping without data",
        raw(start(), sse("", "ping"), _BONJOUR, ended(), STOP),
        _TEXT,
    ),
    Quirk(
        "unknown types of events",
        raw(
            start(),
            event({"type": "context_budget", "left": 7}),
            _BONJOUR,
            event({"type": "content_block_mood", "index": 0, "mood": "fine"}),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "unknown types of deltas",
        raw(
            start(),
            block(
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": "Bonjour toi"},
                {"type": "mood_delta", "mood": "fine"},
                {"type": "citations_delta", "citation": {"type": "char_location"}},
            ),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "a tool that the server used",
        raw(
            start(),
            block(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
            ),
            block(
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                index=1,
            ),
            said("Bonjour toi", index=2),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "unknown types of blocks",
        raw(
            start(),
            block({"type": "mood", "mood": "fine"}, {"type": "mood_delta", "mood": "better"}),
            said("Bonjour toi", index=1),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "text that begins with its block",
        raw(
            start(),
            block({"type": "text", "text": "Bonjour"}, {"type": "text_delta", "text": " toi"}),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "thinking that begins with its block",
        raw(
            start(),
            block(
                {"type": "thinking", "thinking": "Je ", "signature": ""},
                {"type": "thinking_delta", "thinking": "pense."},
                {"type": "signature_delta", "signature": "c2VhbA=="},
            ),
            said("Bonjour toi", index=1),
            ended(),
            STOP,
        ),
        Understood("Bonjour toi", "Je pense.", usage=_TOKENS),
    ),
    Quirk(
        "thinking without a signature",
        raw(
            start(),
            block(
                {"type": "thinking", "thinking": ""},
                {"type": "thinking_delta", "thinking": "Je pense."},
            ),
            said("Bonjour toi", index=1),
            ended(),
            STOP,
        ),
        Understood("Bonjour toi", "Je pense.", usage=_TOKENS),
    ),
    Quirk(
        "blocks that are mixed",
        raw(
            start(),
            opened({"type": "text", "text": ""}),
            opened({"type": "tool_use", "id": "toolu_a", "name": "add", "input": {}}, 1),
            delta(1, type="input_json_delta", partial_json='{"a":'),
            delta(0, type="text_delta", text="Bonjour toi"),
            delta(1, type="input_json_delta", partial_json=" 1}"),
            closed(1),
            closed(0),
            ended("tool_use"),
            STOP,
        ),
        Understood("Bonjour toi", "", (("add", {"a": 1}),), ("toolu_a",), _TOKENS, "tool_use"),
    ),
    Quirk(
        "a block that is not closed",
        raw(
            start(),
            opened({"type": "text", "text": ""}),
            delta(type="text_delta", text="Bonjour toi"),
            ended(),
            STOP,
        ),
        _TEXT,
    ),
)

_INPUTS: Final = (
    Quirk(
        "the whole input with its block",
        raw(
            start(),
            block({"type": "tool_use", "id": "toolu_a", "name": "add", "input": {"a": 1}}),
            ended("tool_use"),
            STOP,
        ),
        _call({"a": 1}),
    ),
    Quirk(
        "empty deltas of input",
        raw(start(), tool("", "", '{"a": 1}', ""), ended("tool_use"), STOP),
        _call({"a": 1}),
    ),
    Quirk(
        "only empty deltas of input",
        raw(start(), tool("", ""), ended("tool_use"), STOP),
        _call({}),
    ),
    Quirk("no delta of input", raw(start(), tool(), ended("tool_use"), STOP), _call({})),
    Quirk(
        "input that is no JSON",
        raw(start(), tool('{"a": 1'), ended("max_tokens"), STOP),
        Understood(calls=(("add", '{"a": 1'),), ids=("toolu_a",), usage=_TOKENS, stop="max_tokens"),
    ),
    Quirk(
        "end_turn although there is a call",
        raw(start(), tool('{"a": 1}'), ended("end_turn"), STOP),
        _call({"a": 1}),
    ),
    Quirk(
        "two calls under one id",
        raw(
            start(),
            tool('{"a": 1}'),
            tool('{"a": 2}', index=1),
            ended("tool_use"),
            STOP,
        ),
        Understood(calls=(("add", {"a": 1}), ("add", {"a": 2})), usage=_TOKENS, stop="tool_use"),
    ),
)

_FULL: Final = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
    "output_tokens": 1,
}

_USAGE: Final = (
    Quirk(
        "no usage at the end",
        raw(start(), _BONJOUR, ended(usage=None), STOP),
        Understood("Bonjour toi", usage=Tokens(12, 0)),
    ),
    Quirk(
        "no usage at the start",
        raw(start(None), _BONJOUR, ended(usage={"input_tokens": 12, **OUTPUT}), STOP),
        _TEXT,
    ),
    Quirk(
        "no usage at all",
        raw(start(None), _BONJOUR, ended(usage=None), STOP),
        Understood("Bonjour toi"),
    ),
    Quirk(
        "the input counted again at the end",
        raw(
            start({**COUNTED, "input_tokens": 9}),
            _BONJOUR,
            ended(usage={"input_tokens": 12, **OUTPUT}),
            STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "the cache counted at the end alone",
        raw(
            start({"input_tokens": 0, "output_tokens": 0}),
            _BONJOUR,
            ended(
                usage={
                    "input_tokens": 12,
                    "cache_read_input_tokens": 30,
                    "cache_creation_input_tokens": 5,
                    **OUTPUT,
                }
            ),
            STOP,
        ),
        Understood("Bonjour toi", usage=Tokens(12, 7, cache_read=30, cache_write_5m=5)),
    ),
    Quirk(
        "the cache counted at the start alone",
        raw(start(_FULL), _BONJOUR, ended(), STOP),
        Understood("Bonjour toi", usage=Tokens(12, 7, 30, 2, 3)),
    ),
    Quirk(
        "the cache null at the end",
        raw(
            start(_FULL),
            _BONJOUR,
            ended(
                usage={
                    "input_tokens": None,
                    "cache_read_input_tokens": None,
                    "cache_creation_input_tokens": None,
                    **OUTPUT,
                }
            ),
            STOP,
        ),
        Understood("Bonjour toi", usage=Tokens(12, 7, 30, 2, 3)),
    ),
    Quirk(
        "usage counted in many deltas",
        raw(
            start(),
            _BONJOUR,
            ended(None, {"output_tokens": 3}),
            ended("end_turn", OUTPUT),
            STOP,
        ),
        _TEXT,
    ),
)

_ENDS: Final = (
    Quirk(
        "no message_stop",
        raw(start(), said("Bonjour"), ended()),
        Broken("cut", text="Bonjour"),
    ),
    Quirk(
        "neither message_delta nor message_stop",
        raw(start(), said("Bonjour")),
        Broken("cut", text="Bonjour"),
    ),
    Quirk(
        "cut inside a block",
        raw(start(), opened({"type": "text", "text": ""}), delta(type="text_delta", text="Bon")),
        Broken("cut", text="Bon"),
    ),
    Quirk(
        "a stop reason that is unknown",
        raw(start(), _BONJOUR, ended("tired"), STOP),
        _TEXT,
    ),
    Quirk(
        "a stop reason that is null",
        raw(start(), _BONJOUR, ended(None), STOP),
        _TEXT,
    ),
    Quirk(
        "a stop sequence",
        raw(start(), _BONJOUR, ended("stop_sequence", stop_sequence="\n"), STOP),
        _TEXT,
    ),
    Quirk(
        "the context window is full",
        raw(start(), _BONJOUR, ended("model_context_window_exceeded"), STOP),
        Understood("Bonjour toi", usage=_TOKENS, stop="max_tokens"),
    ),
    Quirk(
        "a refusal",
        raw(
            start(),
            said("Bon"),
            ended("refusal", stop_details={"type": "refusal", "category": "cyber"}),
            STOP,
        ),
        Understood("Bon", usage=_TOKENS, stop="refusal"),
    ),
    Quirk(
        "nothing was said",
        raw(start(), ended(), STOP),
        Understood(usage=_TOKENS),
    ),
)

_ERRORS: Final = (
    Quirk("overloaded before anything", raw(_OVERLOADED), Broken("told", "Overloaded")),
    Quirk(
        "overloaded before any text",
        raw(start(), PING, _OVERLOADED),
        Broken("told", "Overloaded"),
    ),
    Quirk(
        "overloaded after some text",
        raw(
            start(),
            opened({"type": "text", "text": ""}),
            delta(type="text_delta", text="Bon"),
            _OVERLOADED,
        ),
        Broken("told", "Overloaded", text="Bon"),
    ),
    Quirk(
        "an error event that is no JSON",
        raw(start(), sse("upstream connect error", "error")),
        Broken("told", "upstream connect error"),
    ),
    Quirk(
        "an error as JSON under status 200",
        Raw([json.dumps(error("api_error", "It broke")).encode()], headers=_JSON),
        Broken("told", "It broke"),
    ),
    Quirk(
        "a whole message although a stream was asked",
        Raw(
            [
                json.dumps(
                    {
                        "id": "msg_1",
                        "type": "message",
                        "role": "assistant",
                        "model": "m",
                        "content": [{"type": "text", "text": "Bonjour toi"}],
                        "stop_reason": "end_turn",
                        "stop_sequence": None,
                        "usage": {"input_tokens": 12, "output_tokens": 7},
                    }
                ).encode()
            ],
            headers=_JSON,
        ),
        _TEXT,
    ),
    Quirk(
        "an HTML page under status 502",
        Fails(502, "<html>Bad gateway</html>"),
        Broken("status", status=502),
    ),
    Quirk("an empty body", Raw(), Broken("empty")),
    Quirk(
        "no JSON in an event",
        raw(start(), said("Bon"), sse('{"type": "content_blo', "content_block_start")),
        Broken("unreadable", text="Bon"),
    ),
)

ANTHROPIC: Final[tuple[Quirk, ...]] = (*_BLOCKS, *_INPUTS, *_USAGE, *_ENDS, *_ERRORS)
