"""What happens as it happens: steps, pieces of text, and the same journal from another reader."""

import asyncio

from loom_ia.graph import (
    END,
    Graph,
    Interrupted,
    MemoryStore,
    RunFinished,
    StateChanged,
    StepCompleted,
    Token,
)

g = Graph("relance", "rediger")


@g.step(then="envoyer")
async def rediger(state, ctx):
    text = ""
    for word in f"Bonjour {state['client']}, votre devis expire vendredi.".split():
        ctx.token(word + " ")  # shown to whoever follows; only the delta is written
        text += word + " "
    return {"message": text.strip()}


@g.step(then=END)
async def envoyer(state):
    return {"envoye": True}


async def main():
    store = MemoryStore()
    given = {"client": "Mme Durand"}
    both = ["updates", "tokens"]
    async for item in g.stream(given, store=store, run_id="relance-1", mode=both):
        match item:
            case Token(text=text):
                print(text, end="")
            case StepCompleted(step=step, delta=delta):
                print(f"\n[{step}] {sorted(delta)}")
            case Interrupted(interrupt=question):
                print("\nOn demande :", question.payload)
            case RunFinished(result=result):
                print("Fin :", result.stop)

    async for item in g.stream({"client": "M. Petit"}, store=store, mode="values"):
        if isinstance(item, StateChanged):
            print(f"Après {item.step} :", sorted(item.state))

    # Any reader of the store sees the same facts, and can begin again after the last one it saw.
    async for event in g.follow("relance-1", store=store, after_seq=2):
        print(event.seq, event.type, event.step or "")


if __name__ == "__main__":
    asyncio.run(main())
