"""The system prompts: read once, parsed, and placed so that a fault names its line.

Law. A `system_file` is read from `prompts_dir`, and from nowhere outside the folder of `loom.yaml`
and `prompts_dir`, as its path is written: a link inside may lead elsewhere, `..` may not.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from loom_ia.config.document import MAX_BYTES
from loom_ia.config.files import read_bytes
from loom_ia.config.places import reason
from loom_ia.config.project import Prompt, Spoken, WrittenAgent
from loom_ia.core.errors import ConfigError
from loom_ia.core.template import Template


def read_prompts(
    agents: Sequence[WrittenAgent],
    base_dir: Path,
    prompts_dir: str | None,
    show: Callable[[Path], str],
) -> dict[Spoken, Prompt]:
    """Read the prompt of each agent and of its roles; without a folder, no file is read."""
    prompts: dict[Spoken, Prompt] = {}
    for position, agent in enumerate(agents):
        for chain in agent.chains:
            speaker, key = chain.speaker, (position, chain.role)
            if speaker.system is not None:
                prompt = Prompt(agent.source, (*chain.path, "system"))
                prompts[key] = _parsed(prompt, speaker.system)
            elif speaker.system_file is not None and prompts_dir is not None:
                prompt = Prompt(agent.source, (*chain.path, "system_file"))
                folder = base_dir / prompts_dir
                prompts[key] = _read(prompt, folder, speaker.system_file, base_dir, show)
    return prompts


def _read(
    prompt: Prompt, folder: Path, name: str, base_dir: Path, show: Callable[[Path], str]
) -> Prompt:
    path = Path(os.path.normpath(folder / name))
    shown = show(path)

    def refused(template: str, **params: object) -> Prompt:
        problem = prompt.source.problem(prompt.path, template, file=shown, **params)
        return replace(prompt, problems=(problem,))

    inside = (Path(os.path.normpath(base_dir)), Path(os.path.normpath(folder)))
    if not any(path.is_relative_to(place) for place in inside):
        return refused("{file} is outside the folder of the configuration (move it inside)")
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return refused("there is no file {file} (system_file is relative to prompts_dir)")
    except (OSError, ValueError) as error:
        return refused("{file} cannot be read: {reason}", reason=reason(error))
    if len(data) > MAX_BYTES:
        template = "{file} has {size} bytes; {max} are read at most"
        return refused(template, size=len(data), max=MAX_BYTES)
    prompt = replace(prompt, file=shown)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        template = "the text is not in UTF-8; save the file in UTF-8"
        return replace(prompt, problems=(prompt.problem(line, template),))
    return _parsed(prompt, text.replace("\r\n", "\n"))


def _parsed(prompt: Prompt, text: str) -> Prompt:
    try:
        return replace(prompt, template=Template.parse(text))
    except ConfigError as error:
        problems = (prompt.problem(p.line or 1, p.template, **p.params) for p in error.problems)
        return replace(prompt, problems=tuple(problems))
