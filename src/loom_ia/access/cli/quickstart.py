"""The project of the quick start: what `loom init` writes, the same as `examples/quickstart`."""

from typing import Final

QUESTION: Final = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"

IGNORED: Final = ".gitignore"
"""What keeps conversations and keys out of version control; one that is there is left alone."""

FILES: Final[dict[str, str]] = {
    "loom.yaml": """\
# yaml-language-server: $schema=./loom.schema.json
version: 1

imports: [outils]              # le module outils.py, à côté de ce fichier
agents_dir: agents/
prompts_dir: prompts/

models:
  - id: SIMULE
    sdk: fake                  # modèle simulé : ni clé, ni réseau
    model: fake-1
    params:
      script:
        - text: Je calcule le prix TTC.
          tool_calls:
            - name: prix_ttc
              arguments: {montant_ht: 1250, taux_tva: 10}
        - text: Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC.

telemetry:
  logging: {level: WARNING}    # en INFO, une ligne par appel de modèle et d'outil

storage:
  events: {backend: jsonl, path: data}   # le journal : un fichier JSONL par session
""",
    "outils.py": '''\
from loom_ia.tools import tool


@tool
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
    """Calcule la TVA et le montant TTC d'un devis. Le taux est en pourcentage."""
    tva = round(montant_ht * taux_tva / 100, 2)
    return {"montant_ht": montant_ht, "tva": tva, "montant_ttc": round(montant_ht + tva, 2)}
''',
    "agents/devis.yaml": """\
name: devis
description: Répond aux questions de prix sur les devis.

main:
  model: SIMULE
  system_file: devis.md

max_iterations: 5

tools:
  - python: prix_ttc
""",
    "prompts/devis.md": """\
Tu es l'assistant d'un artisan. Tu réponds en français, en une ou deux phrases.

Pour tout calcul de prix, appelle l'outil `prix_ttc` au lieu de calculer
toi-même, et reprends les montants qu'il renvoie.
""",
    IGNORED: """\
data/
.env
""",
}
