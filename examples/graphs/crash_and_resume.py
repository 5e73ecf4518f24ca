"""A process killed in the middle: the run goes on after its last finished step.

The program starts itself again as a child, which is killed (`kill -9`) before the last step.
Then the parent goes on with the run from the file.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from loom_ia.graph import END, Graph, SQLiteStore

g = Graph("dossier", "visite")


@g.step(then="metre")
def visite(state):
    print("  visite du chantier", flush=True)
    return {"surface": 84}


@g.step(then="chiffrage")
def metre(state):
    print("  métré", flush=True)
    return {"metres": state["surface"] * 2.5}


@g.step(then="remise")
def chiffrage(state):
    print("  chiffrage", flush=True)
    return {"total": state["metres"] * 38}


@g.step(then=END)
def remise(state):
    if os.environ.get("COUPURE"):
        print("  [coupure de courant]", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print("  remise du devis", flush=True)
    return {"remis": True}


async def drive(file):
    async with SQLiteStore(file) as store:
        await g.run({"client": "Durand"}, store=store, run_id="dossier-durand")


async def go_on(file):
    async with SQLiteStore(file) as store:
        # `await g.recover(store=store)` would do it for every run that nobody drives.
        return await g.resume("dossier-durand", store=store, take_over=True)


def main(folder):
    file = folder / "dossiers.db"
    print("Premier process :", flush=True)
    child = [sys.executable, __file__, str(file)]
    dead = subprocess.run(child, env={**os.environ, "COUPURE": "1"}, check=False)
    print("Tué :", dead.returncode == -signal.SIGKILL)
    print("Second process :")
    result = asyncio.run(go_on(file))
    print("Fin :", result.stop, "·", result.steps, "étape ici,", result.total_steps, "en tout")
    print("Total :", result.state["total"], "€")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(drive(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
