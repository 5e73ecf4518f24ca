"""Ten agents under one orchestrator: one journal, and one budget of steps for all of them.

Each trade of the site is a graph of its own, which is a step of the orchestrator. What a child
does is charged to the budget of its parent.
"""

import asyncio

from loom_ia.graph import END, BudgetExhausted, Graph, MemoryStore, add, append, branch

METIERS = [
    *("terrassement", "maçonnerie", "charpente", "couverture", "menuiserie"),
    *("plomberie", "électricité", "plâtrerie", "carrelage", "peinture"),
]


def corps_de_metier(nom, jours):
    """Make the agent of one trade: it reads the site, then gives its estimate."""
    agent = Graph(nom, merge={"planning": append, "jours": add})

    @agent.step(then="estimer")
    def relever(state):
        return {"surface": state["surface"]}

    @agent.step(then=END)
    def estimer(state):
        duree = jours + state["surface"] // 50
        return {"planning": [f"{nom} : {duree} jours"], "jours": duree}

    return agent


def chantier(step_budget, metiers=METIERS):
    orchestrateur = Graph(
        "chantier", "repartir", step_budget=step_budget, merge={"planning": append, "jours": add}
    )

    @orchestrateur.step(then=branch("suivant", {nom: nom for nom in metiers}, default=END))
    def repartir(state):
        faits = len(state.get("planning", []))
        return {"suivant": metiers[faits] if faits < len(metiers) else "fini"}

    for rang, nom in enumerate(metiers):
        # Only what is named goes back to the parent, as the change that the child made.
        agent = corps_de_metier(nom, 2 + rang % 3)
        orchestrateur.add_step(nom, agent.as_step(outputs=["planning", "jours"]), then="repartir")
    return orchestrateur


g = chantier(step_budget=500)


async def main():
    store = MemoryStore()
    result = await g.run({"surface": 120, "jours": 0}, store=store)
    print("\n".join(result.state["planning"]))
    print(f"Total : {result.state['jours']} jours")
    print(f"Étapes de l'orchestrateur : {result.steps}, budget restant : {result.budget_left}")
    events = await g.events(result.run_id, store=store)
    runs = {event.run_id for event in events}
    print(f"Un seul journal : {len(events)} faits de {len(runs)} runs")

    try:
        await chantier(step_budget=12).run({"surface": 120, "jours": 0}, store=store)
    except BudgetExhausted as stopped:
        print("Budget de 12 :", stopped.result.stop, "après", stopped.result.state["planning"])


if __name__ == "__main__":
    asyncio.run(main())
