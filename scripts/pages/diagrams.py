"""Diagrams and tables that stand inside hand-written pages, made from the tables of the code."""

import inspect
import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, get_args

from loom_ia.core.decide import effects
from loom_ia.tools import results
from scripts.pages.events import families
from scripts.pages.markdown import block, code, prose, table

ROOT = Path(__file__).resolve().parents[2]


def layers() -> str:
    """Draw who may import whom among the packages that exist."""
    return _layers("loom_ia", ROOT / "src/loom_ia")


def core_layers() -> str:
    """Draw the same inside the core."""
    return _layers("loom_ia.core", ROOT / "src/loom_ia/core")


def events() -> str:
    """Draw the event types by family."""
    lines = ["flowchart LR"]
    for family, payloads in families().items():
        names = "<br/>".join(payload.TYPE for payload in payloads)
        lines.append(f'  journal --- {family}["{names}"]')
    return block("\n".join(lines), "mermaid")


def moves() -> str:
    """List what a decision can be."""
    performed = set(get_args(effects.Effect))
    return table(
        ("move", "means", "who does it"),
        (
            (
                code(move.__name__),
                prose(inspect.getdoc(move)).split("\n\n")[0],
                "a performer" if move in performed else "the driver",
            )
            for move in _members(effects.Move)
        ),
    )


def tool_results() -> str:
    """List what a tool may return and how it is kept, as the code that keeps it says."""
    lines = inspect.cleandoc(results.__doc__ or "").splitlines()
    rule = next(at for at, line in enumerate(lines) if line.strip().startswith("----"))
    rows = takewhile(str.strip, lines[rule + 1 :])
    return table(
        ("returned", "kept as"), (re.split(r" {2,}", row.strip(), maxsplit=1) for row in rows)
    )


REGIONS: Mapping[str, Any] = {
    "layers": layers,
    "core-layers": core_layers,
    "events": events,
    "moves": moves,
    "tool-results": tool_results,
}
"""Functions by the name that a page uses: `<!-- generated: NAME -->` … `<!-- end -->`."""


def _layers(container: str, folder: Path) -> str:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c.get("containers") == [container])
    lines = ["flowchart TD"]
    drawn: list[str] = []
    for written in contract["layers"]:
        names = [name.strip(" ()\n") for name in written.replace(":", "|").split("|")]
        here = [n for n in names if (folder / n).is_dir() or (folder / f"{n}.py").exists()]
        if not here:
            continue
        node = f"l{len(drawn)}"
        lines.append(f'  {node}["{"  ·  ".join(here)}"]')
        drawn.append(node)
    lines += [f"  {above} --> {below}" for above, below in pairwise(drawn)]
    return block("\n".join(lines), "mermaid")


def _members(union: Any) -> list[type]:
    found: list[type] = []
    for member in get_args(union):
        found += _members(member) if get_args(member) else [member]
    return found
