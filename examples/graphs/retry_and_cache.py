"""A step tried again, one that is too long, another in its place, and one that remembers."""

import asyncio

from loom_ia.graph import END, Cache, Graph, MemoryStore, Retry

essais = []
g = Graph("tarifs", "catalogue")


@g.step(then="stock", retry=Retry(attempts=4, delay=0.01, backoff=1.5, on=(ConnectionError,)))
async def catalogue(state, ctx):
    essais.append(ctx.attempt)
    if ctx.attempt < 3:
        raise ConnectionError("le fournisseur ne répond pas")
    return {"prix": 62}


# After its last attempt, `fallback` runs instead, on the state before this step.
@g.step(then="remise", timeout=0.02, fallback="stock_connu")
async def stock(state):
    await asyncio.sleep(5)
    return {"stock": 1_200}


@g.step(then="remise")
async def stock_connu(state):
    return {"stock": 800, "du": "hier"}


calculs = []


# A hit calls nothing; it is kept in the store, for an hour.
@g.step(then=END, cache=Cache(key=lambda state: state["prix"], ttl=3600))
def remise(state):
    calculs.append(state["prix"])
    return {"net": round(state["prix"] * 0.95, 2)}


async def main():
    store = MemoryStore()
    for _ in range(2):
        result = await g.run(store=store)
        print(result.state)
    print("Essais du catalogue :", essais)
    print("Calculs de la remise :", len(calculs))


if __name__ == "__main__":
    asyncio.run(main())
