"""Laws of the matcher for any amount, any date and any text."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.policies.grounded import Sources, claims, missing
from loom_ia.policies.grounded.values import Amount, Day

FR = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
EN = "January February March April May June July August September October November December"
MONTHS_FR, MONTHS_EN = FR.split(), EN.split()
SILENT = (
    "bonjour merci pour votre confiance le chantier avance bien nous reviendrons vers vous the work"
    " goes well thank you cordialement chaudière fuite toiture devis facture please find attached"
    " un une a"
)


def _grouped(number: Decimal, space: str, point: str) -> str:
    return f"{number:,.2f}".replace(",", "\0").replace(".", point).replace("\0", space)


AMOUNTS = {
    "spaces": lambda n: f"{_grouped(n, ' ', ',')} €",
    "no-break spaces": lambda n: f"{_grouped(n, chr(0xA0), ',')}\u00a0€",
    "narrow spaces": lambda n: f"{_grouped(n, chr(0x202F), ',')}\u202f€",
    "thin spaces": lambda n: f"{_grouped(n, chr(0x2009), ',')} €",
    "dots": lambda n: f"{_grouped(n, '.', ',')} €",
    "commas": lambda n: f"€{_grouped(n, ',', '.')}",
    "apostrophes": lambda n: f"{_grouped(n, chr(39), '.')} EUR",
    "plain": lambda n: f"{n:.2f} euros TTC",
    "code first": lambda n: f"EUR {n:.2f}",
    "bold": lambda n: f"**{_grouped(n, ' ', ',')}** €",
    "entities": lambda n: f"{_grouped(n, '&nbsp;', ',')}&nbsp;&euro;",
    "zero width": lambda n: "\u200b".join(_grouped(n, " ", ",")) + " €",
    "full width": lambda n: (
        _grouped(n, " ", ",").translate({48 + i: 0xFF10 + i for i in range(10)}) + " €"
    ),
    "arabic": lambda n: (
        _grouped(n, " ", ",").translate({48 + i: 0x0660 + i for i in range(10)}) + " €"
    ),
}
DATES = {
    "iso": lambda d: d.isoformat(),
    "slashes": lambda d: f"{d:%d/%m/%Y}",
    "dots": lambda d: f"{d:%d.%m.%Y}",
    "french": lambda d: f"{d.day} {MONTHS_FR[d.month - 1]} {d.year}",
    "english": lambda d: f"{MONTHS_EN[d.month - 1]} {d.day}, {d.year}",
    "ordinal": lambda d: f"{d.day}th of {MONTHS_EN[d.month - 1]} {d.year}",
    "day first": lambda d: f"{d.day} {MONTHS_EN[d.month - 1]} {d.year}",
}


@pytest.mark.parametrize("form", AMOUNTS)
@given(cents=st.integers(min_value=0, max_value=10**12))
def test_any_amount_is_found_with_its_value(form: str, cents: int) -> None:
    """An amount is one claim of the right value in every writing."""
    number = Decimal(cents) / 100
    text = f"Le total est de {AMOUNTS[form](number)}."
    (claim,) = claims(text)
    assert claim.kind == "amount"
    assert claim.value == (Amount(number, "EUR"),)
    assert text[claim.start : claim.end] == claim.text


@pytest.mark.parametrize("form", AMOUNTS)
@given(
    cents=st.integers(min_value=1, max_value=10**9), more=st.integers(min_value=1, max_value=10**9)
)
def test_no_other_amount_passes_for_it(form: str, cents: int, more: int) -> None:
    """An amount is held by itself, as a number or in any writing, and by no other."""
    number, other = Decimal(cents) / 100, Decimal(cents + more) / 100
    text = f"Soit {AMOUNTS[form](number)}"
    assert missing(text, Sources.of(values=[{"montant": float(other)}]))
    assert not missing(text, Sources.of(values=[{"montant": float(number)}]))
    assert not missing(text, Sources.of(texts=[f"{number} EUR"]))


@pytest.mark.parametrize("form", DATES)
@given(day=st.dates(min_value=date(1970, 1, 1), max_value=date(2099, 12, 31)))
def test_any_date_is_found_with_its_value(form: str, day: date) -> None:
    """A date is one claim of the right day in every writing, and the next day is another."""
    text = f"Le rendez-vous est fixé pour vous au {DATES[form](day)}."
    (claim,) = claims(text)
    assert claim.kind == "date"
    assert Day(day.year, day.month, day.day) in claim.value
    assert not missing(text, Sources.of(values=[{"date": day.isoformat()}]))
    other = day + timedelta(days=1)
    assert missing(text, Sources.of(values=[{"date": other.isoformat()}]))


WORDS = st.sampled_from(SILENT.split())


@given(words=st.lists(WORDS, max_size=60), mark=st.sampled_from([" ", "\n", ", ", ". "]))
def test_a_text_without_a_number_claims_nothing(words: list[str], mark: str) -> None:
    """Words that are no number, no date and no address claim nothing."""
    assert claims(mark.join(words)) == ()


@given(text=st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    """Claims of any text are in order, do not overlap, and say where they stand."""
    end = 0
    for claim in claims(text):
        assert end <= claim.start < claim.end <= len(text)
        assert claim.text == text[claim.start : claim.end]
        end = claim.end


@given(text=st.text(alphabet="0123456789 .,-/€%kM'àaetn°\n", max_size=80))
def test_a_text_holds_itself_unless_it_cannot_be_read(text: str) -> None:
    """What a text says is held by the text itself, save what no reading was found for."""
    found = missing(text, Sources.of(texts=[text]))
    assert [str(one) for one in found if one.readable] == []


@given(text=st.text(alphabet="0123456789 .,:;'·|_*€-", min_size=1, max_size=40))
def test_every_digit_is_claimed(text: str) -> None:
    """No digit is let through, except as the marker of a list."""
    covered = {at for claim in claims(text) for at in range(claim.start, claim.end)}
    loose = [at for at, char in enumerate(text) if char.isdigit() and at not in covered]
    assert [text[at] for at in loose if not _marks(text, at)] == []


def _marks(text: str, at: int) -> bool:
    """Whether the digit at `at` is, or is a part of, what may number an item: `1.`, `(2)`."""
    end = at
    while text[end : end + 1].isdigit():
        end += 1
    after = "".join(char for char in text[end:] if char not in "*`_|")
    return after[:1] in {".", ")", "°"} and int(text[at:end]) <= 99
