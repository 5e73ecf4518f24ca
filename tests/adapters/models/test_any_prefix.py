"""Wherever a journal is cut, every provider takes what is made of it."""

import asyncio

from hypothesis import given, settings

from loom_ia.core.decide import CallModel, decide
from loom_ia.core.decide.request import build_request
from loom_ia.core.model import Capabilities, ModelRequest
from loom_ia.core.state import RunState, SessionState
from tests.adapters.models.encoders import refused
from tests.core.cases import Story, fold
from tests.engine.random_runs import Script, play, scripts

MODEL_ID = "fake-1"
"""The name at its provider of the model of the scripts: it has thoughts, which are its own."""


def newcomer() -> RunState:
    """Give a run that is about to begin in the session."""
    return Story().open("newcomer").run


def requests_of(script: Script) -> dict[str, ModelRequest]:
    """Give each request that some prefix of the journal leads to, by what identifies it.

    After each event: that of the run which is driven, and that of a run which begins there.
    """
    journal, scene = asyncio.run(asyncio.wait_for(play(script), 20))
    plan, session = scene.program.plan, SessionState()
    found: dict[str, ModelRequest] = {}
    for event in (event for batch in journal.batches for event in batch):
        fold(session, [event])
        moves = [
            decide(session.view(session.runs[event.run_id]), plan, event.ts),
            build_request(session.view(newcomer()), plan),
        ]
        found |= {move.digest: move.request for move in moves if isinstance(move, CallModel)}
    return found


@settings(max_examples=60)
@given(scripts)
def test_pub_21_every_provider_takes_the_request_of_any_prefix(script: Script) -> None:
    """Cut after any event, even inside a batch of results: in each of the three formats."""
    requests = requests_of(script)

    async def check(can: Capabilities) -> None:
        for request in requests.values():
            assert await refused(request, can, model_id=MODEL_ID) == {}

    for thinks in (False, True):
        asyncio.run(check(Capabilities(thinking=thinks)))
