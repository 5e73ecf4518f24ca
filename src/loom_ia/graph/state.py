"""What the type of a state says: its keys, its merges, the classes of its values.

Law. A state is held as values in the form of the journal. Its type only tells how they are checked
when they come in and how they are shown: to a step as a mapping that cannot be changed or as an
instance of its class, to a caller as a dict or an instance of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired, Required, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from loom_ia.core.errors import told
from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import Values, applied
from loom_ia.graph.codec import Codec
from loom_ia.graph.combine import BUILT_IN, DEFAULT_MERGE, checked_key, with_key
from loom_ia.graph.declared import (
    annotations_of,
    constructed,
    is_typed_dict,
    made,
    parts_of,
    required_of,
)
from loom_ia.graph.errors import CorruptCheckpoint, DeltaError, NotSerializable
from loom_ia.graph.merge import Merges
from loom_ia.graph.types import DELETE, Merge
from loom_ia.graph.view import StateView

__all__ = ["StateType", "StateView"]


class StateType:
    """The type of a graph's state: none, a `TypedDict`, a dataclass or a Pydantic model.

    `keys` are those that it may have, None when it has no type. Merges stand in its annotations,
    as in `Annotated[list[str], append]`, and in `merge`, which goes before. The classes that its
    annotations name may be values, with those of `types`. Raises `ValueError` for anything else.
    """

    def __init__(
        self,
        state: type | None = None,
        merge: Mapping[str, Merge] | None = None,
        types: Sequence[type] = (),
    ) -> None:
        self._class: type[Any] | None = None if state is None else _known(state)
        hints = {} if self._class is None else _hints(self._class)
        self.keys: frozenset[str] | None = None if self._class is None else frozenset(hints)
        self._is_instance = self._class is not None and not is_typed_dict(self._class)
        self._required: frozenset[str] = frozenset()
        if self._class is not None and self._is_instance:
            self._required = required_of(self._class)
        declared = {name: m for name, h in hints.items() if (m := _merge_in(h)) is not None}
        policies = {**declared, **(merge or {})}
        self._check_merges(policies)
        self.codec = Codec(types, annotations=hints.values())
        self.merges = Merges(policies, self.codec, keys=self.keys, required=self._required)
        checks = {key: m for key, m in policies.items() if m in BUILT_IN}
        self._entry = Merges(checks, self.codec, keys=self.keys)

    def initial(self, given: Any = None) -> dict[str, JsonValue]:
        """Give the first values, from a mapping, an instance or nothing; it is not changed.

        Defaults of the class fill what is not given. Our own merges check what is given, those of
        the user are not asked: nothing is there to merge with. Raises a `DeltaError`.
        """
        if given is None:
            given = {}
        if self._class and self._is_instance and isinstance(given, self._class):
            given = parts_of(given)
        elif not isinstance(given, Mapping):
            template = "a state begins as a mapping, not as a value of type {type}"
            if self._class and self._is_instance:
                template = "a state begins as a mapping or as a {state}, not as a {type}"
            raise DeltaError(
                template,
                type=type(given).__name__,
                state=self._class.__name__ if self._class else "",
            )
        entries = {
            self.merges.name(key): value
            for key, value in cast("Mapping[str, Any]", given).items()
            if value is not DELETE
        }
        filled = self._filled(entries)
        changes = self._entry.changes({}, {key: filled[key] for key in entries}, in_branch=False)
        values = applied({}, changes)
        # A default was not given by anybody: no merge has anything to say about it.
        write = self.codec.to_json
        return {k: values[k] if k in entries else write(v, k) for k, v in filled.items()}

    def view(self, values: Values, extra: Mapping[str, JsonValue] | None = None) -> Any:
        """Give what a step receives: a mapping that cannot be changed, or an instance of its own.

        `extra` stands over the values. Raises `UnknownKey` for one that an instance cannot have.
        """
        if self._class is None or not self._is_instance:
            return StateView(values, self.codec, extra)
        if extra:
            values = {**values, **{self.merges.name(key): extra[key] for key in extra}}
        return self._instance(values)

    def result(self, values: Values) -> Any:
        """Give what a caller receives: a dict, or an instance; its own copy."""
        if self._class is not None and self._is_instance:
            return self._instance(values)
        read = self.codec.from_json
        return {key: read(value) for key, value in values.items()}

    def delta_of(
        self, given: Any, view: Any, values: Values | None = None
    ) -> Mapping[str, Any] | None:
        """Give the delta that a step meant by what it gave: a mapping, None, or a changed copy.

        Of a copy, only what changed: what was added to an `append` key, the difference of an `add`
        key, otherwise the value. It is compared with `values`, those that `view` was made of (with
        what stood over them), or else with `view` itself. A view that is given back is no change.
        """
        if given is None:
            return None
        if self._class and self._is_instance and isinstance(given, self._class):
            if values is None or not (self.keys or frozenset()) <= values.keys():
                values = self._written(view if values is None else self._instance(values))
            return self.merges.returned(values, self._written(given), self.keys or ())
        if given is view:
            return None
        if isinstance(given, Mapping):
            return cast("Mapping[str, Any]", given)
        raise DeltaError(
            "a delta is a mapping of what changes, or None, not a value of type {type}",
            type=type(given).__name__,
        )

    # -- inside -----------------------------------------------------------------------------------

    def _check_merges(self, policies: Mapping[str, Merge]) -> None:
        if self._class is None or self.keys is None:
            return
        unknown = policies.keys() - self.keys - DEFAULT_MERGE.keys()
        if unknown:
            raise ValueError(
                f"merge= has {sorted(unknown)}, which {self._class.__name__} has not: "
                "declare them in it, or mend their names"
            )

    def _filled(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is given, checked by the class where it checks, with its defaults."""
        if self._class is None or not self._is_instance:
            return dict(entries)
        for key in sorted(self._required - entries.keys()):
            raise with_key(
                DeltaError(
                    "the state {state} needs {key}: give it, or a default",
                    state=self._class.__name__,
                    key=key,
                ),
                key,
            )
        try:
            return parts_of(constructed(self._class, entries))
        except Exception as error:
            raise with_key(
                DeltaError(
                    "the state {state} cannot begin like this: {reason}",
                    state=self._class.__name__,
                    reason=told(error),
                ),
                _place(error),
            ) from error

    def _instance(self, values: Values) -> Any:
        read = self.codec.from_json
        held = {key: read(value) for key, value in values.items()}
        cls = cast("type[Any]", self._class)
        try:
            return made(cls, held)
        except KeyError as error:
            raise CorruptCheckpoint(
                "the state has no {key}, which {state} needs: give it a default there",
                key=error.args[0],
                state=cls.__name__,
            ) from error

    def _written(self, instance: Any) -> dict[str, JsonValue]:
        written: dict[str, JsonValue] = {}
        for key, value in parts_of(instance).items():
            try:
                written[key] = self.codec.to_json(value, checked_key(key))
            except NotSerializable as error:
                error.key = key
                raise
        return written


_WRAPPERS: Final = (Required, NotRequired)


def _known(state: Any) -> type[Any] | None:
    if state is dict or get_origin(state) is dict:
        return None
    cls = get_origin(state) or state
    is_typed = isinstance(cls, type) and (is_typed_dict(cls) or _has_fields(cls))
    if not is_typed:
        raise ValueError(
            f"state={state!r}: it is a TypedDict, a dataclass or a Pydantic model, or None"
        )
    return cast("type[Any]", cls)


def _place(error: Exception) -> str | None:
    """Give the key that an error of validation is about, the first one."""
    if not isinstance(error, ValidationError):
        return None
    place = error.errors(include_url=False, include_input=False)[0]["loc"]
    return str(place[0]) if place else None


def _has_fields(cls: type[Any]) -> bool:
    return issubclass(cls, BaseModel) or hasattr(cls, "__dataclass_fields__")


def _hints(state: type[Any]) -> dict[str, Any]:
    try:
        return annotations_of(state)
    except NameError as error:
        raise ValueError(
            f"state={state.__name__}: its annotations cannot be read, for {error}: "
            "define what they name at the top of its module"
        ) from error


def _merge_in(annotation: Any) -> Merge | None:
    """Find the merge that an annotation declares."""
    origin = get_origin(annotation)
    if origin in _WRAPPERS:
        return _merge_in(get_args(annotation)[0])
    if origin is not Annotated:
        return None
    wrapped, *added = get_args(annotation)
    for one in added:
        if callable(one) and not isinstance(one, type):
            return cast("Merge", one)
    return _merge_in(wrapped)
