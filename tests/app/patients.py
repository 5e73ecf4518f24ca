"""Servers to check: one that can do everything, and what each lack of it looks like."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loom_ia.app import doctor_questions as questions
from tests.providers.replies import Called, Fails, Reply, Says, Tokens
from tests.providers.wire import Request

NUMBERS = " ".join(map(str, range(1, 21)))
CALLS = [Called("shelf_of", {"article": name}) for name in ("B-12", "C-34")]
SCREW = '{"name": "steel screw", "cents": 12}'


@dataclass
class Patient:
    """Answers the questions of a checkup; give it to `Provider.default`.

    `lacks` names what is refused with a 400, `replies` what is answered otherwise than well:
    by the names of the probes, or `reach` for the first question.
    """

    lacks: frozenset[str] = frozenset()
    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    usage: Tokens | None = field(default_factory=lambda: Tokens(30, 40))

    def __call__(self, request: Request) -> Reply:
        """Answer a request, in whatever format it is."""
        name = question_of(request.body)
        if name in self.lacks or ("streaming" in self.lacks and request.body.get("stream")):
            return Fails(400, {"error": {"message": f"no {name}", "type": "invalid_request_error"}})
        return self.replies.get(name) or self._well(name)

    def _well(self, name: str) -> Says:
        match name:
            case "tools" | "forced_tool_choice":
                return Says(calls=CALLS[:1], usage=self.usage)
            case "tool_result":
                return Says("It is on shelf k7q2.", usage=self.usage)
            case "parallel_calls":
                return Says(calls=CALLS, usage=self.usage)
            case "native_json":
                return Says(SCREW, usage=self.usage)
            case "vision":
                return Says("Magenta.", usage=self.usage)
            case _:
                return Says(NUMBERS, reasoning="From one to twenty.", usage=self.usage)


def question_of(body: Any) -> str:
    """Tell which question a request puts."""
    said = json.dumps(body)
    if questions.SHELF in said:
        return "tool_result"
    texts = {
        questions.FIND: "tools",
        questions.FIND_TWO: "parallel_calls",
        questions.GREET: "forced_tool_choice",
        questions.DESCRIBE: "native_json",
        questions.LOOK: "vision",
    }
    return next((name for text, name in texts.items() if text in said), "reach")
