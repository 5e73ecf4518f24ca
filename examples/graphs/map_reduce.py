"""One step for each item of a list, a few at once, and the results in the order of the items.

`fan_out` is for one step on each item of a list of the state. A router that gives `Send`s opens a
branch for each: the branches may go different ways.
"""

import asyncio

from loom_ia.graph import END, Graph, Send, append, fan_out

g = Graph("metre", "charger")


@g.step(
    then=fan_out("chiffrer", over="lots", as_="lot", collect="prix", limit=3, on_error="collect")
)
async def charger(state):
    return {"lots": ["charpente", "couverture", "inconnu", "plomberie"]}


TARIFS = {"charpente": 95, "couverture": 62, "plomberie": 48}


@g.step(then="totaliser")
async def chiffrer(state):
    lot = state["lot"]
    if lot not in TARIFS:
        raise ValueError(f"aucun tarif pour le lot {lot}")
    return {"lot": lot, "montant": TARIFS[lot] * state["surface"]}


@g.step(then=END)
async def totaliser(state):
    chiffres = [prix for prix in state["prix"] if "error" not in prix]
    return {"total": sum(prix["montant"] for prix in chiffres)}


courrier = Graph("courrier", "trier", merge={"envois": append})
courrier.add_step(
    "trier",
    lambda state: None,
    then=lambda state: [
        Send("mail" if "@" in client else "lettre", {"client": client})
        for client in state["clients"]
    ],
    targets=["mail", "lettre"],  # what a router written by hand may answer
)
courrier.add_step("mail", lambda state: {"envois": [f"mail à {state['client']}"]}, then="fin")
courrier.add_step("lettre", lambda state: {"envois": [f"lettre à {state['client']}"]}, then="fin")
courrier.add_step("fin", lambda state: None, join="all")


async def main():
    result = await g.run({"surface": 84})
    for prix in result.state["prix"]:
        print(prix)
    print("Total :", result.state["total"], "€")
    result = await courrier.run({"clients": ["ana@exemple.fr", "M. Petit", "bo@exemple.fr"]})
    print(result.state["envois"])


if __name__ == "__main__":
    asyncio.run(main())
