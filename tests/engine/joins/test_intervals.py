"""Relations of intervals in where-clauses: found by index, and as they are without one."""

from __future__ import annotations

import random

import pytest

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema {}(id int, st long, en long) starttimestamp st endtimestamp en;"
RELATIONS = (
    "before after coincides during includes finishes finishedBy meets metBy overlaps overlappedBy starts startedBy"
).split()


THRESHOLDS = (
    *((relation, "") for relation in RELATIONS),
    *((relation, "2") for relation in RELATIONS),
    *((relation, "3, 1") for relation in ("before", "after")),
    *((relation, "1, 2") for relation in ("before", "after", "coincides", "during", "includes")),
    *((relation, "1, 2") for relation in ("overlaps", "overlappedBy")),
    *((relation, "0, 1, 1, 3") for relation in ("during", "includes")),
    ("before", "-2 msec, 1 msec"),
    ("after", "-3"),
)


@pytest.mark.parametrize(("relation", "thresholds"), THRESHOLDS)
def test_joins_by_relations_find_what_looking_at_all_pairs_finds(relation: str, thresholds: str) -> None:
    runtime = Runtime()
    condition = f"a.{relation}({', '.join(['b', *filter(None, [thresholds])])})"
    runtime.deploy(
        f"{SCHEMA.format('A')} {SCHEMA.format('B')}"
        f"@name('found') select a.id as x, b.id as y from A#keepall as a, B#length(20) as b where {condition};"
        f"@name('looked') select a.id as x, b.id as y from A#keepall as a, B#length(20) as b"
        f" where case when {condition} then true else false end;"
        f"@name('inside') select (select count(*) from A#keepall as a where {condition}) as n from B as b"
    )
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in ("found", "looked", "inside")}
    for name, into in rows.items():
        runtime.statement(name).add_listener(lambda delta, into=into: into.extend(delta.insert))
    chance = random.Random(relation)
    for number in range(150):
        start = chance.choice([None, *range(8)])
        end = None if start is None or chance.random() < 0.1 else start + chance.randrange(7)
        runtime.send(chance.choice("AB"), {"id": number, "st": start, "en": end})
    assert rows["found"] and sorted(map(str, rows["found"])) == sorted(map(str, rows["looked"]))
    paired = sum(isinstance(row["n"], int) and row["n"] for row in rows["inside"])
    assert paired > 0
