"""The words of claims: of actions by their verbs, and those around them.

Every word is folded: lower case, without accents. `tokens.py` folds texts in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """The words of an action: past participles in both languages, infinitives, and nouns for it.

    A noun claims with a verb that says that it was carried out: "payment made".
    """

    french: frozenset[str] = frozenset()
    english: frozenset[str] = frozenset()
    infinitives: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Action:
    """One action that an answer may claim, and the tools that do it, by name or glob.

    `phrases` are words that claim it as they stand, besides what its verb says.
    """

    name: str
    tools: tuple[str, ...]
    verb: Verb = field(default_factory=Verb)
    phrases: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def inflected(participle: str) -> tuple[str, ...]:
    """Give the forms of a French past participle, folded."""
    return participle, f"{participle}e", f"{participle}s", f"{participle}es"


def _verb(french: str, english: str, infinitives: str = "", nouns: str = "") -> Verb:
    forms = (form for word in french.split() for form in inflected(word))
    return Verb(frozenset(forms), _words(english), _words(infinitives), _words(nouns))


DEFAULTS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "send": _verb(
            "envoye expedie transmis adresse",
            "sent emailed mailed forwarded",
            "envoyer expedier transmettre adresser",
            "envoi expedition",
        ),
        "pay": _verb(
            "paye",
            "paid",
            "payer",
            "paiement paiements virement virements reglement payment payments transfer",
        ),
        "charge": _verb(
            "encaisse debite", "charged", "encaisser debiter", "encaissement debit charge"
        ),
        "refund": _verb("rembourse", "refunded", "rembourser", "remboursement refund"),
        "delete": _verb(
            "supprime efface", "deleted erased", "supprimer effacer", "suppression deletion"
        ),
        "book": _verb(
            "reserve",
            "booked reserved",
            "reserver",
            "reservation reservations booking bookings",
        ),
        "schedule": _verb("planifie programme", "scheduled", "planifier programmer"),
        "order": _verb("commande", "", "commander", "commande commandes order orders"),
        "cancel": _verb(
            "annule", "cancelled canceled", "annuler", "annulation cancellation cancelation"
        ),
        "publish": _verb(
            "publie poste", "published posted", "publier poster", "publication publishing"
        ),
        "sign": _verb("signe", "signed", "signer", "signature"),
    }
)
"""Verbs that are known by name."""

SUPPORT: Final = _verb(
    "effectue fait realise passe emis confirme finalise procede",
    "made done completed processed executed placed confirmed issued finalized",
)
"""What claims that a noun was carried out."""

OTHERS: Final = _words("ont avez qui que qu' has who that he she they")
"""What gives a coordinated verb another subject."""

ADVERBS: Final = _words(
    "bien bel deja aussi donc tout juste enfin aussitot desormais maintenant encore vite meme"
    " just already also now then both even soon today"
)
"""What may stand between the words of a claim, besides adverbs in -ment and -ly."""

OBJECTS: Final = _words("vous te t' lui leur l' le la les y en me m' nous")
"""French pronouns between the subject and its verb."""

SUBJECTS: Final = _words("j' je i")
PLURAL_SUBJECTS: Final = _words("nous we")

DENIALS: Final = _words(
    "ne n' pas jamais aucun aucune rien sans ni impossible not never no without neither nor"
    " cannot unable failed echoue"
)
"""What makes a statement say that something is not so, wherever it stands before."""

DOUBTS: Final = _words(
    "si quand lorsque lorsqu' des avant apres jusqu' tant pour if when once after before"
    " unless until whether assuming suppose supposons imagine peut pourrait devrait doit might"
    " may could should would must will 'll shall"
)
"""What makes it a condition, an aim, a time or a guess."""

BY_MEANS: Final = _words(
    "moi nous mes nos me us my e mail email courriel courrier poste post sms text virement"
    " carte cheque bank wire card transfer retour voie"
)
"""What may follow `par` and `by` without being somebody else."""

DETERMINERS: Final = _words(
    "le la les l' un une des d' ce cet cette ces mon ma mes ton ta tes son sa ses notre nos"
    " votre vos leur leurs the a an this that these those my your his her its our their any"
    " every each tout tous toute toutes chaque"
)

THINGS: Final = _words(
    "mail email message quote quotation invoice bill reminder report letter file document"
    " estimate confirmation notification newsletter order booking reservation refund request"
    " post article meeting appointment contract"
)
"""What an English headline is about; another word may be who did it: "Paul sent to…"."""

AUXILIARIES: Final = _words(
    "ai as a avons avez ont est sont etait etaient sera seront serait doit doivent peut"
    " peuvent va vont contient is are was were be has have had will must can should would may"
)
"""Verbs that make of a headline a sentence, which is read as one."""

AFTER_HEADLINE: Final = _words(
    "a au aux avec ce hier aujourd' par sur pour to with on at by for successfully today"
    " yesterday avant il"
)
"""What may follow the participle of a headline: "e-mail envoyé à…"."""

HABITS: Final = _words("chaque toujours generalement habituellement automatiquement")
"""What makes of a present a habit: "un e-mail est envoyé chaque jour"."""
