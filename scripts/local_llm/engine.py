"""The engine that runs the model: the one place that knows xllamacpp.

The engine reads a grammar that it does not understand as none, and says nothing of it: whoever
gives it a schema of a stranger asks `understands` first.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from scripts.local_llm.grammar import schema_grammar
from scripts.local_llm.prompt import EXAMPLES, JSON
from scripts.local_llm.refusal import Refusal

CONTEXT: Final = 4096
_PROBE: Final = f"{EXAMPLES}Outils: "


@dataclass(frozen=True, slots=True)
class Task:
    """A text to go on with, to the end of a line: what may follow, and how tokens are drawn."""

    prompt: str
    grammar: str
    longest: int
    sampling: dict[str, float]


@dataclass(frozen=True, slots=True)
class Ended:
    """Why the model stopped, and the tokens that it read, did not have to read again, and wrote."""

    reason: Literal["stop", "length"]
    read: int
    cached: int
    written: int


class Engine(Protocol):
    """Something that goes on with a text."""

    def go_on(self, task: Task, take: Callable[[str], None]) -> Ended:
        """Give each piece to `take` as it is written; what it raises stops the model.

        Raises `Refusal`.
        """
        ...

    def understands(self, grammar: str) -> bool:
        """Tell whether the grammar has any effect; what it allows begins with the label of JSON."""
        ...


class Llama:
    """The weights of a file, in memory. One text is gone on with at a time; others wait."""

    def __init__(self, weights: Path) -> None:
        xllamacpp = import_module("xllamacpp")
        params: Any = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx, params.n_parallel = CONTEXT, 1
        # Threads wait for each other by spinning: where something else runs, two are the slower.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        # Without it the sliding window is thrown away, and the examples are read at every call.
        params.swa_full = True
        params.warmup, params.verbosity, params.ui = False, -1, False
        # The engine opens a port of its own, on this machine only, which nobody needs.
        params.api_keys = [secrets.token_hex()]
        self._server: Any = xllamacpp.Server(params)
        self._understood: dict[str, bool] = {}
        # The examples are read now, and so is what the engine needs for any grammar.
        self.understands(schema_grammar({"type": "object"}))

    def go_on(self, task: Task, take: Callable[[str], None]) -> Ended:
        """Go on with the text; see `Engine`."""
        last: dict[str, Any] = {}
        broken: list[BaseException] = []

        def hear(chunk: dict[str, Any]) -> bool:
            nonlocal last
            last = chunk
            try:
                if "error" not in chunk and (text := chunk["choices"][0]["text"]):
                    take(text)
            except BaseException as error:  # noqa: BLE001 (the engine would drop it: it is raised below)
                broken.append(error)
            return bool(broken)

        body = {
            "prompt": task.prompt,
            "grammar": task.grammar,
            "n_predict": task.longest,
            "stop": ["\n"],
            "cache_prompt": True,
            "stream": True,
            **task.sampling,
        }
        self._server.handle_completions(body, hear)
        if broken:
            raise broken[0]
        return _ended(last)

    def understands(self, grammar: str) -> bool:
        """Let the model begin where it would write anything else; see `Engine`."""
        if grammar not in self._understood:
            begun = self._complete(_PROBE, 1, {"grammar": grammar})["choices"][0]["text"]
            self._understood[grammar] = bool(begun) and JSON.startswith(begun)
        return self._understood[grammar]

    def _complete(self, prompt: str, longest: int, more: dict[str, Any]) -> dict[str, Any]:
        body = {"prompt": prompt, "n_predict": longest, "temperature": 0, "cache_prompt": True}
        return self._server.handle_completions(body | more)


def _ended(last: dict[str, Any]) -> Ended:
    if error := last.get("error"):
        if error.get("type") == "exceed_context_size_error":
            asked, size = error.get("n_prompt_tokens"), error.get("n_ctx")
            raise Refusal(
                400,
                f"this model's maximum context length is {size} tokens, and the messages, with the "
                f"examples that stand before them, are {asked}: shorten the messages",
                "context_length_exceeded",
                "messages",
            )
        raise Refusal(int(error.get("code", 500)), str(error.get("message")))
    if "usage" not in last:
        raise Refusal(500, "the engine ended without saying why")
    usage = last["usage"]
    return Ended(
        reason="length" if last["choices"][0]["finish_reason"] == "length" else "stop",
        read=usage["prompt_tokens"],
        cached=usage.get("prompt_tokens_details", {}).get("cached_tokens", 0),
        written=usage["completion_tokens"],
    )
