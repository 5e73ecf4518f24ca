"""What the model reads: solved examples, then the conversation written in their form.

A base model goes on with a text as the text began. The examples show the whole form, with tools
that nobody offers: a call, a call with a number to rewrite, results where one figure among several
is the answer, small talk, JSON.
"""

from typing import Final

from scripts.local_llm.asked import Asked, Function, Said

ANSWER: Final = "Réponse: "
CALL: Final = "Appel: "
JSON: Final = "JSON: "

EXAMPLES: Final = """\
Outils: meteo(ville, jours) - Donne la météo prévue dans une ville.
Question: Quel temps fera-t-il à Lyon ces 3 prochains jours ?
Appel: meteo {"ville": "Lyon", "jours": 3}
Résultat: {"ville": "Lyon", "temps": "pluie", "degres": 14}
Réponse: À Lyon, il pleuvra et il fera 14 degrés.

Outils: meteo(ville, jours) - Donne la météo prévue dans une ville.
Question: Bonjour, comment allez-vous ?
Réponse: Bonjour ! Je vais bien, merci. Que puis-je faire pour vous ?

Outils: surface(longueur, largeur) - Calcule la surface d'une pièce.
Question: Quelle est la surface d'une pièce de 4,5 mètres sur 3 mètres ?
Appel: surface {"longueur": 4.5, "largeur": 3}
Résultat: {"longueur": 4.5, "largeur": 3.0, "surface_m2": 13.5}
Réponse: La surface de la pièce est de 13.5 m².

Outils: salaire_net(brut, taux) - Calcule les cotisations et le salaire net.
Question: Quel est le salaire net pour 2 400 € brut, avec 22 % de cotisations ?
Appel: salaire_net {"brut": 2400, "taux": 22}
Résultat: {"brut": 2400.0, "cotisations": 528.0, "salaire_net": 1872.0}
Réponse: Le salaire net est de 1872.0 €.

Outils: aucun
Question: Donne en JSON le nom et l'âge : Jeanne Petit a 42 ans.
JSON: {"nom": "Jeanne Petit", "age": 42}

Outils: remise(prix, pourcentage) - Applique une remise à un prix.
Question: Combien coûte un meuble à 640 € avec une remise de 25 % ?
Appel: remise {"prix": 640, "pourcentage": 25}
Résultat: {"prix": 640.0, "remise": 160.0, "prix_final": 480.0}
Réponse: Avec la remise de 25 %, le prix final du meuble est de 480.0 €.

Outils: aucun
Question: Merci beaucoup pour votre aide.
Réponse: Je vous en prie, bonne journée !

Outils: livraison(poids, distance) - Calcule les frais de livraison et le total à payer.
Question: Combien vais-je payer en tout pour livrer 12,5 kg à 80 km ?
Appel: livraison {"poids": 12.5, "distance": 80}
Résultat: {"poids": 12.5, "distance": 80.0, "frais": 9.6, "total_a_payer": 34.6}
Réponse: Le total à payer est de 34.6 €.

Outils: convertir(montant, frais) - Convertit des euros en dollars. Les frais sont en pourcentage.
Question: Quel montant en dollars pour un virement de 3 200 € à l'étranger (frais à 1,5 %) ?
Appel: convertir {"montant": 3200, "frais": 1.5}
Résultat: {"montant": 3200.0, "frais": 48.0, "montant_dollars": 3467.2}
Réponse: Le montant en dollars pour un virement de 3 200 € est de 3467.2 $.

"""


def prompt(asked: Asked) -> str:
    """Write the conversation after the examples, up to where the model goes on."""
    lines = [f"Consigne: {_flat(m.text)}" for m in asked.messages if m.role == "system"]
    lines.append(f"Outils: {' ; '.join(map(_tool, asked.tools)) or 'aucun'}")
    for message in asked.messages:
        lines += _lines(message)
    return EXAMPLES + "\n".join(lines) + "\n"


def _lines(message: Said) -> list[str]:
    text = _flat(message.text)
    match message.role:
        case "system":
            return []
        case "user":
            return [f"Question: {text}"]
        case "tool":
            return [f"Résultat: {text}"]
        case "assistant":
            said = [f"{ANSWER}{text}"] if text else []
            return said + [f"{CALL}{c.name} {_flat(c.arguments)}" for c in message.calls]


def _tool(tool: Function) -> str:
    names = ", ".join(tool.parameters.get("properties", {}))
    about = _flat(tool.description.split("\n\n")[0])
    return f"{tool.name}({names})" + (f" - {about}" if about else "")


def _flat(text: str) -> str:
    """Put a text on one line, so that nothing in it passes for a line of the form."""
    return " ".join(text.split())
