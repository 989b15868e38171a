"""A failing expression is reported with its place in the text: its clause or a part of the clause, in all clauses."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.types import INT

SCHEMA = """
create schema A(k string, x int); create schema B(k string, x int); create schema E(k string, x int);
create schema D(k string, items E[]); create variable int v = 0; create table T(k string primary key, n int);
create window W#keepall as E; insert into W select * from E where x < 13
"""
EVENTS = [
    *(("A", {"k": "a", "x": 1}), ("E", {"k": "a", "x": 1}), ("E", {"k": "a", "x": 13}), ("E", {"k": "a", "x": 2})),
    *(("B", {"k": "a", "x": 13}), ("D", {"k": "a", "items": [{"k": "a", "x": 13}]})),
]

# The place stands between « and ».
FILTERS_AND_ROWS = [
    "select x from E(«boom(x) > 0»)",
    "select x from E(«x > 0, boom(x) > 0»)",
    "select x from E where «boom(x) > 0»",
    "select x, «boom(x)» as v from E",
    "select\n  x,\n  «boom(x)» as v\nfrom E",
    "select rstream «boom(x)» as v from E#length(1)",
    "insert into Z select «boom(x)» as v from E",
    "select «boom(x)» as v from E#length_batch(3)",
    "select prev(1, x) as p, «boom(x)» as v from E#length(3)",
    "select prior(1, «boom(x)») as v from E",
    "select * from E#expr(«boom(newest_event.x) > 0»)",
    "select * from E#expr(sum(«boom(x)») < 9)",
    "select * from E#expr_batch(«boom(newest_event.x) > 0»)",
    "select * from E«#unique(boom(x))»",
    "select * from E«#groupwin(boom(x))#length(1)»",
    "select * from E«#ext_timed(boom(x), 5)»",
    "select * from E«#sort(2, boom(x))»",
    "select * from E«#rank(k, 2, boom(x))»",
    "select «boom(x)» as v from D[items]",
    "select * from D[items where «boom(x) > 0»]",
    "select * from D[select k, «boom(x) as y» from items]",
]
AGGREGATES = [
    "select sum(«boom(x)») as s from E",
    "select sum(«boom(x)») as s from E#length(2)",
    "select sum(«boom(x)») as s from E group by rollup(k)",
    "select sum(x, «boom(x) > 0») as s from E",
    "select sum(«boom(x)», x > 0) as s from E#length(2)",
    "select rate(«boom(x)», x) as s from E#length(2)",
    "select rate(x, «boom(x)») as s from E#length(2)",
    "select minby(«boom(x)») as s from E#length(2)",
    "select sorted(«boom(x), k») as s from E#length(2)",
    "select avedev(«boom(x)») as s from E#sort(2, x)",
    "select nth(«boom(x)», 1) as s from E#length(2)",
    "select window(«boom(x)») as s from E#length(2)",
    "select count(*) as c from E group by k, «boom(x)»",
    "select sum(x) as s from E having «boom(sum(x) - 1) > 0»",
    "select k from E group by k having «boom(sum(x) - 1) > 0»",
]
OUTPUT = [
    "select x from E output when «boom(count_insert + 12) > 0»",
    "select x from E output when count_insert > 1 then set «v = boom(13)»",
    "select x from E output every «boom(13)» events",
    "select x from E output every «boom(13) sec»",
    "select x from E output at «(boom(13), *, *, *, *)»",
    "create context S start A end B; context S select x from E output when terminated and «boom(13) > 0»",
]
PATTERNS = [
    "select a.x from pattern [every a=E(«boom(x) > 0»)]",
    "select b.x from pattern [every a=E -> b=B(«boom(a.x) > 0»)]",
    "select b.x from pattern [every a=E -> b=B(k = a.k and «boom(x)» > a.x)]",
    "select b.x from pattern [every a=E -> b=B(«x = boom(a.x)»)]",
    "select b.x from pattern [every a=E -> b=B(«x > boom(a.x)»)]",
    "select a.x from pattern [every a=E -> timer:interval(«boom(a.x)»)]",
    "select a.x from pattern [every a=E -> timer:interval(«boom(a.x) sec»)]",
    "select a.x from pattern [every a=E -> «timer:at(boom(a.x), *, *, *, *)»]",
    "select a.x from pattern [«every-distinct(boom(a.x)) a=E»]",
    "select a.x from pattern [every a=E -> (B where timer:within(«boom(a.x)»))]",
    "select a.x from pattern [every a=E while («boom(a.x) > 0»)]",
    "select a.x from pattern [every a=E -> «[boom(a.x)] b=B»]",
    "select «boom(a.x)» as v from pattern [every a=E]",
]
MATCH_RECOGNIZE = [
    "select * from E match_recognize (measures a.x as x pattern (a) define a as «boom(a.x) > 0»)",
    "select * from E#length(3) match_recognize (measures a.x as x pattern (a b) define b as «boom(b.x) > a.x»)",
    "select * from E match_recognize (measures a.x as x, «boom(a.x)» as y pattern (a))",
    "select * from E match_recognize (partition by «boom(x)» measures a.x as x pattern (a))",
    "select * from E match_recognize (measures a.x as x pattern (a b*) interval «boom(13) sec»)",
]
JOINS_AND_SUBQUERIES = [
    "select a.x from E#lastevent as a, B#lastevent as b where «boom(b.x) > a.x»",
    "select a.x from E#lastevent as a, B#lastevent as b where «boom(b.x) = a.x»",
    "select a.x from E#lastevent as a inner join B#lastevent as b on a.k = b.k and «boom(b.x) > 0»",
    "select «boom(b.x)» as v from E#lastevent as a, B#lastevent as b",
    "select a.x from E(«boom(x) > 0»)#lastevent as a, B#lastevent as b",
    "select sum(«boom(b.x)») as v from E#lastevent as a, B#lastevent as b",
    "select (select sum(«boom(x)») from E#keepall) as x from B",
    "select x from B as b where «x in (select boom(x) from E#keepall)»",
    "select x from B as b where «boom(b.x) in (select x from E#keepall)»",
    "select (select x from E(«boom(x) > 0»)#lastevent) as x from B",
]
TRIGGERS = [
    "on B(«boom(x) > 0») select * from W",
    "on B as b select «boom(b.x)» as x from W",
    "on B as b select * from W where «boom(b.x)» > W.x",
    "on B as b delete from W where «boom(b.x)» = W.x",
    "on B as b update W set «x = boom(b.x)» where W.k = b.k",
    "on B as b merge W as w where w.k = b.k when matched and «boom(b.x) > 0» then delete",
    "on B as b merge W as w where w.k = b.k when matched then update set k = 'b', «x = boom(b.x)»",
    "on B as b merge W as w where w.k = 'z' when not matched then insert select b.k as k, «boom(b.x)» as x",
    "on B as b merge T as t where t.k = b.k when not matched then insert select b.k as k, «boom(b.x)» as n",
    "on B set «v = boom(x)»",
    "on B insert into X select k where x < 0 insert into Y select «boom(x)» as x",
    "on B insert into X select k where «boom(x) < 0» insert into Y select x",
    "update istream E set «x = boom(x)»",
    "update istream E set x = 3 where «boom(x) > 0»",
]


def unlucky(value: Any) -> Any:
    if value == 13:
        raise ValueError("unlucky")
    return value


@pytest.mark.parametrize(
    "marked",
    FILTERS_AND_ROWS + AGGREGATES + OUTPUT + PATTERNS + MATCH_RECOGNIZE + JOINS_AND_SUBQUERIES + TRIGGERS,
)
def test_a_failure_has_its_place(marked: str) -> None:
    runtime, failures = Runtime(), list[StatementError]()
    runtime.register_function("boom", unlucky, returns=INT)
    runtime.deploy(SCHEMA)
    text = marked.replace("«", "").replace("»", "")
    for statement in runtime.deploy(text).statements:
        statement.add_listener(lambda delta: None)
    runtime.add_error_listener(failures.append)
    for type_name, event in EVENTS:
        runtime.send(type_name, event)
    runtime.advance(2000)
    start = marked.index("«")
    assert failures
    assert {(f.span.start, f.span.end) if f.span else None for f in failures} == {(start, marked.index("»") - 1)}
