"""The words that say what a number counts, in French and in English, without accents."""

from decimal import Decimal
from typing import Final

from loom_ia.policies.grounded.sets import word_set


def _table(*rows: tuple[str, str]) -> dict[str, str]:
    return {word: name for name, words in rows for word in words.split()}


CURRENCIES: Final = _table(
    ("EUR", "€ eur euro euros balles"),
    ("USD", "$ usd dollar dollars us$ bucks"),
    ("GBP", "£ gbp pound pounds sterling livre livres quid"),
    ("CHF", "chf franc francs fr sfr"),
    ("CAD", "cad ca$ c$"),
    ("AUD", "aud a$"),
    ("JPY", "¥ jpy yen yens"),
    ("CNY", "cny rmb yuan yuans"),
    ("INR", "₹ inr rupee rupees roupie roupies"),
    ("MAD", "mad dirham dirhams"),
    ("XOF", "xof fcfa"),
    ("BTC", "₿ btc bitcoin bitcoins"),
    ("DKK", "dkk couronne couronnes krone kroner"),
    ("SEK", "sek"),
    ("NOK", "nok"),
    ("PLN", "pln zloty zlotys"),
)
CODES: Final = word_set(
    "eur usd gbp chf cad aud jpy cny inr mad xof dkk sek nok pln fr sfr euro euros"
)
"""What may stand before an amount."""
CENTS: Final[dict[str, tuple[str, ...]]] = {
    "centime": ("EUR", "CHF"),
    "centimes": ("EUR", "CHF"),
    "cent": ("EUR", "USD"),
    "cents": ("EUR", "USD"),
    "ct": ("EUR",),
    "cts": ("EUR",),
    "penny": ("GBP",),
    "pence": ("GBP",),
    "p": ("GBP",),
}
THOUSANDS: Final[dict[str, Decimal]] = {
    "k": Decimal(1000),
    "mille": Decimal(1000),
    "thousand": Decimal(1000),
    "thousands": Decimal(1000),
    "milliers": Decimal(1000),
    "hundred": Decimal(100),
    "dozen": Decimal(12),
    "douzaine": Decimal(12),
    "douzaines": Decimal(12),
    "million": Decimal(10**6),
    "millions": Decimal(10**6),
    "mn": Decimal(10**6),
    "mio": Decimal(10**6),
    "milliard": Decimal(10**9),
    "milliards": Decimal(10**9),
    "md": Decimal(10**9),
    "mds": Decimal(10**9),
    "mrd": Decimal(10**9),
    "bn": Decimal(10**9),
    "billion": Decimal(10**9),
    "billions": Decimal(10**9),
}
"""What multiplies a number written in digits; `m` does before a currency, see `SHORT`."""
SHORT: Final[dict[str, Decimal]] = {
    "k": Decimal(1000),
    "m": Decimal(10**6),
    "mn": Decimal(10**6),
    "md": Decimal(10**9),
    "b": Decimal(10**9),
    "bn": Decimal(10**9),
}
"""What multiplies when a currency touches the amount: `2 M€`, `£2m`."""
TAXES: Final = word_set("ttc ht htva hors toutes net nets brut bruts tvac vat")
PERCENT: Final = frozenset(["%", "percent", "pourcent", "pct", "pourcents"])

UNITS: Final = _table(
    ("minute", "minute minutes min mn mins"),
    ("hour", "heure heures hour hours h hr hrs"),
    ("second", "seconde secondes seconds sec secs s"),
    ("day", "jour jours journee journees day days j d"),
    ("night", "nuit nuits night nights nuitee nuitees"),
    ("week", "semaine semaines week weeks wk wks sem"),
    ("month", "mois month months"),
    ("quarter", "trimestre trimestres"),
    ("term", "semestre semestres"),
    ("year", "an ans annee annees year years yr yrs"),
    ("fortnight", "fortnight fortnights"),
    ("m", "m metre metres meter meters ml"),
    ("mm", "mm millimetre millimetres"),
    ("cm", "cm centimetre centimetres"),
    ("km", "km kilometre kilometres kilometer kilometers kms"),
    ("mile", "mile miles"),
    ("foot", "foot feet ft pied pieds"),
    ("inch", "inch inches pouce pouces"),
    ("m2", "m2 sqm"),
    ("m3", "m3"),
    ("cm2", "cm2"),
    ("ha", "ha hectare hectares"),
    ("litre", "l litre litres liter liters"),
    ("g", "g gramme grammes gram grams"),
    ("kg", "kg kgs kilo kilos kilogramme kilogrammes kilogram kilograms"),
    ("t", "t tonne tonnes ton tons"),
    ("lb", "lb lbs"),
    ("W", "w watt watts"),
    ("kW", "kw kilowatt kilowatts"),
    ("MW", "mw"),
    ("kWh", "kwh"),
    ("kVA", "kva"),
    ("V", "v volt volts"),
    ("A", "ampere amperes amp amps"),
    ("bar", "bar bars"),
    ("°C", "°c °"),
    ("°F", "°f"),
    ("degree", "degre degres degree degrees"),
    ("dB", "db"),
    ("Go", "go gb gigaoctet gigaoctets"),
    ("Mo", "mo mb"),
)
ARTICLE_UNITS: Final = word_set(
    "minute heure hour jour journee day nuit night semaine week mois month trimestre"
    " semestre an annee year fortnight quinzaine huitaine euro dollar pound franc cent"
    " centime kilo metre meter litre tonne kilometre mile hectare"
)
"""What `un`, `une`, `a` or `an` counts; before anything else they are articles."""
MINUTES: Final[dict[str, Decimal]] = {"minute": Decimal(1), "hour": Decimal(60)}

MONTHS: Final = {
    word: number
    for number, words in enumerate(
        (
            "janvier january janv jan",
            "fevrier february fevr fev feb",
            "mars march mar",
            "avril april avr apr",
            "mai may",
            "juin june jun",
            "juillet july juil jul",
            "aout august aug",
            "septembre september sept sep",
            "octobre october oct",
            "novembre november nov",
            "decembre december dec",
        ),
        start=1,
    )
    for word in words.split()
}
LONE_MONTHS: Final = word_set(
    "janvier january fevrier february mars avril april mai juin june juillet july aout"
    " august septembre september octobre october novembre november decembre december"
)
"""Months that are one without a day or a year; `may` and `march` are verbs too."""
MONTH_CUES: Final = word_set(
    "in by until till since before after from of early mid late end this next last during"
    " to and or through"
)
WEEKDAYS: Final = {
    word: number
    for number, words in enumerate(
        (
            "lundi lundis monday mondays",
            "mardi mardis tuesday tuesdays",
            "mercredi mercredis wednesday wednesdays",
            "jeudi jeudis thursday thursdays",
            "vendredi vendredis friday fridays",
            "samedi samedis saturday saturdays",
            "dimanche dimanches sunday sundays",
        )
    )
    for word in words.split()
}
RELATIVE: Final[dict[str, str]] = {
    "apres-demain": "in two days",
    "apres demain": "in two days",
    "day after tomorrow": "in two days",
    "avant-hier": "two days ago",
    "day before yesterday": "two days ago",
    "demain": "tomorrow",
    "tomorrow": "tomorrow",
    "hier": "yesterday",
    "yesterday": "yesterday",
    "aujourd'hui": "today",
    "today": "today",
    "tonight": "tonight",
    "ce soir": "tonight",
    "semaine prochaine": "next week",
    "next week": "next week",
    "semaine derniere": "last week",
    "last week": "last week",
    "cette semaine": "this week",
    "this week": "this week",
    "mois prochain": "next month",
    "next month": "next month",
    "mois dernier": "last month",
    "last month": "last month",
    "ce mois-ci": "this month",
    "this month": "this month",
    "annee prochaine": "next year",
    "an prochain": "next year",
    "next year": "next year",
    "annee derniere": "last year",
    "an dernier": "last year",
    "last year": "last year",
    "week-end prochain": "next weekend",
    "next weekend": "next weekend",
    "ce week-end": "this weekend",
    "this weekend": "this weekend",
    "trimestre prochain": "next quarter",
    "next quarter": "next quarter",
}

ORDINALS: Final = {
    "premier": 1,
    **{
        word: number
        for number, word in enumerate(
            [
                "first",
                "second",
                "third",
                "fourth",
                "fifth",
                "sixth",
                "seventh",
                "eighth",
                "ninth",
                "tenth",
                "eleventh",
                "twelfth",
                "thirteenth",
                "fourteenth",
                "fifteenth",
                "sixteenth",
                "seventeenth",
                "eighteenth",
                "nineteenth",
                "twentieth",
            ],
            start=1,
        )
    },
    "thirtieth": 30,
}
ORDINAL_ENDS: Final = word_set("er ere re e eme ieme nd nde st rd th es")

CUES: Final = (
    "n°|no|n|num|numero|nr|number|#|ref|reference|devis|facture|quote|quotation|invoice|commande"
    "|order|dossier|contrat|contract|bon|avoir|ticket|siret|siren|rcs|ape|client|customer|case"
    "|file|estimate|lot|appartement|apt|batiment"
)
MONEY: Final = word_set(
    "total totale montant montants prix cout couts acompte acomptes solde somme tarif"
    " facture amount amounts price prices cost costs deposit balance sum fee fees payment"
    " paiement payer pay paid ttc ht htva remboursement refund remise discount rabais avoir"
    " due"
)
"""Words that announce an amount without a currency, when no thing is counted."""

STOPWORDS: Final = word_set(
    "a au aux avec ce ces cet cette chez comme dans de des depuis des donc du elle elles en"
    " entre est et eu il ils je la le les leur leurs lors lorsque mais mon ma mes ne ni nos"
    " notre nous on ont ou par pas pour puis puisque quand que qui sa sans se selon sera"
    " seront ses si soit son sont sous sur ta te tes ton tous tout toute toutes tu un une"
    " vers vos votre vous y d l s n c j m t qu afin ainsi alors apres avant car environ"
    " jusqu pendant etait sauf ete merci about after all an and are as at be been before but"
    " by can each for from had has have he her his i if in incl including inclusive into is"
    " it its may me my not of off on onto or our out over per plus she should so than thanks"
    " that the their them then there these they this those to under until up us was we were"
    " when which while will with would within you your ttc ht hors maximum minimum max only"
    " seulement inclus incluse compris comprise prevu"
)
ARTICLES: Final = frozenset(["un", "une", "a", "an", "one"])
YEAR_CUES: Final = word_set("en in annee year depuis since de for pour copyright exercice")
"""What makes a year of four digits."""
BEFORE_DAY: Final = frozenset(["le", "du", "au"])
CITED: Final = word_set(
    "en de des d les l la le of in the per par l' quelques some few a un une aux vos nos"
    " leurs plusieurs several et and ou or combien many your our their ces these those"
)
"""What a currency without a number may follow: `en euros`, `the euro`."""
SYNONYMS: Final = _table(
    ("devi", "devi quote estimate quotation"),
    ("facture", "facture invoice bill"),
    ("client", "client customer"),
    ("commande", "commande order"),
    ("radiateur", "radiateur radiator"),
    ("personne", "personne people person"),
    ("piece", "piece room part"),
    ("porte", "porte door"),
    ("fenetre", "fenetre window"),
    ("exemplaire", "exemplaire copie copy copies"),
    ("fois", "fois foi time"),
    ("versement", "versement paiement echeance mensualite instalment installment payment"),
)
ANYTHING: Final = frozenset(["unite", "piece", "element", "article", "item", "unit"])
"""Things that stand for any others."""
NAMED: Final = word_set("co2 h2o b2b b2c m2 m3 cm2 cm3 dm3 mp3 mp4 a4 a3 2d 3d h264 i18n")
"""Words with a digit that name nothing of a file."""

FRENCH: Final = word_set(
    "le la les des une est pour vous nous votre avec dans sur et du au je sont pas que qui"
    " ce cette montant devis facture acompte prix date_facture echeance taux"
)
ENGLISH: Final = word_set(
    "the of and is to for you your we our with in on be are this that will by not it an"
    " quote invoice amount deposit price due rate delivery"
)
