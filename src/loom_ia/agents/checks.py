"""The description of what checks an agent: contracts, judges, policies."""

from typing import Final, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from loom_ia.agents.context import ContextSpecs
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.policy import PolicyPoint

OnFailure: TypeAlias = Literal["fail", "unverified", "fallback"]
ClaimKind: TypeAlias = Literal[
    "amount", "percentage", "date", "reference", "email", "phone", "iban", "number"
]

_ONE_SCHEMA: Final[JsonObject] = {
    "not": {"required": ["schema", "schema_file"]},
}


class _Spec(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Repair(_Spec):
    """How an output that is refused is made again, by the model that made it.

    `tools` tells whether it may call tools meanwhile: `auto` is no for a contract and yes for a
    judge.
    """

    max_attempts: int = Field(default=1, ge=0, le=10, description="Other tries.")
    tools: Literal["auto", "none", "allowed"] = Field(
        default="auto",
        description="Whether tools may be called for it; `auto`: no for a contract, else yes.",
    )


class Grounded(_Spec):
    """Have each value of a kind stand in the user's words, a tool's result, or the state.

    `kinds` are those that are looked for, all of them by default. `allow` are texts that may stand
    in an output without a source: the number of a hot line, a legal mention.
    """

    kinds: tuple[ClaimKind, ...] = Field(
        default=(), strict=False, description="The kinds that are looked for; all by default."
    )
    allow: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Texts whose values need no source: your own number, a legal mention.",
    )


class Contract(_Spec):
    """What an output must be: its schema, what it must and must not match, its length.

    In Python: `Contract(schema={…})`. A model that follows schemas is given the schema as it is,
    when it has no tool to call; else the schema is put in its prompt.
    """

    model_config = ConfigDict(json_schema_extra=_ONE_SCHEMA, serialize_by_alias=True)

    # `schema` is the name of a method of Pydantic's.
    json_schema: JsonObject | None = Field(
        default=None, alias="schema", description="A JSON Schema; give this or `schema_file`."
    )
    schema_file: str | None = Field(
        default=None,
        min_length=1,
        description="A file that holds it, JSON or YAML, relative to the folder of `loom.yaml`.",
    )
    must_match: str | None = Field(
        default=None, min_length=1, description="A regular expression that must be found in it."
    )
    must_not_match: str | None = Field(
        default=None, min_length=1, description="A regular expression that must not be."
    )
    max_chars: int | None = Field(default=None, gt=0, description="The most characters.")
    normalize: bool = Field(
        default=True,
        description="Take off, without a model, a fence and what stands around a document.",
    )
    grounded: bool | Grounded = Field(
        default=False,
        description="Refuse amounts, dates, references… that no source holds.",
    )
    repair: Repair = Field(default=Repair(), description="How it is made again.")
    on_failure: OnFailure = Field(
        default="fail",
        description="`fail` the run, give it as `unverified`, or give the `fallback_message`.",
    )
    fallback_message: str | None = Field(
        default=None, min_length=1, description="What is given instead (`fallback`)."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.json_schema is not None and self.schema_file is not None:
            raise PydanticCustomError("one_schema", "give either schema or schema_file")
        _needs_message(self.on_failure, self.fallback_message)
        return self


class Criterion(_Spec):
    """A rule in words that a judge marks from 0 to 1."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Its name; each once.")
    rule: str = Field(min_length=1, description="What is asked, in words.")
    min_score: float = Field(default=0.8, ge=0, le=1, description="The least that is accepted.")
    blocking: bool = Field(
        default=True, description="Whether less refuses the output, or is only reported."
    )


class When(_Spec):
    """When a judge looks; all of it must hold.

    `condition` is a Python function of the output that answers True or False.
    """

    sample: float = Field(
        default=1.0, ge=0, le=1, description="The part of the runs, always the same ones."
    )
    condition: str | None = Field(
        default=None, min_length=1, description="A registered name, or `module:attribute`."
    )
    tenants: tuple[str, ...] = Field(default=(), strict=False, description="All when empty.")
    profiles: tuple[str, ...] = Field(default=(), strict=False, description="All when empty.")


class JudgeSpec(_Spec):
    """A model that marks an output by criteria."""

    model: str = Field(min_length=1, description="The `id` of its model.")
    fallbacks: tuple[str, ...] = Field(
        default=(), strict=False, description="Those that take over when it fails."
    )
    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Its name in the journal; `output`, or that of the role, without it.",
    )
    criteria: tuple[Criterion, ...] = Field(
        min_length=1, strict=False, description="What it marks."
    )
    context: tuple[ContextSpecs, ...] = Field(
        default=(), strict=False, description="What it is given besides the output."
    )
    when: When = Field(default=When(), description="When it looks.")
    repair: Repair = Field(default=Repair(), description="How a refused output is made again.")
    on_failure: OnFailure = Field(
        default="fail",
        description="`fail` the run, give it as `unverified`, or give the `fallback_message`.",
    )
    fallback_message: str | None = Field(
        default=None, min_length=1, description="What is given instead (`fallback`)."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Overrides the model's own.")
    params: JsonObject = Field(default_factory=dict, description="Merged over the model's own.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds; none by default.")
    on_error: Literal["block", "allow"] = Field(
        default="block",
        description="`block`: a judge that fails fails the run; `allow`: it lets pass.",
    )

    @property
    def chain(self) -> tuple[str, ...]:
        """The model that leads, then those that take over."""
        return (self.model, *self.fallbacks)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _needs_message(self.on_failure, self.fallback_message)
        names = [criterion.name for criterion in self.criteria]
        if len(set(names)) != len(names):
            raise PydanticCustomError("criteria", "two criteria have the same name")
        return self


class PolicyReference(_Spec):
    """A policy as an agent uses it; policies are asked in the order in which they are written."""

    hook: str = Field(
        min_length=1,
        description="A policy of the `imports`, a registered name, `module:attribute`, or ours.",
    )
    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Its name in the journal; its own without it.",
    )
    points: tuple[PolicyPoint, ...] = Field(
        default=(), strict=False, description="Fewer points than it declares."
    )
    params: JsonObject = Field(default_factory=dict, description="What it is given.")
    timeout: float | None = Field(
        default=5.0, gt=0, description="Seconds for each answer; `null` for no limit."
    )
    on_error: Literal["block", "allow"] = Field(
        default="block", description="A policy that fails: `block` fails the run, `allow` goes on."
    )
    max_attempts: int = Field(
        default=1, ge=0, le=10, description="How often it may have an answer made again in a run."
    )


def _needs_message(on_failure: OnFailure, message: str | None) -> None:
    if on_failure == "fallback" and message is None:
        raise PydanticCustomError("fallback", "on_failure: fallback needs a fallback_message")
    if on_failure != "fallback" and message is not None:
        raise PydanticCustomError("fallback", "fallback_message is for on_failure: fallback")
