"""Which columns and properties hold times of events, and that people see them as such."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cepbook import Workbench
from cepbook.display import format_time
from cepbook.engine.runtime import Config
from cepbook.session.inspect.partial_matches import partial_matches
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.widgets.base.static_picture import answer_picture
from cepbook.widgets.live_view.partition_rows import match_lines
from cepbook.widgets.live_view.row_filter import RowFilter, SheetColumns
from cepbook.widgets.live_view.static_view import static_view
from cepbook.widgets.live_view.time_texts import time_texts
from cepbook.widgets.live_view.view_source import WorkbenchSource

SCHEMAS = """create schema T(at long, ended long, x double, k string, other long)
starttimestamp at endtimestamp ended;
create schema U(at long, since long) starttimestamp since;
"""


def bench(epl: str = "", **settings: bool) -> Workbench:
    cep = Workbench(config=Config(**settings)) if settings else Workbench()
    cep.run(SCHEMAS + epl)
    return cep


@pytest.mark.parametrize(
    ("epl", "columns"),
    [
        ("select * from T", {"at", "ended"}),
        ("select at as t, ended - at as took, other, x from T", {"t"}),
        ("select min(at) as a, max(ended) as b, last(at) as c, count(at) as d, sum(at) as e from T group by k", "abc"),
        ("select current_timestamp as now, prev(1, at) as before, prior(1, at) as prior from T#length(3)",
         {"now", "before", "prior"}),
        ("select at, count(*) as n from T group by at", {"at"}),
        ("select a.at as a, b.since as b, b.at as c from pattern [every a=T -> b=U]", "ab"),
        ("select l.at as a, r.at as b, r.since as c from T#lastevent as l, U#lastevent as r", "ac"),
        ("select count(*) as at from T", set()),
        ("select * from T match_recognize (measures A.at as at, A.x as x pattern (A) define A as A.x > 0)", {"at"}),
        ("select t, u from T match_recognize (measures last(B.at) as t, B[0].at - A.at as u, A.other as v"
         " pattern (A B+) define A as A.x > 0)", "t"),
        ("select max(at, ended) as m, Math.min(at, 3L) as n, coalesce(at, ended) as c,"
         " case when x > 1 then at else ended end as k, case when x > 1 then at else 0L end as z from T", "mck"),
        ("select (select max(at) from T) as a, (select x from T#lastevent) as b, (select count(*) from T) as c from U",
         "a"),
        ("select (select at from T#lastevent where T.k = 'x') as a, exists (select * from T) as b from U", "a"),
    ],
)  # fmt: skip
def test_columns(epl: str, columns: set[str]) -> None:
    cep = bench(f"@name('q') {epl}")
    assert TimeColumns(cep.runtime).of_statement("q") == set(columns)


def test_streams_and_stores_that_statements_fill() -> None:
    cep = bench(
        "insert into S select at as moment, x from T; create window W#keepall as T; insert into W select * from T;"
        "insert into Mixed select at as a from T; insert into Mixed select other as a from T;"
        "insert into Loop select at from T; insert into Loop select at from Loop(at < 0);"
        "@name('s') select moment from S; @name('w') select * from W; @name('m') select a from Mixed"
    )
    times = TimeColumns(cep.runtime)
    assert [times.of_type(name) for name in ("T", "S", "W", "Mixed")] == [
        {"at", "ended"}, {"moment"}, {"at", "ended"}, set(),
    ]  # fmt: skip
    assert [times.of_statement(name) for name in "swm"] == [{"moment"}, {"at", "ended"}, set()]


FILLED = {
    "insert into R select k, at as a, other as b from T": "a",
    "on T merge R where R.k = T.k when not matched then insert select T.k as k, at as a, other as b": "a",
    "on T merge R where R.k = T.k when matched then update set a = T.at, b = T.other"
    " when not matched then insert select T.k as k, T.at as a": "a",
    "on T merge R where R.k = T.k when matched then update set a = max(R.a, T.at), b = R.b + 1"
    " when not matched then insert select T.k as k, T.at as a": "a",
    "on T merge R where R.k = T.k when not matched then insert select T.k as k, at as a, ended as b": "ab",
    "on T update R set a = T.at where R.k = T.k": "a",
    "on T update R set a = T.ended - T.at, b = current_timestamp where R.k = T.k": "b",
    "on T update R set a = T.at where R.k = T.k; on T update R set a = 0 where R.k = T.k": "",
    "on T update R set a = case when T.x > 0 then T.at else R.a end": "a",
}


@pytest.mark.parametrize("epl", FILLED)
@pytest.mark.parametrize("store", ["create table R(k string primary key, a long, b long)",
                                   "create window R#keepall as (k string, a long, b long)"])  # fmt: skip
def test_rows_that_triggers_write(epl: str, store: str) -> None:
    """9 ways to fill × tables and named windows, read by 6 statements and queries."""
    texts = epl.replace("on T update", "on T as T update").replace("on T merge", "on T as T merge")
    cep = bench(
        f"{store}; {texts}; create variable long v;"
        "@name('on') on U select R.a as a, R.b as b from R; @name('sub') select (select a from R) as a,"
        " (select max(b) from R) as b from U; @name('set') on U set v = since; @name('var') select v from U"
    )
    cep.send("T", at=5, ended=7, x=1.0, k="x", other=9)
    times = TimeColumns(cep.runtime)
    assert times.of_type("R") == times.of_statement("on") == times.of_statement("sub") == set(FILLED[epl])
    assert times.of_statement("set") == times.of_statement("var") == {"v"}
    queries = ("select a, b from R", "select max(a) as a, min(b) as b from R")
    for frame in (cep.to_frame("R"), *map(cep.query, queries)):
        dates = {name for name in "ab" if str(frame[name].dtype).startswith("datetime64")}
        assert dates == set(FILLED[epl])


def test_aggregates_of_tables() -> None:
    cep = bench(
        "create table R(k string primary key, a max(long), n count(*), w sum(long));"
        "into table R select max(at) as a, count(*) as n, sum(at) as w from T#keepall group by k;"
        "@name('read') select R[k].a as a, R[k].n as n, R[k] as r from T"
    )
    assert TimeColumns(cep.runtime).of_type("R") == TimeColumns(cep.runtime).of_statement("read") == {"a"}


def test_of_several_types_what_is_a_time_in_all() -> None:
    cep = bench("@name('j') select l.x from T#lastevent as l, U#lastevent as r")
    assert TimeColumns(cep.runtime).of_events("j") == {"ended", "since"}, "`at` is none in U"


DAY = 1_357_034_400_000
ASKED = "@name('q') select irstream at, x from T(x > 0)#length(1)"


def test_why_shows_times() -> None:
    cep = bench(ASKED)
    for n in range(2):
        cep.advance(DAY + 1000 * n)
        cep.send("T", at=DAY + 1000 * n, ended=DAY + 5000, x=1.0, k="a", other=DAY)
    text = answer_picture(cep.why("q")).text
    assert "at=2013-01-01 10:00:00  x=1.0" in text, "the row that left"
    assert f"ended=2013-01-01 10:00:05  x=1.0  k=a  other={DAY}" in text, "the event"
    assert "2013-01-01 10:00:00  2013-01-01 10:00:00  2013-01-01 10:00:05" in text, "what it was made of, in a table"
    judged = answer_picture(cep.why("q", {"at": DAY, "x": -1.0, "k": "a", "ended": DAY, "other": 5})).text
    assert "at=2013-01-01 10:00:00" in judged and "other=5" in judged
    assert "at" in cep.why("q").to_dict()["row_times"]


def test_views_show_times_and_find_them_as_they_are_shown() -> None:
    cep = bench("@name('q') select at, x from T#keepall; @name('n') select max(at) as last from T#length(9)")
    for n in range(3):
        cep.send("T", at=DAY + 60_000 * n, ended=None, x=float(n), k="a", other=DAY)
    source = WorkbenchSource(cep, "q")
    assert [(column.name, column.kind) for column in source.columns] == [("at", "time"), ("x", "float")]
    assert source.times == {"at", "ended"}
    text = static_view(source).text
    assert text.count("2013-01-01 10:02:00") == 2 and str(DAY) not in text, "in the stream and the window"
    assert static_view(WorkbenchSource(cep, "n")).text.count("2013-01-01 10:02:00") == 3, (
        "in the events of the window, too"
    )
    table = SheetColumns(source.every(), {"at"})
    assert RowFilter(("10:01",)).found(table, ("at", "x")).places.tolist() == [1]
    assert RowFilter(("2013-01-01", "1.0")).found(table, ("at", "x")).places.tolist() == [1]
    latest_first = RowFilter(by="at", down=True)
    assert latest_first.first(table, latest_first.found(table, ("at", "x")).places, 9).tolist() == [2, 1, 0]


def test_a_word_is_found_in_many_times_as_in_each_of_them() -> None:
    times = [0, -5, 999, DAY, DAY + 7, 86_400_000 * 365, 86_400_000 * 365 - 1, 253_402_300_799_999, 253_402_300_800_000]
    draw = random.Random(1)
    times += [draw.randrange(-(10**13), 3 * 10**14) // draw.choice((1, 100, 1000)) * 1000 for _ in range(500)]
    times += [draw.randrange(10**12, 2 * 10**12) for _ in range(500)]
    seconds = [time // 1000 * 1000 for time in times]
    for chosen in (times, seconds):
        for word in ("0", "13-0", "05 1", ":59", "1d", "-", "9999", "00.007", "105", ".", "x"):
            expected = [word in format_time(time) for time in chosen]
            assert time_texts(np.array(chosen)).containing(word).tolist() == expected, word


def test_partial_matches_show_times() -> None:
    cep = bench("@name('p') select a.x as x from pattern [every a=T -> b=T(x > 5)]")
    cep.send("T", at=DAY, ended=None, x=1.0, k="a", other=DAY)
    assert f"a = {{at=2013-01-01 10:00:00, ended=null, x=1.0, k=a, other={DAY}}}" in match_lines(
        partial_matches(cep.runtime, "p").rows[-1].events, WorkbenchSource(cep, "p").times
    )


def test_why_with_a_clock_that_counts_microseconds() -> None:
    cep = bench(ASKED, microseconds=True)
    cep.advance(DAY * 1000 + 5)
    cep.send("T", at=DAY * 1000 + 5, x=1.0)
    assert "at=2013-01-01 10:00:00.000005" in answer_picture(cep.why("q")).text
    assert {c.name: c.kind for c in WorkbenchSource(cep, "q").columns} == {"at": "int", "x": "float"}
