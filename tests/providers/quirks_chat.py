"""How compatible servers tell a text, what it cost and why it ended."""

import json
from typing import Any, Final

from tests.providers.chunks import ROLE, bare, chunk, said, stream
from tests.providers.quirk import Broken, Quirk, Understood
from tests.providers.replies import Fails, Raw, Tokens, sse

_JSON: Final = {"content-type": "application/json"}
_COUNTED: Final = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
_TOKENS: Final = Tokens(12, 7)
_TEXT: Final = Understood("Bonjour toi")
_STOP: Final = chunk({}, "stop")
_FAILED: Final = {"message": "The model crashed", "type": "server_error", "code": 500}


def _counted(text: str = "Bonjour toi", usage: Tokens = _TOKENS) -> Understood:
    return Understood(text, usage=usage)


_CHUNKS: Final = (
    Quirk("role missing", stream(*said("Bonjour", " toi")[1:], _STOP), _TEXT),
    Quirk(
        "role empty",
        stream(chunk({"role": "", "content": "Bonjour"}), chunk({"content": " toi"}), _STOP),
        _TEXT,
    ),
    Quirk(
        "content null everywhere",
        stream(
            chunk({"role": "assistant", "content": None}),
            chunk({"content": None, "reasoning_content": "Hum."}),
            chunk({"content": None}),
            chunk({"content": None}, "stop"),
        ),
        Understood(reasoning="Hum."),
    ),
    Quirk(
        "no choices in the first chunk",
        stream(bare([], prompt_filter_results=[]), *said("Bonjour", " toi"), _STOP),
        _TEXT,
    ),
    Quirk(
        "choices null",
        stream(*said("Bonjour", " toi"), _STOP, bare(None, usage=_COUNTED)),
        _counted(),
    ),
    Quirk(
        "choices missing",
        stream(*said("Bonjour", " toi"), _STOP, {"id": "x", "usage": _COUNTED}),
        _counted(),
    ),
    Quirk(
        "delta missing",
        stream(
            *said("Bonjour"),
            bare([{"index": 0, "finish_reason": None}]),
            chunk({"content": " toi"}),
            bare([{"index": 0, "finish_reason": "stop"}]),
        ),
        _TEXT,
    ),
    Quirk(
        "delta null",
        stream(
            *said("Bonjour"),
            bare([{"index": 0, "delta": None, "finish_reason": None}]),
            chunk({"content": " toi"}),
            bare([{"index": 0, "delta": None, "finish_reason": "stop"}]),
        ),
        _TEXT,
    ),
    Quirk(
        "unknown fields",
        stream(
            chunk({**ROLE, "mood": ["fine"]}, provider={"name": "x"}, x_timing=[1, None]),
            chunk({"content": "Bonjour toi", "annotations": [{"type": "?"}]}),
            bare([{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 7}]),
        ),
        _TEXT,
    ),
    Quirk(
        "content as a list of parts",
        stream(
            chunk(ROLE),
            chunk({"content": [{"type": "text", "text": "Bonjour"}]}),
            chunk({"content": [{"type": "text", "text": " "}, {"type": "text", "text": "toi"}]}),
            _STOP,
        ),
        _TEXT,
    ),
    Quirk(
        "half a character escaped in the text",
        Raw([sse(json.dumps(each)) for each in (*said("Bon \ud83d", "jour"), _STOP)]),
        Understood("Bon \ufffdjour"),
    ),
    Quirk(
        "a character in two halves",
        Raw([sse(json.dumps(each)) for each in (*said("Bon \ud83d", "\ude00 jour"), _STOP)]),
        Understood("Bon \U0001f600 jour"),
    ),
)

_REASONING: Final = (
    Quirk(
        "reasoning in reasoning_content",
        stream(
            chunk(ROLE),
            chunk({"reasoning_content": "Je "}),
            chunk({"reasoning_content": "pense."}),
            chunk({"content": "Bonjour toi"}),
            _STOP,
        ),
        Understood("Bonjour toi", "Je pense."),
    ),
    Quirk(
        "reasoning in reasoning",
        stream(
            chunk(ROLE),
            chunk({"reasoning": "Je "}),
            chunk({"reasoning": "pense."}),
            chunk({"content": "Bonjour toi"}),
            _STOP,
        ),
        Understood("Bonjour toi", "Je pense."),
    ),
    Quirk(
        "reasoning twice in each chunk",
        stream(
            chunk(ROLE),
            chunk({"reasoning": "Je ", "reasoning_content": "Je "}),
            chunk({"reasoning": "pense.", "reasoning_content": "pense."}),
            chunk({"content": "Bonjour toi", "reasoning": None, "reasoning_content": None}),
            _STOP,
        ),
        Understood("Bonjour toi", "Je pense."),
    ),
    Quirk(
        "reasoning now in one field, now in the other",
        stream(
            chunk(ROLE),
            chunk({"reasoning": "Je ", "reasoning_content": ""}),
            chunk({"reasoning": "", "reasoning_content": "pense."}),
            chunk({"content": "Bonjour toi"}),
            _STOP,
        ),
        Understood("Bonjour toi", "Je pense."),
    ),
    Quirk(
        "reasoning and text in one chunk",
        stream(chunk({"reasoning_content": "Je pense.", "content": "Bonjour toi"}), _STOP),
        Understood("Bonjour toi", "Je pense."),
    ),
    Quirk(
        "reasoning inside the text",
        stream(*said("<think>", "Je pense.", "</think>", "Bonjour toi"), _STOP),
        Understood("<think>Je pense.</think>Bonjour toi"),
    ),
)

_USAGE: Final = (
    Quirk("usage absent", stream(*said("Bonjour", " toi"), _STOP), _TEXT),
    Quirk("usage null", stream(*said("Bonjour", " toi"), chunk({}, "stop", usage=None)), _TEXT),
    Quirk("usage empty", stream(*said("Bonjour", " toi"), chunk({}, "stop", usage={})), _TEXT),
    Quirk(
        "usage in the last chunk of content",
        stream(*said("Bonjour"), chunk({"content": " toi"}, "stop", usage=_COUNTED)),
        _counted(),
    ),
    Quirk(
        "usage in a chunk of its own",
        stream(*said("Bonjour", " toi"), _STOP, bare([], usage=_COUNTED)),
        _counted(),
    ),
    Quirk(
        "usage in a chunk that repeats the finish",
        stream(*said("Bonjour", " toi"), _STOP, chunk({}, "stop", usage=_COUNTED)),
        _counted(),
    ),
    Quirk(
        "usage on every chunk, cumulative",
        stream(
            chunk(ROLE, usage={"prompt_tokens": 12, "completion_tokens": 0, "total_tokens": 12}),
            chunk(
                {"content": "Bonjour"},
                usage={"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
            ),
            chunk({"content": " toi"}, usage=_COUNTED),
            chunk({}, "stop", usage=_COUNTED),
        ),
        _counted(),
    ),
    Quirk(
        "usage with details",
        stream(
            *said("Bonjour", " toi"),
            _STOP,
            bare(
                [],
                usage={
                    **_COUNTED,
                    "prompt_tokens_details": {"cached_tokens": 8},
                    "completion_tokens_details": {"reasoning_tokens": 4},
                },
            ),
        ),
        _counted(usage=Tokens(4, 7, cache_read=8, reasoning=4)),
    ),
    Quirk(
        "usage with details null",
        stream(
            *said("Bonjour", " toi"),
            _STOP,
            bare(
                [],
                usage={
                    **_COUNTED,
                    "prompt_tokens_details": None,
                    "completion_tokens_details": {"reasoning_tokens": None},
                },
            ),
        ),
        _counted(),
    ),
    Quirk(
        "usage with DeepSeek's cache",
        stream(
            *said("Bonjour", " toi"),
            chunk(
                {},
                "stop",
                usage={**_COUNTED, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 4},
            ),
        ),
        _counted(usage=Tokens(4, 7, cache_read=8)),
    ),
)

_ENDS: Final = (
    Quirk("no finish reason, but [DONE]", stream(*said("Bonjour", " toi")), _TEXT),
    Quirk("finish reason, no [DONE]", stream(*said("Bonjour", " toi"), _STOP, done=False), _TEXT),
    Quirk(
        "neither finish reason nor [DONE]",
        stream(*said("Bonjour", " toi"), done=False),
        Broken("cut", text="Bonjour toi"),
    ),
    Quirk(
        "cut before any content",
        stream(chunk(ROLE), done=False),
        Broken("cut"),
    ),
    Quirk("finish reason unknown", stream(*said("Bonjour toi"), chunk({}, "eos")), _TEXT),
    Quirk(
        "finish reason empty until the last",
        stream(chunk({"content": "Bonjour"}, ""), chunk({"content": " toi"}, ""), _STOP),
        _TEXT,
    ),
    Quirk(
        "finish reason on the last text",
        stream(*said("Bonjour"), chunk({"content": " toi"}, "stop")),
        _TEXT,
    ),
    Quirk(
        "finish reason content_filter",
        stream(*said("Bonjour toi"), chunk({}, "content_filter")),
        Understood("Bonjour toi", stop="refusal"),
    ),
    Quirk(
        "finish reason length",
        stream(*said("Bonjour toi"), chunk({}, "length")),
        Understood("Bonjour toi", stop="max_tokens"),
    ),
    Quirk(
        "refusal in its own field",
        stream(chunk(ROLE), chunk({"refusal": "Je refuse."}), _STOP),
        Understood("Je refuse.", stop="refusal"),
    ),
)

_WHOLE: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Bonjour toi"},
            "finish_reason": "stop",
        }
    ],
    "usage": _COUNTED,
}
_HTML: Final = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"

_ERRORS: Final = (
    Quirk(
        "an error as JSON under status 200",
        Raw([json.dumps({"error": _FAILED}).encode()], headers=_JSON),
        Broken("told", "The model crashed"),
    ),
    Quirk(
        "an error as text under status 200",
        Raw([json.dumps({"error": "The model crashed"}).encode()], headers=_JSON),
        Broken("told", "The model crashed"),
    ),
    Quirk(
        "an error in the stream",
        stream(*said("Bonjour"), {"error": _FAILED}),
        Broken("told", "The model crashed", text="Bonjour"),
    ),
    Quirk(
        "an error in the stream before anything",
        stream({"error": _FAILED}, done=False),
        Broken("told", "The model crashed"),
    ),
    Quirk(
        "an error beside a choice",
        stream(*said("Bonjour"), chunk({"content": ""}, "error", error=_FAILED)),
        Broken("told", "The model crashed", text="Bonjour"),
    ),
    Quirk(
        "an error that is an object of its own",
        stream(*said("Bonjour"), {"object": "error", **_FAILED}),
        Broken("told", "The model crashed", text="Bonjour"),
    ),
    Quirk(
        "an error in an event of that name",
        Raw([sse(json.dumps({"error": _FAILED}), "error")]),
        Broken("told", "The model crashed"),
    ),
    Quirk(
        "a whole completion although a stream was asked",
        Raw([json.dumps(_WHOLE).encode()], headers=_JSON),
        _counted(),
    ),
    Quirk("an HTML page under status 502", Fails(502, _HTML), Broken("status", status=502)),
    Quirk(
        "an HTML page under status 200",
        Raw([_HTML.encode()], headers={"content-type": "text/html"}),
        Broken("unreadable"),
    ),
    Quirk("an empty body", Raw(), Broken("empty")),
    Quirk("an empty JSON body", Raw(headers=_JSON), Broken("empty")),
    Quirk("[DONE] alone", stream(), Broken("empty")),
    Quirk(
        "no JSON in a line",
        Raw([sse(json.dumps(said("Bonjour")[1])), b'data: {"choices": [{"del\n\n']),
        Broken("unreadable", text="Bonjour"),
    ),
    Quirk(
        "JSON that is no object in a line",
        Raw([sse(json.dumps(said("Bonjour")[1])), sse("42"), sse('"hm"')]),
        Broken("unreadable", text="Bonjour"),
    ),
)

ANSWERS: Final[tuple[Quirk, ...]] = (*_CHUNKS, *_REASONING, *_USAGE, *_ENDS, *_ERRORS)
