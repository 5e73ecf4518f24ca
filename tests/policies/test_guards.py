"""Contracts, judges and grounding: what passes, what is made again, what is given in the end."""

from typing import Any

import pytest

from loom_ia.agents import Contract, PolicyReference, PythonTool, Repair
from loom_ia.core.errors import ConfigError, JudgeSkip
from loom_ia.core.model import ModelSpec, TextDelta
from loom_ia.policies import Decision, Fail, OnOutput, policy
from loom_ia.policies.judge import sampled
from loom_ia.policies.patterns import search
from loom_ia.testing import Host, crash_everywhere
from loom_ia.testing.journals import CrashLevel
from loom_ia.tools import tool
from tests.policies.shop import Shop, call, judge, marks, scripted

EMAIL: dict[str, Any] = {
    "type": "object",
    "properties": {"objet": {"type": "string", "minLength": 3}},
    "required": ["objet"],
}
GOOD = '{"objet": "Devis"}'


async def test_a_document_is_taken_out_of_its_fence_without_a_model() -> None:
    """Fence and prose go, one call is made, and the data is in the result."""
    house = Shop(
        [scripted("M", {"text": f"Voici :\n```json\n{GOOD}\n```\nBonne lecture."})],
        output=Contract(schema=EMAIL),
    )
    result = await house.run()
    assert (result.data, result.text) == ({"objet": "Devis"}, GOOD)
    assert house.calls_of_main == 1
    (checked,) = house.of("guard.checked")
    assert checked.normalized


async def test_an_answer_is_made_again_with_the_diagnostic() -> None:
    """Two calls of the model; the second one reads what is wrong; the run is completed."""
    house = Shop(
        [scripted("M", {"text": '{"objet": 1}'}, {"text": GOOD})], output=Contract(schema=EMAIL)
    )
    result = await house.run()
    assert result.data == {"objet": "Devis"}
    assert house.calls_of_main == 2
    repair = next(p for p in house.of("message.user") if p.kind == "repair")
    assert "objet: 1 is not of type" in repair.message.as_text()
    assert [p.resolution for p in house.of("guard.checked")] == ["retry", None]


@pytest.mark.parametrize("on_failure", ["fail", "unverified", "fallback"])
async def test_what_is_given_when_it_cannot_be_repaired(on_failure: Any) -> None:
    """The run fails, or gives the answer marked, or the text for that case."""
    message = "Je vous rappelle." if on_failure == "fallback" else None
    house = Shop(
        [scripted("M", {"text": "bad"}, {"text": "worse"})],
        output=Contract(schema=EMAIL, on_failure=on_failure, fallback_message=message),
    )
    result = await house.run()
    if on_failure == "fail":
        assert (result.status, result.error_type) == ("failed", "guard.contract")
    elif on_failure == "unverified":
        assert (result.ok, result.unverified, result.text) == (True, True, "worse")
    else:
        assert (result.ok, result.fallback, result.text) == (True, True, "Je vous rappelle.")


@pytest.mark.parametrize(
    ("contract", "text", "passes"),
    [
        (Contract(must_match="Cordialement"), "Bonjour. Cordialement", True),
        (Contract(must_match="Cordialement"), "Bonjour.", False),
        (Contract(must_not_match="(?i)xxx"), "à compléter XXX", False),
        (Contract(max_chars=5), "123456", False),
        (Contract(must_match=r"(?<=prix )\d+"), "prix 12", True),
        (Contract(must_not_match=r"(a+)+$"), "a" * 5000 + "!", True),
    ],
)
async def test_patterns_and_length(contract: Contract, text: str, passes: bool) -> None:
    """Each is checked; a pattern that could take for ever does not."""
    house = Shop(
        [scripted("M", {"text": text})],
        output=contract.model_copy(update={"repair": Repair(max_attempts=0)}),
    )
    assert (await house.run()).ok is passes


async def test_a_pattern_that_is_too_slow_is_a_problem() -> None:
    """One that looks around runs apart and is killed at its deadline."""
    found = await search(r"(?=x)?(a+)+$", "a" * 40 + "!", deadline=0.3)
    assert found.late


async def test_a_diagnostic_never_repeats_what_must_not_be_shown() -> None:
    """What must not match is told by its place and its length."""
    house = Shop(
        [scripted("M", {"text": "code: SECRET42"}, {"text": "ok"})],
        output=Contract(must_not_match=r"SECRET\d+"),
    )
    await house.run()
    (first, _) = house.of("guard.checked")
    assert "8 characters from character 7 on" in first.reason
    assert "SECRET42" not in first.reason


async def test_the_contract_of_a_tool_is_never_repaired() -> None:
    """The model reads an error with the diagnostic; nothing is asked again by code."""

    @tool
    async def fiche() -> dict[str, int]:
        """Give a card."""
        return {"objet": 3}

    house = Shop(
        [scripted("M", call("fiche"), {"text": "ok"})],
        tools=(PythonTool(python="fiche", output=Contract(schema=EMAIL)),),
        named={"fiche": fiche},
    )
    result = await house.run()
    assert result.ok
    assert house.calls_of_main == 2
    (decided,) = house.of("policy.decided")
    assert "objet: 3 is not of type" in decided.result.text


# -- judges ---------------------------------------------------------------------------------------


def judged(
    *scores: dict[str, Any], texts: tuple[str, ...] = ("brouillon", "propre"), **more: Any
) -> Shop:
    """Open a shop whose judge marks each text in turn."""
    replies = [{**score, "with_text": text} for score, text in zip(scores, texts, strict=False)]
    models = [scripted("M", *({"text": text} for text in texts)), scripted("J", *replies)]
    return Shop(models, judge=judge(**more))


async def test_a_refused_answer_is_repaired_and_judged_again() -> None:
    """0.5 is refused, 0.9 passes: one repair, two evaluations."""
    house = judged(marks(fidele=0.5), marks(fidele=0.9))
    result = await house.run()
    assert (result.ok, result.text) == (True, "propre")
    assert [p.passed for p in house.of("judge.evaluated")] == [False, True]
    assert [v.criteria[0].score for v in result.verdicts] == [0.5, 0.9]
    roles = [e.role for e in house.events if e.type == "model.responded"]
    assert roles == ["main", "judge:output", "main", "judge:output"]


async def test_what_does_not_block_is_only_reported() -> None:
    """A criterion that is not blocking never refuses."""
    criteria = [
        {"name": "fidele", "rule": "x"},
        {"name": "ton", "rule": "y", "min_score": 0.6, "blocking": False},
    ]
    house = judged(marks(fidele=1, ton=0.2), criteria=criteria)
    result = await house.run()
    assert result.ok
    (evaluated,) = house.of("judge.evaluated")
    assert (evaluated.passed, evaluated.blocked) == (False, False)


@pytest.mark.parametrize(("on_failure", "ok"), [("fail", False), ("unverified", True)])
async def test_an_answer_that_stays_refused(on_failure: str, ok: bool) -> None:
    """The run fails as `guard.judge`, or the answer is given and marked."""
    house = judged(marks(fidele=0.1), marks(fidele=0.2), on_failure=on_failure)
    result = await house.run()
    assert (result.ok, result.unverified) == (ok, ok)
    assert result.error_type == (None if ok else "guard.judge")


@pytest.mark.parametrize(
    "verdict",
    [
        call("verdict", criteria=[{"name": "fidele", "score": 2, "reason": ""}]),
        call("verdict", criteria=[{"name": "autre", "score": 1, "reason": ""}]),
        call("verdict", criteria=[]),
        call("verdict"),
        call("verdict", criteria=[{"name": "fidele", "score": True, "reason": ""}]),
        {"text": "It is fine."},
    ],
)
@pytest.mark.parametrize("on_error", ["block", "allow"])
async def test_a_verdict_that_cannot_be_read_is_never_a_pass(verdict: Any, on_error: str) -> None:
    """It fails the run, or is written as an error; what it cost is counted."""
    house = Shop(
        [
            scripted("M", {"text": "x"}),
            scripted("J", verdict),
        ],
        judge=judge(on_error=on_error),
    )
    result = await house.run()
    assert result.ok is (on_error == "allow")
    (decided,) = house.of("policy.decided")
    assert decided.error
    if on_error == "block":
        assert result.error_type == "policy.loom.judge.output"
    assert result.verdicts == ()


def test_a_sample_is_the_same_each_time() -> None:
    """A fifth of the runs, always the same ones."""
    drawn = [n for n in range(1000) if sampled(f"run-{n}", "output", 0.2)]
    assert drawn == [n for n in range(1000) if sampled(f"run-{n}", "output", 0.2)]
    assert 150 <= len(drawn) <= 250


async def test_a_judge_that_does_not_look_says_why() -> None:
    """The caller skips it, or its condition is false; forced, it looks all the same."""
    never = judge(when={"condition": "never"})
    models = [scripted("M", {"text": "x"}), scripted("J", marks(fidele=1))]
    for options, reason in (({"judges": "skip"}, "caller_skip"), ({}, "condition_false")):
        house = Shop(models, judge=never, named={"never": lambda _: False})
        assert (await house.run(**options)).ok
        (checked,) = house.of("guard.checked")
        assert (checked.outcome, checked.reason) == ("skipped", reason)
    house = Shop(models, judge=never, named={"never": lambda _: False})
    await house.run(judges="force")
    assert len(house.of("judge.evaluated")) == 1


async def test_a_caller_cannot_skip_judges_in_prod() -> None:
    """The profile refuses it before anything is written."""
    models = [scripted("M", {"text": "x"}), scripted("J", marks(fidele=1))]
    house = Shop(models, judge=judge(), profile="prod")
    with pytest.raises(JudgeSkip):
        await house.run(judges="skip")


async def test_a_judge_on_the_model_that_it_judges_is_refused_in_prod() -> None:
    """It is only a warning elsewhere."""
    models = [scripted("M", {"text": "x"})]
    with pytest.raises(ConfigError, match="the same model"):
        await Shop(models, judge=judge(model="M"), profile="prod").run()


# -- grounding ------------------------------------------------------------------------------------


@tool
async def devis() -> dict[str, Any]:
    """Give a quote."""
    return {"numero": "D-2026-042", "montant": 1840.0, "date": "2026-03-12"}


@tool(side_effects="irreversible")
async def envoyer(corps: str) -> str:
    """Send a mail."""
    return "sent"


async def test_an_invented_amount_is_refused_with_its_place_and_repaired() -> None:
    """What stands in the result of a tool passes in another form; the rest does not."""
    house = Shop(
        [
            scripted(
                "M",
                call("devis"),
                {"text": "Le devis D-2026-042 est de 1 480 €."},
                {"text": "Le devis D-2026-042 du 12 mars 2026 est de 1 840 €."},
            )
        ],
        tools=(PythonTool(python="devis"),),
        output=Contract(grounded=True),
        named={"devis": devis},
    )
    result = await house.run("Où en est le devis ?")
    assert "1 840" in result.text
    (first, _) = house.of("guard.checked")
    assert "1 480" in first.reason


async def test_a_call_that_acts_may_not_carry_an_invented_amount() -> None:
    """The mail is not sent; the model reads which value has no source, and corrects it."""
    house = Shop(
        [
            scripted(
                "M",
                call("devis"),
                call("envoyer", corps="Total : 2 000 €"),
                call("envoyer", corps="Total : 1.840,00 €"),
                {"text": "Fait."},
            )
        ],
        tools=(PythonTool(python="devis"), PythonTool(python="envoyer", grounded=True)),
        named={"devis": devis, "envoyer": envoyer},
    )
    assert (await house.run()).ok
    assert [p.tool_name for p in house.of("tool.called")] == ["devis", "envoyer"]
    denied = [p for p in house.of("policy.decided") if p.decision == "deny"]
    assert "2 000" in denied[0].reason


# -- what is shown meanwhile ----------------------------------------------------------------------


async def shown(house: Shop) -> list[str]:
    """Run the agent and give the pieces of text that a follower is shown."""
    pieces: list[str] = []

    def tell(chunk: object) -> None:
        if isinstance(chunk, TextDelta):
            pieces.append(chunk.text)

    await house.run(on_chunk=tell)
    return pieces


async def test_an_answer_under_checks_is_shown_once_it_passed_them() -> None:
    """Nobody sees a draft that is refused; the retained answer comes in one piece."""
    replies = ({"text": "un brouillon xxx"}, {"text": "une réponse"})
    house = Shop([scripted("M", *replies)], output=Contract(must_not_match="xxx"))
    assert await shown(house) == ["une réponse"]
    live = Shop([scripted("M", {"text": "une réponse"})], output=Contract(), stream_output="live")
    assert "".join(await shown(live)) == "une réponse"
    assert len(await shown(live)) > 1


async def test_what_judges_say_is_never_shown() -> None:
    """A verdict is no piece of the answer."""
    assert await shown(judged(marks(fidele=1))) == ["brouillon"]


# -- what a crash changes -------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["kill", "power"])
async def test_checks_survive_a_crash_at_each_write(level: CrashLevel) -> None:
    """The end is the same, and a verdict that was written is not asked again."""
    criteria = [{"name": "fidele", "rule": "x"}]
    house = judged(marks(fidele=0.5), marks(fidele=0.9), criteria=criteria)
    asked: list[int] = []

    async def scenario(host: Host) -> None:
        loom = host.loom(house.config)
        await loom.run("clerk", "Bonjour", run_id="r1")
        verdicts = [e for e in await loom.events("r1") if e.type == "judge.evaluated"]
        asked.append(len(verdicts))

    report = await crash_everywhere(scenario, level=level)
    assert report.ok, report
    assert set(asked) == {2}


async def test_a_crash_after_a_fallback_asks_nobody_else() -> None:
    """What ends the checks ends them for good: a policy that would refuse the text is not asked."""

    @policy(points=["on_output"], decisions=["fail"])
    def hook(subject: OnOutput) -> Decision:
        return Fail(f"not {subject.message.as_text()}")

    house = Shop(
        [scripted("M", {"text": "brouillon"}), scripted("J", marks(fidele=0.5))],
        judge=judge(
            repair=Repair(max_attempts=0), on_failure="fallback", fallback_message="Pardon."
        ),
        policies=(PolicyReference(hook="hook"),),
    )

    async def scenario(host: Host) -> None:
        loom = host.loom(house.config)
        loom.register("hook", hook)
        result = await loom.run("clerk", "Bonjour", run_id="r1")
        assert (result.status, result.text) == ("completed", "Pardon.")

    report = await crash_everywhere(scenario)
    assert report.ok, report


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"context": ["attachments"]}, "sees no image"),
        ({"context": [{"tool_results": ["nothing"]}]}, "has no tool nothing"),
        ({"fallbacks": ["J"]}, "already in this chain"),
        ({"model": "DEAF"}, "a judge answers by a call"),
        ({"model": "NOBODY"}, "unknown model NOBODY"),
    ],
)
async def test_a_judge_that_cannot_be_is_refused(settings: dict[str, Any], told: str) -> None:
    """Its models can do what it asks of them, and what it is given exists."""
    deaf = ModelSpec.model_validate(
        {"id": "DEAF", "sdk": "fake", "model": "d", "capabilities": {"tools": False}}
    )
    models = [scripted("M", {"text": "x"}), scripted("J", marks(fidele=1)), deaf]
    with pytest.raises(ConfigError, match=told):
        await Shop(models, judge=judge(**settings)).run()
