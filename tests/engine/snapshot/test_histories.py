"""Random modules under random histories, cut anywhere, saved and continued: the same deliveries and the same readings.

The seeds change with each run and are shown when a test fails; ``CEPBOOK_CUTS=SEED`` runs the same ones again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError
from tests.engine import histories
from tests.engine.contexts import test_random as contexts
from tests.engine.generated_statements import Statements
from tests.engine.histories import Event, Recorder, comparable
from tests.engine.patterns import test_random as patterns
from tests.engine.replay.test_stepping_modules import deployed
from tests.engine.snapshot.saving import again, each_partition_again
from tests.engine.snapshot.test_corpus import SEED
from tests.random_cases import part, several
from tests.spark.modules import Modules

pytestmark = pytest.mark.histories

EACH = 8


class Run:
    """A runtime whose statements are recorded, over snapshots of it too."""

    def __init__(self, runtime: Runtime) -> None:
        self.recorders = {name: Recorder() for name in runtime.statements}
        self.failures: list[str] = []
        self._follow(runtime)

    def _follow(self, runtime: Runtime) -> None:
        self.runtime = runtime
        runtime.add_error_listener(lambda error: self.failures.append(str(error)))
        for name, recorder in self.recorders.items():
            runtime.statement(name).add_sink(recorder)

    def send(self, events: Sequence[Event], cuts: Sequence[int]) -> Any:
        """Everything that is seen of the events and of a while later; before those at `cuts` it is saved and loaded."""
        for number, event in enumerate(events):
            if number in cuts:
                self._follow(again(self.runtime))
            self.take(event)
        if len(events) in cuts:
            self._follow(again(self.runtime))
        read = [self._read()]
        for step in (700, 100_000):
            self.runtime.advance(self.runtime.now + step, stepping=True)
            read.append(self._read())
        return read, {name: recorder.deltas for name, recorder in self.recorders.items()}, self.failures

    def take(self, event: Event) -> None:
        if event.time > self.runtime.now:
            self.runtime.advance(event.time)
        self.runtime.send(event.type, dict(event.values))

    def _read(self) -> Any:
        names = list(self.runtime.statements)
        partitions = [self.runtime.partitions(name) for name in self.runtime.catalog.contexts]
        rows = [(comparable(self.runtime.iterate_partitions(name)), self.runtime.state(name)) for name in names]
        return rows, partitions, self.runtime.next_due, {n: v.value for n, v in self.runtime.variables.items()}


def started(epl: str, schema: str, start: int = 0, config: Config = Config()) -> Runtime | None:
    """A runtime with the module; None if it is refused."""
    runtime = Runtime(config, start=start)
    runtime.deploy(schema, deployment_id="schema")
    try:
        runtime.deploy(epl, deployment_id="main")
    except BindError:
        return None
    return runtime


def statement(seed: int) -> tuple[Any, list[Event]]:
    draw = Statements(seed)
    module, events = draw.module(), draw.events()
    return lambda: started(module.epl, "create schema Other()"), events


def context(seed: int) -> tuple[Any, list[Event]]:
    drawn = contexts.Drawn(seed)
    return lambda: started(drawn.epl, contexts.SCHEMA, drawn.start), drawn.events


def pattern(seed: int) -> tuple[Any, list[Event]]:
    draw = patterns.Patterns(seed)
    texts = [f"@name('s{i}') select * from pattern [{draw.pattern()}]" for i in range(3)]
    return lambda: started(";\n".join(texts), histories.SCHEMA, 0, patterns.CONFIG), draw.events()


def module(seed: int) -> tuple[Any, list[Event]]:
    draw = Modules(seed)
    text = draw.module_text()
    return lambda: deployed(text), [Event(time, name, values) for name, time, values in draw.history()]


@pytest.mark.parametrize("kind", [statement, context, pattern, module])
def test_random_modules_and_histories(kind: Any) -> None:
    ran = 0
    print(f"seed {SEED}")
    for seed in range(SEED, SEED + EACH):
        start, events = kind(seed)
        plain, cut = start(), start()
        if plain is None or cut is None:
            continue
        ran += 1
        draw = random.Random(seed)
        cuts = draw.sample(range(len(events) + 1), min(4, len(events)))
        assert repr(Run(cut).send(events, cuts)) == repr(Run(plain).send(events, ())), f"{kind.__name__} {seed} {cuts}"
    assert ran > EACH / 3


PARTED = several(12)


def test_partitions_put_back_are_as_they_were() -> None:
    print(f"seed {SEED}")
    count = 0
    for seed in part(range(SEED, SEED + PARTED)):
        plain, parted = (Run(context(seed)[0]()) for _ in range(2))
        for run in (plain, parted):
            for number, event in enumerate(contexts.Drawn(seed).events):
                if run is parted and number % 4 == 0:
                    count += each_partition_again(run.runtime)
                run.take(event)
        assert repr(parted.send([], ())) == repr(plain.send([], ())), seed
    assert count


def _outer(runtime: Runtime) -> int:
    """How many partitions of outer levels there are: those that have none below them are no partitions yet."""
    trees = [context for context in runtime.contexts.values() if isinstance(context, TreeContext)]
    return sum(len(list(tree.outer_nodes())) for tree in trees)


def test_partitions_go_on_in_another_runtime_whatever_it_has_seen() -> None:
    print(f"seed {SEED}")
    moved = 0
    for seed in part(range(SEED, SEED + PARTED)):
        events = contexts.Drawn(seed).events
        at = random.Random(seed).randrange(10, len(events))
        plain = Run(context(seed)[0]())
        for event in events[:at]:
            plain.take(event)
        other = Runtime.restored(plain.runtime.snapshot(), {})
        there = {name: other.partitions(name) for name in other.contexts}
        outer = _outer(other)
        for x in range(5):
            other.send("D", {"id": "ab"[x % 2], "v": x})  # which begin and end nothing but partitions of keys
        if {name: other.partitions(name) for name in other.contexts} != there or _outer(other) != outer:
            continue
        for name, found in there.items():
            for each in found:
                assert other.restore_partition(plain.runtime.snapshot(partition=(name, each["id"]))) == each["id"]
                moved += 1
        rest = [Run(runtime).send(events[at:], ()) for runtime in (plain.runtime, other)]
        assert repr(rest[0]) == repr(rest[1]), seed
    assert moved
