"""Texts that are parsed and do not run are refused with a place and a remedy; docs/reference/limits.md lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError

SCHEMA = """create schema E(g string, i int); create schema I(a int); create schema P(items I[]);
create variable int v = 1; create window W#keepall as E"""
LIMITS = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
SECTION = " ".join(LIMITS.partition("\n## What EPL cepbook does not run\n")[2].partition("\n## ")[0].split())

# statement, where the message points to, what it says, what the page says
CASES = [
    ("select * from E as e, method:Rates.of(e.i) as r", "method:Rates.of(e.i)", "a Python function that", "`method:`"),
    ("select * from E as e, sql:db ['select 1'] as r", "sql:db ['select 1']", "a named window or a table", "`sql:`"),
    ("create dataflow D Emitter -> out {}", "create dataflow D Emitter -> out {}", "sources and sinks", "data flows"),
    ("create expression js f(x) [ return x; ]", "expression js f(x) [ return x; ]", "@cep.function", "scripts"),
    ('create inlined_class """ public class A {} """', '""', "a Python function", "classes"),
    ("create schema X as com.acme.Foo", "create schema X as com.acme.Foo", "list the properties", "Java's classes"),
    ("select new Foo(1) from E", "new Foo(1)", "a Python function", "Java's classes"),
    ("select com.acme.Tools.f(i) from E", "com.acme.Tools.f(i)", "a Python function", "Java's classes"),
    ("create schema X(a java.util.Map<String>)", "a java.util.Map<String>", "type parameters", "type parameters"),
    ("select * from P[items]#uni(a)", "#uni(a)", "over contained events", "derived-value windows over contained"),
    ("select * from E#length(3)#uni(i)#uni(average)", "#uni(average)", "after another", "behind another derived"),
    (
        "@Hint('reclaim_group_aged=10') select * from E#groupwin(g)#uni(i)",
        "#uni(i)",
        "reclaim_group hints",
        "`reclaim_group` hints",
    ),
    ("select sum(prior(1, i)) from E#length(3)", "prior(1, i)", "in an aggregate", "`prev`, `prior` and `istream()`"),
    (
        "select (select sum(k.i, group_by: k.g) from E#keepall as k group by k.g) from E",
        "sum(k.i, group_by: k.g)",
        "of a subquery",
        "`group_by:`",
    ),
    ("select sum(sum(i, group_by: g)) from E", "", "an aggregate of an aggregate with group_by", "`group_by:`"),
    ("select prev(1, a.i + b.i) from E#length(2) as a, E#length(2) as b", "", "one stream of a join", "two streams"),
    ("select g regexp '[a-z&&[^b]]' from E", "'[a-z&&[^b]]'", "`&&`", "`&&`"),
    (
        "expression f {1} create window X#keepall as select * from E",
        "expression f {1}",
        "expression declarations",
        "before `create window`",
    ),
    ("@Drop on E set v = i", "@Drop on E set v = i", "@Drop with", "`@Drop`"),
    ("create index X on W(g fulltext)", "g", "hash, for equality, and btree", "indexes"),
]


@pytest.mark.parametrize(("epl", "place", "told", "listed"), CASES, ids=[case[0] for case in CASES])
def test_it_is_refused_and_listed(epl: str, place: str, told: str, listed: str) -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    before = list(runtime.statements)
    with pytest.raises(CompileError) as caught:
        runtime.deploy(epl)
    found = caught.value.diagnostics[0]
    assert "supported" in str(caught.value) or found.code == "unknown-function"
    assert told in f"{found.message} {found.hint}"
    if place:
        assert epl[found.span.start : found.span.end] == place
    assert list(runtime.statements) == before
    assert listed in SECTION
