"""Random contexts, random histories: sent or replayed, the same gives the same; at the end nothing is left."""

from __future__ import annotations

import gc
import random
from itertools import pairwise

import pytest

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.tree_nodes import PartitionNode
from cepbook.engine.patterns.matcher import Matcher
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from tests.engine.contexts.test_trees import SCHEMA, SELECTS, fits, level
from tests.engine.histories import Event, Recorder, slices
from tests.random_cases import part, seeds, several

pytestmark = pytest.mark.histories

MORE = [
    "select irstream id, sum(v) as t from D group by rollup(id) output snapshot when terminated",
    "select prev(1, v) as p, prior(1, v) as q, v from D#length(2) output first every 20 sec",
    "select a.countOf() as n from pattern [every ([1:3] a=D until (E or timer:interval(50 sec)))]",
    "insert into P select id, v + 1 as v from S(v < 2)",
    "select count(*) as c from pattern [every-distinct(a.id, 30 sec) a=D]#time(40 sec) output all every 2 events",
    "select id, v from D#unique(id) output last when terminated and count_insert > 1",
    "select context.id as i, id from D#groupwin(id)#length_batch(2)",
]
STEPS = (0, 0, 1, 999, 20_000, 45_000, 100_000, 3_600_000)


class Drawn:
    """A context, three statements in it and one outside, and a history; the same `seed`, the same."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        levels = [level(draw) for _ in range(draw.choice([1, 1, 2, 3, 4]))]
        nested = ", ".join(f"context L{i} {each}" for i, each in enumerate(levels))
        self.start = draw.choice([0, 1_709_539_200_000, 1_706_659_259_123])
        parts = [f"create context C {levels[0] if len(levels) == 1 else nested}"]
        selects = draw.sample(SELECTS + MORE, 3)
        for number, select in enumerate(select if fits(select, parts[0]) else SELECTS[0] for select in selects):
            priority = draw.choice(["", "", "@priority(1) ", "@priority(-1) ", "@drop @priority(2) "])
            parts.append(f"@name('s{number}') {priority}context C {select}")
        parts.insert(draw.randrange(1, 4), "@name('outside') select id, v from D")
        self.epl = ";\n".join(parts)
        self.events: list[Event] = []
        time = self.start
        for _ in range(40):
            time += draw.choice(STEPS)
            values = {"id": draw.choice(["a", "b", None]), "v": draw.choice([0, 1, 2, None])}
            self.events.append(Event(time, draw.choice("SSPEDDD"), values))
        self.cuts = sorted({0, *draw.sample(range(1, 40), 2), 40})


class Run:
    """A runtime, what its statements delivered, and what failed."""

    def __init__(self, drawn: Drawn) -> None:
        self.runtime = Runtime(start=drawn.start)
        self.failures: list[StatementError] = []
        self.runtime.add_error_listener(self.failures.append)
        self.runtime.deploy(SCHEMA)
        self.runtime.deploy(drawn.epl, deployment_id="main")
        self.recorders = {name: Recorder() for name in self.runtime.statements}
        for name, recorder in self.recorders.items():
            self.runtime.statement(name).add_sink(recorder)

    def sent(self, drawn: Drawn) -> Run:
        for event in drawn.events:
            if event.time > self.runtime.now:
                self.runtime.advance(event.time)
            self.runtime.send(event.type, dict(event.values))
        return self

    def replayed(self, drawn: Drawn) -> Run:
        batch = self.runtime.batch(["S", "P", "E", "D"])
        for low, high in pairwise(drawn.cuts):
            batch.run(slices(drawn.events[low:high], low, batch.columns))
        return self

    def found(self) -> object:
        """All that can be seen of it."""
        deliveries = {name: recorder.deltas for name, recorder in self.recorders.items()}
        rows = {name: self.runtime.iterate_partitions(name) for name in self.recorders}
        state = {name: self.runtime.state(name) for name in self.recorders}
        return deliveries, rows, state, self.runtime.partitions("C"), self.runtime.next_due


@pytest.mark.parametrize("block", range(several(30) // 15))
def test_sent_or_replayed_the_same_history_gives_the_same(block: int) -> None:
    for seed in part(range(block * 15, block * 15 + 15)):
        drawn = Drawn(seed)
        runs = [Run(drawn).sent(drawn), Run(drawn).sent(drawn), Run(drawn).replayed(drawn)]
        for run in runs:
            assert run.failures == [], (seed, drawn.epl)
            assert run.found() == runs[0].found(), (seed, drawn.epl)


def test_nothing_is_left_of_an_undeployed_context() -> None:
    gc.collect()
    before = _in_memory()
    kept = []
    for seed in seeds(15):
        drawn = Drawn(seed)
        run = Run(drawn).sent(drawn)
        run.runtime.undeploy("main")
        assert run.runtime.next_due is None, (seed, drawn.epl)
        kept.append(run.runtime)
    gc.collect()
    assert _in_memory() == before


def _in_memory() -> int:
    """How many parts of running contexts and patterns there are."""
    return sum(isinstance(found, (ContextPartition, PartitionNode, Matcher)) for found in gc.get_objects())
