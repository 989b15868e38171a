"""Faults at any line of a replayed slice: what is not told is whole, and what is told of one statement stays with it.

As in `test_faults`, but what runs is `Batch.run`: loops over columns, components that are merged, slices that leave as
columns. Afterwards the runtime is broken and says so; or all statements have delivered what they deliver without the
fault, whether or not the call ended in it; or errors were told, and then every statement that has no part in them has;
or the slice was not begun, and can be run again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError
from tests.engine.dispatch import test_faults as faults
from tests.engine.dispatch.test_faults import COUNT, FAILURES, SEED, Injector, in_a_copy, traced
from tests.engine.invariants import invariant_violations
from tests.engine.sinks import Deltas
from tests.random_cases import part

pytestmark = faults.pytestmark
no_garbage_of_others = faults.no_garbage_of_others

MODULE = f"""{faults.SHARED}
create schema F(k string, y int);
@name('join') select E.k as k, x, y from E#length(3) as E, F#length(3) as F where E.k = F.k;
@name('subquery') select k, (select max(y) from F#length(2) as f where f.k = e.k) as top from E as e;
create table T(k string primary key, n count(*));
@name('into') into table T select count(*) as n from E group by k;
@name('reads') select T[k].n as n from F;
"""
# Those that show in what they deliver that another one failed
FOLLOWERS = {
    "derive": ("derived",),
    "set": ("ticks", "variable"),
    "into": ("T", "reads"),
    "Keyed": ("keyed", "leaving"),
    "Hashed": ("hashed",),
    "Kinds": ("kinds",),
}
LENGTH, CUT = 30, 12


def slices(begin: int, end: int) -> list[ColumnBatch]:
    """The events number `begin` to before `end`: two of E, one of F, and so on, some at one instant."""
    times: dict[str, list[int]] = {"E": [], "F": []}
    columns: dict[str, dict[str, list[Any]]] = {"E": {"k": [], "x": []}, "F": {"k": [], "y": []}}
    ranks: dict[str, list[int]] = {"E": [], "F": []}
    for n in range(begin, end):
        name, value = ("F", "y") if n % 3 == 2 else ("E", "x")
        times[name].append(300 * (n - n % 2))
        ranks[name].append(n - begin)
        columns[name]["k"].append("abc"[n % 4 % 3])
        columns[name][value].append(None if n == 7 else n % 5)
    return [ColumnBatch(name, times[name], columns[name], ranks[name]) for name in times]


def ready() -> tuple[Runtime, dict[str, Deltas]]:
    runtime, told = Runtime(functions={"twice": faults.twice}), {}
    runtime.deploy(MODULE)
    for statement in runtime.statements.values():
        if statement.output_type is not None:
            told[statement.name] = Deltas()
            statement.add_sink(told[statement.name])
    return runtime, told


def seen(runtime: Runtime, told: dict[str, Deltas]) -> dict[str, list[Any]]:
    """What statements delivered and retain."""
    shown = {name: [[each.time, each.insert, each.remove] for each in deltas] for name, deltas in told.items()}
    for name, deltas in shown.items():
        deltas.append([runtime.iterate(name)])
    return shown


def begun() -> tuple[Runtime, dict[str, Deltas], Callable[[], None]]:
    """A runtime after the first slice, what its statements deliver, and what runs the second one."""
    runtime, told = ready()
    batch = runtime.batch(("E", "F"))
    batch.run(slices(0, CUT))
    return runtime, told, lambda: batch.run(slices(CUT, LENGTH))


def verdict(
    runtime: Runtime, told: dict[str, Deltas], run: Callable[[], None], injector: Injector, whole: dict[str, list[Any]]
) -> str:
    """What became of a fault in the second slice: ok, or what is wrong."""
    raised = traced(injector, run)
    what = f"{type(injector.failure).__name__} at {injector.where}"
    if runtime.turn.broken:
        return "broken"
    told_of_nobody = raised is not None and runtime.turn.raised_at_end(raised) and not runtime.errors
    if raised is not None and not (isinstance(raised, StatementError) or told_of_nobody):
        if not (runtime.errors or invariant_violations(runtime)) and seen(runtime, told) == whole:
            return "raised"  # behind all of it: the caller knows, and nothing is lost
        run()
        return "again" if seen(runtime, told) == whole else f"{what}: {raised!r}, neither broken nor not begun"
    if found := invariant_violations(runtime):
        return f"{what}: {found}"
    if told_of_nobody:  # between two statements: whose it is nobody knows, but it was raised
        return "told"
    failed = {error.statement for error in runtime.errors}
    concerned = failed.union(*(FOLLOWERS.get(name, ()) for name in failed))
    found = seen(runtime, told)
    silent = [name for name in whole if name not in concerned and found[name] != whole[name]]
    return f"{what}: silent in {silent}, told of {sorted(failed)}" if silent else "told" if failed else "whole"


@pytest.mark.parametrize("kind", FAILURES)
def test_a_fault_at_any_line_of_a_slice_is_told_or_changes_nothing(kind: str) -> None:
    runtime, told, run = begun()
    counter = Injector(None, None)
    assert traced(counter, run) is None
    whole = seen(runtime, told)
    assert not runtime.errors
    assert sum(len(each) > 1 for each in whole.values()) >= 13, "every statement is to have something to lose"
    before = begun()
    found: dict[str, int] = {}
    wrong: list[str] = []
    places = random.Random(SEED).sample(range(1, counter.lines + 1), min(COUNT, counter.lines))
    for at in sorted(part(places)):
        injector = Injector(at, FAILURES[kind]())
        result = in_a_copy(lambda: verdict(*before, injector, whole))  # noqa: B023 - called at once
        found[result] = found.get(result, 0) + 1
        if result not in ("again", "broken", "raised", "told", "whole"):
            wrong.append(f"line {at} of {counter.lines}: {result}")
    print(kind, counter.lines, {name: found.get(name, 0) for name in ("whole", "raised", "told", "broken", "again")})
    assert not wrong, "\n".join(wrong)


def test_an_error_listener_that_fails_costs_the_events_behind_it_nothing() -> None:
    """Statements of one component, taken event after event: each failure is told, and the rest of the slice comes."""
    runtime, heard = Runtime(functions={"twice": lambda x: 1 // x}), []

    def listener(error: StatementError) -> None:
        heard.append(error.statement)
        raise LookupError("the listener's own")

    runtime.deploy(
        "create schema E(x int); create variable int seen = 0; @name('set') on E set seen = seen + 1;"
        "@name('out') select x, twice(x) as y, seen from E(seen >= 0)"
    )
    runtime.add_error_listener(listener)
    out = Deltas()
    runtime.statements["out"].add_sink(out)
    batch = runtime.batch(("E",))
    assert set(batch.merged) >= {"set", "out"}
    with pytest.raises(LookupError, match="the listener's own"):
        batch.run([ColumnBatch("E", [1, 2, 3, 4], {"x": [1, 0, 0, 1]}, None)])
    assert heard == ["out", "out"]
    assert [delta.insert for delta in out] == [[{"x": 1, "y": 1, "seen": 1}], [{"x": 1, "y": 1, "seen": 4}]]
    assert not runtime.turn.broken
