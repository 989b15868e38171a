"""match_recognize against a naive search by backtracking, on random regular expressions and histories."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.recognize.reference import Clause, Clauses, Row, TooMany, history
from tests.engine.sinks import Deltas
from tests.engine.snapshot.saving import again
from tests.random_cases import part, several

pytestmark = pytest.mark.histories

SCHEMA = "create schema R(i int, x int, g string);"
KINDS: dict[str, dict[str, Any]] = {
    "greedy and reluctant": {"skip": "past last row", "all_matches": False},
    "to next row": {"skip": "to next row", "all_matches": False},
    "to current row": {"skip": "to current row", "all_matches": False},
    "all matches": {"all_matches": True},
}
EACH = several(160)
SHARE = 4  # tests of each kind


def started(clause: Clause, window: str = "") -> tuple[Runtime, Deltas]:
    return deployed(f"{SCHEMA} @name('s') {clause.epl(window)}")


def deployed(epl: str) -> tuple[Runtime, Deltas]:
    runtime, made = Runtime(), Deltas()
    runtime.deploy(epl)
    runtime.statement("s").add_sink(made)
    return runtime, made


def sent(clause: Clause, rows: list[Row], window: str = "") -> list[list[Row]]:
    """Of each row the events that it makes."""
    runtime, made = started(clause, window)
    found: list[list[Row]] = []
    for row in rows:
        before = len(made)
        runtime.send("R", dict(row))
        found.append([each for _, insert, _ in made[before:] for each in insert])
    return found


def examples(kind: str, share: int, count: int = EACH // SHARE) -> list[tuple[Clause, list[Row]]]:
    """Clauses with histories; those that the reference cannot look through are left out."""
    seed = f"{kind} {share}"
    clauses, draw = Clauses(0), Random(seed)
    clauses.random.seed(seed)
    found: list[tuple[Clause, list[Row]]] = []
    while len(found) < count:
        clause, rows = clauses.clause(**KINDS[kind]), history(draw, draw.randint(4, 11))
        try:
            clause.matches(rows)
        except TooMany:
            continue
        found.append((clause, rows))
    return found


@pytest.mark.parametrize("share", range(SHARE))
@pytest.mark.parametrize("kind", KINDS)
def test_as_by_backtracking(kind: str, share: int) -> None:
    told = 0
    for clause, rows in part(examples(kind, share)):
        expected = clause.matches(rows)
        assert sent(clause, rows) == expected, (clause.epl(), rows)
        told += sum(map(len, expected))
    assert told > 20


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_leave_a_window(kind: str) -> None:
    for clause, rows in part(examples(kind, SHARE, several(13))):
        for width in (2, 4):
            expected = clause.matches(rows, width)
            assert sent(clause, rows, f"#length({width})") == expected, (clause.epl(), rows)


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterator_looks_from_the_beginning_of_the_window(kind: str) -> None:
    for clause, rows in part(examples(kind, SHARE + 1, several(8))):
        runtime, _ = started(clause, "#length(5)")
        for at, row in enumerate(rows):
            runtime.send("R", dict(row))
            held = [each | {"before": before(clause, rows, each)} for each in rows[max(0, at - 4) : at + 1]]
            assert runtime.iterate("s") == clause.iterated(held), (clause.epl(), rows, at)


def before(clause: Clause, rows: list[Row], row: Row) -> list[Row]:
    """The rows that came before `row` in its partition."""
    return [each for each in rows[: row["i"]] if not clause.partitioned or each["g"] == row["g"]]


def moved(match: Row, by: int) -> Row:
    return {
        name: None if value is None else [each + by for each in value] if isinstance(value, list) else value + by
        for name, value in match.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_replayed_saved_and_loaded(kind: str) -> None:
    draw = Random(kind)
    for clause, rows in part(examples(kind, SHARE + 2, several(8))):
        window = draw.choice(("", "#length(3)", "#keepall"))
        runtime, made = started(clause, window)
        for row in rows:
            runtime.send("R", dict(row))
        replayed, run = started(clause, window)
        batch = replayed.batch(["R"])
        cut = draw.randint(0, len(rows))
        for low, high in ((0, cut), (cut, len(rows))):
            slice_ = rows[low:high]
            columns = {name: [row[name] for row in slice_] for name in batch.columns["R"]}
            batch.run([ColumnBatch("R", [0] * len(slice_), columns, list(range(low, high)))])
        assert list(run) == list(made), clause.epl()
        first, before = started(clause, window)
        for row in rows[:cut]:
            first.send("R", dict(row))
        second, after = again(first), Deltas()
        second.statement("s").add_sink(after)
        for row in rows[cut:]:
            second.send("R", dict(row))
        assert [*before, *after] == list(made), clause.epl()


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_replayed_saved_and_loaded(kind: str) -> None:
    """What is held is told of at the same times, whatever way the rows come; after the last one nothing is left."""
    draw = Random(kind)
    for clause, rows in part(examples(kind, SHARE + 3, several(13))):
        terminated = draw.choice(("", " or terminated"))
        window = draw.choice(("", "", "#length(4)", "#time(3 seconds)"))
        text = clause.epl(window)
        cut = text.index(" define ") if " define " in text else len(text) - 1
        epl = f"{SCHEMA} @name('s') {text[:cut]} interval 2 seconds{terminated}{text[cut:]}"
        times, now = [], 0
        for _ in rows:
            now += draw.choice((0, 0, 500, 1000, 1999, 2000, 5000))
            times.append(now)

        runtime, made = deployed(epl)
        for time, row in zip(times, rows, strict=True):
            runtime.advance(time)
            runtime.send("R", dict(row))
        runtime.advance(now + 10_000)
        replayed, run = deployed(epl)
        batch = replayed.batch(["R"])
        middle = draw.randint(0, len(rows))
        for low, high in ((0, middle), (middle, len(rows))):
            columns = {name: [row[name] for row in rows[low:high]] for name in batch.columns["R"]}
            batch.run([ColumnBatch("R", times[low:high], columns, list(range(low, high)))])
        replayed.advance(now + 10_000)
        assert list(run) == list(made), epl
        saved, before = deployed(epl)
        for time, row in zip(times[:middle], rows[:middle], strict=True):
            saved.advance(time)
            saved.send("R", dict(row))
        loaded, after = again(saved), Deltas()
        loaded.statement("s").add_sink(after)
        for time, row in zip(times[middle:], rows[middle:], strict=True):
            loaded.advance(time)
            loaded.send("R", dict(row))
        loaded.advance(now + 10_000)
        assert [*before, *after] == list(made), epl
        view = loaded.statement("s").state.view.then
        assert view.size == sum(len(partition.open) for partition in view.partitions.values()), epl
        assert not any(partition.held for partition in view.partitions.values()) or clause.skip == "past last row", epl
