"""What a step sees of the values of a state."""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, final

from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import Values
from loom_ia.graph.codec import Codec


@final
class StateView(Mapping[str, Any]):
    """A mapping that cannot be changed; what stands in it is this view's own copy.

    A value is read when it is first asked for, and kept. `extra` stands over the values.
    """

    __slots__ = ("_codec", "_extra", "_read", "_values")

    def __init__(
        self, values: Values, codec: Codec, extra: Mapping[str, JsonValue] | None = None
    ) -> None:
        self._values = values
        self._codec = codec
        self._extra = extra
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self._read:
            return self._read[key]
        extra = self._extra
        stored = extra[key] if extra and key in extra else self._values[key]
        value = self._read[key] = self._codec.from_json(stored)
        return value

    def __setitem__(self, key: str, value: object) -> NoReturn:
        raise TypeError(f"a state is read-only: return what changes, {{{key!r}: …}}")

    def __delitem__(self, key: str) -> NoReturn:
        raise TypeError(f"a state is read-only: return what changes, {{{key!r}: DELETE}}")

    def __contains__(self, key: object) -> bool:
        return key in self._values or bool(self._extra and key in self._extra)

    def __iter__(self) -> Iterator[str]:
        yield from self._values
        for key in self._extra or ():
            if key not in self._values:
                yield key

    def __len__(self) -> int:
        if not self._extra:
            return len(self._values)
        return len(self._values.keys() | self._extra.keys())

    def __repr__(self) -> str:
        return f"StateView({dict(self)!r})"
