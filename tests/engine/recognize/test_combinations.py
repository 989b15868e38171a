"""match_recognize in contexts, with where, order by, limit, output clauses and named windows: against the naive search
by backtracking, on random regular expressions and histories.
"""

from __future__ import annotations

from random import Random

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.recognize.reference import Clause, Row
from tests.engine.recognize.test_reference import KINDS, SCHEMA, examples
from tests.engine.sinks import Deltas
from tests.random_cases import several

pytestmark = pytest.mark.histories

CONTEXTS = {
    "keyed": "create context C partition by g from R;",
    "category": "create context C group g = 'a' as one, group g = 'b' as other from R;",
    "begun by events": "create context C initiated by distinct(g) R as begun terminated after 1 day;",
    "hash": "create context C coalesce consistent_hash_crc32(g) from R granularity 16 preallocate;",
}
COUNT = several(5)


def made(clause: Clause, rows: list[Row], epl: str) -> list[list[Row]]:
    """Of each row the events that statement `s` makes."""
    runtime, deltas = Runtime(), Deltas()
    runtime.deploy(SCHEMA + epl)
    runtime.statement("s").add_sink(deltas)
    found: list[list[Row]] = []
    for row in rows:
        before = len(deltas)
        runtime.send("R", dict(row))
        found.append([each for _, insert, _ in deltas[before:] for each in insert])
    return found


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_in_contexts_each_partition_has_its_own_matches(kind: str, context: str) -> None:
    for clause, rows in examples(kind, 20, COUNT):
        clause.partitioned = True  # which is what the context does
        expected = clause.matches(rows)
        clause.partitioned = False
        filtered = "(g = context.begun.g)" if context == "begun by events" else ""
        text = clause.epl().replace("from R match", f"from R{filtered} match")
        assert made(clause, rows, f"{CONTEXTS[context]} @name('s') context C {text}") == expected, (text, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_where_filters_rows_before_matching(kind: str) -> None:
    for clause, rows in examples(kind, 21, COUNT):
        passing = [row for row in rows if row["x"] != 2]
        numbered = [{**row, "i": number} for number, row in enumerate(passing)]
        matches = [each for some in clause.matches(numbered) for each in some]
        runtime = [each for some in made(clause, rows, f"@name('s') {clause.epl()} where x != 2") for each in some]
        of_number = {number: row["i"] for number, row in enumerate(passing)}
        assert runtime == [moved(match, of_number) for match in matches], (clause.epl(), rows)


def moved(match: Row, to: dict[int, int]) -> Row:
    return {
        name: None if of is None else [to[each] for each in of] if isinstance(of, list) else to[of]
        for name, of in match.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_order_limit_and_output_work_on_what_is_delivered(kind: str) -> None:
    draw = Random(kind)
    for clause, rows in examples(kind, 22, COUNT):
        name = next((each for each in clause.names if each not in clause.many), None)
        expected = clause.matches(rows)
        if name is not None:
            text = f"@name('s') {clause.epl()} order by {name} desc limit 2"
            for delivered, some in zip(made(clause, rows, text), expected, strict=True):
                if not tied(some, name):
                    assert delivered == sorted(some, key=lambda row: -row[name])[:2], (text, rows)
                assert len(delivered) == min(len(some), 2)
        every = draw.choice((1, 2, 3))
        made_then = made(clause, rows, f"@name('s') {clause.epl()} output every {every} events")
        paced = [each for some in made_then for each in some]
        flat = [each for some in expected for each in some]
        assert paced == flat[: len(paced)]
        assert len(flat) - len(paced) < every, (clause.epl(), rows)


def tied(rows: list[Row], name: str) -> bool:
    """Whether the order of rows is not settled by the column alone, or null stands among them."""
    values = [row[name] for row in rows]
    return None in values or len(set(values)) < len(values)


@pytest.mark.parametrize("kind", KINDS)
def test_over_a_named_window(kind: str) -> None:
    for clause, rows in examples(kind, 23, COUNT):
        text = clause.epl().replace("from R match", "from W match")
        for window, width in (("keepall", None), ("length(3)", 3)):
            epl = f"create window W#{window} as R; insert into W select * from R; @name('s') {text}"
            assert made(clause, rows, epl) == clause.matches(rows, width), (epl, rows)
