"""The smallest graph: one step, no store, no configuration."""

import asyncio

from loom_ia.graph import END, Graph

g = Graph("accueil", "saluer")


@g.step(then=END)  # the step's name is the function's
async def saluer(state):
    return {"message": f"Bonjour {state['nom']}, votre devis est prêt."}


async def main():
    result = await g.run({"nom": "Mme Durand"})
    print(result.state["message"])


if __name__ == "__main__":
    asyncio.run(main())
