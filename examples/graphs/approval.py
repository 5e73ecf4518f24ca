"""Pause for a human, in no process at all, and go on when the answer comes.

A quote above a limit is shown to the boss. The run waits in a file: the program may stop in
between, which the second `SQLiteStore` stands for.
"""

import asyncio
import tempfile
from pathlib import Path

from loom_ia.graph import END, Ask, Graph, SQLiteStore, condition

g = Graph("validation-devis", "chiffrer")


@g.step(then=condition(lambda state: state["total"] > 5_000, "valider", "envoyer"))
def chiffrer(state):
    return {"total": sum(ligne["prix"] for ligne in state["lignes"])}


@g.step(then=condition(lambda state: state["accord"]["approved"], "envoyer", END))
def valider(state):
    # The run pauses after this step; `into` says where the answer goes.
    return Ask(
        {"question": "Envoyer ce devis ?", "total": state["total"]},
        schema={
            "type": "object",
            "properties": {"approved": {"type": "boolean"}},
            "required": ["approved"],
        },
        phase="after",
        into="accord",
    )


@g.step(then=END)
def envoyer(state):
    return {"statut": f"devis de {state['total']} € envoyé"}


LIGNES = [{"poste": "charpente", "prix": 4_200}, {"poste": "couverture", "prix": 3_100}]


async def main(folder):
    async with SQLiteStore(folder / "devis.db") as store:
        result = await g.run({"lignes": LIGNES}, store=store)
        question = result.interrupts[0]
        print("Arrêt    :", result.stop)
        print("Question :", question.payload)

    # Another day, another process: all that is needed is the run's id, and the question's.
    async with SQLiteStore(folder / "devis.db") as store:
        answers = {question.id: {"approved": True}}
        result = await g.resume(result.run_id, answers=answers, store=store)
        print("Arrêt    :", result.stop)
        print("Statut   :", result.state["statut"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
