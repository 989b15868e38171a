"""A fragment writes what the view's ``arrive`` does: with and without fragments statements say the same."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.codegen.views import ViewCodegen
from cepbook.engine.inspection.visible_rows import window_events
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.runtime import Runtime
from cepbook.engine.windows import WINDOW_FORMS
from tests.engine.generated_statements import Statements
from tests.engine.statements.test_statements import read, started
from tests.random_cases import part

WRITTEN = "create schema E(k string, x double, at long); @name('s') select irstream k, sum(x) as s from E#{} group by k"


def told(seed: int) -> tuple[Any, list[str], Any] | None:
    """What the statement of `seed` delivers, how it fails, and what it reads at the end; None if it is refused."""
    draw = Statements(seed)
    module, events = draw.module(), draw.events()
    found = started(module)
    if found is None:
        return None
    run, failures = found
    run.send(events)
    return run.deliveries, failures, read(run)


@pytest.mark.histories
@pytest.mark.parametrize("number", range(4))
def test_random_statements_with_and_without_fragments(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = part(range(number * 60, (number + 1) * 60))
    written = [told(seed) for seed in seeds]
    monkeypatch.setattr(ViewCodegen, "objection", property(lambda self: "not in this test"))
    monkeypatch.setattr(PhysicalPlan, "aggregate_only", property(lambda self: False))
    called = [told(seed) for seed in seeds]
    assert sum(found is not None for found in written) > 10
    for seed, one, other in zip(seeds, written, called, strict=True):
        assert one == other, Statements(seed).module().epl


@pytest.mark.parametrize("name", sorted(name for name, form in WINDOW_FORMS.items() if form.fragment is not None))
def test_a_fragment_stands_in_the_statement(name: str) -> None:
    parameters = {"keepall": "", "lastevent": "", "unique": "(k)", "ext_timed": "(at, 1 sec)", "length": "(3)"}
    timed = "time" in name or name == "tumbling"
    window = name + parameters.get(name, "(2)" if name == "length_batch" else "(1 sec)" if timed else "")
    program = Runtime().deploy(WRITTEN.format(window)).statements[0].program
    assert program.notes[-1] == "arrivals are written into the statement"
    assert ".arrive(" not in program.text


@pytest.mark.parametrize("window", ["length(2)", "lastevent", "unique(k)", "ext_timed(at, 2 sec)", "time(2 sec)"])
@pytest.mark.parametrize("columns", ["count(*) as n", "irstream count(*) as n", "count(*) as n, sum(x) as s"])
def test_what_leaves_is_let_go_where_only_its_number_shows(window: str, columns: str) -> None:
    runtime = Runtime()
    runtime.deploy(f"create schema E(k string, x double, at long); @name('s') select {columns} from E#{window}")
    for at in range(0, 20_000, 500):
        runtime.advance(at)
        runtime.send("E", {"k": "a", "x": 1.0, "at": at})
    (row,) = runtime.iterate("s")
    assert window_events(runtime.statement("s"), 50).total == row["n"] <= 4
