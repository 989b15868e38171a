"""What became of events of a long replay, of which the event log has the end, against verdicts of all events.

An answer that comes from a part of the events may be `not known`, but never wrong.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.session.explain.explanations import StatementOutcome
from cepbook.session.explain.rows_of_instant import COPY, OTHER_ROWS

Event = dict[str, Any]
COUNT, MINUTE = 6_000, 60_000


def many_in_time(events: list[Event]) -> set[int]:
    window, fired = deque[int](), set[int]()
    for event in events:
        window.append(event["t"])
        while window[0] <= event["t"] - 10 * MINUTE:
            window.popleft()
        fired |= {event["id"]} if len(window) > 600 else set()
    return fired


def each_seventh(events: list[Event]) -> set[int]:
    counts, fired = Counter[str](), set[int]()
    for event in events:
        counts[event["k"]] += 1
        fired |= {event["id"]} if counts[event["k"]] % 7 == 0 else set()
    return fired


def large_sums(events: list[Event]) -> set[int]:
    windows: dict[str, deque[int]] = {k: deque(maxlen=4) for k in "abcde"}
    fired = set[int]()
    for event in events:
        windows[event["k"]].append(event["x"])
        fired |= {event["id"]} if sum(windows[event["k"]]) > 20 else set()
    return fired


def highs_and_lows(events: list[Event]) -> set[int]:
    waiting, fired = set[str](), set[int]()
    for event in events:
        if event["x"] < 2 and event["k"] in waiting:
            waiting.remove(event["k"])
            fired.add(event["id"])
        waiting |= {event["k"]} if event["x"] > 7 else set()
    return fired


STATEMENTS: dict[str, Callable[[list[Event]], set[int]]] = {
    "select id from A#time(10 min) having count(*) > 600": many_in_time,
    "select id from A group by k having count(*) % 7 = 0": each_seventh,
    "context ByKey select id from A#length(4) having sum(x) > 20": large_sums,
    "select b.id as id from pattern [every a=A(x > 7) -> b=A(k = a.k and x < 2)]": highs_and_lows,
    "select id from A#firstlength(100)": lambda events: {event["id"] for event in events[:100]},
}
NAMES = {f"q{number}": epl for number, epl in enumerate(STATEMENTS)}


def random_events(random: Random, count: int, first_id: int = 0, time: int = 0) -> list[Event]:
    events = []
    for id_ in range(first_id, first_id + count):
        time += random.choice((0, 100, 1000, 2000))
        events.append({"t": time, "id": id_, "k": random.choice("abcde"), "x": random.randrange(10)})
    return events


def replayed(events: list[Event]) -> Workbench:
    cep = Workbench()
    cep.run("create schema A(t long, id int, k string, x int); create context ByKey partition by k from A;")
    for name, epl in NAMES.items():
        cep.run(f"@name('{name}') {epl}")
    cep.replay(pd.DataFrame(events), "A", time="t", keep=1000).run()
    return cep


@pytest.fixture(scope="module")
def session() -> tuple[Workbench, list[Event]]:
    """A replay of two hours, of which the event log has the last third."""
    events = random_events(Random(3), COUNT)
    return replayed(events), events


def verdict(outcome: StatementOutcome) -> bool | None:
    """True: it led to a row, False: it did not; None: unknown."""
    return None if outcome.outcome == "not known" else outcome.outcome == "delivered"


def contradictions(cep: Workbench, name: str, events: list[Event], numbers: list[int]) -> tuple[list[int], int]:
    """The ids of events with a wrong answer, and the number of answers that are known."""
    fired = STATEMENTS[NAMES[name]](events)
    wrong, known = [], 0
    for number in numbers:
        explained = cep.why(name, number)
        answer, id_ = verdict(explained.courses[0]), explained.event.event["id"]
        assert events[number]["id"] == id_
        known += answer is not None
        wrong += [id_] if answer not in (None, id_ in fired) else []
    return wrong, known


@pytest.mark.parametrize("name", NAMES)
def test_events_that_the_log_has(session: tuple[Workbench, list[Event]], name: str) -> None:
    cep, events = session
    wrong, known = contradictions(cep, name, events, Random(name).sample(range(-1900, 0), 8))
    assert not wrong and known >= 2


@pytest.mark.parametrize("name", NAMES)
def test_events_from_before_the_log_are_found_by_their_time(session: tuple[Workbench, list[Event]], name: str) -> None:
    cep, events = session
    fired, answers = STATEMENTS[NAMES[name]](events), []
    for event in Random(name).sample(events[:3500], 4):
        last = [other for other in events if other["t"] <= event["t"]][-1]
        explained = cep.why(name, -1, at=event["t"])
        assert dict(explained.event.event) == last
        answers.append((verdict(explained.courses[0]), last["id"] in fired))
    assert all(answer in (None, right) for answer, right in answers), answers
    assert any(answer is not None for answer, _ in answers)


def test_an_event_before_the_replay_is_still_refused(session: tuple[Workbench, list[Event]]) -> None:
    cep, _ = session
    with pytest.raises(UsageError, match="only the latest 2000 are known"):
        cep.why("q0", 3)


def test_events_after_a_saved_workbench_was_loaded(session: tuple[Workbench, list[Event]], tmp_path: Path) -> None:
    saved, events = session
    saved.save(tmp_path / "saved")
    cep = Workbench()
    cep.load(tmp_path / "saved")
    later = random_events(Random(4), 60, COUNT, events[-1]["t"])
    for event in later:
        if event["t"] > cep.clock.ms:
            cep.advance(event["t"])
        cep.send("A", event)
    answers = {name: contradictions(cep, name, [*events, *later], [*range(-50, 0)]) for name in NAMES}
    assert not any(wrong for wrong, _ in answers.values())
    assert answers["q2"][1] > 30  # small windows are filled again
    outcome = cep.why("q4", -1).courses[0]  # the first hundred came before
    assert (outcome.outcome, outcome.rows, outcome.notes[-1]) == ("not known", (), OTHER_ROWS)


def test_events_that_would_come_after_a_saved_workbench_was_loaded(tmp_path: Path) -> None:
    saved = Workbench()
    saved.run("""create schema A(id int, x int);
        @name('sums') select id from A#length(5) having sum(x) > 10; @name('first') select id from A#firstlength(3);
        @name('pairs') select b.id as id from pattern [every a=A(x = 9) -> b=A(x = 0)]""")
    for id_, x in enumerate((4, 4, 4, 9)):
        saved.send("A", id=id_, x=x)
    saved.save(tmp_path / "saved")
    cep = Workbench()
    cep.load(tmp_path / "saved")
    outcomes = {name: cep.why(name, {"id": 9, "x": 0}).courses[0] for name in ("sums", "first", "pairs")}
    assert {name: (of.outcome, of.rows) for name, of in outcomes.items()} == {
        "sums": ("delivered", (("+", {"id": 9}),)),
        "first": ("not known", ()),
        "pairs": ("delivered", (("+", {"id": 9}),)),
    }
    assert outcomes["first"].notes[-1] == f"{COPY} no row"
    assert cep.to_frame("sums")["id"].tolist() == [0, 1, 2, 3] and cep.changes("sums").empty  # nothing was sent here
    cep.register_function("never", lambda x: pytest.fail("an answer calls it"), returns=int)
    assert cep.why("pairs", {"id": 9, "x": 0}).courses[0].outcome == "not known"
