"""A model that needs no key: it answers each role of the triage by a few words of the request."""

import json

from loom_ia.graph import ChatRequest, Reply, ToolCall, Usage


async def modele(request: ChatRequest) -> Reply:
    """Answer as the role that the system prompt names."""
    demande = request.messages[0].text
    role = (request.system or "").partition(" ")[0]
    usage = Usage(input_tokens=180, output_tokens=25, cost_usd=0.0002)
    match role:
        case "Accueil":
            return Reply(json.dumps(_classement(demande), ensure_ascii=False), usage=usage)
        case "Métreur":
            return _avec_outil(request, "tarif", {"travaux": _travaux(demande)}, usage)
        case _:
            return _avec_outil(request, "prochain_creneau", {"urgent": _urgent(demande)}, usage)


def _classement(demande: str) -> dict[str, object]:
    sujet = "travaux" if _travaux(demande) else "autre"
    return {"sujet": sujet, "urgent": _urgent(demande), "travaux": _travaux(demande)}


def _avec_outil(request: ChatRequest, name: str, arguments: dict, usage: Usage) -> Reply:
    """Call the tool once, then say what it gave."""
    last = request.messages[-1]
    if last.role == "user":
        return Reply(tool_calls=(ToolCall(f"{name}-1", name, arguments),), usage=usage)
    return Reply(last.text, usage=usage)


def _travaux(demande: str) -> str:
    mots = {
        "fuite": "plomberie",
        "toit": "couverture",
        "tuile": "couverture",
        "prise": "électricité",
    }
    return next((lot for mot, lot in mots.items() if mot in demande.lower()), "")


def _urgent(demande: str) -> bool:
    return any(mot in demande.lower() for mot in ("fuite", "urgent", "inond"))
