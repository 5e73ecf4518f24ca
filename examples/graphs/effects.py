"""A question inside a step, and effects around it that are not repeated.

The step pauses where it stands. Once answered it runs again from its top, and each effect that was
recorded gives back what it gave: the draft is written once, the mail leaves once.
"""

import asyncio
from dataclasses import dataclass

from loom_ia.graph import END, Graph, MemoryStore

ecrits = []
partis = {}


@dataclass(frozen=True)
class Accord:
    """What the boss answers."""

    ok: bool
    remise: int = 0


def ecrire(state):
    ecrits.append(state["client"])
    return f"Bonjour {state['client']}, voici votre devis."


def envoyer_mail(texte, cle):
    """Stand for a mail server that knows a message by its key, and sends it once."""
    partis.setdefault(cle, texte)
    return f"message {len(partis)}"


g = Graph("envoi")


@g.step(then=END, on_unknown="pause")
async def envoyer(state, ctx):
    brouillon = await ctx.effect("brouillon", lambda: ecrire(state))
    accord = await ctx.interrupt(
        {"brouillon": brouillon}, key="accord", schema=Accord, expires_in=86_400
    )
    if not accord.ok:
        return {"envoye": None}
    recu = await ctx.effect(
        "envoi",
        lambda key: envoyer_mail(brouillon, key),
        side_effects="irreversible",
        idempotent=True,  # the server honours the key: to send again is harmless
    )
    return {"envoye": recu}


async def main():
    store = MemoryStore()
    result = await g.run({"client": "Mme Durand"}, store=store)
    question = result.interrupts[0]
    print("On demande :", question.payload["brouillon"])
    result = await g.resume(result.run_id, answers={question.id: {"ok": True}}, store=store)
    print("Envoyé :", result.state["envoye"])
    print("Brouillons écrits :", len(ecrits), "· messages partis :", len(partis))


if __name__ == "__main__":
    asyncio.run(main())
