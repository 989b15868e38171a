"""Patterns against naive references that scan the whole history, on random histories.

Each reference is a function from the history to the matches after each event (and after the advance before it), in
order. A history is (time, type, id, x) with ties, nulls and gaps around the periods of the patterns; events are told
apart by their number, which the matches show.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.engine.histories  # noqa: F401 - loads the profile of property tests
from tests.engine.patterns.matching import Run
from tests.random_cases import in_part, several

pytestmark = pytest.mark.histories

GAPS = (0, 0, 0, 1, 400, 1999, 2000, 2001, 5000)


class Event(NamedTuple):
    time: int
    type: str
    key: str | None
    x: int | None


History = list[Event]
Matches = list[list[str]]  # for each event: those of the advance to its time, then its own


def history_of(seed: int) -> History:
    """Up to 25 events; drawing each part of them from hypothesis would take longer than the test."""
    draw, time, events = Random(seed), 0, []
    for _ in range(draw.randint(0, 25)):
        time += draw.choice(GAPS)
        events.append(Event(time, draw.choice("AABBC"), draw.choice(("k", "m", None)), draw.choice((None, 1, 2, 3))))
    return events


histories = st.integers(0, 1 << 60).map(history_of)


def run(text: str, history: History, annotations: str = "") -> Matches:
    """What the matcher finds; ids of events are their numbers, correlation goes over ``key``, which is shown as id."""
    matching = _Numbered(text, annotations)
    return [matching.step(i, event) for i, event in enumerate(history)]


class _Numbered(Run):
    """Matches show the numbers of events instead of ids."""

    def __init__(self, text: str, annotations: str) -> None:
        super().__init__(text, annotations=annotations)
        self._numbers: dict[int, int] = {}
        self._kept: list[dict[str, object]] = []

    def step(self, number: int, event: Event) -> list[str]:
        found = []
        if event.time > self.now:
            self.now = event.time
            found += self.matcher.advance(self.now)
        sent = {"id": event.key, "x": event.x}
        self._kept.append(sent)
        self._numbers[id(sent)] = number
        found += self.matcher.on_event(self._routes[event.type], sent, self.now)
        assert not self.failures
        return [" ".join(self._number(value) for value in match.values()) for match in found]

    def _number(self, value: object) -> str:
        if isinstance(value, list):
            return "[" + ",".join(self._number(each) for each in value) + "]"
        return "-" if value is None else str(self._numbers[id(value)])


# ---------------------------------------------------------------- references
def pairs(history: History) -> Matches:
    """each A with the first later B of its id"""
    found: Matches = [[] for _ in history]
    for i, a in enumerate(history):
        if a.type == "A" and a.key is not None:
            later = (j for j in range(i + 1, len(history)) if history[j].type == "B" and history[j].key == a.key)
            j = next(later, None)
            if j is not None:
                found[j].append(f"{i} {j}")
    return found


def pairs_in_time(history: History) -> Matches:
    """the same, less than two seconds later"""
    late = {f"{i} {j}" for j, b in enumerate(history) for i, a in enumerate(history) if b.time - a.time >= 2000}
    return [[match for match in matches if match not in late] for matches in pairs(history)]


def ranges(history: History) -> Matches:
    """each B with all earlier A of its id whose x is at most its own, ascending by that x"""
    found: Matches = []
    for j, b in enumerate(history):
        good = [
            (a.x, i)
            for i, a in enumerate(history[:j])
            if a.type == "A" and a.key == b.key is not None and a.x is not None and b.x is not None and b.x >= a.x
        ]
        found.append([f"{i} {j}" for _, i in sorted(good)] if b.type == "B" else [])
    return found


def absence(history: History) -> Matches:
    """each A after which no B of its id comes within two seconds, at the first event that is so late"""
    found: Matches = [[] for _ in history]
    for i, a in enumerate(history):
        if a.type != "A":
            continue
        for j in range(i + 1, len(history)):
            if history[j].time >= a.time + 2000:
                found[j].append(f"{i} -")
                break
            if history[j].type == "B" and history[j].key == a.key is not None:
                break
    return found


def both(history: History) -> Matches:
    """rounds of the first A and the first B, in any order"""
    found: Matches = []
    a = b = None
    for i, event in enumerate(history):
        matches = []
        if event.type == "A" and a is None:
            a = i
        if event.type == "B" and b is None:
            b = i
        if a is not None and b is not None:
            matches.append(f"{a} {b}")
            a = b = None
        found.append(matches)
    return found


def until(history: History) -> Matches:
    """all A up to the next B"""
    found: Matches = []
    collected: list[int] = []
    for i, event in enumerate(history):
        matches = []
        if event.type == "A":
            collected.append(i)
        if event.type == "B":
            shown = "[" + ",".join(map(str, collected)) + "]" if collected else "-"
            matches.append(f"{i} {shown}")
            collected = []
        found.append(matches)
    return found


def triples(history: History) -> Matches:
    """each A, the first later B, the first C after that which has the id of the A"""
    last: list[tuple[int, int, int]] = []
    for i, a in enumerate(history):
        j = next((j for j in range(i + 1, len(history)) if a.type == "A" and history[j].type == "B"), None)
        if j is None or a.key is None:
            continue
        k = next((k for k in range(j + 1, len(history)) if history[k].type == "C" and history[k].key == a.key), None)
        if k is not None:
            last.append((j, i, k))  # waits for the C began with the B
    return [[f"{i} {j} {k}" for j, i, k in sorted(last) if k == number] for number in range(len(history))]


def distinct(history: History) -> Matches:
    """each A whose (id, x) was not accepted in the two seconds before"""
    accepted: dict[object, int] = {}
    found: Matches = []
    for i, event in enumerate(history):
        key = event.key, event.x
        fresh = event.type == "A" and (key not in accepted or event.time >= accepted[key] + 2000)
        if fresh:
            accepted[key] = event.time
        found.append([str(i)] if fresh else [])
    return found


def all_pairs(history: History) -> Matches:
    """each A with every later B of its id"""
    return [
        [
            f"{i} {j}"
            for i, a in enumerate(history[:j])
            if a.type == "A" and b.type == "B" and a.key == b.key is not None
        ]
        for j, b in enumerate(history)
    ]


def disjoint(history: History) -> Matches:
    """pairs of successive A"""
    seen = [i for i, event in enumerate(history) if event.type == "A"]
    closing = {j: f"{i} {j}" for i, j in zip(seen[::2], seen[1::2], strict=False)}
    return [[closing[i]] if i in closing else [] for i in range(len(history))]


REFERENCES: list[tuple[str, Callable[[History], Matches], str]] = [
    ("every a=A -> b=B(id = a.id)", pairs, ""),
    ("every a=A -> b=B(id = a.id) where timer:within(2 sec)", pairs_in_time, ""),
    ("every a=A -> every b=B(id = a.id, x >= a.x)", ranges, ""),
    ("every a=A -> (timer:interval(2 sec) and not b=B(id = a.id))", absence, ""),
    ("every (a=A and b=B)", both, ""),
    ("every (a=A until b=B)", until, ""),
    ("every a=A -> b=B -> c=C(id = a.id)", triples, ""),
    ("every-distinct(a.id, a.x, 2 sec) a=A", distinct, ""),
    ("every a=A -> every b=B(id = a.id)", all_pairs, ""),
    ("every a=A -> b=A", disjoint, "@DiscardPartialsOnMatch"),
    ("every (a=A -> b=A)", disjoint, ""),
]


@pytest.mark.parametrize(("text", "reference", "annotations"), REFERENCES, ids=[text for text, *_ in REFERENCES])
def test_patterns_agree_with_the_reference(
    text: str, reference: Callable[[History], Matches], annotations: str
) -> None:
    @settings(max_examples=several(150))
    @given(histories)
    @in_part
    def check(history: History) -> None:
        assert run(text, history, annotations) == reference(history)

    check()


@pytest.mark.parametrize("text", [text for text, _, annotations in REFERENCES if not annotations])
def test_nothing_is_left_of_a_stopped_pattern(text: str) -> None:
    @settings(max_examples=several(8))
    @given(histories)
    @in_part
    def check(history: History) -> None:
        matching = _Numbered(text, "")
        for i, event in enumerate(history):
            matching.step(i, event)
        assert matching.matcher.size >= len(matching.matcher.partials())
        matching.matcher.stop()
        assert matching.matcher.size == 0
        assert not any(atoms.index for atoms in matching.matcher.atoms)

    check()
