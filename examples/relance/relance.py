"""Relancer un devis resté sans réponse, du premier appel à l'e-mail qui part une fois.

    python relance.py                     l'histoire entière ; l'artisan dit oui à la fin
    python relance.py --attendre          s'arrête à la demande d'approbation
    python relance.py --repondre RUN oui  la tranche, d'un autre processus (oui ou non)

--reel prend de vrais modèles (loom-reel.yaml).
"""

import argparse
import asyncio
from pathlib import Path

from loom_ia.access import Loom, RunResult
from loom_ia.core.events import GuardChecked

ICI = Path(__file__).parent
DEMANDE = "Relance Mme Martin pour le devis D-2026-042, sur un ton cordial."


async def main() -> None:
    options = lues()
    config = ICI / ("loom-reel.yaml" if options.reel else "loom.yaml")
    async with Loom.from_config(config) as loom:
        if options.repondre:
            run_id, reponse = options.repondre
            await repondre(loom, run_id, oui=reponse == "oui")
            return
        print(f"L'artisan : {DEMANDE}")
        resultat = await loom.run("relance", DEMANDE)
        await raconter(loom, resultat)
        if resultat.pending_approvals and not options.attendre:
            await repondre(loom, resultat.run_id, oui=True)


async def raconter(loom: Loom, resultat: RunResult) -> None:
    """Dit ce que les contrôles ont refusé, et ce qui attend l'artisan."""
    for evenement in await loom.events(resultat.run_id):
        fait = evenement.payload
        if isinstance(fait, GuardChecked) and fait.resolution == "retry":
            print(f"Refusé par {fait.policy} : {fait.reason}")
    for demande in resultat.pending_approvals:
        print(f"À approuver : {demande.tool_name}, run {resultat.run_id}")
        print(f"  à     : {demande.arguments['destinataire']}")
        print(f"  objet : {demande.arguments['objet']}")
        print(f"  corps : {demande.arguments['corps']}")
    if resultat.error:
        print(f"Échec : {resultat.error}")


async def repondre(loom: Loom, run_id: str, *, oui: bool) -> None:
    """Tranche, et va au bout du run."""
    decider = loom.approve if oui else loom.reject
    await decider(run_id, by="artisan")
    resultat = await loom.resume(run_id)
    print(f"L'artisan dit {'oui' if oui else 'non'}.")
    print(f"L'agent : {resultat.text}")
    for effet in resultat.effects:
        print(f"Action : {effet.tool}, {effet.status}")
    print(f"Coût : {resultat.cost_usd:.6f} $")


def lues() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Relance un devis resté sans réponse.")
    parser.add_argument("--attendre", action="store_true", help="s'arrête à la demande")
    parser.add_argument("--repondre", nargs=2, metavar=("RUN", "OUI_OU_NON"))
    parser.add_argument("--reel", "--real", action="store_true", help="de vrais modèles")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
