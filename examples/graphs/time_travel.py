"""Every state that a run went through can be read again, and gone on from another way.

A fork begins where another run stood. The other run is not touched.
"""

import asyncio

from loom_ia.graph import END, Graph, MemoryStore, diff_runs

g = Graph("relance", "choisir")


@g.step(then="rediger")
def choisir(state):
    return {"ton": "cordial"}


@g.step(then="signer")
def rediger(state):
    debut = {"cordial": "Bonjour", "ferme": "Madame, Monsieur"}[state["ton"]]
    return {"message": f"{debut}, votre facture {state['facture']} reste à régler"}


@g.step(then=END)
def signer(state):
    return {"message": f"{state['message']}. — L'Atelier"}


async def main():
    store = MemoryStore()
    source = await g.run({"facture": "F-118"}, store=store)
    print(source.state["message"])
    history = await g.history(source.run_id, store=store)
    for checkpoint in history:
        state = await g.state_at(source.run_id, checkpoint.seq, store=store)
        print(checkpoint.n, checkpoint.step, sorted(state))

    # The same reminder again from after its first step, in another tone.
    after_choice = history[0].seq
    other = await g.fork(source.run_id, at=after_choice, input={"ton": "ferme"}, store=store)
    print(other.state["message"])
    print("Vient de :", other.parent == (source.run_id, after_choice))
    again = await g.state_at(source.run_id, history[-1].seq, store=store)
    print("Source intacte :", again == source.state)

    difference = diff_runs(
        await g.events(source.run_id, store=store), await g.events(other.run_id, store=store)
    )
    print("Diffèrent :", sorted(difference["state"]))


if __name__ == "__main__":
    asyncio.run(main())
