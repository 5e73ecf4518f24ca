"""`loom.no_phantom_action`: what an answer claims to have done must be among the effects."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import pytest

from loom_ia.access import Loom
from loom_ia.agents import MainRole, PolicyReference, PythonTool
from loom_ia.core.errors import ConfigError
from loom_ia.policies.phantom import DEFAULTS, Action, phantom_claims
from loom_ia.tools import ToolError, tool
from tests.policies.shop import Shop, call, scripted

ACTIONS = tuple(Action(name, (f"{name}_it",), verb) for name, verb in DEFAULTS.items())


@dataclass(frozen=True)
class Done:
    """What is known of an action."""

    tool: str
    status: str = "done"


def claimed(text: str, *effects: Done, actions: tuple[Action, ...] = ACTIONS) -> list[str]:
    """Give the names of what a text claims without an effect."""
    return [claim.action for claim in phantom_claims(text, actions, effects)]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("J'ai envoyé le devis à Mme Martin.", "send"),
        ("J’ai bien envoyé l’e-mail.", "send"),
        ("Je vous ai envoyé le devis", "send"),
        ("Je le lui ai déjà transmis.", "send"),
        ("Nous avons envoyé la relance.", "send"),
        ("Nous vous avons adressé les documents.", "send"),
        ("On a envoyé le devis.", "send"),
        ("Je viens d'envoyer le devis.", "send"),
        ("Je viens tout juste de vous l'envoyer.", "send"),
        ("J'ai pu envoyer le message.", "send"),
        ("L'e-mail a été envoyé.", "send"),
        ("Les devis ont bien été envoyés.", "send"),
        ("L'e-mail vient d'être envoyé.", "send"),
        ("C'est envoyé !", "send"),
        ("Votre devis est envoyé.", "send"),
        ("E-mail envoyé à Mme Martin", "send"),
        ("✅ Devis envoyés.", "send"),
        ("Envoyé !", "send"),
        ("Facture transmise.", "send"),
        ("Le devis a été envoyé par e-mail.", "send"),
        ("Comme convenu, j'ai envoyé le devis.", "send"),
        ("Je n'ai pas pu joindre M. Martin, mais j'ai envoyé l'e-mail.", "send"),
        ("Non seulement j'ai envoyé le devis, mais il l'a lu.", "send"),
        ("I have sent the quote.", "send"),
        ("I've just sent it", "send"),
        ("I sent the email to Paul.", "send"),
        ("We sent it.", "send"),
        ("The email has been sent.", "send"),
        ("The email was successfully sent", "send"),
        ("Email sent to Paul.", "send"),
        ("The invoice was sent by email.", "send"),
        ("J'ai payé la facture.", "pay"),
        ("Le paiement de 500 € a été effectué.", "pay"),
        ("J'ai effectué le virement.", "pay"),
        ("Paiement effectué.", "pay"),
        ("Payment completed.", "pay"),
        ("I made the payment.", "pay"),
        ("J'ai procédé au remboursement.", "refund"),
        ("J'ai supprimé le fichier.", "delete"),
        ("The file has been deleted.", "delete"),
        ("La salle est réservée.", "book"),
        ("I booked a room.", "book"),
        ("Réservation confirmée pour mardi", "book"),
        ("J'ai passé la commande.", "order"),
        ("L'article a été publié.", "publish"),
        ("I've posted it", "publish"),
        ("J'ai annulé le rendez-vous.", "cancel"),
    ],
)
def test_a_claim(text: str, action: str) -> None:
    """A statement that an action is over claims it, once; the effect, and only it, grounds it."""
    assert claimed(text) == [action]
    assert claimed(unicodedata.normalize("NFD", text)) == [action]
    assert claimed(text, Done(f"{action}_it")) == []
    for status in ("planned", "started", "not_done", "unknown"):
        assert claimed(text, Done(f"{action}_it", status)) == [action]
    assert claimed(text, Done("another_tool")) == [action]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Je vais envoyer le devis.",
        "Je vais vous envoyer l'e-mail.",
        "L'e-mail va être envoyé.",
        "Le devis sera envoyé demain.",
        "Dès que vous validez, j'enverrai le devis.",
        "J'enverrai le devis.",
        "Je peux envoyer le devis.",
        "J'aurai envoyé le devis avant midi.",
        "L'e-mail n'a pas été envoyé.",
        "Je n'ai pas envoyé le devis.",
        "Je n'ai rien envoyé.",
        "Je n'ai pas encore envoyé le devis.",
        "E-mail non envoyé.",
        "Aucun e-mail n'a été envoyé.",
        "Je ne peux pas confirmer que l'e-mail a été envoyé.",
        "Une fois le devis envoyé, je vous préviens.",
        "Une fois que j'ai envoyé le devis, il part.",
        "Si j'ai envoyé le devis, il le verra.",
        "Quand le devis est envoyé, le client signe.",
        "Avez-vous envoyé le devis ?",
        "Le devis a-t-il été envoyé ?",
        "J'ai envoyé le devis ?",
        "Le client a envoyé un e-mail.",
        "Vous avez envoyé le devis.",
        "Mme Martin vous a envoyé un message.",
        "Le devis a été envoyé par le client.",
        "Le devis envoyé par le client contient une erreur.",
        "Un e-mail est envoyé chaque jour.",
        "Il a écrit : « j'ai envoyé le devis ».",
        "> J'ai envoyé le devis.",
        "`e-mail envoyé`",
        "Envoyez le devis.",
        "Envoyer le devis",
        "Réserve une salle.",
        "Supprime le fichier.",
        "La réserve est vide.",
        "Commande avec livraison",
        "J'ai constaté que le client a payé la facture.",
        "J'ai effectué une recherche sur le paiement.",
        "I will send the email.",
        "I'll send it.",
        "I have not sent the email.",
        "I haven't sent it.",
        "The email has not been sent.",
        "The email was never sent.",
        "It will have been sent by noon.",
        "It should have been sent.",
        "Once I have sent it, you will know.",
        "If the email was sent, check the inbox.",
        "Have you sent the email?",
        "The customer sent the quote.",
        "Paul sent to us the quote.",
        "The invoice was sent by the supplier.",
        "An email is sent every day.",
        'He wrote "I sent it".',
        "Please confirm before the payment is made.",
        "I can send it.",
        "Paid leave is granted.",
        "I am unable to confirm that it was sent.",
    ],
)
def test_no_claim(text: str) -> None:
    """What is denied, intended, supposed, asked, quoted or told of others claims nothing."""
    assert claimed(text) == []


def test_two_actions_of_one_subject() -> None:
    """A subject that goes on with another verb claims both; each is told with its place."""
    text = "Bonjour. J'ai réservé la salle et envoyé le devis, et le paiement a été fait."
    found = phantom_claims(text, ACTIONS, [Done("pay_it")])
    assert [(claim.action, claim.text) for claim in found] == [
        ("book", "J'ai réservé"),
        ("send", "envoyé"),
    ]
    for claim in found:
        assert text[claim.start : claim.end] == claim.text


def test_only_declared_actions_are_looked_for() -> None:
    """What no declared action is about may be claimed; tools are names or globs."""
    (send,) = (action for action in ACTIONS if action.name == "send")
    both = Action("send", ("mail_*", "sms"), send.verb)
    assert claimed("J'ai payé et j'ai envoyé le devis.", actions=(both,)) == ["send"]
    assert claimed("J'ai envoyé le devis.", Done("mail_send"), actions=(both,)) == []
    assert claimed("J'ai envoyé le devis.", Done("xmail_send"), actions=(both,)) == ["send"]


def test_phrases_of_ones_own() -> None:
    """A phrase claims as it stands, accents and case aside, unless it is denied or doubted."""
    action = Action("ring", ("ring",), phrases=("le client est prévenu", "client informed"))
    assert claimed("LE CLIENT EST PREVENU.", actions=(action,)) == ["ring"]
    assert claimed("Client informed", actions=(action,)) == ["ring"]
    assert claimed("Dès que le client est prévenu, on y va.", actions=(action,)) == []
    assert claimed("Le client est prévenu ?", actions=(action,)) == []
    assert claimed("Non, le client est prévenant.", actions=(action,)) == []


@pytest.mark.parametrize(
    "text", ["«" * 50_000, "bien " * 20_000 + "envoyé", "j'ai " * 20_000, "envoyé et " * 20_000]
)
def test_a_text_of_any_kind_is_read(text: str) -> None:
    """A long text that says nothing is read to its end, and claims at most what it says."""
    found: Any = claimed(text)
    assert set(found) <= {"send"}


@tool(side_effects="irreversible")
def envoyer(to: str) -> str:
    """Send an e-mail."""
    if "@" not in to:
        raise ToolError("no such address")
    return "sent"


SENDING: dict[str, Any] = {"actions": [{"action": "send", "tools": ["envoyer"]}]}


def shop(*replies: dict[str, Any], params: dict[str, Any] = SENDING) -> Shop:
    """Open a shop that may claim to have sent."""
    return Shop(
        [scripted("M", *replies)],
        tools=(PythonTool(python="envoyer"),),
        policies=(PolicyReference(hook="loom.no_phantom_action", params=params),),
        named={"envoyer": envoyer},
    )


async def test_a_phantom_is_put_right() -> None:
    """An answer that claims what no call did is made again, and the model reads which words."""
    house = shop({"text": "J'ai envoyé le devis."}, {"text": "Je vais envoyer le devis."})
    result = await house.run()
    assert result.text == "Je vais envoyer le devis."
    decided = [d for d in house.of("policy.decided") if d.policy == "loom.no_phantom_action"]
    assert [d.decision for d in decided] == ["retry"]
    assert "J'ai envoyé" in decided[0].reason


async def test_what_was_done_may_be_claimed() -> None:
    """The claim stands once the tool really acted, also in the next run of the session."""
    house = shop(call("envoyer", to="a@example.com"), {"text": "C'est envoyé."})
    (clerk,), models = house.config.agents, house.config.models
    other = clerk.model_copy(update={"name": "teller", "main": MainRole(model="N", system="Be.")})
    said = scripted("N", {"text": "Oui, j'ai envoyé le devis."})
    changes = {"agents": (clerk, other), "models": (*models, said)}
    loom = Loom(house.config.model_copy(update=changes))
    loom.register("envoyer", envoyer)
    async with loom:
        first = await loom.run("clerk", "Envoie", session_id="s")
        second = await loom.run("teller", "C'est parti ?", session_id="s")
    assert (first.text, second.text) == ("C'est envoyé.", "Oui, j'ai envoyé le devis.")


async def test_what_failed_may_not_be_claimed() -> None:
    """A call that failed shows nothing; a model that insists fails its run."""
    said = {"text": "C'est envoyé."}
    house = shop(call("envoyer", to="nobody"), said, said)
    result = await house.run()
    assert (result.status, result.error_type) == ("failed", "policy.loom.no_phantom_action")
    assert [effect.status for effect in result.effects] == ["not_done"]


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({}, "actions is a list of 1 to 50 actions"),
        ({"actions": []}, "actions is a list of 1 to 50 actions"),
        ({"verbs": []}, "there is no verbs (known: actions)"),
        ({"actions": ["send"]}, "actions[0] is not a mapping"),
        ({"actions": [{"tools": ["a"]}]}, "actions[0].action is a name"),
        ({"actions": [{"action": "send"}]}, "actions[0] names no tool that does it"),
        ({"actions": [{"action": "send", "tools": "a"}]}, "actions[0].tools is a list of texts"),
        ({"actions": [{"action": "ring", "tools": ["a"]}]}, "ring is no known verb"),
        ({"actions": [{"action": "send", "tools": ["a"], "verb": 1}]}, "actions[0] has verb"),
    ],
)
async def test_params_are_checked_when_they_are_loaded(params: dict[str, Any], fault: str) -> None:
    """What cannot be looked for is told before any run, with its place."""
    with pytest.raises(ConfigError, match=re.escape(fault)):
        await shop({"text": "hello"}, params=params).run()


async def test_words_of_ones_own() -> None:
    """Participles that are given claim as the known ones do."""
    ring = {"action": "ring", "tools": ["envoyer"], "participles": ["appelé"]}
    house = shop(
        {"text": "J'ai appelée Mme Martin."}, {"text": "Bien."}, params={"actions": [ring]}
    )
    assert (await house.run()).text == "Bien."
