"""Asking tools what each call calls for, its arguments being what they are.

It is asked once, when the answer that asks for the call arrives, and only of calls that can run. It
fails closed: whatever goes wrong, a person is asked and the worst is assumed.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from loom_ia.core.errors import OutsideError, text_of, told
from loom_ia.core.ids import CallId
from loom_ia.core.json import storable_text
from loom_ia.core.model.chunks import INVALID_ARGUMENTS
from loom_ia.core.model.content import ToolCallBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.tooling import Assessment
from loom_ia.core.ports.tools import Assessing, Tool

_PATIENCE_S: Final = 5.0
_NOTHING: Final = Assessment()

_log = logging.getLogger("loom_ia.engine.tools")


async def assessed(
    message: Message, problems: Mapping[CallId, str], tools: Mapping[str, Tool]
) -> dict[CallId, Assessment]:
    """Give what tools say of the calls of an answer, by call id; those that say nothing are out."""
    found: dict[CallId, Assessment] = {}
    for call in message.calls:
        tool = tools.get(call.name)
        if tool is None or not tool.spec.assesses or call.call_id in problems:
            continue
        if INVALID_ARGUMENTS in call.arguments:
            continue
        assessment = await _assess(tool, call)
        if assessment != _NOTHING:
            found[call.call_id] = assessment
    return found


async def _assess(tool: Tool, call: ToolCallBlock) -> Assessment:
    limit = asyncio.timeout(_PATIENCE_S)
    try:
        if not isinstance(tool, Assessing):
            raise OutsideError("{tool} has no method assess", tool=call.name)
        async with limit:
            assessment = await tool.assess(call.arguments)
        if not isinstance(assessment, Assessment):  # pyright: ignore[reportUnnecessaryIsInstance] -- user code
            raise OutsideError(
                "assess of {tool} gives {type}: give an Assessment(…)",
                tool=call.name,
                type=type(assessment).__name__,
            )
        return assessment.model_copy(update={"reason": storable_text(assessment.reason)})
    except Exception as error:  # noqa: BLE001 -- code of the user: whatever it is, a person decides
        why = text_of(error) if isinstance(error, OutsideError) else told(error)
        if limit.expired():
            why = f"no assessment in {_PATIENCE_S:g} s"
    _log.warning("assess of %s failed: %s", call.name, why)
    return Assessment(approval="always", side_effects="irreversible", reason=storable_text(why))
