"""What a model may call, and how much it may spend.

`deny` wins over `ask`, which wins over `allow`. A call under `ask` is shown to a person with its
arguments before it is made. The run stops by itself once it cost too much.
"""

import asyncio

from loom_ia.graph import (
    BudgetExhausted,
    ChatRequest,
    Graph,
    Hooks,
    Message,
    Reply,
    ToolCall,
    Usage,
    cost_budget,
    permissions,
    token_budget,
    tool_loop,
)
from loom_ia.tools import tool


@tool
def lire_devis(numero: str) -> str:
    """Lit un devis."""
    return f"Devis {numero} : 2 400 €, envoyé il y a 15 jours."


@tool(side_effects="irreversible")
def envoyer_relance(numero: str) -> str:
    """Envoie une relance au client."""
    return f"Relance du devis {numero} envoyée."


@tool(side_effects="irreversible")
def supprimer_devis(numero: str) -> str:
    """Supprime un devis."""
    return f"Devis {numero} supprimé."


OUTILS = [lire_devis, envoyer_relance, supprimer_devis]
surs = permissions(OUTILS, deny=["supprimer_*"], allow=["lire_*"], ask=["envoyer_*"])


def modele(*turns):
    """Stand for a model that plays `turns`: at each, the calls that it makes; then it answers."""

    async def scripted(request: ChatRequest) -> Reply:
        played = sum(message.role == "assistant" for message in request.messages)
        usage = Usage(input_tokens=1000, output_tokens=200, cost_usd=0.40)
        if played == len(turns):
            return Reply("C'est fait.", usage=usage)
        name, numero = turns[played]
        return Reply("", (ToolCall(f"c{played}", name, {"numero": numero}),), usage)

    return scripted


TURNS = [
    ("lire_devis", "D-042"),
    ("supprimer_devis", "D-042"),
    ("envoyer_relance", "D-042"),
]
g = Graph("relance", hooks=Hooks(after=[cost_budget(usd=5.00), token_budget(200_000)]))
# After a crash in the middle of a sending, somebody is asked before it is made again.
g.add_step("echange", tool_loop(modele(*TURNS), surs), on_unknown="pause")

DEMANDE = {"messages": [Message("user", "Relance le devis D-042.")]}


def decider(question):
    """Answer in line, where a person would be asked."""
    print("On demande :", question.payload["tool"], question.payload["arguments"])
    return {"approved": True}


async def main():
    print("Outils visibles :", surs.names)
    result = await g.run(DEMANDE, approver=decider)
    for message in result.state["messages"]:
        if message.role == "tool":
            print("Résultat :", message.text)
    spent = result.usage or Usage()
    print("Réponse :", result.state["output"], f"({spent.cost_usd:.2f} $)")

    # The same agent that reads for ever, with one dollar.
    lecteur = Graph("lecteur", hooks=Hooks(after=[cost_budget(usd=1.00)]))
    sans_fin = [("lire_devis", f"D-{n:03}") for n in range(100)]
    lecteur.add_step("echange", tool_loop(modele(*sans_fin), surs, max_iterations=100))
    try:
        await lecteur.run(DEMANDE)
    except BudgetExhausted as stopped:
        print("Arrêté :", stopped.result.stop, "·", stopped)


if __name__ == "__main__":
    asyncio.run(main())
