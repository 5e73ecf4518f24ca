"""What stands in the streams of the Responses API, of OpenAI and of who imitates it."""

import json
from typing import Any, Final

from tests.providers.formats.chat import error
from tests.providers.items import (
    BEGUN,
    added,
    at,
    call,
    completed,
    delta,
    done,
    event,
    message,
    raw,
    reasoned,
    response,
    said,
    spoken,
    summarised,
)
from tests.providers.quirk import Broken, Quirk, Understood
from tests.providers.replies import Fails, Raw, Tokens, sse

_JSON: Final = {"content-type": "application/json"}
_SEALED: Final = {"include": ["reasoning.encrypted_content"]}
_TOKENS: Final = Tokens(12, 7)
_BONJOUR: Final = message(spoken("Bonjour toi"))
_TEXT: Final = Understood("Bonjour toi", usage=_TOKENS)
_CALLED: Final = Understood(
    calls=(("add", {"a": 1}),), ids=("call_a",), usage=_TOKENS, stop="tool_use"
)
_ARGUMENTS: Final = "response.function_call_arguments"

_ITEMS: Final = (
    Quirk(
        "items without any delta",
        raw(
            BEGUN,
            done(_BONJOUR),
            done(call(), 1),
            completed(_BONJOUR, call()),
        ),
        Understood("Bonjour toi", "", (("add", {"a": 1}),), ("call_a",), _TOKENS, "tool_use"),
    ),
    Quirk(
        "items in the last event alone",
        raw(BEGUN, completed(_BONJOUR, call())),
        Understood("Bonjour toi", "", (("add", {"a": 1}),), ("call_a",), _TOKENS, "tool_use"),
    ),
    Quirk(
        "no output in the last event",
        raw(BEGUN, *said(), completed()),
        _TEXT,
    ),
    Quirk(
        "arguments in the last event of the call alone",
        raw(
            BEGUN,
            added({**call(""), "status": "in_progress"}),
            event(f"{_ARGUMENTS}.done", **at(item="fc_1"), arguments='{"a": 1}'),
            done(call()),
            completed(call()),
        ),
        _CALLED,
    ),
    Quirk(
        "arguments whole when the call begins",
        raw(BEGUN, added(call()), done(call()), completed(call())),
        _CALLED,
    ),
    Quirk(
        "arguments empty",
        raw(BEGUN, added(call("")), done(call("")), completed(call(""))),
        Understood(calls=(("add", {}),), ids=("call_a",), usage=_TOKENS, stop="tool_use"),
    ),
    Quirk(
        "pieces of two calls mixed",
        raw(
            BEGUN,
            added({**call(""), "status": "in_progress"}),
            added({**call(""), "id": "fc_2", "call_id": "call_b", "name": "sub"}, 1),
            event(f"{_ARGUMENTS}.delta", **at(1, "fc_2"), delta='{"b":'),
            event(f"{_ARGUMENTS}.delta", **at(0, "fc_1"), delta='{"a": 1}'),
            event(f"{_ARGUMENTS}.delta", **at(1, "fc_2"), delta=" 2}"),
            event(f"{_ARGUMENTS}.done", **at(0, "fc_1"), arguments='{"a": 1}'),
            event(f"{_ARGUMENTS}.done", **at(1, "fc_2"), arguments='{"b": 2}'),
            completed(
                call(), {**call('{"b": 2}'), "id": "fc_2", "call_id": "call_b", "name": "sub"}
            ),
        ),
        Understood(
            calls=(("add", {"a": 1}), ("sub", {"b": 2})),
            ids=("call_a", "call_b"),
            usage=_TOKENS,
            stop="tool_use",
        ),
    ),
    Quirk(
        "unknown types of events",
        raw(
            BEGUN,
            event("response.mood.changed", mood="fine"),
            event("keepalive"),
            *said(),
            event("codex.rate_limits", left=7),
            completed(_BONJOUR),
        ),
        _TEXT,
    ),
    Quirk(
        "unknown types of items",
        raw(
            BEGUN,
            added({"id": "x_1", "type": "mood", "mood": "fine"}),
            done({"id": "x_1", "type": "mood", "mood": "better"}),
            *said(index=1),
            completed({"id": "x_1", "type": "mood"}, _BONJOUR),
        ),
        _TEXT,
    ),
    Quirk(
        "no names of events",
        Raw(
            [
                sse(json.dumps({"sequence_number": rank, **each}))
                for rank, each in enumerate((BEGUN, *said(), completed(_BONJOUR)))
            ]
        ),
        _TEXT,
    ),
    Quirk(
        "[DONE] at the end",
        Raw([*raw(BEGUN, *said(), completed(_BONJOUR)).chunks, sse("[DONE]")]),
        _TEXT,
    ),
    Quirk(
        "two parts in a message",
        raw(
            BEGUN,
            added(message()),
            delta("Bonjour"),
            {**delta(" toi"), "content_index": 1},
            done(message(spoken("Bonjour"), spoken(" toi"))),
            completed(message(spoken("Bonjour"), spoken(" toi"))),
        ),
        _TEXT,
    ),
    Quirk(
        "no usage",
        raw(BEGUN, *said(), completed(_BONJOUR, usage=None)),
        Understood("Bonjour toi"),
    ),
)

_REASONING: Final = (
    Quirk(
        "a summary of two parts, and a seal",
        raw(
            BEGUN,
            added(reasoned(sealed="ZWFybHk=")),
            *summarised("Je pense.", 0),
            *summarised("Donc je suis.", 1),
            done(reasoned("Je pense.", "Donc je suis.")),
            *said(index=1),
            completed(reasoned("Je pense.", "Donc je suis."), _BONJOUR),
        ),
        Understood("Bonjour toi", "Je pense.\n\nDonc je suis.", usage=_TOKENS),
        _SEALED,
    ),
    Quirk(
        "a seal without a summary",
        raw(
            BEGUN,
            added(reasoned()),
            done(reasoned()),
            *said(index=1),
            completed(reasoned(), _BONJOUR),
        ),
        _TEXT,
        _SEALED,
    ),
    Quirk(
        "reasoning that is shown whole",
        raw(
            BEGUN,
            added(reasoned(sealed=None)),
            event(
                "response.reasoning_text.delta",
                **at(item="rs_1"),
                content_index=0,
                delta="Je pense.",
            ),
            done(reasoned(sealed=None, content=[{"type": "reasoning_text", "text": "Je pense."}])),
            *said(index=1),
            completed(_BONJOUR),
        ),
        Understood("Bonjour toi", "Je pense.", usage=_TOKENS),
    ),
)


def _incomplete(reason: str | None, *output: dict[str, Any]) -> dict[str, Any]:
    details = None if reason is None else {"reason": reason}
    ended = response("incomplete", *output, incomplete_details=details)
    return event("response.incomplete", response=ended)


_REFUSED: Final = {"type": "refusal", "refusal": "Je refuse."}
_BON: Final = (BEGUN, added(message()), delta("Bon"))

_ENDS: Final = (
    Quirk(
        "incomplete, for the limit of tokens",
        raw(*_BON, _incomplete("max_output_tokens", message(spoken("Bon")))),
        Understood("Bon", usage=_TOKENS, stop="max_tokens"),
    ),
    Quirk(
        "incomplete, for the filter",
        raw(*_BON, _incomplete("content_filter", message(spoken("Bon")))),
        Understood("Bon", usage=_TOKENS, stop="refusal"),
    ),
    Quirk(
        "a refusal",
        raw(
            BEGUN,
            added(message()),
            event("response.refusal.delta", **at(), content_index=0, delta="Je "),
            event("response.refusal.delta", **at(), content_index=0, delta="refuse."),
            event("response.refusal.done", **at(), content_index=0, refusal="Je refuse."),
            done(message(_REFUSED)),
            completed(message(_REFUSED)),
        ),
        Understood("Je refuse.", usage=_TOKENS, stop="refusal"),
    ),
    Quirk("no response.completed", raw(*_BON), Broken("cut", text="Bon")),
    Quirk(
        "no response.completed after a whole message",
        raw(BEGUN, *said()),
        Broken("cut", text="Bonjour toi"),
    ),
    Quirk("nothing was said", raw(BEGUN, completed()), Understood(usage=_TOKENS)),
)


def _failed(code: str, says: str) -> dict[str, Any]:
    ended = response("failed", error={"code": code, "message": says}, usage=None)
    return event("response.failed", response=ended)


_ERRORS: Final = (
    Quirk(
        "response.failed",
        raw(*_BON, _failed("server_error", "It broke")),
        Broken("told", "It broke", text="Bon"),
    ),
    Quirk(
        "response.failed before anything",
        raw(BEGUN, _failed("rate_limit_exceeded", "Too fast")),
        Broken("told", "Too fast"),
    ),
    Quirk(
        "response.failed without an error",
        raw(BEGUN, event("response.failed", response=response("failed", usage=None))),
        Broken("told"),
    ),
    Quirk(
        "an error event",
        raw(*_BON, event("error", code="server_error", message="It broke", param=None)),
        Broken("told", "It broke", text="Bon"),
    ),
    Quirk(
        "an error event with an object",
        raw(BEGUN, event("error", **error("It broke", code="context_length_exceeded"))),
        Broken("told", "It broke"),
    ),
    Quirk(
        "an error as JSON under status 200",
        Raw([json.dumps(error("It broke")).encode()], headers=_JSON),
        Broken("told", "It broke"),
    ),
    Quirk(
        "a whole response although a stream was asked",
        Raw([json.dumps(response("completed", _BONJOUR)).encode()], headers=_JSON),
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
        Raw([*raw(*_BON).chunks, sse('{"type": "respon', "response.output_text.delta")]),
        Broken("unreadable", text="Bon"),
    ),
)

RESPONSES: Final[tuple[Quirk, ...]] = (*_ITEMS, *_REASONING, *_ENDS, *_ERRORS)
