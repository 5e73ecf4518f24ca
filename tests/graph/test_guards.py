"""Steps that refuse or ask: what passes, what is written, and that an answer serves once."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from loom_ia.graph.context import StepContext
from loom_ia.graph.guards import ask_human, guard
from loom_ia.graph.types import DELETE, Ask, Refused, Sentinel


@dataclass
class Answered:
    """A context of which only the answer matters."""

    answer: Any = None

    @property
    def answered(self) -> bool:
        return self.answer is not None


def answered(answer: Any) -> StepContext:
    """Give a context whose question was answered so; None is one that nobody answered."""
    return cast("StepContext", Answered(answer))


def passes(state: Mapping[str, Any]) -> str | None:
    """Pass, whatever the state."""
    return None


async def refuses(state: Mapping[str, Any]) -> str | None:
    """Refuse, naming the input."""
    return f"no {state['input']}"


def merged(state: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a delta without any merge policy."""
    after = {**state, **delta}
    return {key: value for key, value in after.items() if value is not DELETE}


async def refusal_of(*checks: Any, into: str | None = "blocked") -> Refused:
    """Run a guard that must refuse, and give what it raised."""
    with pytest.raises(Refused) as caught:
        await guard(*checks, into=into)({"input": "entry"})
    return caught.value


async def test_sb04_checks_that_pass_let_the_run_go_on() -> None:
    """Two checks that pass write nothing."""

    async def also_passes(state: Mapping[str, Any]) -> str | None:
        return None

    assert await guard(passes, also_passes)({"input": "hello"}) == {}


async def test_sb05_a_text_refuses_and_is_written() -> None:
    """A refusal carries its reason, and the delta that shows it in the state."""
    refused = await refusal_of(passes, refuses)
    assert (refused.reason, refused.update) == ("no entry", {"blocked": "no entry"})


async def test_sb06_no_check_passes() -> None:
    """A guard without checks lets everything through."""
    assert await guard()({}) == {}


async def test_an_earlier_refusal_is_removed_once_all_pass() -> None:
    """The key of a refusal does not outlive it."""
    state = {"blocked": "no entry"}
    assert merged(state, await guard(passes)(state)) == {}


async def test_the_checks_after_a_refusal_are_not_asked() -> None:
    """The first refusal ends the step."""
    asked: list[str] = []

    def later(state: Mapping[str, Any]) -> None:
        asked.append("later")

    await refusal_of(refuses, later)
    assert asked == []


async def test_an_exception_refuses_with_its_text() -> None:
    """A check that fails lets nothing through."""

    def broken(state: Mapping[str, Any]) -> None:
        raise RuntimeError("the filter is down")

    refused = await refusal_of(broken)
    assert refused.reason == "the filter is down"
    assert refused.update == {"blocked": "the filter is down"}


async def test_an_exception_without_a_text_refuses_with_its_name() -> None:
    """A refusal always says something."""

    def broken(state: Mapping[str, Any]) -> None:
        raise TimeoutError

    assert (await refusal_of(broken)).reason == "TimeoutError"


async def test_a_refusal_of_a_check_keeps_what_it_writes() -> None:
    """A check may refuse by itself, with a delta of its own."""

    def thorough(state: Mapping[str, Any]) -> None:
        raise Refused("injection", update={"score": 0.9})

    assert (await refusal_of(thorough)).update == {"score": 0.9, "blocked": "injection"}


async def test_into_none_writes_nothing() -> None:
    """Without a key, a refusal leaves the state alone."""
    assert (await refusal_of(refuses, into=None)).update is None
    assert await guard(passes, into=None)({"blocked": "by another"}) == {}


@pytest.mark.parametrize("given", [True, False, 0, ["bad"]])
async def test_what_is_neither_none_nor_a_text_refuses(given: object) -> None:
    """A check that answers like a predicate is not taken for a pass."""

    def predicate(state: Mapping[str, Any]) -> Any:
        return given

    assert "must give None to pass" in (await refusal_of(predicate)).reason


async def test_cancelling_a_check_is_no_refusal() -> None:
    """A task that is cancelled inside a check is cancelled."""

    async def waits(state: Mapping[str, Any]) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await guard(waits)({})


def test_a_check_must_be_a_function() -> None:
    """A mistake in the checks shows where the guard is built."""
    with pytest.raises(ValueError, match="function of the state"):
        guard(cast("Any", "no_injection"))


@pytest.mark.parametrize("into", ["", "__blocked"])
def test_into_must_be_a_key_of_the_state(into: str) -> None:
    """A key that the state refuses is refused where the guard is built."""
    with pytest.raises(ValueError, match="key of the state"):
        guard(into=into)


async def test_sb07_without_a_response_it_asks() -> None:
    """Without an answer the step pauses in its middle, and says what it asks and until when."""
    step = ask_human("Send it?", response="reply", into="approved", schema=bool, expires_in=60)
    asked = await step({"draft": "…"}, answered(None))
    assert asked == Ask("Send it?", schema=bool, phase="mid", key="reply", expires_in=60)


async def test_a_response_in_the_state_passes_and_is_consumed() -> None:
    """An answer in the state is moved to its place, even when it says no or nothing."""
    step = ask_human(response="reply", into="approved")
    for value in ("yes", False, None, {"ok": 1}):
        state = {"reply": value}
        assert merged(state, await step(state)) == {"approved": value}


async def test_a_response_in_the_state_goes_before_the_mapping_that_brought_it() -> None:
    """Resumed in the style of Go, the value is what stands under the response's key."""
    step = ask_human(response="reply", into="approved")
    delta = await step({"reply": True}, answered({"reply": True}))
    assert delta == {"approved": True, "reply": DELETE}


@pytest.mark.parametrize("answer", [True, False, 0, "", {"ok": False}])
async def test_the_answer_of_the_question_is_the_value(answer: object) -> None:
    """An answer given to the question passes, also when it is a false value."""
    step = ask_human(response="reply", into="approved")
    assert await step({}, answered(answer)) == {"approved": answer}


async def test_w21_the_next_occurrence_asks_again() -> None:
    """In a review loop a refusal is not taken for the answer of the next review."""
    review = ask_human("Good?", response="reply", into="approved")
    state: dict[str, Any] = {"draft": 1}
    assert isinstance(await review(state, answered(None)), Ask)
    state = merged(state, await review({**state, "reply": False}, answered({"reply": False})))
    assert state == {"draft": 1, "approved": False}
    assert isinstance(await review(state, answered(None)), Ask)
    state = merged(state, await review(state, answered(True)))
    assert state == {"draft": 1, "approved": True}


async def test_tl13_it_may_be_called_with_the_state_alone() -> None:
    """Outside a graph the step needs no context."""
    step = ask_human("Good?", response="reply", into="approved")
    assert isinstance(await step({}), Ask)


def test_response_and_into_differ() -> None:
    """One key for both would never ask again."""
    with pytest.raises(ValueError, match="are both 'reply'"):
        ask_human(response="reply", into="reply")


@dataclass(frozen=True)
class Review:
    """A typed state."""

    reply: bool | None = None
    blocked: str | None = None


async def test_a_field_without_a_value_counts_as_missing() -> None:
    """With a state that is an instance, an empty field is no answer."""
    step = ask_human(response="reply", into="approved")
    assert isinstance(await step(Review()), Ask)
    assert await step(Review(reply=False)) == {"approved": False, "reply": DELETE}
    assert await guard(passes)(Review()) == {}
    assert isinstance((await guard(passes)(Review(blocked="no")))["blocked"], Sentinel)
