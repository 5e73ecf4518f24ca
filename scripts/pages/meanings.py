"""What each key of the configuration means, in a sentence for the person who writes it.

A key that has no line here, or a line that has no key, stops the generator. Paths are written as
in the page: `storage.events.path`, with `[]` for the items of a list.
"""

from collections.abc import Mapping
from types import MappingProxyType

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "version": "The version of this language.",
        "profile": (
            "The profile when neither `--profile` nor `LOOM_PROFILE` chooses one. In `dev`, tools "
            "that may wait for a human are allowed on a journal in memory."
        ),
        "imports": "Python modules that hold your tools; those next to `loom.yaml` are found.",
        "agents_dir": "The folder with one file for each agent.",
        "prompts_dir": "The folder that `system_file` is relative to.",
        "language": "The language of the texts that the engine itself puts before a model.",
        "models": "The models that agents may use; each `id` once.",
        "models[].id": "The name inside the configuration.",
        "models[].sdk": "Which code calls it. `fake` plays a script: no key, no network.",
        "models[].model": "The provider's name of the model; any word for `fake`.",
        "models[].max_tokens": "The longest answer, in tokens.",
        "models[].params": "Given to the model as it is; for `fake`, its `script` and `delay`.",
        "models[].pricing": "What it costs. Without it, costs count as 0.",
        "models[].pricing.input": "Dollars per million tokens read.",
        "models[].pricing.output": "Dollars per million tokens written.",
        "models[].pricing.cache_read": "Dollars per million tokens read from the cache.",
        "models[].pricing.cache_write": "Dollars per million tokens written to the cache.",
        "storage": "Where things are kept.",
        "storage.events": "The journal.",
        "storage.events.backend": (
            "`memory` ends with the process; `jsonl` is a folder with one file for each session; "
            "`sqlite` is one file."
        ),
        "storage.events.path": "The folder (`jsonl`) or the file (`sqlite`); none for `memory`.",
        "storage.artifacts": "The files that tools make, and results too large to be shown whole.",
        "storage.artifacts.backend": (
            "`local` is a folder; `memory` ends with the process. `null` follows the journal."
        ),
        "storage.artifacts.path": (
            "The folder (`local`); `null` is `.artifacts` in the folder of the journal."
        ),
        "execution": "Limits, most of them durations.",
        "execution.tools": "What holds for every tool that says nothing else.",
        "execution.tools.timeout": "Seconds that a call may take; `null` for no limit.",
        "execution.tools.offload_over": (
            "Characters above which a result is put away and only its beginning shown to the "
            "model; `null` for never."
        ),
        "execution.lease": "Seconds for which a driver owns a run without writing anything.",
        "execution.shutdown_timeout": (
            "Seconds that leaving `async with Loom…` waits for runs and calls under way."
        ),
        "telemetry": "What is shown of the inside.",
        "telemetry.logging": "The technical log, apart from the journal.",
        "telemetry.logging.level": "The least serious line that is shown.",
        "telemetry.logging.format": "`console` for people, `json` for machines.",
        "agents": "Agents written here, besides those of `agents_dir`.",
        "agents[].name": "The name by which it is run; each once.",
        "agents[].description": "What it does, for people.",
        "agents[].main": "The orchestrator.",
        "agents[].main.model": "The `id` of its model.",
        "agents[].main.system": "Its system prompt; give this or `system_file`.",
        "agents[].main.system_file": "The file of its system prompt, relative to `prompts_dir`.",
        "agents[].main.llm": "What it asks of its model.",
        "agents[].main.llm.max_tokens": "Overrides the model's own.",
        "agents[].main.llm.params": "Merged over the model's own.",
        "agents[].max_iterations": "Calls of the model before it must conclude without tools.",
        "agents[].timeout": (
            "Seconds during which a run may be driven; waiting for a human does not count."
        ),
        "agents[].approval": "What becomes of a request that nobody answers.",
        "agents[].approval.expires_in": "Seconds that it stays open; `null` for ever.",
        "agents[].approval.on_expiry": "`deny` the call, or `fail` the run.",
        "agents[].language": "Overrides the root's `language`.",
        "agents[].tools": "The tools that it may call, each once.",
        "agents[].tools[].python": (
            "The name of a tool of the `imports`, a registered name, or `module:attribute`."
        ),
        "agents[].tools[].timeout": "Overrides what the tool declares.",
        "agents[].tools[].side_effects": "Overrides what the tool declares.",
        "agents[].tools[].approval": "Overrides what the tool declares.",
        "agents[].tools[].idempotent": "Overrides what the tool declares.",
        "agents[].tools[].on_unknown": "Overrides what the tool declares.",
        "agents[].tools[].offload_over": "Overrides what the tool declares.",
    }
)
