"""What a model was found able to do: one answer for each question that was put to it."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import Field, model_serializer

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.models import Api, Capabilities, ModelSpec, Sdk
from loom_ia.core.model.usage import Usage

ProbeName: TypeAlias = Literal[
    "reach",
    "streaming",
    "usage",
    "tools",
    "tool_result",
    "parallel_calls",
    "forced_tool_choice",
    "native_json",
    "vision",
    "thinking",
]
"""What is tried. One that is named as a capability settles that capability."""

Outcome: TypeAlias = Literal["yes", "no", "failed", "skipped"]
"""It can, it cannot, nobody knows since the call failed, or it was not tried."""

FaultKind: TypeAlias = Literal[
    "setup",
    "unreachable",
    "timeout",
    "auth",
    "not_found",
    "invalid_request",
    "rate_limited",
    "quota_exhausted",
    "overloaded",
    "server_error",
    "not_an_answer",
    "cut",
    "truncated",
    "content_filtered",
    "context_overflow",
    "unexpected",
]


class Said(Value):
    """A sentence: an English `template` and the `params` that fill it; written as its text."""

    template: str
    params: dict[str, object] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.template.format_map(self.params) if self.params else self.template

    @model_serializer
    def _written(self) -> str:
        return self.text


def sentence(template: str, /, **params: object) -> Said:
    """Make a sentence."""
    return Said(template=template, params=params)


class Probe(Value):
    """One thing that was tried, and what came of it.

    `error` and `http_status` say how a call was refused or failed, and `remedy` what to do about
    it. Only `streaming` has `pieces`, and `first_piece_s`, in seconds. Nothing holds any part of a
    key.
    """

    name: ProbeName
    outcome: Outcome
    detail: Said | None = sparse(None)
    error: FaultKind | None = sparse(None)
    http_status: int | None = sparse(None)
    remedy: Said | None = sparse(None)
    pieces: int | None = sparse(None)
    first_piece_s: float | None = sparse(None)


class Difference(Value):
    """A capability that is not what the configuration says of it."""

    capability: str
    declared: bool
    found: bool


class Checkup(Value):
    """A model of the configuration, and what it was found able to do.

    `answers` tells whether it answered at all. `found` has the capabilities that the probes
    settled, `differences` those of them that the configuration says otherwise, `capabilities` what
    it should say. `usage` is what the provider counted, and `cost_usd` its price, None when no
    price is known.
    """

    model: str
    model_id: str
    sdk: Sdk
    api: Api | None = None
    base_url: str | None = None
    answers: bool
    probes: tuple[Probe, ...]
    found: dict[str, bool]
    differences: tuple[Difference, ...]
    capabilities: JsonObject
    calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None


def checkup_of(
    spec: ModelSpec,
    probes: Iterable[Probe],
    *,
    calls: int = 0,
    usage: Usage | None = None,
    cost_usd: float | None = None,
) -> Checkup:
    """Conclude from what was tried."""
    tried = tuple(probes)
    found = {
        probe.name: probe.outcome == "yes"
        for probe in tried
        if probe.name in Capabilities.model_fields and probe.outcome in {"yes", "no"}
    }
    return Checkup(
        model=spec.id,
        model_id=spec.model,
        sdk=spec.sdk,
        api=spec.api,
        base_url=spec.base_url,
        answers=any(probe.name == "reach" and probe.outcome == "yes" for probe in tried),
        probes=tried,
        found=found,
        differences=tuple(_differences(spec.capabilities, found)),
        capabilities=_to_declare(spec.capabilities, found),
        calls=calls,
        usage=usage or Usage(),
        cost_usd=cost_usd,
    )


def _differences(declared: Capabilities, found: Mapping[str, bool]) -> Iterable[Difference]:
    for name, is_there in found.items():
        said = bool(getattr(declared, name))
        if said != is_there:
            yield Difference(capability=name, declared=said, found=is_there)


def _to_declare(declared: Capabilities, found: Mapping[str, bool]) -> JsonObject:
    """Give what was found, and what else is declared that is not the default."""
    given = declared.model_dump(mode="json", exclude_defaults=True)
    known = {**given, **found}
    return {name: known[name] for name in Capabilities.model_fields if name in known}
