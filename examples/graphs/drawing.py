"""The picture of a graph is derived from its routers; that of a run says what was visited."""

import asyncio

from loom_ia.graph import END, Graph, branch, condition

g = Graph("demande", "classer")


@g.step(then=branch("sujet", {"devis": "chiffrer", "panne": "planifier"}, default=END))
def classer(state):
    return {"sujet": "devis" if "prix" in state["message"] else "panne"}


@g.step(then=condition(lambda state: state["montant"] > 5_000, "relire", END))
def chiffrer(state):
    return {"montant": 7_300 if state.get("relu") is None else 4_900}


@g.step(then="chiffrer")
def relire(state):
    return {"relu": True}


@g.step(then=END)
def planifier(state):
    return {"rendez_vous": "lundi"}


async def main():
    print(g.mermaid())
    result = await g.run({"message": "Quel prix pour une toiture ?"})
    print(g.mermaid(result))


if __name__ == "__main__":
    asyncio.run(main())
