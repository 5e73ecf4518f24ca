"""Run every generator: `python -m scripts.generated [--check]`; fails if one of them does.

A generator is a script of this folder that writes files from the code, checks them with `--check`,
and says in one line what it did. To add one, name it below.
"""

import subprocess
import sys
from pathlib import Path

GENERATORS = ("catalogue", "reference")

HERE = Path(__file__).resolve().parent


def main(argv: list[str]) -> int:
    """Run each generator in a process of its own, all of them whatever the first one says."""
    failed: list[str] = []
    for name in GENERATORS:
        print(f"{name}: ", end="", flush=True)
        done = subprocess.run([sys.executable, HERE / f"{name}.py", *argv], check=False)
        failed += [name] if done.returncode else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
