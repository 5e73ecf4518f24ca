"""What a run did to the outside world, or may have done: one act for each call that has effects.

The table of calls is cleared with each answer of the model; acts stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.state.frozen import Evolving

EffectStatus: TypeAlias = Literal["planned", "started", "done", "not_done", "unknown"]


@dataclass(frozen=True)
class Act(Evolving):
    """One call with effects, or one effect inside a step of a graph, which has a `key`.

    `at` is the instant of what is known last. `by` is who approved it. `reused` tells that it had
    been done by an earlier call, `reconciled` that the outside world told so.
    """

    run_id: RunId
    call_id: CallId
    tool: str
    key: str
    status: EffectStatus
    at: datetime
    arguments: JsonObject
    side_effects: SideEffects
    by: str = ""
    reused: bool = False
    reconciled: bool = False


Acts: TypeAlias = Mapping[tuple[CallId, str], Act]
"""By call, and by the key of the effect inside it, empty for the call itself."""
