"""Steps that stand at a door: checks that refuse, and a person who is asked.

Law. Whatever is not plainly a pass is a refusal: a check that fails, or gives something else than
a text, lets nothing through. A person is asked at each occurrence; an answer serves once.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from loom_ia.core.errors import text_of
from loom_ia.graph.context import StepContext
from loom_ia.graph.types import DELETE, MISSING, Ask, Delta, Refused, Step

Check: TypeAlias = Callable[[Any], str | Awaitable[str | None] | None]
"""`(state) -> None | str`, sync or async: None passes, a text refuses."""


def guard(*checks: Check, into: str | None = "blocked") -> Step:
    """Build a step that passes when every check gives None, and otherwise refuses.

    The checks are asked in order, on the event loop, and the first one that gives a text or raises
    ends the step: `Refused(reason, update={into: reason})`, where the reason is that text. `into`
    is removed from the state when all pass; with `into=None` nothing is written. What a check
    writes by raising `Refused` itself is kept.
    """
    for check in checks:
        if not callable(check):
            raise ValueError(f"guard: a check is a function of the state, not {check!r}")
    if into is not None:
        _require_key("guard", "into", into)

    async def step(state: Any) -> Delta:
        for check in checks:
            refused = await _refusal(check, state)
            if refused is not None:
                written = {} if into is None else {into: refused.reason}
                raise Refused(refused.reason, {**(refused.update or {}), **written} or None)
        return {} if into is None or _value(state, into) is MISSING else {into: DELETE}

    return step


def ask_human(
    prompt: Any = None,
    *,
    response: str,
    into: str,
    schema: Any = None,
    expires_in: float | None = None,
) -> Step:
    """Build a step that asks a person, and puts the answer in the state under `into`.

    It passes when `response` is in the state, or its question was answered; `response` is then
    removed, so that the next occurrence of the step asks again. Otherwise it pauses with `prompt`.
    An answer must fit `schema`, and is refused after `expires_in` seconds. Raises `ValueError` when
    `response` and `into` are one key.
    """
    _require_key("ask_human", "response", response)
    _require_key("ask_human", "into", into)
    if response == into:
        raise ValueError(
            f"ask_human: response and into are both {into!r}; the answer comes in under one key and"
            f" stays under the other"
        )

    async def step(state: Any, ctx: StepContext | None = None) -> Delta | Ask:
        value = _value(state, response)
        if value is not MISSING:
            return {into: value, response: DELETE}
        if ctx is not None and ctx.answered:
            return {into: ctx.answer}
        return Ask(prompt, schema=schema, key=response, expires_in=expires_in)

    return step


async def _refusal(check: Check, state: Any) -> Refused | None:
    try:
        given = check(state)
        reason = cast("object", await given if inspect.isawaitable(given) else given)
    except Refused as refused:
        return refused
    except Exception as error:  # noqa: BLE001 (a check is anybody's code; that it fails is a refusal)
        return Refused(text_of(error) or type(error).__name__)
    if reason is None:
        return None
    if isinstance(reason, str):
        return Refused(reason)
    name = getattr(check, "__name__", type(check).__name__)
    return Refused(f"the check {name} gave {reason!r}: it must give None to pass, or a text")


def _value(state: Any, key: str) -> Any:
    """Read a key; a field of an instance that holds None counts as missing."""
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key, MISSING)
    value = getattr(state, key, None)
    return MISSING if value is None else value


def _require_key(step: str, option: str, key: object) -> None:
    if not isinstance(key, str) or not key or key.startswith("__"):
        raise ValueError(
            f"{step}({option}={key!r}): it is a key of the state, a text that does not begin"
            f" with '__'"
        )
