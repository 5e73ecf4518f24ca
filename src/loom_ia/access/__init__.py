"""The doors of the engine. Everything here only forwards."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loom_ia.access.api import Loom
    from loom_ia.core.views.effects import EffectRecord
    from loom_ia.core.views.result import PendingApproval, RunResult
    from loom_ia.engine.attachments import Attachment
    from loom_ia.engine.program import Approved, Rejected

__all__ = [
    "Approved",
    "Attachment",
    "EffectRecord",
    "Loom",
    "PendingApproval",
    "Rejected",
    "RunResult",
]

_HOMES = {
    "Approved": "loom_ia.engine.program",
    "Attachment": "loom_ia.engine.attachments",
    "Loom": "loom_ia.access.api",
    "EffectRecord": "loom_ia.core.views.effects",
    "PendingApproval": "loom_ia.core.views.result",
    "Rejected": "loom_ia.engine.program",
    "RunResult": "loom_ia.core.views.result",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
