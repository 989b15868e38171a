"""match_recognize in contexts that begin and end, behind output clauses of time, and its iterators over what changes:
against the naive search by backtracking, on random regular expressions and histories.
"""

from __future__ import annotations

from random import Random

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.recognize.reference import Clause, Row
from tests.engine.recognize.test_combinations import CONTEXTS, moved
from tests.engine.recognize.test_reference import KINDS, SCHEMA, examples
from tests.engine.sinks import Deltas
from tests.random_cases import several

pytestmark = pytest.mark.histories

COUNT = several(5)

# ------------------------------------------------------------------ contexts of time
TIMED = f"{SCHEMA} create schema Go(n int); create schema Stop(n int);"
SPANS = {
    "overlapping": "create context C initiated by Go as go terminated after 3 seconds;",
    "overlapping, ended by events": "create context C initiated by Go as go terminated by Stop(n = go.n);",
    "one after the other": "create context C start Go end after 3 seconds;",
    "keyed over time": "create context C context K partition by g from R, context T start Go end after 3 seconds;",
    "keyed over overlapping": "create context C context K partition by g from R,"
    " context T initiated by Go as go terminated after 3 seconds;",
}


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("kind", KINDS)
def test_partitions_that_begin_and_end(kind: str, spans: str) -> None:
    """Each partition looks for matches in the rows between its begin and its end alone."""
    draw, told = Random(f"{kind} {spans}"), 0
    keyed, single = spans.startswith("keyed"), spans in ("one after the other", "keyed over time")
    for clause, rows in examples(kind, 24, COUNT):
        clause.partitioned = False
        runtime, deltas = Runtime(), Deltas()
        runtime.deploy(f"{TIMED} {SPANS[spans]} @name('s') context C {clause.epl()}")
        runtime.statement("s").add_sink(deltas)
        now, seen = 0, set[str]()
        lives: list[tuple[str, int, int, list[Row]]] = []  # of which group, which Go, from when, rows since
        for row in rows:
            now += draw.choice((0, 500, 1000))
            runtime.advance(now)
            if "events" not in spans:
                lives = [life for life in lives if life[2] + 3000 > now]
            if draw.random() < 0.4:
                number = draw.randint(0, 2)
                if draw.random() < 0.3 and "events" in spans:
                    runtime.send("Stop", {"n": number})
                    lives = [life for life in lives if life[1] != number]
                else:
                    runtime.send("Go", {"n": number})
                    groups = sorted(seen) if keyed else [""]
                    for group in groups:
                        if not single or all(life[0] != group for life in lives):
                            lives.append((group, number, now, []))
            before = len(deltas)
            runtime.send("R", dict(row))
            seen.add(row["g"])
            expected: list[Row] = []
            for group, _, _, own in lives:
                if not keyed or group == row["g"]:
                    own.append(row)
                    expected += last_matches(clause, own)
            found = [each for _, insert, _ in deltas[before:] for each in insert]
            assert sorted(found, key=str) == sorted(expected, key=str), (clause.epl(), rows, row)
            told += len(expected)
    assert told > COUNT / 3


def last_matches(clause: Clause, rows: list[Row]) -> list[Row]:
    """What the last of some rows makes."""
    numbered = [{**row, "i": place} for place, row in enumerate(rows)]
    of_place = {place: row["i"] for place, row in enumerate(rows)}
    return [moved(match, of_place) for match in clause.matches(numbered)[-1]]


# ------------------------------------------------------------------ outputs of time
@pytest.mark.parametrize("form", ["", "all", "last", "first", "snapshot"])
def test_outputs_by_time(form: str) -> None:
    """As the same output clause has it for the matches, inserted into a stream of their own."""
    draw, told = Random(form), 0
    for kind in KINDS:
        for clause, rows in examples(kind, 25, 12):
            output = f"output {form} every 2 seconds"
            runtime, direct, indirect = Runtime(), Deltas(), Deltas()
            window = "#length(4)" if form == "snapshot" else ""
            runtime.deploy(f"{SCHEMA} @name('s') {clause.epl(window)} {output};"
                           f"insert into M {clause.epl(window)}; @name('t') select * from M {output};")  # fmt: skip
            runtime.statement("s").add_sink(direct)
            runtime.statement("t").add_sink(indirect)
            now = 0
            for row in rows:
                now += draw.choice((0, 300, 900, 1000, 2500))
                runtime.advance(now)
                runtime.send("R", dict(row))
            runtime.advance(now + 4000)
            if form == "snapshot":  # what the iterator shows: matches in the window as it is
                shown = [list(insert or ()) for _, insert, _ in direct]
                assert shown[-1:] in ([runtime.iterate("s")], []), (clause.epl(), rows)
                told += sum(map(len, shown))
                continue
            found = rows_of(direct)
            if form == "first":  # matches that one row makes are one change here, and several events there
                found = [(time, some[:1]) for time, some in found]
            assert found == rows_of(indirect), (clause.epl(), rows)
            told += sum(len(each) for _, each in found)
    assert told > 10


def rows_of(deltas: Deltas) -> list[tuple[int, list[Row]]]:
    return [(time, list(insert)) for time, insert, _ in deltas if insert]


# ------------------------------------------------------------------ iterators, changes of named windows
@pytest.mark.parametrize("kind", KINDS)
def test_iterators_over_a_named_window_that_changes(kind: str) -> None:
    """The iterator looks for matches in what the window holds: without what was deleted, updated rows as the newest.
    `prev` reads what came before a row when the row came.
    """
    draw, told = Random(kind), 0
    for clause, rows in examples(kind, 26, COUNT):
        runtime = Runtime()
        text = clause.epl().replace("from R match", "from W match")
        runtime.deploy(f"{SCHEMA} create schema D(i int); create schema U(i int, x int); create window W#keepall as R;"
                       "insert into W select * from R; on D d delete from W where W.i = d.i;"
                       f"on U u update W set x = u.x where W.i = u.i; @name('s') {text};")  # fmt: skip
        held: list[Row] = []
        came: list[Row] = []
        for row in rows:
            runtime.send("R", dict(row))
            held.append(enter(clause, row, came))
            other = draw.choice(rows)["i"]
            if draw.random() < 0.2:
                runtime.send("D", {"i": other})
                held = [each for each in held if each["i"] != other]
            elif draw.random() < 0.2:
                runtime.send("U", {"i": other, "x": row["x"]})
                changed = [{**each, "x": row["x"]} for each in held if each["i"] == other]
                held = [each for each in held if each["i"] != other]
                held += [enter(clause, each, came) for each in changed]
            expected = clause.iterated(held)
            assert runtime.iterate("s") == expected, (text, rows, held)
            told += len(expected)
    assert told > 10


def enter(clause: Clause, row: Row, came: list[Row]) -> Row:
    """A row with those that came before it in its partition; it is added to `came`."""
    earlier = [each for each in came if not clause.partitioned or each["g"] == row["g"]]
    came.append(row)
    return {**row, "before": earlier}


@pytest.mark.parametrize("kind", KINDS)
def test_iterators_in_contexts(kind: str) -> None:
    """Of each partition in turn the matches in its window."""
    for clause, rows in examples(kind, 27, COUNT):
        clause.partitioned = False
        runtime = Runtime()
        runtime.deploy(f"{SCHEMA} {CONTEXTS['keyed']} @name('s') context C {clause.epl('#length(4)')}")
        groups: dict[str, list[Row]] = {}
        for row in rows:
            runtime.send("R", dict(row))
            groups.setdefault(row["g"], []).append(row)
        expected: list[Row] = []
        for own in groups.values():
            expected += clause.iterated([{**row, "before": own[:at]} for at, row in enumerate(own)][-4:])
        assert runtime.iterate("s") == expected, (clause.epl(), rows)
