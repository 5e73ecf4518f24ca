"""The shape of a request, as the SDK that sends it declares it.

The SDKs describe a body with `TypedDict`s that are made for a type checker: their lists are
`Iterable`, which pydantic only reads when somebody iterates, unknown keys pass, and a fault in a
union is told once for each of its members. Here they are made over: lists are lists, a key that is
not declared is a fault, and the member of a union is chosen by what stands in its place.
"""

import copy
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import Discriminator, Tag, TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict, get_type_hints, is_typeddict

_KEYS: Final = ("type", "role")
"""The keys that tell the members of a union apart."""
_NONE: Final = "none"


def faults_of_shape(kind: Any, body: object, extra: Collection[str] = ()) -> list[str]:
    """Tell what `body` has that the `TypedDict` called `kind` has not, and the reverse.

    A key that is named in `extra` may stand anywhere.
    """
    body = copy.deepcopy(body)
    while True:
        try:
            _adapter(kind).validate_python(body)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            allowed = [fault for fault in faults if _is_extra(fault, extra)]
            if not allowed:
                return sorted({_told(fault, body) for fault in faults})
            for fault in allowed:
                _remove(body, fault["loc"])
        else:
            return []


def _is_extra(fault: ErrorDetails, extra: Collection[str]) -> bool:
    return fault["type"] == "extra_forbidden" and fault["loc"][-1] in extra


def _path(body: object, loc: Sequence[int | str]) -> list[int | str]:
    """Keep of a location what stands in the body: pydantic adds the members of unions to it."""
    found: list[int | str] = []
    for rank, key in enumerate(loc):
        if _holds(body, key):
            body = cast("Any", body)[key]
        elif not isinstance(body, dict) or rank < len(loc) - 1:
            continue
        found.append(key)
    return found


def _holds(body: object, key: int | str) -> bool:
    if isinstance(key, int):
        return isinstance(body, list) and key < len(body)
    return isinstance(body, dict) and key in body


def _remove(body: Any, loc: Sequence[int | str]) -> None:
    *path, last = _path(body, loc)
    for key in path:
        body = body[key]
    body.pop(last, None)


def _told(fault: ErrorDetails, body: object) -> str:
    return f"{written(_path(body, fault['loc']))}: {fault['msg']}"


def written(path: Iterable[int | str]) -> str:
    """Write a path as `messages[0].content`; the body itself is `$`."""
    keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return keys.removeprefix(".") or "$"


# ── Types made over ─────────────────────────────────────────────────────────────────────────────


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_strict(kind))


@cache
def _strict(kind: Any) -> Any:
    """Make a type over; what is no JSON becomes None, which a union leaves out."""
    origin, args = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if kind is object or kind is Any:
        return Any
    if origin is Literal or kind in (str, int, float, bool, types.NoneType):
        return kind
    if origin is Annotated:
        return _strict(args[0])
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin in (list, Iterable, Sequence) or _name(origin) == "SequenceNotStr":
        return list[_strict(args[0])]
    if origin in (dict, Mapping):
        return dict[str, _strict(args[1])]
    return None


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", "")


def _typed_dict(kind: Any) -> Any:
    fields = {
        key: Required[_strict(hint)] if required else NotRequired[_strict(hint)]
        for key, (hint, required) in _fields(kind).items()
    }
    known = getattr(kind, "__pydantic_config__", {})
    extra = known.get("extra", "forbid")
    # The checker wants the fields of a `TypedDict` written out.
    made = TypedDict(_name(kind), fields)  # type: ignore[misc]
    return with_config({"extra": extra, "strict": True})(made)


def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Give the keys of a `TypedDict`: the type of each, and whether it is required.

    Written annotations are read late, and so `__required_keys__` only knows the default.
    """
    found: dict[str, tuple[Any, bool]] = {}
    for key, hint in get_type_hints(kind, include_extras=True).items():
        bare = get_origin(hint) in (Required, NotRequired)
        required = get_origin(hint) is Required if bare else key in kind.__required_keys__
        found[key] = (get_args(hint)[0] if bare else hint, required)
    return found


def _union(members: Sequence[Any]) -> Any:
    """Choose a member by what the value is: nothing, a text, a list, an object of some type."""
    groups: dict[str, list[Any]] = {}
    for member in members:
        made = _strict(member)
        if made is None:
            continue
        for tag in _tags(member):
            groups.setdefault(tag, []).append(made)
    if not groups:
        return None
    if len(groups) == 1:
        return Union[tuple(*groups.values())]  # noqa: UP007
    tagged = [
        Annotated[Union[tuple(group)], Tag(tag)]  # noqa: UP007
        for tag, group in groups.items()
    ]
    return Annotated[
        Union[tuple(tagged)],  # noqa: UP007
        Discriminator(
            _chooser(frozenset(groups)),
            custom_error_type="unknown_kind",
            custom_error_message="Input is of no kind that may stand here",
        ),
    ]


def _tags(member: Any) -> list[str]:
    """Give the tags of a value that `member` may describe."""
    origin = get_origin(member)
    if member is types.NoneType:
        return [_NONE]
    if member is str:
        return ["str"]
    if origin is Literal:
        return sorted({type(value).__name__ for value in get_args(member)})
    if member in (int, float, bool):
        return [_name(member)]
    if is_typeddict(member):
        return _tags_of_object(_fields(member))
    return ["dict" if origin in (dict, Mapping) else "list"]


def _tags_of_object(fields: Mapping[str, tuple[Any, bool]]) -> list[str]:
    tags: list[str] = []
    for key in _KEYS:
        hint, required = fields.get(key, (str, False))
        values = get_args(_bare(hint)) if hint is not str else ()
        tags += [f"{key}={value}" for value in values]
        if values and required:
            return tags
    return [*tags, "dict"]


def _bare(hint: Any) -> Any:
    """Take `None` out of a literal that may be absent."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(each for each in get_args(hint) if each is not types.NoneType)
    return hint


def _chooser(tags: frozenset[str]) -> Callable[[Any], str | None]:
    """Make the function that finds the tag of a value."""

    def choose(value: Any) -> str | None:
        if value is None:
            return _NONE
        if not isinstance(value, dict):
            kind = type(value).__name__
            return "float" if kind == "int" and tags & {"float", "int"} == {"float"} else kind
        named = (f"{key}={value[key]}" for key in _KEYS if isinstance(value.get(key), str))
        return next((tag for tag in named if tag in tags), "dict")

    return choose
