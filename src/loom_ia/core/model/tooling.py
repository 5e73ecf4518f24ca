"""What a decision may know of a tool: its name, its schema and its declarations, no live object."""

from typing import Final, Literal, TypeAlias

from pydantic import Field

from loom_ia.core.json import JsonObject, digest
from loom_ia.core.model.base import Value, sparse

SideEffects: TypeAlias = Literal["none", "reversible", "irreversible"]
ApprovalMode: TypeAlias = Literal["never", "always", "policy"]
"""Whether somebody is asked before a call is made; `policy` leaves that to the policies."""
OnUnknown: TypeAlias = Literal["error", "pause"]
ExpiryAction: TypeAlias = Literal["deny", "fail"]
Remembers: TypeAlias = Literal["nothing", "call", "key"]
Reconciled: TypeAlias = Literal["done", "not_done", "unknown"]
ToolKind: TypeAlias = Literal["python", "mcp", "builtin", "step", "graph", "role", "subagent"]


def is_delegated(kind: ToolKind) -> bool:
    """Whether a call of this kind is a run of its own."""
    return kind in ("graph", "role", "subagent")


def takes_references(kind: ToolKind) -> bool:
    """Whether arguments of such a call may stand for results of earlier calls."""
    return kind in ("role", "subagent")


class Assessment(Value):
    """What one call calls for, its arguments being what they are; None leaves what is declared.

    `reason` is shown to whoever is asked for approval.
    """

    approval: Literal["never", "always"] | None = None
    side_effects: SideEffects | None = None
    reason: str = ""


class ToolSpec(Value):
    """A tool as the model sees it and as the engine treats it.

    `input_schema` is a JSON Schema (Draft 2020-12) of type object. `timeout` is in seconds, None
    for no limit. `side_effects` and `idempotent` decide what may be started again after a crash;
    `on_unknown` what becomes of a call whose end nobody saw. A result of more than `offload_over`
    characters is put away and only its beginning shown, None for never.

    `remembers` says under what the tool itself remembers what it did: nothing, each call, or a key
    that all runs share. A tool that remembers is asked, by another launch, what became of a call
    that was interrupted, and acts again only when that is known to be right. `reconciles` says that
    it can ask the outside world whether an effect happened whose end nobody saw, `assesses` that
    it says of each call, from its arguments, what approval and side effects it has.

    A `terminal` tool that is called alone and succeeds gives the answer of the run. One that `sees`
    is only offered in a run that was given an image. `notice` is the sentence that a person is told
    when a call waits for him, a template over its arguments; models never see it.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str
    input_schema: JsonObject
    kind: ToolKind = "python"
    side_effects: SideEffects = "none"
    approval: ApprovalMode = "never"
    idempotent: bool = False
    remembers: Remembers = "nothing"
    reconciles: bool = False
    assesses: bool = False
    on_unknown: OnUnknown = "error"
    offload_over: int | None = Field(default=50_000, gt=0)
    timeout: float | None = Field(default=30.0, gt=0)
    terminal: bool = sparse(False)
    sees: bool = sparse(False)
    notice: str = sparse("")

    @property
    def may_run_again(self) -> bool:
        """Whether a call that was interrupted can simply be started again."""
        return self.side_effects == "none" or self.idempotent or is_delegated(self.kind)

    @property
    def may_be_asked_again(self) -> bool:
        """Whether a call that was interrupted can be launched again, if only to be told its end."""
        return self.may_run_again or self.reconciles or self.remembers != "nothing"

    def for_call(
        self, assessment: Assessment | None, *, edited: bool = False, replaced: bool = False
    ) -> "ToolSpec":
        """Give what holds for one call.

        Arguments that a human `edited` or a policy `replaced` since were not assessed: the gravest
        of the side effects holds then, and what a policy replaced needs approval.
        """
        if assessment is None and not (replaced and self.assesses):
            return self
        effects, approval = self.side_effects, self.approval
        if assessment is not None:
            effects = assessment.side_effects or effects
            approval = assessment.approval or approval
        if edited or replaced:
            effects = max(effects, self.side_effects, key=_GRAVITY.index)
        if replaced:
            approval = "always"
        return self.model_copy(update={"side_effects": effects, "approval": approval})


_GRAVITY: Final[tuple[SideEffects, ...]] = ("none", "reversible", "irreversible")


def arguments_digest(tool_name: str, arguments: JsonObject) -> str:
    """Identify what a human approves: exactly this tool with exactly these arguments."""
    return digest({"tool": tool_name, "arguments": arguments})
