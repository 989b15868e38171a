"""Every function of `ProgramFunctions` is one that some statement has, so a name that generated code lost shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest

from cepbook.engine.codegen.program import ProgramFunctions, StatementProgram
from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText

MODULE = """
create schema A(k string, x int, n int);
create schema B(k string, y int);
create variable int v = 1;
create table T(k string primary key, total long);
create context K partition by k from A;
create window W#keepall as (k string, x int);
@name('copy') create window U#keepall as W insert;
insert into W select k, x from A;
@name('update') update istream B set y = y + 1;
@name('filter') select k from A(x > 1);
@name('sides') select * from A#length(2) as a, B#length(2) as b where a.k = b.k;
@name('self') select * from A#length(2) as a, A#length(3) as b where a.x = b.n;
@name('joined window') select * from A#length(2) as a, W as w where a.k = w.k;
@name('timed') select irstream k, x from A#time(10 sec);
@name('partitions') context K select irstream k, x from A#time(10 sec);
@name('condition') select k from A#expr(current_count <= v);
@name('output') select k, count(*) as c from A#time(1 min) group by k output every 5 sec order by k;
@name('snapshot') select k from W output snapshot every 5 sec;
@name('table rows') select k, total from T;
@name('pattern') select a.x as x from pattern[every a=A -> B]#length(5);
@name('sorted matches') select a.x as x from pattern[every a=A -> B] order by a.x;
@name('query') on A as a merge W as w where a.k = w.k when matched then delete;
@name('subquery') select (select max(y) from B#time(5 sec)) as most, exists (select * from W where W.k = a.k) as e
from A as a;
"""
APAMA = "from x in all A() within 1.5 select x.x"  # its input is buffered until the activation


def programs(runtime: Runtime) -> Iterator[StatementProgram]:
    for name in runtime.statements:
        program = runtime.statement(name).program
        yield program
        yield from program.subqueries


@pytest.fixture(scope="module")
def present() -> set[str]:
    runtime = Runtime()
    runtime.deploy(MODULE)
    runtime.deploy(SourceText(APAMA, "apama", {"name": "apama"}))
    names: set[str] = set()
    for program in programs(runtime):
        names.update(f.name for f in fields(ProgramFunctions) if getattr(program.functions, f.name, None))
    return names


@pytest.mark.parametrize("name", [f.name for f in fields(ProgramFunctions)])
def test_some_statement_has_the_function(name: str, present: set[str]) -> None:
    assert name in present
