"""Triage of incoming requests, from the command line: see README.md.

python triage.py                          the demonstration, on a simulated model
python triage.py demande "Une fuite…"     one request, from the client `--client`
python triage.py attente                  what waits for somebody
python triage.py repondre RUN oui|non     decide, with another text if `--texte` is given
"""

import argparse
import asyncio
import contextlib
import tempfile
from pathlib import Path

from boite_d_envoi import BoiteDEnvoi
from graphe import construire
from loom_ia.graph import SQLiteStore, chat_model
from modele_simule import modele as modele_simule

DEMANDES = {
    "ana@exemple.fr": "Bonjour, j'ai une fuite sous l'évier, c'est urgent !",
    "bo@exemple.fr": "Il manque trois tuiles sur mon toit, pouvez-vous passer ?",
    "cy@exemple.fr": "Avez-vous reçu mon virement du 12 ?",
}


def montrer(result):
    """Print where a run stands."""
    print(f"{result.run_id} : {result.state.get('statut', 'attend une décision')}")
    for question in result.interrupts:
        print(f"  à {question.payload['a']} : {question.payload['texte']}")


async def deposer(graph, store, client, demande, run_id=None):
    result = await graph.run({"client": client, "demande": demande}, store=store, run_id=run_id)
    montrer(result)
    return result


async def attente(graph, store):
    """Show what waits: a run that waits is read by resuming it without an answer."""
    for run_id in await store.list("checkpoint:triage"):
        result = await graph.resume(run_id, store=store)
        if result.yielded:
            montrer(result)


async def repondre(graph, store, run_id, ok, texte=""):
    waiting = await graph.resume(run_id, store=store)
    if not waiting.interrupts:
        print(f"{run_id} n'attend rien : {waiting.state.get('statut')}")
        return
    answers = {waiting.interrupts[0].id: {"ok": ok, "texte": texte}}
    montrer(await graph.resume(run_id, answers=answers, store=store))


async def demonstration(graph, store, boite):
    print("— Trois demandes arrivent")
    for rang, (client, demande) in enumerate(DEMANDES.items(), 1):
        await deposer(graph, store, client, demande, run_id=f"demande-{rang}")
    print("— On relit ce qui attend")
    await repondre(graph, store, "demande-1", ok=True)
    await repondre(graph, store, "demande-2", ok=False)
    await repondre(graph, store, "demande-1", ok=True)
    print("— Ce qui est parti")
    for message in boite.partis():
        print(f"  à {message['a']} : {message['texte']}")


def options():
    parser = argparse.ArgumentParser(description="Trie les demandes reçues.")
    parser.add_argument("--dossier", type=Path, help="où garder les demandes (temporaire sinon)")
    parser.add_argument("--real", metavar="MODELE", help="un vrai modèle, au lieu du simulé")
    parser.add_argument("--base-url", help="l'adresse de son serveur (OpenAI sinon)")
    commands = parser.add_subparsers(dest="commande")
    one = commands.add_parser("demande", help="traiter une demande")
    one.add_argument("texte")
    one.add_argument("--client", default="client@exemple.fr")
    commands.add_parser("attente", help="voir ce qui attend une décision")
    answer = commands.add_parser("repondre", help="décider")
    answer.add_argument("run")
    answer.add_argument("decision", choices=["oui", "non"])
    answer.add_argument("--texte", default="")
    return parser.parse_args()


async def main(said):
    modele = modele_simule
    if said.real:
        modele = chat_model(said.real, base_url=said.base_url, json_object=True)
    with contextlib.ExitStack() as stack:
        folder = said.dossier or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        boite = BoiteDEnvoi(folder / "envois.jsonl")
        graph = construire(modele, boite)
        async with SQLiteStore(folder / "triage.db") as store:
            match said.commande:
                case "demande":
                    await deposer(graph, store, said.client, said.texte)
                case "attente":
                    await attente(graph, store)
                case "repondre":
                    ok = said.decision == "oui"
                    await repondre(graph, store, said.run, ok, said.texte)
                case _:
                    await demonstration(graph, store, boite)


if __name__ == "__main__":
    asyncio.run(main(options()))
