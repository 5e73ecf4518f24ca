"""System prompts: what is always in them, what has to fit, and which skills a message is about."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.errors import LoomError
from loom_ia.core.model.messages import Message
from loom_ia.graph.prompt import Identity, Skill, assemble_prompt, match_skills

DEPLOY = Skill("deploy", "Put the service into production", "Run the pipeline, then watch it.")
SEARCH = Skill("search", "Find documents about climate", "Query the index twice.")
COOK = Skill("cook", "Prepare recipes", "Boil water.")


def prompt_of(identity: Identity | str, message: Any = None, **options: Any) -> dict[str, Any]:
    """Assemble a prompt for a state that has `message`, if it is given."""
    state = {} if message is None else {"last_user_message": message}
    return assemble_prompt(identity, **options)(state)


def tokens(text: str) -> int:
    """Count tokens as the limit does."""
    return len(text.encode()) // 4 + 1


def test_pr01_core_and_index_are_always_there() -> None:
    """Whatever the message, the prompt says who the agent is and what it can do."""
    given = prompt_of(Identity("You are Ada."), "hello", skills=[DEPLOY, SEARCH])
    assert given["system_prompt"] == (
        "You are Ada.\n\n## Available Skills\n\n"
        "- **deploy**: Put the service into production\n"
        "- **search**: Find documents about climate"
    )
    assert given["active_skills"] == []


def test_parts_come_in_order() -> None:
    """Core, index, extended, profile and bodies are joined by a blank line, in this order."""
    given = prompt_of(
        Identity("CORE", "EXTENDED"),
        "please deploy the service",
        skills=[DEPLOY],
        profiles={"brief": "OVERLAY", "other": "OTHER"},
        profile="brief",
    )
    index = "## Available Skills\n\n- **deploy**: Put the service into production"
    expected = ["CORE", index, "EXTENDED", "OVERLAY", DEPLOY.body]
    assert given == {"system_prompt": "\n\n".join(expected), "active_skills": ["deploy"]}


def test_an_identity_may_be_a_text() -> None:
    """A plain text is the core; nothing is invented around it."""
    assert prompt_of("You are Ada.")["system_prompt"] == "You are Ada."
    assert prompt_of("")["system_prompt"] == ""


def test_a_bullet_stays_one_line() -> None:
    """A description of several lines, or none at all, gives one item of the list."""
    skills = [Skill("a", "first\n  second\n"), Skill("b")]
    assert prompt_of("x", skills=skills)["system_prompt"].endswith("- **a**: first second\n- **b**")


def test_pr03_an_irrelevant_message_brings_no_body() -> None:
    """The body of a skill that the message is not about stays out."""
    given = prompt_of("core", "what is the weather today", skills=[DEPLOY])
    assert DEPLOY.body not in given["system_prompt"]
    assert given["active_skills"] == []


@pytest.mark.parametrize("message", [None, "", "  ", 7])
def test_without_a_message_there_is_no_body(message: object) -> None:
    """What is not a text is not matched, and is no fault."""
    assert prompt_of("core", message, skills=[DEPLOY])["active_skills"] == []


def test_the_message_may_be_one_of_the_engine() -> None:
    """A message of the conversation is read as its text."""
    message = Message.text("user", "deploy the service")
    assert prompt_of("core", message, skills=[DEPLOY])["active_skills"] == ["deploy"]


def test_without_a_matcher_there_is_no_body() -> None:
    """Bodies can be turned off."""
    given = prompt_of("core", "deploy the service", skills=[DEPLOY], matcher=None)
    assert given["active_skills"] == []


def test_pr04_what_does_not_fit_is_left_out_whole() -> None:
    """A long extended identity is absent, and smaller parts that fit are still there."""
    identity = Identity("c" * 1000, "e" * 18_000)
    given = prompt_of(identity, max_tokens=500, profiles={"p": "small"}, profile="p")
    assert given["system_prompt"] == "c" * 1000 + "\n\nsmall"


@pytest.mark.parametrize(
    ("size", "limit", "fits"),
    [(40, 22, True), (40, 21, False), (43, 23, True), (43, 22, False)],
)
def test_a_part_fits_up_to_the_limit_exactly(size: int, limit: int, fits: bool) -> None:
    """Each part is counted, and the blank line between them too where it makes a difference."""
    identity = Identity("c" * size, "e" * size)
    assert ("e" in prompt_of(identity, max_tokens=limit)["system_prompt"]) is fits


def test_a_limit_of_zero_or_less_is_the_default_one() -> None:
    """Eight thousand tokens are allowed when no limit is given."""
    for limit in (0, -1, 8000):
        prompt = prompt_of(Identity("core", "e" * 31_000), max_tokens=limit)["system_prompt"]
        assert "eee" in prompt
        prompt = prompt_of(Identity("core", "e" * 33_000), max_tokens=limit)["system_prompt"]
        assert prompt == "core"


@given(
    st.lists(st.text(max_size=60), min_size=4, max_size=4),
    st.integers(min_value=20, max_value=60),
)
def test_the_optional_parts_never_go_over_the_limit(texts: list[str], limit: int) -> None:
    """The whole prompt, counted as the limit counts, stays under it while the core does."""
    core, extended, overlay, body = texts
    prompt = prompt_of(
        Identity(core[:10], extended),
        "alpha",
        skills=[Skill("alpha", body=body)],
        profiles={"p": overlay},
        profile="p",
        max_tokens=limit,
    )["system_prompt"]
    assert tokens(prompt) <= max(
        limit, tokens(core[:10] + "\n\n## Available Skills\n\n- **alpha**")
    )


def test_pr06_at_most_two_skills_are_active() -> None:
    """Of five skills that the message is about, two are given in full, in order."""
    skills = [Skill(f"deploy{n}", "deploy things", f"BODY{n}") for n in range(5)]
    given = prompt_of("core", "deploy things", skills=skills)
    assert given["active_skills"] == ["deploy0", "deploy1"]
    assert given["system_prompt"].endswith("BODY0\n\nBODY1")


def test_a_body_that_is_empty_or_too_long_leaves_its_place_to_the_next() -> None:
    """Only what is in the prompt counts among the active ones."""
    skills = [
        Skill("alpha1", "deploy"),
        Skill("alpha2", "deploy", "B" * 4000),
        Skill("alpha3", "deploy", "THIRD"),
    ]
    given = prompt_of("core", "deploy", skills=skills, max_tokens=200)
    assert given["active_skills"] == ["alpha3"]


def test_w85_a_body_is_cut_between_characters() -> None:
    """A body with accents is cut at a whole character, and says so."""
    skill = Skill("deploy", body="é" * 100)
    for limit in (1, 2, 3):
        given = prompt_of("core", "deploy", skills=[skill], max_skill_tokens=limit)
        assert given["system_prompt"].endswith(f"\n\n{'é' * 2 * limit}\n[truncated]")
    wide = Skill("deploy", body="a" + "€" * 100)
    given = prompt_of("core", "deploy", skills=[wide], max_skill_tokens=2)
    assert given["system_prompt"].endswith("\n\na€€\n[truncated]")


@pytest.mark.parametrize(
    ("limit", "body", "kept"),
    [
        (1, "abce\u0301" + "x" * 9, "abc"),  # an accent written apart
        (2, "ab\U0001f44d\U0001f3fd" + "x" * 9, "ab"),  # a tone of skin
        (2, "a\U0001f469\u200d\U0001f4bb" + "x" * 9, "a"),  # two drawn as one
        (2, "\u0301" * 20, "\u0301" * 4),  # nothing but accents
    ],
)
def test_a_body_is_not_cut_inside_what_is_drawn_as_one(limit: int, body: str, kept: str) -> None:
    """A letter and its accent stay together, or go together."""
    given = prompt_of("x", "deploy", skills=[Skill("deploy", body=body)], max_skill_tokens=limit)
    assert given["system_prompt"].endswith(f"\n\n{kept}\n[truncated]")


def test_a_body_that_fits_is_not_marked() -> None:
    """A body of exactly the limit is whole."""
    skill = Skill("deploy", body="é" * 4)
    given = prompt_of("core", "deploy", skills=[skill], max_skill_tokens=2)
    assert given["system_prompt"].endswith("\n\néééé")


def test_w86_core_and_index_over_the_limit_are_kept_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The prompt is whole, and the log has a warning without a word of it."""
    with caplog.at_level(logging.WARNING, logger="loom_ia.graph"):
        given = prompt_of(Identity("SECRET " * 100, "extended"), max_tokens=50)
    assert given["system_prompt"] == "SECRET " * 100
    assert [record.name for record in caplog.records] == ["loom_ia.graph"]
    assert "max_tokens=50" in caplog.text
    assert "SECRET" not in caplog.text


def test_w86_strict_fails_the_step() -> None:
    """In strict mode a prompt over the limit is an error that names both numbers."""
    step = assemble_prompt("c" * 400, max_tokens=50, strict=True)
    with pytest.raises(LoomError, match="about 101 tokens, and max_tokens is 50"):
        step({})


def test_strict_says_nothing_under_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    """A prompt that fits is given without a word, strict or not."""
    for strict in (True, False):
        assert prompt_of("core", strict=strict)["system_prompt"] == "core"
    assert caplog.records == []


def test_an_unknown_profile_is_refused_at_once() -> None:
    """A mistyped profile shows where the step is built, with those that exist."""
    with pytest.raises(ValueError, match=r"no profile 'short'; declared: 'brief', 'full'"):
        assemble_prompt("core", profiles={"brief": "", "full": ""}, profile="short")


def test_w87_two_skills_of_one_name_are_refused() -> None:
    """Skills are told apart by name, so each has one and only one."""
    with pytest.raises(ValueError, match="2 skills are named 'deploy'"):
        assemble_prompt("core", skills=[DEPLOY, COOK, DEPLOY])
    with pytest.raises(ValueError, match="has no name"):
        assemble_prompt("core", skills=[Skill(" ")])


def test_pr07_the_skill_of_the_message_is_found() -> None:
    """The skill that shares words with the message comes first."""
    assert match_skills([DEPLOY, SEARCH], "please search for climate data")[0] is SEARCH


def test_pr09_the_best_score_comes_first() -> None:
    """A skill more of whose words are in the message goes before."""
    half = Skill("half", "climate gardening")
    most = Skill("most", "climate data")
    assert match_skills([half, most], "most climate data") == [most, half]


def test_pr10_short_words_count_for_nothing() -> None:
    """Words of up to three bytes match nothing; three accents are longer than that."""
    assert match_skills([Skill("a", "is it on or off")], "is it on or off") == []
    assert match_skills([Skill("été")], "cet été-là, un été") != []


def test_w91_ties_keep_the_order_of_declaration() -> None:
    """Equal scores never change places, in whatever order the skills are declared."""
    skills = [Skill(f"name{n}", "climate") for n in range(20)]
    assert match_skills(skills, "climate") == skills
    assert match_skills(skills[::-1], "climate") == skills[::-1]


def test_case_punctuation_and_the_form_of_accents_do_not_matter() -> None:
    """A word is found however it is written."""
    assert match_skills([Skill("Résumé", "(Documents).")], "«RE\u0301SUME\u0301», documents!")


def test_a_matcher_of_ones_own_decides() -> None:
    """The matcher is given the skills and the message, and its order counts."""
    given = prompt_of(
        "core",
        "anything",
        skills=[DEPLOY, SEARCH, COOK],
        matcher=lambda skills, message: [skills[2], skills[2], skills[0]],
    )
    assert given["active_skills"] == ["cook", "deploy"]
