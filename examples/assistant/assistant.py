"""Un assistant qui lit l'heure, compte, regarde une photo, et fait vérifier sa réponse.

python assistant.py               avec la photo
python assistant.py --sans-photo  sans : le rôle vision n'est pas proposé
"""

import asyncio
import sys
from pathlib import Path

from loom_ia.access import Loom

ICI = Path(__file__).parent
DEMANDE = "Combien pour 12,5 m² de ce carrelage à 38 € le m², et quel jour sommes-nous ?"


async def main() -> None:
    photos = [] if "--sans-photo" in sys.argv[1:] else [ICI / "photo.png"]
    async with Loom.from_config(ICI / "loom.yaml") as loom:
        print(f"L'artisan : {DEMANDE}")
        resultat = await loom.run("assistant", DEMANDE, attachments=photos)
        for evenement in await loom.events(resultat.run_id):
            if evenement.type == "tool.called":
                print(f"{evenement.agent} appelle {evenement.facets['tool_name']}")
        print(f"L'assistant : {resultat.text or resultat.error}")
        print(f"Coût : {resultat.cost_usd:.6f} $")


if __name__ == "__main__":
    asyncio.run(main())
