"""What every journal promises."""

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.core.errors import RunExists, UnusableId
from loom_ia.core.events import (
    Event,
    EventQuery,
    Opaque,
    RunFailed,
    RunStarted,
    StepCompleted,
    StepStarted,
    StoreChange,
    StoreChanged,
)
from loom_ia.core.ids import STORE_STREAM
from loom_ia.core.ports import Journal, SequenceConflict
from tests.builders import DAWN, events, new_id, placed, said, started

_CHANGE = StoreChanged(changes=(StoreChange.of("ns", "key", b""),))

AWKWARD = [
    "a\x00b\x01\x1f\x7f",
    "line\u2028paragraph\u2029next\x85end",
    "🦊 e\u0301 \U0010ffff \ufeff \ufffe",
    "\"quoted\" 'and' \\back\\slashed\\ `ticks`",
    "one\r\ntwo\nthree\rfour\ttab\x0b\x0c",
    '{"seq":1,"following":3,"payload":{}}\n{"seq":2}',
    "",
]


async def test_appending_gives_the_last_place(journal: Journal) -> None:
    """An append returns the place of the last event of its batch."""
    assert await journal.append(events(3), expected=0, sync=False) == 3
    assert await journal.append(events(2, after=3), expected=3, sync=True) == 5


async def test_events_read_back_equal(journal: Journal) -> None:
    """What is read is what was written, in order, each at its place."""
    written = [started("run-1", session_id="session-1"), *events(4, after=1)]
    await journal.append(written[:2], expected=0, sync=False)
    await journal.append(written[2:], expected=2, sync=True)
    found = await journal.read("acme", "session-1")
    assert found == written
    assert [event.seq for event in found] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("text", AWKWARD)
async def test_any_text_reads_back_equal(journal: Journal, text: str) -> None:
    """Control characters, line separators, quotes and emoji come back as they were."""
    written = placed([said(text), said(text + "."), said(text)])
    await journal.append(written[:2], expected=0, sync=True)
    await journal.append(written[2:], expected=2, sync=True)
    assert await journal.read("acme", "session-1") == written


async def test_an_unknown_type_is_kept_opaque(journal: Journal) -> None:
    """An event of a newer version comes back with its name and all that it holds."""
    data = {"deep": {"list": [1, "é", None, 1.5]}, "following": 3, "payload": {"seq": 1}}
    written = placed([Opaque(name="future.thing", data=data), said("then")])
    await journal.append(written, expected=0, sync=True)
    found = await journal.read("acme", "session-1")
    assert found == written
    assert (found[0].type, found[0].category) == ("future.thing", "unknown")


@pytest.mark.parametrize(("after", "left"), [(0, 5), (2, 3), (4, 1), (5, 0), (9, 0)])
async def test_reading_after_a_place(journal: Journal, after: int, left: int) -> None:
    """A read gives only what follows the place that the reader knows."""
    written = events(5)
    await journal.append(written, expected=0, sync=False)
    assert await journal.read("acme", "session-1", after=after) == written[5 - left :]


async def test_an_unknown_session_is_empty(journal: Journal) -> None:
    """Reading or deleting what is not there is no error."""
    assert await journal.read("acme", "nowhere") == []
    assert await journal.delete("acme", "nowhere") == 0
    assert await journal.locate("acme", "no-run") is None
    assert (await journal.sessions("acme")).sessions == ()
    assert await journal.query(EventQuery("acme")) == []


async def test_a_conflict_gives_the_exact_tail(journal: Journal) -> None:
    """Who comes second writes nothing and receives what was written meanwhile."""
    written = events(5)
    await journal.append(written, expected=0, sync=False)
    for expected in (0, 2, 4):
        late = events(2, after=expected)
        outcome = await journal.append(late, expected=expected, sync=True)
        assert outcome == SequenceConflict(expected, tuple(written[expected:]))
    assert await journal.read("acme", "session-1") == written


async def test_expecting_more_than_there_is_conflicts(journal: Journal) -> None:
    """A place that was never reached is a conflict without a tail, and leaves no hole."""
    early = events(1, after=3)
    assert await journal.append(early, expected=3, sync=False) == SequenceConflict(3, ())
    await journal.append(events(2), expected=0, sync=False)
    assert await journal.append(early, expected=3, sync=False) == SequenceConflict(3, ())
    assert len(await journal.read("acme", "session-1")) == 2


async def test_a_batch_must_make_sense(journal: Journal) -> None:
    """An empty batch, one for two sessions or tenants, or one with a wrong place, is refused."""
    other_session = [events(1)[0], events(1, after=1, session_id="session-2")[0]]
    other_tenant = [events(1)[0], events(1, after=1, tenant_id="other")[0]]
    with_a_hole = [events(1)[0], events(1, after=2)[0]]
    for batch in ([], other_session, other_tenant, with_a_hole, events(2, after=1)):
        with pytest.raises(ValueError, match=r"batch|due"):
            await journal.append(batch, expected=0, sync=False)
    assert await journal.read("acme", "session-1") == []


async def test_a_run_id_serves_once_in_a_tenant(journal: Journal) -> None:
    """A run id used before, in any session, is refused with the whole of its batch."""
    first = [started("run-1", session_id="here"), *events(1, after=1, session_id="here")]
    await journal.append(first, expected=0, sync=True)
    await journal.append([started("run-2")], expected=0, sync=False)
    refused = [
        ([*events(1, session_id="there"), started("run-1", after=1, session_id="there")], 0),
        ([*events(1, after=2, session_id="here"), started("run-1", after=3, session_id="here")], 2),
        ([started("run-2", session_id="there")], 0),
        ([started("run-2", after=1)], 1),
        ([started("twice"), started("twice", after=1)], 0),
        ([started("run-1")], 0),
    ]
    for batch, expected in refused:
        with pytest.raises(RunExists, match="used already"):
            await journal.append(batch, expected=expected, sync=False)
    assert await journal.read("acme", "there") == []
    assert await journal.read("acme", "here") == first
    assert await journal.append([started("twice")], expected=0, sync=False) == 1
    other = await journal.append([started("run-1", tenant_id="other")], expected=0, sync=False)
    assert other == 1


async def test_a_conflict_comes_before_a_used_run_id(journal: Journal) -> None:
    """Who repeats an append learns what is there, not that its own run exists."""
    batch = [started("run-1")]
    await journal.append(batch, expected=0, sync=False)
    outcome = await journal.append([started("run-1")], expected=0, sync=False)
    assert outcome == SequenceConflict(0, tuple(batch))


async def test_a_refused_run_keeps_no_id(journal: Journal) -> None:
    """A batch that fails for one run id leaves the other ids of the batch free."""
    await journal.append([started("taken")], expected=0, sync=False)
    both = [
        started("fresh", session_id="there"),
        started("taken", after=1, session_id="there"),
    ]
    with pytest.raises(RunExists):
        await journal.append(both, expected=0, sync=False)
    assert await journal.locate("acme", "fresh") is None
    assert await journal.append([started("fresh")], expected=0, sync=False) == 1


async def test_a_run_is_located(journal: Journal) -> None:
    """The session of a run is found, whether or not it bears the run's name."""
    await journal.append([started("alone")], expected=0, sync=True)
    await journal.append(events(1, session_id="talk"), expected=0, sync=False)
    guests = [started(name, after=1 + n, session_id="talk") for n, name in enumerate("abc")]
    await journal.append(guests, expected=1, sync=False)
    assert await journal.locate("acme", "alone") == "alone"
    assert [await journal.locate("acme", name) for name in "abc"] == ["talk"] * 3
    assert await journal.locate("acme", "talk") is None
    assert await journal.locate("other", "alone") is None


async def test_tenants_do_not_meet(journal: Journal) -> None:
    """The same session id in two tenants is two sessions."""
    ours, theirs = events(2), events(3, tenant_id="other")
    await journal.append(ours, expected=0, sync=False)
    await journal.append(theirs, expected=0, sync=False)
    assert await journal.read("acme", "session-1") == ours
    assert await journal.read("other", "session-1") == theirs
    assert await journal.query(EventQuery("other")) == theirs


async def test_twenty_first_appends_at_once(journal: Journal) -> None:
    """On an empty journal, of twenty who open the same session one wins and the others conflict."""
    batches = [events(1, run_id=f"run-{n}") for n in range(20)]
    outcomes = await asyncio.gather(
        *(journal.append(batch, expected=0, sync=n % 2 == 0) for n, batch in enumerate(batches))
    )
    (winner,) = [n for n, outcome in enumerate(outcomes) if outcome == 1]
    lost = SequenceConflict(0, tuple(batches[winner]))
    assert [outcome for outcome in outcomes if outcome != 1] == [lost] * 19


async def test_many_writers_lose_nothing(journal: Journal) -> None:
    """Tasks that race for the places of one session all write, without a hole."""

    async def write(name: str) -> None:
        last = 0
        for _ in range(10):
            while True:
                batch = events(2, after=last, run_id=name)
                outcome = await journal.append(batch, expected=last, sync=False)
                if isinstance(outcome, int):
                    last = outcome
                    break
                last += len(outcome.tail)
                await asyncio.sleep(0)

    await asyncio.gather(*(write(f"run-{n}") for n in range(5)))
    found = await journal.read("acme", "session-1")
    assert [event.seq for event in found] == list(range(1, 101))
    assert {event.run_id for event in found} == {f"run-{n}" for n in range(5)}
    assert all(a.run_id == b.run_id for a, b in zip(found[::2], found[1::2], strict=True))


async def test_sessions_are_listed_by_page(journal: Journal) -> None:
    """A listing goes through every session once, in the order of ids, with its last event."""
    names = [f"s-{n}" for n in (3, 1, 5, 2, 4)]
    for size, name in enumerate(names, 1):
        await journal.append(events(size, session_id=name), expected=0, sync=False)
    first = await journal.sessions("acme", limit=2)
    assert [entry.session_id for entry in first.sessions] == ["s-1", "s-2"]
    assert first.sessions[0].last_seq == 2
    assert first.sessions[0].updated_at == DAWN + timedelta(seconds=2)
    assert first.next_after == "s-2"
    second = await journal.sessions("acme", after=first.next_after, limit=3)
    assert [entry.session_id for entry in second.sessions] == ["s-3", "s-4", "s-5"]
    assert second.next_after is None


async def test_a_deleted_session_is_gone(journal: Journal) -> None:
    """Deleting counts the events, forgets the runs, and lets their ids be used again."""
    await journal.append([started("run-1", session_id="a")], expected=0, sync=True)
    await journal.append(events(2, after=1, session_id="a"), expected=1, sync=False)
    await journal.append([started("b")], expected=0, sync=False)
    assert await journal.delete("acme", "a") == 3
    assert await journal.delete("acme", "a") == 0
    assert await journal.read("acme", "a") == []
    assert await journal.locate("acme", "run-1") is None
    assert [entry.session_id for entry in (await journal.sessions("acme")).sessions] == ["b"]
    assert [event.session_id for event in await journal.query(EventQuery("acme"))] == ["b"]
    again = [started("run-1", session_id="c")]
    assert await journal.append(again, expected=0, sync=False) == 1
    assert await journal.append(events(1, session_id="a"), expected=0, sync=True) == 1
    assert len(await journal.read("acme", "a")) == 1


@pytest.mark.parametrize(
    "step", ["ask", "pr\u00e9 visa", "a%b_c", '"quoted"\\', "x" * 300, "a/b", ".."]
)
async def test_a_child_is_located_by_an_id_that_begins_with_its_root(
    journal: Journal, step: str
) -> None:
    """A run named after its root and a step is found, searched for, and serves once."""
    child = f"root/{step}/1"
    opening = [started("root"), started(child, after=1, session_id="root")]
    await journal.append(opening, expected=0, sync=True)
    more = events(1, after=2, session_id="root", run_id=child)
    await journal.append(more, expected=2, sync=False)
    assert await journal.locate("acme", child) == "root"
    assert await journal.locate("acme", f"root/{step}/2") is None
    assert await journal.query(EventQuery("acme", run_id=child)) == [opening[1], *more]
    again = started(child, after=3, session_id="root")
    with pytest.raises(RunExists):
        await journal.append([again], expected=3, sync=False)
    with pytest.raises(RunExists):
        await journal.append([started(child, session_id="other")], expected=0, sync=False)
    assert await journal.delete("acme", "root") == 3
    assert await journal.locate("acme", child) is None


@pytest.mark.parametrize(
    "name", ["\u00e9t\u00e9 2026", "a b", "%", "_", "@store", "store", "x" * 300, "\\"]
)
async def test_any_text_without_a_slash_names_a_session(journal: Journal, name: str) -> None:
    """Accents, spaces and signs are fine in the id of a root run, but where ids name files."""
    written = [started(name), *events(1, after=1, session_id=name, run_id=name)]
    if isinstance(journal, JsonlJournal) and name != "store":
        with pytest.raises(UnusableId):
            await journal.append(written, expected=0, sync=True)
        return
    assert await journal.append(written, expected=0, sync=True) == 2
    assert await journal.read("acme", name) == written
    assert await journal.locate("acme", name) == name
    assert [entry.session_id for entry in (await journal.sessions("acme")).sessions] == [name]
    assert await journal.query(EventQuery("acme", run_id=name)) == written
    assert await journal.delete("acme", name) == 2


async def test_a_session_never_shows_one_whose_id_is_longer(journal: Journal) -> None:
    """Of two ids of which one begins the other, each has its own events."""
    for size, name in enumerate(("run", "run-1", "run-10"), 1):
        await journal.append(events(size, session_id=name, run_id=name), expected=0, sync=False)
    for size, name in enumerate(("run", "run-1", "run-10"), 1):
        assert len(await journal.read("acme", name)) == size
    assert await journal.delete("acme", "run") == 1
    assert len(await journal.read("acme", "run-1")) == 2


async def test_a_reserved_stream_is_for_those_who_name_it(journal: Journal) -> None:
    """It is written and read like a session, in no listing, and in no search that names none."""
    ours = placed([_CHANGE], session_id=STORE_STREAM, run_id=STORE_STREAM, agent="")
    await journal.append(ours, expected=0, sync=True)
    await journal.append(events(1), expected=0, sync=False)
    late = placed([_CHANGE], session_id=STORE_STREAM, run_id=STORE_STREAM, agent="")
    conflict = await journal.append(late, expected=0, sync=False)
    assert conflict == SequenceConflict(0, tuple(ours))
    assert await journal.read("acme", STORE_STREAM) == ours
    assert await journal.read("other", STORE_STREAM) == []
    listed = (await journal.sessions("acme")).sessions
    assert [entry.session_id for entry in listed] == ["session-1"]
    assert {event.session_id for event in await journal.query(EventQuery("acme"))} == {"session-1"}
    assert await journal.query(EventQuery("acme", types=("store.changed",))) == []
    assert await journal.query(EventQuery("acme", session_id=STORE_STREAM)) == ours
    assert await journal.locate("acme", STORE_STREAM) is None
    assert await journal.delete("acme", STORE_STREAM) == 1
    assert await journal.read("acme", STORE_STREAM) == []
    assert len(await journal.query(EventQuery("acme"))) == 1


def _asked() -> list[Event]:
    here = partial(placed, session_id="s-1", run_id="r-1")
    return [
        *here([RunStarted()]),
        *here([StepStarted(step_no=1, effect="model_call")], after=1),
        *here([StepCompleted(step_no=1, outcome="error")], after=2, agent="chief"),
        *placed([said("hello")], after=3, role="main", session_id="s-1", run_id="r-2"),
        *here([Opaque(name="future.thing", data={"x": 1})], after=4),
        *here([RunFailed(error_type="timeout", error="late", iterations=1)], after=5),
    ]


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"session_id": "s-1"}, [1, 2, 3, 4, 5, 6]),
        ({"session_id": "s-2"}, []),
        ({"run_id": "r-2"}, [4]),
        ({"types": ("step.started", "run.failed")}, [2, 6]),
        ({"categories": ("message", "unknown")}, [4, 5]),
        ({"categories": ("run",), "types": ("step.started",)}, [2]),
        ({"status": ("error",)}, [3, 6]),
        ({"agent": "chief"}, [3]),
        ({"role": "main"}, [4]),
        ({"facets": {"effect": "model_call"}}, [2]),
        ({"facets": {"outcome": "error", "duration_ms": 0}}, [3]),
        ({"tool_name": "mail"}, []),
        ({"since": DAWN + timedelta(seconds=5)}, [5, 6]),
        ({"until": DAWN + timedelta(seconds=3)}, [1, 2]),
        ({"limit": 2}, [1, 2]),
        ({"limit": 1, "status": ("error",)}, [3]),
    ],
)
async def test_every_condition_is_honoured(
    journal: Journal, condition: dict[str, object], places: list[int]
) -> None:
    """A query gives exactly the events for which each of its conditions holds."""
    await journal.append(_asked(), expected=0, sync=False)
    found = await journal.query(EventQuery("acme", **condition))  # pyright: ignore[reportArgumentType]
    assert [event.seq for event in found] == places


@pytest.mark.parametrize("session_id", [None, "s-2"])
async def test_paging_goes_through_everything_once(
    journal: Journal, session_id: str | None
) -> None:
    """Pages that follow each other by `after` give each event once."""
    for name in ("s-1", "s-2", "s-3"):
        await journal.append(events(4, session_id=name), expected=0, sync=False)
    pages: list[Event] = []
    after = None
    while page := await journal.query(
        EventQuery("acme", session_id=session_id, after=after, limit=3)
    ):
        pages += page
        after = page[-1].event_id
    assert pages == await journal.query(EventQuery("acme", session_id=session_id))
    assert len(pages) == (12 if session_id is None else 4)


async def test_a_rare_event_is_found_among_many(journal: Journal) -> None:
    """A query looks at as many events as it takes, whatever their number."""
    many = [*events(1_200), *placed([StepStarted(step_no=1, effect="model_call")], after=1_200)]
    await journal.append(many, expected=0, sync=False)
    facet = EventQuery("acme", facets={"effect": "model_call"}, limit=1)
    assert await journal.query(facet) == many[-1:]
    assert await journal.query(EventQuery("acme", limit=1_150)) == many[:1_150]
    page = EventQuery("acme", after=many[1_149].event_id, limit=1_150)
    assert await journal.query(page) == many[1_150:]


async def test_a_page_after_an_unknown_event_follows_by_id(journal: Journal) -> None:
    """An `after` that is in no event gives what was made later."""
    before = events(2)
    unknown = new_id()
    await journal.append(before, expected=0, sync=False)
    later = events(2, after=2)
    await journal.append(later, expected=2, sync=False)
    assert await journal.query(EventQuery("acme", after=unknown)) == later


async def test_flushing_and_closing_twice(make: Callable[[Path], Journal], tmp_path: Path) -> None:
    """Flushing nothing is allowed, and closing a closed journal does nothing."""
    journal = make(tmp_path)
    await journal.flush()
    await journal.append(events(1), expected=0, sync=False)
    await journal.flush()
    await journal.flush()
    await journal.close()
    await journal.close()
    unused = make(tmp_path / "unused")
    await unused.close()


async def test_an_unused_journal_touches_nothing(
    make: Callable[[Path], Journal], tmp_path: Path
) -> None:
    """Building a journal writes nothing."""
    make(tmp_path / "journal")
    assert os.listdir(tmp_path) == []  # noqa: PTH208


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    text=st.text(max_size=30).filter(lambda text: text.isascii() or text.isprintable()),
    syncs=st.lists(st.booleans(), min_size=6, max_size=6),
)
async def test_any_split_into_batches_reads_back(
    journal: Journal, sizes: list[int], text: str, syncs: list[bool]
) -> None:
    """However events are grouped, the session is their series."""
    session_id = new_id()
    written = placed([said(f"{text} {n}") for n in range(sum(sizes))], session_id=session_id)
    last = 0
    for size, sync in zip(sizes, syncs, strict=False):
        batch = written[last : last + size]
        assert await journal.append(batch, expected=last, sync=sync) == last + size
        last += size
    assert await journal.read("acme", session_id) == written
    middle = last // 2
    assert await journal.read("acme", session_id, after=middle) == written[middle:]
