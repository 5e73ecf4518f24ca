"""Parallel branches: three trades read one site at once, and a step joins what they found.

A branch begins from the state at the split and sees its own changes only. They are merged in the
order of declaration, whichever ends first.
"""

import asyncio

from loom_ia.graph import END, Graph, MergeConflict, append

g = Graph("avis", "ouvrir", merge={"avis": append})


@g.step(then=["structure", "couverture", "electricite"])  # several targets: as many branches
async def ouvrir(state):
    return {"chantier": f"rénovation, {state['surface']} m²"}


@g.step(then="synthese")
async def structure(state):
    await asyncio.sleep(0.02)  # the slowest one, and still the first in the result
    return {"avis": ["structure : rien à signaler"]}


@g.step(then="synthese")
async def couverture(state):
    return {"avis": ["couverture : 12 tuiles à changer"]}


@g.step(then="synthese")
async def electricite(state):
    return {"avis": ["électricité : tableau à refaire"]}


@g.step(then=END, join="all")  # or "any", or a number: how many branches are waited for
async def synthese(state):
    return {"resume": f"{state['chantier']} — {len(state['avis'])} avis"}


async def main():
    result = await g.run({"surface": 84})
    print(result.state["resume"])
    print("\n".join(result.state["avis"]))

    # A key that two branches write needs a merge policy: nobody guesses which one wins.
    sans = Graph("sans-politique", "ouvrir")
    sans.add_step("ouvrir", lambda state: None, then=["a", "b"])
    sans.add_step("a", lambda state: {"prix": 100}, then="fin")
    sans.add_step("b", lambda state: {"prix": 120}, then="fin")
    sans.add_step("fin", lambda state: None, join="all")
    try:
        await sans.run()
    except MergeConflict as conflict:
        print("Conflit :", conflict.key, conflict.branches)


if __name__ == "__main__":
    asyncio.run(main())
