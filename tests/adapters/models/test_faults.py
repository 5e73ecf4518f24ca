"""What providers say when something goes wrong, and what is understood of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.models.faults import fault_of, model_error, retry_after
from loom_ia.core.model import ModelSpec

SPEC = ModelSpec(id="GPT", sdk="openai", model="gpt-m1")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def coded(code: str, message: str = "no") -> dict[str, Any]:
    """Write the body of an error that bears a code."""
    return {"error": {"code": code, "message": message}}


def typed(kind: str, message: str = "no") -> dict[str, Any]:
    """Write the body of an error of a type."""
    return {"type": "error", "error": {"type": kind, "message": message}}


# -- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (coded("insufficient_quota"), 429, "quota_exhausted"),
        (coded("billing_hard_limit_reached"), 400, "quota_exhausted"),
        (typed("billing_error"), 403, "quota_exhausted"),
        (coded("insufficient_balance"), None, "quota_exhausted"),
        ({}, 402, "quota_exhausted"),
        (coded("context_length_exceeded"), 400, "context_overflow"),
        (coded("string_above_max_length"), 400, "context_overflow"),
        (coded("context_length_exceeded"), None, "context_overflow"),
        (coded("content_filter"), 400, "content_filtered"),
        (coded("content_policy_violation"), 400, "content_filtered"),
        (typed("authentication_error"), 401, "auth"),
        (typed("permission_error"), 403, "auth"),
        (coded("invalid_api_key"), 400, "auth"),
        ({}, 401, "auth"),
        ({}, 403, "auth"),
        (typed("overloaded_error"), 529, "overloaded"),
        (typed("overloaded_error"), None, "overloaded"),
        (coded("server_overloaded"), 500, "overloaded"),
        ({}, 503, "overloaded"),
        ({}, 529, "overloaded"),
        (typed("rate_limit_error"), 429, "transient"),
        (coded("rate_limit_exceeded"), 400, "transient"),
        (typed("api_error"), 500, "transient"),
        (typed("timeout_error"), 504, "transient"),
        (typed("server_error"), None, "transient"),
        *(({}, status, "transient") for status in (408, 409, 429, 500, 502, 504, 520, 599)),
        ({}, None, "transient"),
        ("anything", None, "transient"),
        *(({}, status, "invalid_request") for status in (301, 400, 404, 405, 413, 415, 422)),
        (typed("invalid_request_error"), 400, "invalid_request"),
        (typed("not_found_error"), 404, "invalid_request"),
        (typed("invalid_request_error"), None, "invalid_request"),
    ],
)
def test_each_sign_has_its_kind(body: Any, status: int | None, kind: str) -> None:
    """A code, a type or a status decides whether trying again, or elsewhere, can help."""
    assert fault_of(body, status).kind == kind


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (coded("insufficient_quota", "prompt is too long"), 401, "quota_exhausted"),
        (coded("context_length_exceeded"), 401, "context_overflow"),
        (coded("content_filter"), 403, "content_filtered"),
        (typed("authentication_error"), 503, "auth"),
        (coded("rate_limit_exceeded"), 503, "overloaded"),
        (typed("api_error"), 400, "transient"),
    ],
)
def test_the_first_sign_that_is_known_counts(body: Any, status: int, kind: str) -> None:
    """Money first, then the window, what is filtered, the key, the load, and what may pass."""
    assert fault_of(body, status).kind == kind


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens, you asked for 9000",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "the request exceeds the available context size, try increasing it",
        "Please reduce the length of the messages or completion.",
        "Input is too long for requested model.",
        "Requested token count exceeds the model's maximum context length of 32768 tokens",
        "Your input exceeds the context window of this model.",
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_what_is_said(message: str) -> None:
    """Under the statuses that a refused request has; a limit of calls says something like it."""
    for status in (None, 400, 413):
        assert fault_of({"error": {"message": message}}, status).kind == "context_overflow"
    assert fault_of({"error": {"message": message}}, 429).kind == "transient"
    assert fault_of({"error": {"message": message}}, 500).kind == "transient"


@pytest.mark.parametrize(
    "message",
    [
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing",
        "Insufficient Balance",
        "Insufficient account balance",
        "Insufficient credits",
        "You exceeded your current quota, please check your plan and billing details.",
    ],
)
def test_an_account_with_nothing_left_is_known_by_what_is_said(message: str) -> None:
    """Whatever the status and the code that a provider has for it."""
    for status in (None, 400, 403, 429):
        assert fault_of(typed("invalid_request_error", message), status).kind == "quota_exhausted"


def test_a_limit_that_passes_soon_is_not_an_empty_account() -> None:
    """Gemini has the same sentence for its limits of a minute, and says when to come back."""
    said = "You exceeded your current quota, please check your plan. Please retry in 36.9s."
    assert fault_of({"error": {"message": said}}, 429).kind == "transient"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x" * 20_000_000}},
        "<" * 20_000_000,
        {"error": {"x": "a" * 20_000_000}},
        [[[["context " * 2_000_000]]]],
    ],
    ids=["a message", "a page", "another key", "a list"],
)
def test_what_is_looked_at_is_bounded(body: Any) -> None:
    """Only the beginning of what is said is kept, and searched."""
    fault = fault_of(body, 400)
    assert len(fault.message) <= 4_000
    assert len(str(model_error(SPEC, fault, secret="sk-secret"))) < 700


def test_an_error_that_is_nested_deep_is_told_by_its_beginning() -> None:
    """A document that the reader just holds is more than the writer does."""
    body: Any = "x"
    for _ in range(50_000):
        body = {"x": body}
    error = model_error(SPEC, fault_of(body, 400))
    assert (error.kind, str(error)[:28]) == ("invalid_request", 'GPT: HTTP 400: {"x": {"x": {')


@pytest.mark.parametrize("blank", [" ", "a"])
def test_a_key_that_is_cut_is_hidden(blank: str) -> None:
    """Where the message is cut, a piece of the key may be left."""
    said = blank * (4_000 - 20) + "sk-secret-of-the-project-with-a-tail"
    assert "sk-secret" not in str(
        model_error(SPEC, fault_of(said, 401), secret="sk-secret-of-the-project-with-a-tail")
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_request"),
        (401, "auth"),
        (402, "quota_exhausted"),
        (429, "transient"),
        ("503", "overloaded"),
        (502, "transient"),
        (529, "overloaded"),
        (1008, "transient"),
    ],
)
def test_a_status_inside_an_answer_counts_when_there_is_no_other(code: Any, kind: str) -> None:
    """A stream that began under 200 can only tell it there; it is not the status of the answer."""
    body = {"error": {"code": code, "message": "no"}}
    assert fault_of(body).kind == kind
    assert fault_of(body, 200).kind == kind
    assert fault_of(body, 404).kind == "invalid_request"
    error = model_error(SPEC, fault_of(body))
    assert error.http_status is None
    assert str(error) == "GPT: no"


# -- what they really send ------------------------------------------------------------------------

_OPENAI = {
    "error": {
        "message": "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
}
_QUOTA = {
    "error": {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
    }
}
_PARAMETER = {
    "error": {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "unsupported_parameter",
    }
}
_ANTHROPIC = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "Overloaded"},
    "request_id": "req_1",
}
_VLLM = {
    "object": "error",
    "message": "The model `x` does not exist.",
    "type": "NotFoundError",
    "param": None,
    "code": 404,
}
_FASTAPI = {"detail": "Not authenticated"}
_FASTAPI_LIST = {
    "detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "missing"}]
}
_LLAMA_CPP = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 8192,
    }
}
_LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
_MINIMAX = {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
_GEMINI = [
    {
        "error": {
            "code": 429,
            "message": "Resource has been exhausted",
            "status": "RESOURCE_EXHAUSTED",
        }
    }
]
_OPENROUTER = {"error": {"code": 402, "message": "Insufficient credits", "metadata": {"a": 1}}}
_DEEP = {"error": {"error": {"error": {"error": {"error": "too deep"}}}}}
_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    "<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center></body></html>"
)


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        pytest.param(_OPENAI, 429, "transient", "Rate limit reached", id="openai, a limit"),
        pytest.param(_QUOTA, 429, "quota_exhausted", "current quota", id="openai, a quota"),
        pytest.param(_PARAMETER, 400, "invalid_request", "'max_tokens'", id="openai, a parameter"),
        pytest.param(_ANTHROPIC, 529, "overloaded", "HTTP 529: Overloaded", id="anthropic"),
        pytest.param(_VLLM, 404, "invalid_request", "does not exist", id="vllm"),
        pytest.param(_FASTAPI, 401, "auth", "Not authenticated", id="fastapi"),
        pytest.param(_FASTAPI_LIST, 422, "invalid_request", "field required", id="fastapi, a list"),
        pytest.param(_LLAMA_CPP, 400, "context_overflow", "context size", id="llama.cpp"),
        pytest.param(_LOADING, 503, "overloaded", "Loading model", id="llama.cpp, early"),
        pytest.param(_MINIMAX, None, "quota_exhausted", "GPT: insufficient balance", id="minimax"),
        pytest.param(_GEMINI, 429, "transient", "HTTP 429: Resource has been", id="gemini"),
        pytest.param(_OPENROUTER, 200, "quota_exhausted", "credits", id="openrouter"),
        pytest.param({"error": "no such model"}, 404, "invalid_request", "no such", id="ollama"),
        pytest.param({"message": "no"}, 403, "auth", "HTTP 403: no", id="a gateway"),
        pytest.param({"msg": "no"}, 400, "invalid_request", "400: no", id="another gateway"),
        pytest.param(_PAGE, 502, "transient", "502: 502 Bad Gateway 502 Bad", id="a page"),
        pytest.param("upstream timed out", 504, "transient", "upstream timed out", id="a text"),
        pytest.param("", 500, "transient", "HTTP 500: no explanation", id="an empty body"),
        pytest.param(None, 500, "transient", "no explanation", id="no body"),
        pytest.param([], 500, "transient", "no explanation", id="an empty list"),
        pytest.param({"error": None}, 500, "transient", "null", id="a null error"),
        pytest.param(_DEEP, 400, "invalid_request", "too deep", id="deep"),
    ],
)
def test_what_servers_really_send_is_understood(
    body: Any, status: int | None, kind: str, says: str
) -> None:
    """The kind, and the sentence of the provider behind the name of the model."""
    error = model_error(SPEC, fault_of(body, status))
    assert error.kind == kind
    assert says in str(error)
    assert str(error).startswith("GPT: ")
    assert error.http_status == (None if status == 200 else status)


def test_a_message_is_one_line_and_not_too_long() -> None:
    """A journal keeps it, and a person reads it."""
    text = str(model_error(SPEC, fault_of("a\n  b\t" + "c" * 5000, 500)))
    assert text.startswith("GPT: HTTP 500: a b ccc")
    assert len(text) < 650
    broken = str(model_error(SPEC, fault_of({"message": "\ud83d {status} %s"}, 500)))
    assert broken == "GPT: HTTP 500: \ufffd {status} %s"


# -- the wait that is asked for -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "1000000000000"}, 1e9),
        ({"retry-after": "1e300"}, 1e9),
        ({"retry-after": "9" * 400}, 1e9),
        ({"retry-after-ms": "9" * 400}, 1e6),
        ({"retry-after": "Fri, 01 Jan 9999 12:00:00 GMT"}, 1e9),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after-ms": "-1", "retry-after": "7"}, 7),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 13:00:30 +0100"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0),
        *(
            ({"retry-after": garbage}, None)
            for garbage in (
                *("", "soon", "-5", "nan", "inf", "1e400", "Thu, 99 Foo 2026", "\x00"),
                *("Thu, 01 Jan 2026 12:00:30 +99999999999999", "Thu, 01 Jan 99999 00:00:00 GMT"),
            )
        ),
    ],
)
def test_a_wait_is_read_in_each_way_to_write_it(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Milliseconds first, then seconds or a date; what is past is no wait, garbage is nothing."""
    assert retry_after(headers, NOW) == seconds


@given(st.one_of(st.text(), st.from_regex(r"\w{3}, \d{1,3} \w{3} \d{1,6} \d+:\d+:\d+ [+-]?\d*")))
def test_no_header_breaks_an_error(written: str) -> None:
    """Whatever stands there, the wait is none or a number of seconds that is not negative."""
    seconds = retry_after({"retry-after": written, "retry-after-ms": written}, NOW)
    assert seconds is None or seconds >= 0


def test_a_wait_comes_with_the_error() -> None:
    """Who retries reads it there."""
    fault = fault_of({}, 429, {"retry-after": "7"})
    assert model_error(SPEC, fault).retry_after == 7
    assert model_error(SPEC, fault_of({}, 429)).retry_after is None


# -- the key --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("sk-secret", "Incorrect API key provided: sk-secret."),
        ("sk-secret\n", "Illegal header value b'Bearer sk-secret\\n'"),
        ("sk-secret\n", "Incorrect API key provided: sk-secret."),
        ('sk"quoted\\', '{"key": "sk\\"quoted\\\\"}'),
        ("sk/with+signs=", "GET /v1?key=sk%2Fwith%2Bsigns%3D"),
        ("clé", '{"key": "cl\\u00e9"}'),
    ],
)
def test_the_key_never_stands_in_a_message(secret: str, said: str) -> None:
    """In whichever way somebody wrote it: as it is, quoted, in JSON, in an address."""
    for body in (said, {"error": {"message": said}}):
        text = str(model_error(SPEC, fault_of(body, 401), secret=secret))
        assert "***" in text
        for piece in ("secret", "quoted", "with", "cl"):
            assert piece not in text.replace("provided", "").replace("Illegal", "")


def test_a_key_is_hidden_before_a_message_is_cut() -> None:
    """Half a key would be left otherwise."""
    said = "x" * 590 + "sk-secret-of-many-letters"
    text = str(model_error(SPEC, fault_of(said, 401), secret="sk-secret-of-many-letters"))
    assert "sk-" not in text


@pytest.mark.parametrize("secret", [None, "", "  "])
def test_without_a_key_nothing_is_hidden(secret: str | None) -> None:
    """A server that asks for none."""
    assert str(model_error(SPEC, fault_of("a b", 400), secret=secret)) == "GPT: HTTP 400: a b"
