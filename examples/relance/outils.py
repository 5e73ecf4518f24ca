import json
from pathlib import Path

from loom_ia.tools import Done, NotDone, ToolContext, ToolError, idempotent, tool

ICI = Path(__file__).parent
DEVIS = ICI / "devis.json"
ENVOIS = ICI / "data" / "envois.jsonl"


@tool
def chercher_devis(numero: str) -> dict[str, object]:
    """Retrouve un devis par son numéro."""
    for devis in json.loads(DEVIS.read_text("utf-8")):
        if devis["numero"] == numero:
            return devis
    raise ToolError(f"Aucun devis ne porte le numéro {numero}.")


def envois() -> list[dict[str, str]]:
    """Donne les e-mails qui sont partis."""
    if not ENVOIS.exists():
        return []
    return [json.loads(ligne) for ligne in ENVOIS.read_text("utf-8").splitlines()]


def deja_parti(arguments: dict[str, object], _: ToolContext) -> Done | NotDone:
    """Regarde dans la boîte d'envoi : Loom-IA le demande après un plantage."""
    if any(envoi["numero"] == arguments["numero"] for envoi in envois()):
        return Done("E-mail envoyé.")
    return NotDone()


@tool(side_effects="irreversible", approval="always", reconcile=deja_parti)
@idempotent(key=["numero"])
def envoyer_email(numero: str, destinataire: str, objet: str, corps: str) -> str:
    """Envoie l'e-mail de relance du devis `numero`."""
    ENVOIS.parent.mkdir(exist_ok=True)
    envoi = {"numero": numero, "destinataire": destinataire, "objet": objet, "corps": corps}
    with ENVOIS.open("a", encoding="utf-8") as boite:
        boite.write(json.dumps(envoi, ensure_ascii=False) + "\n")
    return "E-mail envoyé."
