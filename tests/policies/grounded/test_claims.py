"""What a text claims: the kind, the value and the place of each claim."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.policies.grounded import Sources, claims, missing
from loom_ia.policies.grounded.values import (
    Amount,
    Count,
    Day,
    Email,
    Iban,
    Percentage,
    Phone,
    Quantity,
    Reference,
    Relative,
    Time,
    Value,
)


def _day(day: int | None = None, month: int | None = None, year: int | None = None) -> Day:
    return Day(year, month, day)


READ: list[tuple[str, str, Value]] = [
    ("1,84 k€", "amount", Amount(Decimal(1840), "EUR")),
    ("£2m", "amount", Amount(Decimal(2000000), "GBP")),
    ("2,5 millions d'euros", "amount", Amount(Decimal(2500000), "EUR")),
    ("un million et demi d'euros", "amount", Amount(Decimal(1500000), "EUR")),
    ("-50 €", "amount", Amount(Decimal(-50), "EUR")),
    ("50 pence", "amount", Amount(Decimal("0.5"), "GBP")),
    ("1 840 HT", "amount", Amount(Decimal(1840))),
    ("CHF 1'840.-", "amount", Amount(Decimal(1840), "CHF")),
    ("5,5 %", "percentage", Percentage(Decimal("5.5"))),
    ("un pour cent", "percentage", Percentage(Decimal(1))),
    ("8 ‰", "percentage", Percentage(Decimal("0.8"))),
    ("12 mars", "date", _day(12, 3)),
    ("12th of March", "date", _day(12, 3)),
    ("the first of April 2026", "date", _day(1, 4, 2026)),
    ("le douze mars deux mille vingt-six", "date", _day(12, 3, 2026)),
    ("03/2026", "date", _day(None, 3, 2026)),
    ("mercredi", "date", Day(weekday=2)),
    ("mardi 3 mars", "date", Day(None, 3, 3, 1)),
    ("2:30 p.m.", "date", Time(14, 30)),
    ("après-demain", "date", Relative("in two days")),
    ("une demi-heure", "number", Quantity(Decimal(30), "minute")),
    ("trois quarts d'heure", "number", Quantity(Decimal(45), "minute")),
    ("an hour and a half", "number", Quantity(Decimal(90), "minute")),
    ("15 (quinze) jours", "number", Quantity(Decimal(15), "day")),
    ("30e jour", "number", Quantity(Decimal(30), "day")),
    ("soixante et onze m²", "number", Quantity(Decimal(71), "m2")),
    ("two dozen tiles", "number", Count(Decimal(24), frozenset({"tile"}))),
    ("fac2026/118", "reference", Reference("FAC2026-118")),
    ("n° 042", "reference", Reference("042", cued=True)),
    ("Jean@Exemple.FR", "email", Email("jean@exemple.fr")),
    ("0033 6 12 34 56 78", "phone", Phone("+33612345678")),
    ("be68 5390 0754 7034", "iban", Iban("BE68539007547034")),
]


@pytest.mark.parametrize(("text", "kind", "value"), READ, ids=[row[0] for row in READ])
def test_a_writing_is_one_claim_of_its_value(text: str, kind: str, value: Value) -> None:
    """Each writing gives one claim, of the right kind and with the right value."""
    (claim,) = claims(text)
    assert (claim.kind, value in claim.value) == (kind, True), claim


@pytest.mark.parametrize(
    "text",
    [
        "la 2e relance",
        "1. Devis\n2. Facture",
        "Voici : 1) le devis, 2) la facture",
        "un devis et une facture",
        "CO2",
        "un appareil neuf, remis à neuf",
        "votre compte en euros",
        "Mille mercis",
        "mise à jour",
        "https://exemple.fr/devis",
    ],
)
def test_what_is_no_claim(text: str) -> None:
    """Markers of lists, ranks, articles and figures of speech claim nothing."""
    assert claims(text) == ()


def test_the_markers_of_a_list_begin_at_one_and_follow() -> None:
    """A number at the start of a line is a claim when the list does not lead to it."""
    assert [one.text for one in claims("Le total est de\n50. Merci")] == ["50"]
    assert [one.text for one in claims("1. Devis\n3. Facture")] == ["3"]


def test_a_range_is_two_claims_of_the_same_unit() -> None:
    """Both ends of a range have the unit that is said once."""
    for text in ("100 à 200 €", "100-200 €", "€100 to 200", "entre 100 et 200 €"):
        assert [one.value for one in claims(text)] == [
            (Amount(Decimal(100), "EUR"),),
            (Amount(Decimal(200), "EUR"),),
        ], text


def test_a_number_may_have_two_readings() -> None:
    """`1.840` is 1840 or 1.84; before a currency it is 1840."""
    (bare,) = claims("1.840 kg")
    assert {one.number for one in bare.value if isinstance(one, Quantity)} == {
        Decimal(1840),
        Decimal("1.840"),
    }
    (price,) = claims("1.840 €")
    assert price.value == (Amount(Decimal(1840), "EUR"),)


def test_a_date_has_the_day_first_in_a_french_text() -> None:
    """A text that is not French may have the month first."""
    (french,) = claims("Votre rendez-vous est le 03/12/2026.")
    assert french.value == (_day(3, 12, 2026),)
    (english,) = claims("The date is 03/12/2026.")
    assert set(english.value) == {_day(3, 12, 2026), _day(12, 3, 2026)}


SPOKEN = (
    "1 12 31 840 042 2026 1.840 0,5 1/2 12/03 03/12/2026 30 février February thirtieth first mars"
    " March € k€ $ % EUR euros cents cent mille deux et and demi half heure heures hours jours an a"
    " la le un une moitié quarts tiers of de d' n° devis - ( ) , . ; : ' | à to lundi next week ½"
    " l84O x @ a@b.fr +33 06 FR76 <b> &nbsp; ** h 14h30 pm point \u200b \u202e \u4e94"
)
PIECES = st.sampled_from([*SPOKEN.split(" "), "\u00a0"])


@given(pieces=st.lists(PIECES, max_size=14), glue=st.sampled_from(["", " ", "\n"]))
def test_any_mixture_of_what_is_read_is_read(pieces: list[str], glue: str) -> None:
    """Whatever is put together, claims stand in order at their places, and no error is raised."""
    text = glue.join(pieces)
    end = 0
    for claim in claims(text):
        assert end <= claim.start < claim.end <= len(text)
        assert claim.text == text[claim.start : claim.end]
        end = claim.end
    assert [one for one in missing(text, Sources()) if one.path] == []
    Sources.of(texts=[text], values=[{text: text}])
