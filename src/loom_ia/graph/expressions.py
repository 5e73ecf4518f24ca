"""Small expressions over a state, for graphs that are written in YAML: read once, then evaluated.

Law. Nothing is run: a text is read with `ast`, only the nodes named below are kept, and they are
evaluated here. Names are keys of the state (`state` is the whole of it); there are literals,
comparisons, `and`, `or`, `not`, `in`, `+ - * / %` on numbers, subscripts by a constant, and
`len(…)`. No attribute, no other call, no power; text and lists can be added, never multiplied. The
text, its depth, its size and every result are bounded. A missing key is an error, never nothing.
"""

import ast
import contextlib
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from loom_ia.core.errors import CallerError

LONGEST: Final = 1_000
"""Characters that an expression may have."""
DEEPEST: Final = 30
MOST_NODES: Final = 300
LARGEST_INT: Final = 10**60
MOST_ITEMS: Final = 100_000
STATE: Final = "state"
"""The name that stands for the whole state."""

Number: TypeAlias = int | float | Decimal


class ExpressionError(CallerError):
    """An expression that cannot be read, or has no value; `column` counts from 1, 0 when unknown.

    The expression itself is in `source`.
    """

    source: str = ""
    column: int = 0


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression ready to be evaluated; `names` are the keys that it reads."""

    source: str
    names: tuple[str, ...]
    _root: ast.expr

    @classmethod
    def parse(cls, source: str) -> "Expression":
        """Read an expression. Raises `ExpressionError`, which tells the column."""
        if len(source) > LONGEST:
            raise _wrong(
                source,
                0,
                "it has {size} characters; {most} at most",
                size=len(source),
                most=LONGEST,
            )
        if not source.strip():
            raise _wrong(source, 0, "it is empty")
        root = _tree(source)
        names: dict[str, None] = {}
        _check(root, source, names)
        return cls(source, tuple(names), root)

    def value(self, state: Any) -> Any:
        """Evaluate it over a state, a mapping or an instance. Raises `ExpressionError`."""
        return _Evaluation(self.source, state).of(self._root)

    def holds(self, state: Any) -> bool:
        """Tell whether its value is true. Raises `ExpressionError`."""
        return bool(self.value(state))


def _tree(source: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        lead = len(source) - len(source.lstrip())
        offset = error.offset or len(source.strip()) + 1  # 0 when it stops too early
        raise _wrong(source, offset + lead, "it cannot be read") from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise _wrong(source, 0, "it cannot be read") from error


_LITERALS: Final = (str, int, float, bool, type(None))
_Binary: TypeAlias = Callable[[Any, Any], Any]
_ARITHMETIC: Final[Mapping[type[ast.operator], _Binary]] = {
    ast.Add: cast("_Binary", operator.add),
    ast.Sub: cast("_Binary", operator.sub),
    ast.Mult: cast("_Binary", operator.mul),
    ast.Div: lambda left, right: left / right,
    ast.Mod: cast("_Binary", operator.mod),
}
_COMPARED: Final[Mapping[type[ast.cmpop], _Binary]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _check(root: ast.expr, source: str, names: dict[str, None]) -> None:
    """Refuse what is not of the subset, whatever the depth: no recursion here."""
    waiting: list[tuple[ast.AST, int]] = [(root, 1)]
    seen = 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST or seen > MOST_NODES:
            raise _at(node, source, "it is too long: put it in a function")
        waiting += [(below, depth + 1) for below in _parts(node, source)]
        if isinstance(node, ast.Name):
            if node.id.startswith("__"):
                raise _at(node, source, "{name} is no key of a state", name=node.id)
            names[node.id] = None


def _parts(node: ast.AST, source: str) -> list[ast.expr]:
    """Give what is evaluated inside a node, once it is known to be allowed."""
    match node:
        case ast.Constant():
            _check_literal(node, source)
            return []
        case ast.Name():
            return []
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.BoolOp(values=items):
            return list(items)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            return [operand]
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
            return [left, right]
        case ast.Compare():
            _check_comparison(node, source)
            return [node.left, *node.comparators]
        case ast.Subscript():
            return [_indexed(node, source)]
        case ast.Call():
            return [_measured(node, source)]
        case _:
            raise _at(
                node,
                source,
                "only keys of the state, literals, comparisons, and, or, not, in, + - * / %, "
                "[…] and len(…) may stand there",
            )


def _check_literal(node: ast.Constant, source: str) -> None:
    value: object = node.value
    if not isinstance(value, _LITERALS):
        raise _at(node, source, "only text, numbers, True, False and None stand for values")
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        raise _at(node, source, "the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise _at(node, source, "the number is too large")


def _indexed(node: ast.Subscript, source: str) -> ast.expr:
    key = _constant(node.slice)
    if not isinstance(key, str | int) or isinstance(key, bool):
        raise _at(node, source, "between [ and ] stands a text or a whole number")
    return node.value


def _check_comparison(node: ast.Compare, source: str) -> None:
    for op, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise _at(node, source, "is stands before None only: write == for other values")
        elif not isinstance(op, ast.In | ast.NotIn) and type(op) not in _COMPARED:
            raise _at(node, source, "this comparison is not available")


def _measured(node: ast.Call, source: str) -> ast.expr:
    is_len = isinstance(node.func, ast.Name) and node.func.id == "len"
    if not is_len or node.keywords or len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        raise _at(node, source, "len(…) of one value is the only call there is")
    return node.args[0]


def _constant(node: ast.expr) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return -value if isinstance(value, int) and not isinstance(value, bool) else None
    return node.value if isinstance(node, ast.Constant) else None


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """One evaluation of an expression that was checked."""

    source: str
    state: Any

    def of(self, node: ast.expr) -> Any:
        """Give the value of a node."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._key(node, name)
            case ast.List(elts=items):
                return [self.of(item) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self.of(item) for item in items)
            case ast.BoolOp(op=op, values=values):
                return self._joined(op, values)
            case ast.UnaryOp(op=op, operand=operand):
                return self._signed(node, op, self.of(operand))
            case ast.BinOp(op=op, left=left, right=right):
                return self._computed(node, type(op), self.of(left), self.of(right))
            case ast.Compare():
                return self._compared(node)
            case ast.Subscript(value=value, slice=key):
                return self._item(node, self.of(value), cast("str | int", _constant(key)))
            case ast.Call(args=[value]):
                return self._length(node, self.of(value))
            case _:
                raise _at(node, self.source, "it cannot be evaluated")

    def _key(self, node: ast.AST, name: str) -> Any:
        state = self.state
        if name == STATE:
            return state
        if isinstance(state, Mapping):
            values = cast("Mapping[str, Any]", state)
            if name in values:
                return values[name]
        elif not name.startswith("_") and hasattr(state, name):
            return getattr(state, name)
        raise _at(
            node,
            self.source,
            "the state has no key {name} (write {test} before, if it may be missing)",
            name=name,
            test=f"'{name}' in state",
        )

    def _joined(self, op: ast.boolop, values: list[ast.expr]) -> Any:
        wanted = isinstance(op, ast.Or)
        value: Any = None
        for part in values:
            value = self.of(part)
            if bool(value) is wanted:
                return value
        return value

    def _signed(self, node: ast.AST, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.Not):
            return not value
        if not _is_number(value):
            raise _at(node, self.source, "{type} has no sign", type=_type(value))
        return -value if isinstance(op, ast.USub) else value

    def _computed(self, node: ast.AST, op: type[ast.operator], left: Any, right: Any) -> Any:
        if op is ast.Add and _can_be_joined(left, right):
            if len(left) + len(right) > MOST_ITEMS:
                raise _at(node, self.source, "the result is too long")
            return left + right
        if not (_is_number(left) and _is_number(right)):
            raise _at(
                node,
                self.source,
                "{left} and {right} cannot be computed with: only numbers can",
                left=_type(left),
                right=_type(right),
            )
        if any(isinstance(side, int) and abs(side) > LARGEST_INT for side in (left, right)):
            raise _at(node, self.source, "the number is too large")
        try:
            result: Any = _ARITHMETIC[op](left, right)
        except ZeroDivisionError as error:
            raise _at(node, self.source, "it divides by zero") from error
        except (ArithmeticError, TypeError, ValueError) as error:
            raise _at(node, self.source, "it cannot be computed") from error
        if isinstance(result, int) and abs(result) > LARGEST_INT:
            raise _at(node, self.source, "the result is too large")
        if not math.isfinite(result):
            raise _at(node, self.source, "the result is no number")
        return result

    def _compared(self, node: ast.Compare) -> bool:
        left = self.of(node.left)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.of(part)
            if not self._holds(node, op, left, right):
                return False
            left = right
        return True

    def _holds(self, node: ast.AST, op: ast.cmpop, left: Any, right: Any) -> bool:
        match op:
            case ast.Is():
                return left is None
            case ast.IsNot():
                return left is not None
            case ast.In():
                return self._is_in(node, left, right)
            case ast.NotIn():
                return not self._is_in(node, left, right)
            case _:
                pass
        try:
            return bool(_COMPARED[type(op)](left, right))
        except Exception as error:
            raise _at(
                node,
                self.source,
                "{left} and {right} cannot be compared",
                left=_type(left),
                right=_type(right),
            ) from error

    def _is_in(self, node: ast.AST, item: Any, container: Any) -> bool:
        if isinstance(container, str | list | tuple | set | frozenset | Mapping):
            with contextlib.suppress(TypeError):
                return item in cast("list[Any]", container)
        elif container is self.state and isinstance(item, str):  # a typed state
            return not item.startswith("_") and getattr(container, item, None) is not None
        raise _at(
            node,
            self.source,
            "{item} cannot be looked for in {container}",
            item=_type(item),
            container=_type(cast("object", container)),
        )

    def _item(self, node: ast.AST, value: Any, key: str | int) -> Any:
        try:
            if isinstance(value, Mapping):
                return cast("Mapping[Any, Any]", value)[key]
            if isinstance(value, list | tuple | str) and isinstance(key, int):
                return cast("list[Any]", value)[key]
        except LookupError as error:
            raise _at(node, self.source, "there is no {key} there", key=repr(key)) from error
        if value is self.state and isinstance(key, str):
            return self._key(node, key)
        raise _at(
            node,
            self.source,
            "{type} has no item {key}",
            type=_type(cast("object", value)),
            key=repr(key),
        )

    def _length(self, node: ast.AST, value: Any) -> int:
        if isinstance(value, str | bytes | list | tuple | set | frozenset | Mapping):
            return len(cast("list[Any]", value))
        raise _at(node, self.source, "{type} has no length", type=_type(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _can_be_joined(left: object, right: object) -> bool:
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, list, tuple))


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _at(node: ast.AST, source: str, template: str, /, **params: object) -> ExpressionError:
    lead = len(source) - len(source.lstrip())
    offset = getattr(node, "col_offset", -1)
    return _wrong(source, offset + 1 + lead if offset >= 0 else 0, template, **params)


def _wrong(source: str, column: int, template: str, /, **params: object) -> ExpressionError:
    error = ExpressionError(
        "in the expression {source}, column {column}: {problem}",
        source=repr(source if len(source) <= _SHOWN else f"{source[:_SHOWN]}…"),
        column=column,
        problem=CallerError(template, **params),
    )
    error.source, error.column = source, column
    return error


_SHOWN: Final = 120
