"""What sources hold, what is missing, and where."""

import json
from decimal import Decimal
from typing import get_args

import pytest

from loom_ia.policies.grounded import ALL, HELD_BY, Kind, Sources, claims, missing


def _passes(text: object, *held: object) -> bool:
    texts = [one for one in held if isinstance(one, str)]
    values = [one for one in held if not isinstance(one, str)]
    return not missing(text, Sources.of(texts=texts, values=values))


SAID = {
    "amount": "Soit 10 €",
    "percentage": "Soit 10 %",
    "quantity": "Soit 10 jours",
    "count": "Soit 10 tuiles",
    "number": "Soit 10.",
}


@pytest.mark.parametrize("claimed", SAID)
@pytest.mark.parametrize("held", SAID)
def test_the_matrix_decides(claimed: str, held: str) -> None:
    """A claim of one form is held by a fact of another exactly when the table says so."""
    assert _passes(SAID[claimed], SAID[held]) == (held in HELD_BY[claimed])


def test_a_date_is_held_by_a_date_alone() -> None:
    """Neither a number, a reference nor an amount holds a date, and a date holds none of them."""
    assert not _passes("le 12 mars", [12, 3], "12 €", "D-12-03")
    assert not _passes("12 €", "12 mars 2026")
    assert not _passes("D-2026-03-12", "2026-03-12")


def test_a_date_is_held_by_one_that_says_more() -> None:
    """A year may be left out of a text, and not be added to it."""
    assert _passes("12 mars", "2026-03-12")
    assert _passes("jeudi 12 mars", "2026-03-12")
    assert not _passes("12 mars 2026", "12 mars")
    assert not _passes("vendredi 12 mars", "2026-03-12")


@pytest.mark.parametrize(
    ("name", "number", "good", "bad"),
    [
        ("taux_tva", 10, "10 %", "10 €"),
        ("tauxTVA", 0.2, "20 %", "0,20 €"),
        ("taux_horaire", 55, "55 €", "5500 %"),
        ("delai_jours", 15, "15 jours", "15 €"),
        ("montant_eur", 1840, "1 840 €", "$1,840"),
        ("price", 18.4, "18,40 €", "18,40 %"),
        ("total_cents", 184000, "1 840 €", "184 000 €"),
        ("quantity", 3, "3 radiateurs", "3 €"),
        ("id", 42, "devis n° 42", "42 €"),
        ("surface_m2", 45, "45 m²", "45 €"),
        ("x", 10, "10 %", "11 %"),
    ],
)
def test_a_name_says_what_its_number_is(name: str, number: float, good: str, bad: str) -> None:
    """The name of a number of JSON decides what it holds."""
    assert _passes(good, {name: number})
    assert not _passes(bad, {name: number})


def test_an_object_states_the_currency_of_its_numbers() -> None:
    """The currency of an object is that of all its numbers, however deep."""
    held = {"currency": "USD", "lines": [{"x": 1840}]}
    assert _passes("$1,840", held)
    assert not _passes("1 840 €", held)


def test_texts_that_are_json_are_read_as_values() -> None:
    """The result of a tool is read the same as a text and as a value."""
    value = {"taux": 10, "lignes": [{"montant": 1250.0}], "ref": "D-2026-042"}
    for held in (value, json.dumps(value)):
        assert _passes("1 250 €, 10 %, devis 042", held)
        assert not _passes("10 €", held)


def test_numbers_of_every_type_are_exact() -> None:
    """A float is the number that it is written as; there is no tolerance."""
    assert _passes("18,40 €", [18.4])
    assert _passes("18,40 €", [Decimal("18.40")])
    assert not _passes("18,41 €", [18.4])
    assert not _passes("1 €", [True])


def test_keys_hold_what_they_say() -> None:
    """A key is a text of the sources too."""
    assert _passes("le 12 mars", {"2026-03-12": "libre"})
    assert _passes("30 jours", {"penalite_30_jours": True})


def test_arguments_are_checked_at_their_path() -> None:
    """Missing values of a call say which argument claims them."""
    sources = Sources.of(texts=["devis D-2026-042 de 1 840 €"])
    call = {"montant": 1480, "corps": "Bonjour,\nsoit 1 840 €\net 12 %", "lignes": [{"taux": 5}]}
    found = missing(call, sources)
    assert [(one.path, one.kind, one.text) for one in found] == [
        ("$.montant", "amount", "1480"),
        ("$.corps", "percentage", "12 %"),
        ("$.lignes[0].taux", "percentage", "5"),
    ]
    assert (found[1].line, found[1].column) == (3, 4)
    assert str(found[0]) == "amount '1480' at $.montant"


def test_a_place_is_a_line_and_a_column() -> None:
    """Places count from 1, in the text as it was given."""
    (found,) = missing("Bonjour,\n\nsoit 1\u00a0480\u00a0€.", Sources())
    assert (found.line, found.column, found.place) == (3, 6, "3:6")
    assert found.text == "1 480 €"


def test_only_the_kinds_that_are_asked_for_are_looked_at() -> None:
    """`kinds` leaves the others alone."""
    text = "12 € le 12 mars à a@b.fr"
    assert set(get_args(Kind)) == ALL
    assert [one.kind for one in missing(text, Sources(), kinds={"email"})] == ["email"]
    assert [one.kind for one in missing(text, Sources())] == ["amount", "date", "email"]


def test_what_is_allowed_always_passes() -> None:
    """The texts of `allow` hold what they say, and stand for themselves."""
    assert missing("ouvert 24/7", Sources())
    assert not missing("ouvert 24/7, au 06 12 34 56 78", Sources(), allow=["24/7", "0612345678"])


def test_joined_sources_hold_what_either_does() -> None:
    """`a | b` holds the facts of both, and changes neither."""
    one, two = Sources.of(texts=["12 €"]), Sources.of(values=[{"taux": 5}])
    assert not missing("12 € et 5 %", one | two)
    assert missing("5 %", one)
    assert missing("12 €", two)


def test_nothing_holds_what_cannot_be_read() -> None:
    """A writing without a reading is missing even when the sources have the same."""
    (claim,) = claims("184O €")
    assert claim.value == ()
    (found,) = missing("184O €", Sources.of(texts=["184O €", "1840 €"]))
    assert not found.readable


def test_a_named_text_that_cannot_be_read_is_missing() -> None:
    """A text under a name is read by it, and refused when it has no reading."""
    assert not _passes({"taux": "1\u00b7840"}, {"taux": 1840})
    assert not _passes({"taux": "\u4e94"}, {"taux": 5})


def test_values_out_of_measure_do_no_harm() -> None:
    """Numbers of thousands of digits, powers out of reach and deep values are read as any other."""
    deep: object = 7
    for _ in range(5000):
        deep = [deep]
    held = Sources.of(values=[10**4000, 1e308, float("inf"), deep], texts=['{"a": 1e999999999}'])
    assert not missing("7", held)
    assert missing({"a": 10**4000 + 1}, held)
