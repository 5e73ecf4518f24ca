"""What the configuration says of a tool that it did not write."""

from typing import Final

from pydantic import ConfigDict, Field

from loom_ia.agents.checks import Contract
from loom_ia.core.model.base import Value
from loom_ia.core.model.tooling import ApprovalMode, SideEffects

_KEPT: Final = "Replaces what the tool declares."


class ToolOverrides(Value):
    """What is said of a tool instead of what it declares itself; None keeps that."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    description: str | None = Field(default=None, min_length=1, description=_KEPT)
    side_effects: SideEffects | None = Field(default=None, description=_KEPT)
    approval: ApprovalMode | None = Field(default=None, description=_KEPT)
    idempotent: bool | None = Field(default=None, description=_KEPT)
    timeout: float | None = Field(default=None, gt=0, description=_KEPT)
    offload_over: int | None = Field(default=None, gt=0, description=_KEPT)
    notice: str | None = Field(
        default=None,
        min_length=1,
        description="The sentence that is told to whoever must let a call go.",
    )
    output: Contract | None = Field(
        default=None, description="What it must give; else the model reads why it was refused."
    )
