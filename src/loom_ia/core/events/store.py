"""What a store of values keeps: each change of its keys, in a stream beside all sessions.

The stream belongs to no run and to no session, so that no state of a run follows from it. What a
store holds is what its changes add up to, in order.
"""

from base64 import b64decode, b64encode

from loom_ia.core.events.envelope import Facet, Fact, Payload
from loom_ia.core.model.base import Value, nullable
from loom_ia.core.state.run import RunState


class StoreChange(Value):
    """What became of one key: `value` in base64 (RFC 4648, section 4), None once it is removed."""

    ns: str
    key: str
    value: str | None = nullable()

    @classmethod
    def of(cls, ns: str, key: str, value: bytes | None) -> "StoreChange":
        """Build a change from parts that are known to be right."""
        text = None if value is None else b64encode(value).decode()
        return cls.trusted(ns=ns, key=key, value=text)

    def content(self) -> bytes | None:
        """Give the bytes; None when the key was removed. Raises `ValueError` if they are none."""
        return None if self.value is None else b64decode(self.value, validate=True)


class StoreChanged(Payload):
    """Some keys were written or removed, all at the same time."""

    TYPE = "store.changed"
    CATEGORY = "store"
    CONTENT = ("changes",)
    BY_DRIVER = False

    changes: tuple[StoreChange, ...]

    def facets(self) -> dict[str, Facet]:
        return {"changes": len(self.changes)}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run
