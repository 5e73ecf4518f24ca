"""Looking for a pattern of the user's in a text of anybody's, in bounded time.

A pattern that the linear engine reads runs there: its time grows with the text alone. One that
looks around or back runs in a process of its own, which is killed at its deadline: a thread that
holds the interpreter cannot be.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

DEADLINE_S: Final = 2.0
"""How long, in seconds, a pattern that is not linear may take."""
LONGEST_PATTERN: Final = 2_000
"""Characters of a pattern."""

_OTHERWISE_READ: Final = ("&&", "--", "~~", "[[")
_WORKER: Final = (
    "import json,re,sys\n"
    "given=json.loads(sys.stdin.buffer.read())\n"
    "found=re.search(given[0],given[1])\n"
    "sys.stdout.write(json.dumps(found and found.span()))\n"
)


class Found(NamedTuple):
    """Where a pattern was found first; nowhere when `start` is -1, too slow when `late`."""

    start: int = -1
    end: int = -1
    late: bool = False

    def __bool__(self) -> bool:
        return self.start >= 0


async def search(
    pattern: str, text: str, *, with_place: bool = False, deadline: float = DEADLINE_S
) -> Found:
    """Find out whether `pattern` matches somewhere, and where first, if that is wanted.

    `pattern` compiles; see `fault_in`. Where the place takes too long, it is the whole text.
    """
    linear = _linear(pattern)
    if linear is None:
        return await _apart(pattern, text, deadline)
    if not linear(text):
        return Found()
    found = await _apart(pattern, text, deadline) if with_place else Found()
    return found or Found(0, len(text))


def fault_in(pattern: str) -> str:
    """Tell why a pattern cannot be used, nothing when it can."""
    if len(pattern) > LONGEST_PATTERN:
        return f"it is longer than {LONGEST_PATTERN} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return ""


@lru_cache(maxsize=256)
def _linear(pattern: str) -> Callable[[str], bool] | None:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if any(mark in pattern for mark in _OTHERWISE_READ):
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return None


async def _apart(pattern: str, text: str, deadline: float) -> Found:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(deadline):
            said, _ = await process.communicate(json.dumps([pattern, text]).encode())
    except TimeoutError:
        return Found(late=True)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        return Found(late=True)
    span = json.loads(said)
    return Found(*span) if span else Found()
