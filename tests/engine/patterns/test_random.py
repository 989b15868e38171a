"""Random patterns, operators nested three deep, under random histories: what holds of every pattern.

No exception; the same history gives the same matches, sent or replayed; after its end nothing is left of it; in a keyed
context it finds for each key what it finds alone. Patterns that double with every event meet the limit of partial
matches, which is small here.
"""

from __future__ import annotations

import gc
import re
from random import Random
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.patterns.matcher import Matcher
from cepbook.engine.patterns.state_node import StateNode
from cepbook.errors import StatementError
from tests.engine.histories import Event, Run, comparable
from tests.random_cases import part, seeds, several

pytestmark = pytest.mark.histories

CONTEXT = "create context Each partition by k from A, k from B, k from C;"
KEYS = ("a", "b", None)
GAPS = (0, 0, 0, 1, 500, 999, 1000, 1500, 4000)
OTHERS = {"A": "gndf", "B": "", "C": "c"}  # properties that no filter reads
CONFIG = Config(pattern_limit=30)
PERIODS = ("1 sec", "1.5 sec", "500 msec", "3 sec")
ANNOTATIONS = ("", "", "", "@SuppressOverlappingMatches ", "@DiscardPartialsOnMatch ")


class Patterns:
    """Draws patterns; the same `seed`, the same patterns. `known` are the tags that a filter may read."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.known: list[str] = []
        self.tags = 0

    def pattern(self) -> str:
        self.known, self.tags = [], 0
        every = "every " if self.random.random() < 0.5 else ""
        return every + self.node(3)

    def node(self, depth: int) -> str:
        """A sub-expression of up to `depth` nested operators."""
        if not depth or self.random.random() < 0.1:
            return self.leaf()
        kinds = (self.followed, self.followed, self.every, self.every, self.logical, self.absent, self.repeat)
        return self.random.choice((*kinds, self.guarded, self.distinct))(depth - 1)

    def leaf(self) -> str:
        if self.random.random() < 0.15:
            period = self.random.choice(PERIODS)
            every_two = "timer:at(*, *, *, *, *, */2)"
            schedule = f"timer:schedule(repetitions: 2, period: {period})"
            return self.random.choice((f"timer:interval({period})", every_two, schedule))
        filters = ["", "", "x > 0", "k is not null"]
        for tag in self.known[-2:]:
            filters += [f"x = {tag}.x", f"k = {tag}.k", f"x >= {tag}.x", f"x < {tag}.x or k = {tag}.k"]
        type_, condition = self.random.choice("ABC"), self.random.choice(filters)
        consume = self.random.choice(("", "", "", "", "@consume", "@consume(2)"))
        self.tags += 1
        self.known.append(f"t{self.tags}")
        return f"t{self.tags}={type_}({condition}){consume}"

    def followed(self, depth: int) -> str:
        arrow = self.random.choice(("->", "->", "->", "-[2]>"))
        return f"({self.node(depth)} {arrow} {self.node(depth)})"

    def every(self, depth: int) -> str:
        return f"(every {self.node(depth)})"

    def logical(self, depth: int) -> str:
        left, from_left = self.apart(depth)
        right, from_right = self.apart(depth)
        self.known += from_left + from_right
        return f"({left} {self.random.choice(('and', 'or'))} {right})"

    def absent(self, depth: int) -> str:
        """The tags under ``not`` are not known outside."""
        negated, _ = self.apart(depth)
        return f"({self.node(depth)} and not {negated})"

    def repeat(self, depth: int) -> str:
        """The tags of what is repeated become arrays, which no filter here reads."""
        repeated, _ = self.apart(depth)
        bounds = self.random.choice(("[2] ", "", "[1:2] ", "[2:] ", "[:3] "))
        if bounds == "[2] ":
            return f"({bounds}{repeated})"
        until, found = self.apart(depth)
        self.known += found
        return f"({bounds}{repeated} until {until})"

    def guarded(self, depth: int) -> str:
        inner, found = self.apart(depth)
        self.known += found
        period = self.random.choice(PERIODS)
        guards = [f"where timer:within({period})", f"where timer:withinmax({period}, 2)"]
        guards += [f"while ({tag}.x is null or {tag}.x > -1)" for tag in found]
        return f"({inner} {self.random.choice(guards)})"

    def distinct(self, depth: int) -> str:
        inner, found = self.apart(depth)
        self.known += found
        if not found:
            return f"(every {inner})"
        expiry = self.random.choice(("", ", 1 sec", ", 3 sec"))
        return f"(every-distinct({self.random.choice(found)}.x{expiry}) {inner})"

    def apart(self, depth: int) -> tuple[str, list[str]]:
        """A sub-expression, and its tags, not known yet."""
        before = list(self.known)
        text = self.node(depth)
        found, self.known = self.known[len(before) :], before
        return text, found

    def events(self, most: int = 30) -> list[Event]:
        pick, time, found = self.random.choice, 0, []
        for _ in range(most):
            time += pick(GAPS)
            type_ = pick("ABC")
            values = {"k": pick(KEYS), "x": pick((None, -1, 0, 1, 2)), **dict.fromkeys(OTHERS[type_])}
            found.append(Event(time, type_, values))
        return found


class Found(Run):
    """The matches of a pattern: in context ``Each`` with its `key`, or alone with any other in its place."""

    def __init__(self, pattern: str, annotations: str, *, each: bool = False, key: str | None = None) -> None:
        context, within, shown = "", "", "null" if key is None else f"'{key}'"
        if each:
            context, within, shown = CONTEXT, "context Each ", "context.key1"
        tags = ", ".join(dict.fromkeys(re.findall(r"t\d+(?==)", pattern)))
        columns = f"{tags}, {shown} as key" if tags else f"{shown} as key"
        epl = f"{context}@name('s') {within}select {columns} from pattern {annotations}[{pattern}]"
        super().__init__(epl, config=CONFIG)
        self.runtime.add_error_listener(self.told)

    def told(self, error: StatementError) -> None:
        """Only of the limit."""
        assert isinstance(error.cause, OverflowError), error


def drawn(seed: int) -> tuple[str, str, list[Event], list[int]]:
    """A pattern, its annotation, a history, and where to cut that into slices."""
    patterns = Patterns(seed)
    pattern, events = patterns.pattern(), patterns.events()
    return pattern, patterns.random.choice(ANNOTATIONS), events, sorted(patterns.random.sample(range(len(events)), 3))


@pytest.mark.parametrize("block", range(several(50) // 25))
def test_the_same_history_gives_the_same_matches_sent_or_replayed(block: int) -> None:
    matches = 0
    for seed in part(range(block * 25, block * 25 + 25)):
        pattern, annotations, events, cuts = drawn(seed)
        sent, again, replayed = (Found(pattern, annotations) for _ in range(3))
        sent.send(events)
        again.send(events)
        replayed.replay(events, cuts)
        assert sent.deliveries == again.deliveries == replayed.deliveries, (seed, pattern)
        assert sent.readings() == again.readings() == replayed.readings(), (seed, pattern)
        matches += len(sent.deliveries["s"])
    assert matches > 10


@pytest.mark.parametrize("block", range(several(30) // 15))
def test_in_a_keyed_context_a_pattern_finds_for_each_key_what_it_finds_alone(block: int) -> None:
    matches = 0
    for seed in part(range(block * 15, block * 15 + 15)):
        pattern, annotations, events, _ = drawn(seed)
        each = Found(pattern, annotations, each=True)
        each.send(events)
        for key in {event.values["k"] for event in events}:
            alone = _alone(pattern, annotations, events, key)
            of_key = [match for match in _rows(each) if match[1]["key"] == comparable(key)]
            assert of_key == _rows(alone), (seed, pattern, key)
            matches += len(of_key)
    assert matches > 5


def _alone(pattern: str, annotations: str, events: list[Event], key: str | None) -> Found:
    """The pattern over the events of one key; it starts at the first of them, and time passes as for all."""
    found = Found(pattern, annotations, key=key)
    runtime, started = found.runtime, False
    source = runtime.deployments["main"].source
    runtime.undeploy("main")
    for event in events:
        runtime.advance(event.time)
        if event.values["k"] == key:
            if not started:
                runtime.deploy(source)
                runtime.statement("s").add_sink(found.recorders["s"])
                started = True
            runtime.send(event.type, dict(event.values))
    return found


def _rows(found: Found) -> list[Any]:
    return [(time, row) for time, rows, _ in found.deliveries["s"] for row in rows]


def test_nothing_is_left_of_an_undeployed_pattern() -> None:
    gc.collect()
    before = _in_memory()
    kept = []
    for seed in seeds(15):
        pattern, annotations, events, _ = drawn(seed)
        found = Found(pattern, annotations, each=seed % 2 == 0)
        found.send(events)
        found.runtime.undeploy("main")
        assert found.runtime.next_due is None
        kept.append(found.runtime)
    gc.collect()
    assert _in_memory() == before


def _in_memory() -> int:
    """How many running patterns and sub-expressions there are."""
    return sum(isinstance(found, (Matcher, StateNode)) for found in gc.get_objects())
