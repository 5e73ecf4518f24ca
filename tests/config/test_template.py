"""Prompts with variables."""
# ruff: noqa: E501 (an exact message reads best on one line)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.errors import ConfigError
from loom_ia.core.template import Template

CONTEXT = {
    "nom": "Mme Martin",
    "client": {"ville": "Lyon", "code-postal": "69001"},
    "lignes": [{"prix": 12.5}, {"prix": 3}],
    "piege": "{{ secrets.X }}",
    "rien": None,
    "vrai": True,
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Bonjour {{ nom }} !", "Bonjour Mme Martin !"),
        ("{{nom}}", "Mme Martin"),
        ("{{ client.ville }} {{ client.code-postal }}", "Lyon 69001"),
        ("{{ lignes.0.prix }}", "12.5"),
        ("{{ client }}", '{"ville": "Lyon", "code-postal": "69001"}'),
        ("{{ rien }}{{ vrai }}", "nulltrue"),
        ("[{{ absent }}]", "[]"),
        ("[{{ lignes.7.prix }}{{ lignes.x }}{{ nom.0 }}{{ nom.upper }}]", "[]"),
        (f"[{{{{ lignes.{'9' * 5000} }}}}]", "[]"),
    ],
)
def test_a_variable_is_replaced_by_its_value(source: str, text: str) -> None:
    """Strings as they are, other values as JSON, and nothing for what is missing."""
    assert Template.parse(source).render(CONTEXT) == text


def test_pub_27_braces_that_are_no_variable_stay_as_they_are() -> None:
    """JSON, format strings, shell expressions, Jinja tags and escaped braces are plain text."""
    source = '{"a": {"b": 1}} {x} ${expr} {% if x %} }} \\{{ nom }} \\\\{{ nom }}'
    expected = '{"a": {"b": 1}} {x} ${expr} {% if x %} }} {{ nom }} \\Mme Martin'
    template = Template.parse(source)
    assert template.render(CONTEXT) == expected
    assert [variable.name for variable in template.variables] == ["nom"]


def test_pub_27_a_value_is_never_expanded() -> None:
    """There is no second pass: a value that looks like a variable stays a text."""
    assert Template.parse("<{{ piege }}>").render(CONTEXT) == "<{{ secrets.X }}>"


def test_variables_know_their_place() -> None:
    """Lines and columns count from one."""
    variables = Template.parse("a {{ b }}\n{{ c.d }}{{ b }}").variables
    places = [(v.name, v.line, v.column) for v in variables]
    assert places == [("b", 1, 3), ("c.d", 2, 1), ("b", 2, 10)]


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        (
            "a\n b {{ c",
            ["p.md:2: column 4: {{ is not closed on its line (write \\{{ for a literal one)"],
        ),
        (
            "{{ a\n}}",
            ["p.md:1: column 1: {{ is not closed on its line (write \\{{ for a literal one)"],
        ),
        (
            "{{ a b }} {{}}",
            [
                "p.md:1: column 1: {{ a b }} is not a variable: only a dotted name may stand there (write \\{{ for a literal {{)",
                "p.md:1: column 11: {{}} is not a variable: only a dotted name may stand there (write \\{{ for a literal {{)",
            ],
        ),
    ],
)
def test_a_fault_is_refused_with_its_place(source: str, problems: list[str]) -> None:
    """Every fault of a text is listed, with the way out."""
    with pytest.raises(ConfigError) as caught:
        Template.parse(source, "p.md")
    assert str(caught.value).splitlines() == problems


@pytest.mark.parametrize(
    "text", ["a..b", ".a", "a.", "1a", "a|upper", "a()", "'a'", "a[0]", "{ a }"]
)
def test_only_dotted_names_are_variables(text: str) -> None:
    """Logic, calls and filters are faults, not text."""
    with pytest.raises(ConfigError):
        Template.parse("{{ " + text + " }}")


@given(st.text())
def test_a_text_without_double_braces_is_its_own_rendering(text: str) -> None:
    """What has no variable comes out unchanged."""
    plain = text.replace("{{", "{")
    while "{{" in plain:
        plain = plain.replace("{{", "{")
    assert Template.parse(plain).render({}) == plain


@given(st.text(), st.text())
def test_a_value_comes_out_unchanged(before: str, value: str) -> None:
    """Whatever a value holds, it is put as it is."""
    plain = "".join(character for character in before if character not in "{\\")
    assert Template.parse(plain + "{{ x }}").render({"x": value}) == plain + value
