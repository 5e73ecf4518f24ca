"""Strict YAML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.config.document import MAX_ALIASED, MAX_BYTES, read_document


def said(text: str | bytes) -> list[str]:
    """Give the problems of a file that holds `text`."""
    data = text if isinstance(text, bytes) else text.encode()
    return [str(problem) for problem in read_document(data, "f.yaml").problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("oui", "oui"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("", None),
        ("~", None),
        ("2026-01-31", "2026-01-31"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("012", 12),
        ("-12", -12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!int '1'", 1),
        ("1.2.3", "1.2.3"),
        ("=", "="),
    ],
)
def test_a_plain_value_means_what_yaml_1_2_says(text: str, value: object) -> None:
    """Only true, false, null and numbers are not text."""
    document = read_document(f"k: {text}".encode(), "f.yaml")
    assert document.problems == ()
    assert document.value == {"k": value}
    assert type(document.value["k"]) is type(value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff"])
def test_an_empty_file_is_an_empty_mapping(text: str) -> None:
    """A file with nothing in it says nothing, which is no fault."""
    document = read_document(text.encode(), "f.yaml")
    assert (document.value, document.problems, document.is_read) == ({}, (), True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml:4: the key c is written twice, first at line 3"),
        ("a: 1\n'a': 2\n", "f.yaml:2: the key a is written twice, first at line 1"),
        (
            "x: &x {a: 1}\ny:\n  <<: *x\n  <<: *x\n",
            "f.yaml:4: the key << is written twice, first at line 3",
        ),
        ("a: 1\n2: 3\n", "f.yaml:2: a key must be a text, not 2 (put it in quotes)"),
        ("true: 3\n", "f.yaml:1: a key must be a text, not true (put it in quotes)"),
        ("? [a]\n: 3\n", "f.yaml:1: a key must be a text, not a list or a mapping"),
        ("a: &x {b: *x}\n", "f.yaml:1: the alias *x contains itself"),
        ("a: *x\n", "f.yaml:1: the alias *x names nothing above it"),
        ("a:\n\tb: 1\n", "f.yaml:2: a tab stands here: indent with spaces"),
        ("é: 1\na:\n  b: 1\n\tc: 2\n", "f.yaml:4: a tab stands here: indent with spaces"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: a second document starts here; only one is read"),
        ("- a\n", "f.yaml:1: the file must be a mapping: one key: value on each line"),
        (
            "a: !!python/object/apply:os.system ['id']\n",
            "f.yaml:1: the tag !!python/object/apply:os.system is not supported",
        ),
        ("a: !mine x\n", "f.yaml:1: the tag !mine is not supported"),
        ("a: !!set {x}\n", "f.yaml:1: the tag !!set is not supported"),
        ("a: !!int x\n", "f.yaml:1: x is not of the tag !!int"),
        ("a: .nan\n", "f.yaml:1: .nan is not a number that JSON can hold"),
        ("a: -.inf\n", "f.yaml:1: -.inf is not a number that JSON can hold"),
        ("a: 1e999\n", "f.yaml:1: 1e999 is not a number that JSON can hold"),
        ("a: 1\n<<: 3\n", "f.yaml:2: << merges a mapping or a list of mappings"),
        ("a: 1\nb: \x07\n", "f.yaml:2: the control character U+0007 may not stand in a file"),
        (b"a: 1\nb: \xe9\n", "f.yaml:2: the text is not in UTF-8; save the file in UTF-8"),
        ("a: " + "[" * 70 + "]" * 70, "f.yaml:1: values are nested deeper than 64"),
        (
            b"a: " + b"x" * MAX_BYTES,
            "f.yaml:1: the file has 5000003 bytes; 5000000 are read at most",
        ),
    ],
)
def test_what_would_surprise_is_refused_with_its_line(text: str | bytes, problem: str) -> None:
    """Each trap of YAML is named where it stands."""
    assert said(text) == [problem]


def test_a_syntax_error_has_its_line() -> None:
    """What the parser says is kept, with the place."""
    (problem,) = said("a: 1\nb: [1, 2\nc: 3\n")
    assert problem.startswith("f.yaml:3: this is not valid YAML: while parsing a flow sequence: ")


def test_every_duplicate_is_reported() -> None:
    """One fault does not hide the next."""
    assert len(said("a: 1\na: 2\nb: {c: 1, c: 2}\n!x : 1\n")) == 3


def test_merge_keys_keep_what_is_written_beside_them() -> None:
    """The first mapping wins over the second, and the mapping's own keys over both."""
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  a: 3\n'<<': 4\n"
    document = read_document(text.encode(), "f.yaml")
    assert document.problems == ()
    assert document.value["z"] == {"a": 3, "b": 1, "c": 2}
    assert document.value["<<"] == 4


def test_aliases_may_be_used_but_not_to_explode() -> None:
    """The size that aliases stand for is bounded before anything is built."""
    assert read_document(b"a: &a [1, 2]\nb: *a\n", "f").value == {"a": [1, 2], "b": [1, 2]}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = said("\n".join(lines))
    assert problem.endswith(f"aliases stand for more than {MAX_ALIASED} values")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("b",), 2),
        (("b", 1), 4),
        (("b", 1, "d"), 5),
        (("b", 1, "absent"), 4),
        (("e", "f"), 8),
        (("absent",), 1),
    ],
)
def test_a_path_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    """The line is the key's, or that of the nearest part that is there."""
    document = read_document(b"a: 1\nb:\n  - c: 1\n  - c: 2\n    d: 3\n\ne:\n  f: 1\n", "f.yaml")
    assert document.line(path) == line


@given(st.text() | st.binary())
def test_no_file_raises(content: str | bytes) -> None:
    """Whatever a file holds, reading it gives a document or problems."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    document = read_document(data, "f.yaml")
    assert document.problems or document.is_read


def test_the_parser_in_python_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML without its C part reads the same values and lines."""
    text = b"a: &x 'q'\nb: no\nc: |\n  e\n  z\nd: [1, *x]\n"
    fast = read_document(text, "f.yaml")
    monkeypatch.delattr("yaml.CSafeLoader")
    assert read_document(text, "f.yaml") == fast
    assert said('a: "\\ud800"\n') == ["f.yaml:1: half of a surrogate pair is no character"]
