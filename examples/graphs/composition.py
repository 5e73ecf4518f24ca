"""Graphs and tools are made of each other: a tool as a step, a graph as a step or as a tool."""

import asyncio

from loom_ia.graph import END, ChatRequest, Graph, Message, Reply, ToolCall, tool_loop, tool_step
from loom_ia.tools import tool


@tool
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> float:
    """Calcule le montant TTC d'un devis. Le taux est en pourcentage."""
    return round(montant_ht * (1 + taux_tva / 100), 2)


# A tool as a step: one call, whose arguments come from the state.
chiffrage = Graph("chiffrage", "metre")


@chiffrage.step(then="ttc")
def metre(state):
    return {"ht": state["surface"] * 62.0}


chiffrage.add_step("ttc", tool_step(prix_ttc, args=lambda s: {"montant_ht": s["ht"]}, into="ttc"))

# A graph as a step: a run of its own, below that of the parent, in the same journal.
devis = Graph("devis", "chiffrer")
devis.add_step("chiffrer", chiffrage.as_step(inputs=["surface"], outputs=["ttc"]), then="rediger")


@devis.step(then=END)
def rediger(state):
    return {"texte": f"Devis pour {state['client']} : {state['ttc']} € TTC"}


# A graph as a tool: a model calls it, and reads its final state.
outil = chiffrage.as_tool(
    name="chiffrer_toiture", description="Chiffre une toiture d'après sa `surface`, en m²."
)


async def modele(request: ChatRequest) -> Reply:
    last = request.messages[-1]
    if last.role == "user":
        return Reply(tool_calls=(ToolCall("c1", "chiffrer_toiture", {"surface": 84}),))
    return Reply(f"J'ai trouvé : {last.text}")


g = Graph("assistant")
g.add_step("echange", tool_loop(modele, [outil, prix_ttc]), then=END)


async def main():
    result = await devis.run({"client": "Mme Durand", "surface": 84})
    print(result.state["texte"])
    result = await g.run({"messages": [Message("user", "Combien pour ma toiture de 84 m² ?")]})
    print(result.state["output"])


if __name__ == "__main__":
    asyncio.run(main())
