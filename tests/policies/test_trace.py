"""What a trace shows of those who look at a run."""

from loom_ia.core.views.trace import Trace, trace_of
from tests.policies.shop import Shop, judge, marks, scripted


async def _traced(shop: Shop) -> Trace:
    await shop.run("Un devis ?")
    return trace_of(shop.events)


async def test_a_trace_shows_checks_marks_and_other_tries() -> None:
    """A refused draft shows its marks, what follows, once, and who asked for another one."""
    models = [
        scripted("M", {"text": "brouillon"}, {"text": "propre"}),
        scripted(
            "J",
            {**marks(fidele=0.5), "with_text": "brouillon"},
            {**marks(fidele=0.9), "with_text": "propre"},
        ),
    ]
    trace = await _traced(Shop(models, judge=judge(), output={"must_match": "o"}))
    shown = str(trace)
    assert "loom.contract of output — passed" in shown
    assert "0.5 < 0.8 — so" in shown
    assert "0.9 ≥ 0.8 — so" in shown
    assert shown.count("loom.judge.output of output — did not pass, made again") == 1
    assert "policy loom.judge.output" not in shown
    assert "asked again by loom.judge.output" in shown


async def test_another_try_is_not_the_request() -> None:
    """What the engine says to have an answer made again is not what the user asked."""
    models = [scripted("M", {"text": "a"}, {"text": "oui"})]
    trace = await _traced(Shop(models, output={"must_match": "oui"}))
    assert trace.request == "Un devis ?"
