"""Why a model could not be checked: the kind of fault, in words without a key, and the remedy.

Law. Whatever the outside says goes through a `Veil` before it stands in a report.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from loom_ia.core.errors import ConfigError, ModelError, ModelErrorKind, told
from loom_ia.core.json import storable_text
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.views.checkup import FaultKind, Said, sentence

_HIDDEN: Final = "***"
_PART: Final = 4
"""How many characters of a key give it away."""

_WORD: Final = re.compile(r"[^\s\"'`<>(){}\[\],;]+")
_MASK: Final = re.compile(r"\*+|•+|…|\.{2,}|x{4,}", re.IGNORECASE)
_LONGEST: Final = 300
_EVENTS: Final = "text/event-stream"
_NO_ROUTE: Final = frozenset({404, 405})
_SAME: Final[Mapping[ModelErrorKind, FaultKind]] = {
    "auth": "auth",
    "quota_exhausted": "quota_exhausted",
    "content_filtered": "content_filtered",
    "context_overflow": "context_overflow",
    "overloaded": "overloaded",
    "truncated": "truncated",
}
_REFUSALS: Final = frozenset({"invalid_request", "not_found"})
_PERHAPS_REFUSALS: Final = frozenset({"auth", "server_error"})
_REFUSING: Final = frozenset({400, 403, 422, 500, 501})
"""Statuses by which servers that did answer refuse what they cannot do, whatever they call it."""

_HOPELESS: Final = frozenset({"setup", "unreachable", "auth", "quota_exhausted"})
_PASSING: Final = frozenset({"overloaded", "rate_limited", "server_error", "cut"})


class Veil:
    """Hides a key, whole or in part, in what others wrote."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._folded = secret.casefold()
        self._parts = frozenset(_parts(self._folded))

    def over(self, text: str) -> str:
        """Give `text` on one line, without any word that has a part of the key in it."""
        if self._secret:
            text = text.replace(self._secret, _HIDDEN)
        shown = _WORD.sub(lambda word: self._word(word[0]), text)
        return storable_text(" ".join(shown.split()))[:_LONGEST]

    def _word(self, word: str) -> str:
        folded = word.casefold()
        shared = folded == self._folded or not self._parts.isdisjoint(_parts(folded))
        return _HIDDEN if shared or self._is_masked(folded) else word

    def _is_masked(self, word: str) -> bool:
        """Whether a word is the key with its middle hidden, however little it leaves of it."""
        first, *others = (piece.strip(".:") for piece in _MASK.split(word))
        last = others[-1] if others else ""
        begins = bool(others and first) and self._folded.startswith(first)
        return begins or (bool(last) and self._folded.endswith(last))


def _parts(text: str) -> set[str]:
    return {text[start : start + _PART] for start in range(len(text) - _PART + 1)}


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that gave no answer. `retry_after` is the wait that was asked for, in seconds."""

    kind: FaultKind
    detail: Said
    remedy: Said | None = None
    http_status: int | None = None
    retry_after: float | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether a server that answers other requests says that it cannot do this one."""
        return self.kind in _REFUSALS or (
            self.kind in _PERHAPS_REFUSALS and self.http_status in _REFUSING
        )

    @property
    def is_hopeless(self) -> bool:
        """Whether any other call would fail too."""
        return self.kind in _HOPELESS and self.http_status != 403

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed in a moment."""
        return self.kind in _PASSING


def setup_fault(error: ConfigError) -> Fault:
    """Tell why no client can be made; the problem has its remedy."""
    problem = error.problems[0]
    return Fault("setup", sentence(problem.template, **problem.params))


def unusable_key(name: str, key: str) -> Fault | None:
    """Tell of a key that no header can hold, without showing anything of it."""
    if key.isascii() and key.isprintable() and key == key.strip():
        return None
    template = (
        "the variable {name} holds what is no key: there is a blank at an end, an end of line or "
        "a letter with an accent in it"
    )
    return Fault("setup", sentence(template, name=name))


def model_fault(
    error: ModelError, exchange: HttpExchange | None, spec: ModelSpec, veil: Veil
) -> Fault:
    """Tell what an error of a model means; `exchange` is what went over the wire, if anything."""
    kind = _kind(error, exchange)
    if kind == "not_an_answer" and not _is_known(exchange):
        return no_answer_fault(exchange, spec, veil)
    params = {
        name: veil.over(value) if isinstance(value, str) and name != "model" else value
        for name, value in error.params.items()
    }
    return Fault(
        kind,
        sentence(error.template, **params),
        remedy_for(kind, spec, error.retry_after),
        error.http_status,
        error.retry_after,
    )


def unexpected_fault(error: Exception, veil: Veil) -> Fault:
    """Tell of an error that no adapter foresaw."""
    return Fault("unexpected", sentence("{error}", error=veil.over(told(error))))


def no_answer_fault(exchange: HttpExchange | None, spec: ModelSpec, veil: Veil) -> Fault:
    """Tell of a response that came to its end, and in which there was no answer."""
    status = exchange.status_code if exchange else None
    media_type = media_type_of(exchange)
    if media_type in {None, _EVENTS}:
        template = "the answer of {model} was cut before its end"
        detail = sentence(template, model=spec.id)
        return Fault("cut", detail, remedy_for("cut", spec), status)
    template = "what came is no answer of a model, but a document of type {media_type}"
    detail = sentence(template, media_type=veil.over(media_type or "") or "?")
    return Fault("not_an_answer", detail, remedy_for("not_an_answer", spec), status)


def media_type_of(exchange: HttpExchange | None) -> str | None:
    """Give the type of what came, empty when it was not told; None when nothing came."""
    if exchange is None or exchange.status_code is None:
        return None
    header = exchange.response_headers.get("content-type", "")
    return header.partition(";")[0].strip().lower()


def _is_known(exchange: HttpExchange | None) -> bool:
    """Whether what came was of a type that answers have."""
    media_type = media_type_of(exchange) or ""
    return not media_type or media_type == _EVENTS or media_type.endswith("json")


def _kind(error: ModelError, exchange: HttpExchange | None) -> FaultKind:
    if isinstance(error.__cause__, TimeoutError):
        return "timeout"
    if error.kind in _SAME:
        return _SAME[error.kind]
    status = error.http_status
    if status in _NO_ROUTE:
        return "not_found"
    if error.kind == "invalid_request":
        return "invalid_request"
    if status is not None:
        return "rate_limited" if status == 429 else "server_error"
    return _wire_kind(error, exchange)


def _wire_kind(error: ModelError, exchange: HttpExchange | None) -> FaultKind:
    """Tell what became of a call to which no status of an error was given."""
    if exchange is None or error.__cause__ is None:
        return "server_error"  # it said so inside its answer
    if exchange.status_code is None:
        return "unreachable"
    return "not_an_answer" if isinstance(error.__cause__, ValueError) else "cut"


# -- what to do about it ------------------------------------------------------------------------


def remedy_for(kind: FaultKind, spec: ModelSpec, wait: float | None = None) -> Said | None:
    """Say what to do about a fault of that kind; None when its own words say it."""
    if kind == "auth":
        return _remedy_for_key(spec)
    if kind in {"not_found", "not_an_answer"}:
        return _remedy_for_address(kind, spec)
    if kind == "unreachable":
        return _remedy_for_network(spec)
    if kind == "rate_limited" and wait is not None:
        return sentence("wait {seconds:g} s and try again", seconds=round(wait, 3))
    return sentence(_REMEDIES[kind], model_id=spec.model) if kind in _REMEDIES else None


_REMEDIES: Final[Mapping[FaultKind, str]] = {
    "timeout": "is the model still loading? give it longer under timeouts, and check base_url",
    "invalid_request": "check model ({model_id}) and params: the server answers, and refuses this",
    "rate_limited": "wait a moment and try again",
    "quota_exhausted": "the account has nothing left to spend: see its page at the provider",
    "overloaded": "try again later",
    "server_error": "the fault is the server's: look at its log, or try again later",
    "cut": "look at the log of the server, and at what stands between it and here",
    "truncated": "give the model a larger max_tokens",
    "context_overflow": "give the server a larger context: no agent works in this one",
    "content_filtered": "the provider filters harmless requests: see its settings",
    "unexpected": "please report it: no server should be able to do that",
}


def _remedy_for_key(spec: ModelSpec) -> Said:
    if spec.api_key_env is None:
        return sentence("the server asks for a key: name its variable in api_key_env")
    template = "check the key in the variable {name} (api_key_env), and what it gives access to"
    return sentence(template, name=spec.api_key_env)


def _remedy_for_network(spec: ModelSpec) -> Said:
    if spec.base_url is None:
        template = "check the network: the official address of {sdk} cannot be reached from here"
        return sentence(template, sdk=spec.sdk)
    template = "is the server started? check base_url ({base_url})"
    return sentence(template, base_url=spec.base_url)


def _remedy_for_address(kind: FaultKind, spec: ModelSpec) -> Said:
    base_url = spec.base_url
    if base_url is None:
        return sentence("check model ({model_id})", model_id=spec.model)
    is_versioned = base_url.rstrip("/").endswith("/v1")
    template = "check model ({model_id}) and base_url ({base_url})"
    if spec.sdk == "openai" and not is_versioned:
        template = "check base_url ({base_url}): most servers want it to end with /v1"
    elif spec.sdk == "anthropic" and is_versioned:
        template = "check base_url ({base_url}): with sdk: anthropic it goes without /v1"
    elif kind == "not_an_answer":
        template = "check base_url ({base_url}) and api: something else answers there"
    return sentence(template, base_url=base_url, model_id=spec.model)
