"""Triage of the requests that a small building firm receives.

    classer ──► ouvrir ──┬─► metreur ──┬─► proposer ──► relire ──► envoyer
       │                 └─► planning ─┘                  │
       └─► transmettre (nothing for the site)             └─► transmettre (refused)

`classer` and both specialists call a model. Nothing leaves before somebody read it, and what he
read is what leaves, once.
"""

from dataclasses import dataclass

from boite_d_envoi import BoiteDEnvoi
from loom_ia.graph import (
    END,
    Ask,
    Graph,
    Hooks,
    Message,
    Retry,
    branch_by,
    condition,
    token_budget,
    tool_loop,
)
from loom_ia.tools import tool

TARIFS = {"plomberie": "à partir de 180 €", "couverture": "à partir de 450 €"}


@dataclass(frozen=True)
class Classement:
    """What the first model says of a request."""

    sujet: str
    urgent: bool
    travaux: str


@dataclass(frozen=True)
class Decision:
    """What the person who reads the answer says: `texte` replaces what was proposed."""

    ok: bool
    texte: str = ""


@tool
async def tarif(travaux: str) -> str:
    """Donne le tarif indicatif d'un corps d'état."""
    return TARIFS.get(travaux, "sur devis")


@tool
async def prochain_creneau(urgent: bool) -> str:
    """Donne la prochaine visite possible."""
    return "demain à 8 h" if urgent else "jeudi à 14 h"


def specialiste(nom, modele, outil, role):
    """Make the graph of a specialist: a model and its tool, and what it found under its name."""
    graph = Graph(nom)
    graph.add_step(
        "repondre",
        tool_loop(modele, [outil], system=role, max_iterations=3, transcript=False),
        then="retenir",
        retry=Retry(attempts=2, delay=0.5),
    )

    @graph.step(then=END)
    async def retenir(state):
        return {nom: state["output"]}

    return graph.as_step(inputs=["messages"], outputs=[nom])


def construire(modele, boite: BoiteDEnvoi) -> Graph:
    """Build the graph on a model and on what sends messages."""
    g = Graph(
        "triage", "lire", step_budget=60, hooks=Hooks(after=[token_budget(20_000)]), version="1"
    )

    @g.step(then="classer")
    def lire(state):
        return {"messages": [Message("user", state["demande"])]}

    g.add_step(
        "classer",
        tool_loop(
            modele,
            system="Accueil d'une entreprise du bâtiment. Classe la demande : `sujet` vaut "
            "« travaux » ou « autre », `travaux` nomme le corps d'état ou reste vide.",
            output_schema=Classement,
            transcript=False,
        ),
        then=branch_by(
            lambda state: state["output"]["sujet"], {"travaux": "ouvrir"}, default="transmettre"
        ),
        retry=Retry(attempts=2, delay=0.5),
    )

    @g.step(then=["metreur", "planning"])
    def ouvrir(state):
        return {"classement": state["output"]}

    role = "Métreur : donne le tarif indicatif des travaux demandés, avec ton outil."
    g.add_step("metreur", specialiste("metreur", modele, tarif, role), then="proposer")
    role = "Planificateur : donne la prochaine visite possible, avec ton outil."
    g.add_step("planning", specialiste("planning", modele, prochain_creneau, role), then="proposer")

    @g.step(then="relire", join="all")
    def proposer(state):
        travaux = state["classement"]["travaux"]
        return {
            "reponse": f"Bonjour, pour vos travaux de {travaux} : {state['metreur']}. "
            f"Nous pouvons passer {state['planning']}."
        }

    @g.step(then=condition(lambda state: state["decision"]["ok"], "envoyer", "transmettre"))
    def relire(state):
        # The run waits here for as long as it takes, in no process at all.
        shown = {"a": state["client"], "texte": state["reponse"]}
        return Ask(shown, schema=Decision, phase="after", into="decision")

    @g.step(then=END, side_effects="irreversible", idempotent=True, on_unknown="pause")
    async def envoyer(state, ctx):
        texte = state["decision"].get("texte") or state["reponse"]
        # A crash between the effect and its record asks again under the same key, which the server
        # knows: that is why `idempotent` may be said.
        recu = await ctx.effect(
            "envoi",
            lambda cle: boite.envoyer(state["client"], texte, cle),
            side_effects="irreversible",
            idempotent=True,
        )
        return {"statut": f"envoyé ({recu})"}

    @g.step(then=END)
    def transmettre(state):
        return {"statut": "transmis à l'accueil"}

    return g
