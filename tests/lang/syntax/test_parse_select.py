"""Streams, windows, the clauses of select, patterns and match_recognize as syntax trees."""

from __future__ import annotations

import pytest

from cepbook.errors import ParseError
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast import Chain, Literal, NameStep
from tests.lang.trees import A, B, C, expr, name, number, pattern, select, window_args


# ---------------------------------------------------------------- from
def test_windows_in_three_notations() -> None:
    size = (number(5),)
    stream = select("select * from A(x > 1)#length(5)#win:length(5).win:length(5)#keepall as e").sources[0]
    assert stream.windows == (
        ast.Window("length", size),
        ast.Window("length", size, "win"),
        ast.Window("length", size, "win"),
        ast.Window("keepall", ()),
    )
    assert stream.alias == "e"
    assert stream.stream == ast.FilterStream("A", (ast.Compare(">", name("x"), number(1)),))


def test_namespace_window_behind_a_dotted_type() -> None:
    source = select("select * from com.acme.Tick.win:time(5 sec)").sources[0]
    assert source.stream == ast.FilterStream("com.acme.Tick")
    assert source.windows == (ast.Window("time", (ast.TimePeriod(((number(5), "second"),)),), "win"),)


def test_window_parameters() -> None:
    assert window_args("1 hour 30 min, x desc, *") == (
        ast.TimePeriod(((number(1), "hour"), (number(30), "minute"))),
        ast.SortKey(name("x"), True),
        ast.Star(),
    )
    assert window_args("sum(x) > 10") == (expr("sum(x) > 10"),)
    assert select("select * from A#w(1, flow: 2)").sources[0].windows[0].named == (("flow", (number(2),)),)


@pytest.mark.parametrize("period", ["5 sec 1 hour", "1 sec 2 sec", "1 quarter", "'a' sec"])
def test_time_periods_go_from_large_to_small_with_known_units(period: str) -> None:
    with pytest.raises(ParseError):
        window_args(period)


def test_time_units() -> None:
    text = "1 year 2 months 3 weeks 4 days 5 hours 6 min 7 sec 8 msec 9 usec"
    (period,) = window_args(text)
    assert isinstance(period, ast.TimePeriod)
    assert [unit for _, unit in period.parts] == (
        "year month week day hour minute second millisecond microsecond".split()
    )


def test_joins() -> None:
    statement = select(
        "select * from A as a unidirectional left outer join B#keepall b on a.x = b.x, C retain-union full join D"
    )
    assert [join.kind for join in statement.joins] == ["left", "inner", "full"]
    assert statement.joins[0].on == ast.Compare("=", name("a", "x"), name("b", "x"))
    assert [source.alias for source in statement.sources] == ["a", "b", None, None]
    assert statement.sources[0].unidirectional
    assert statement.sources[2].retain == "union"


def test_external_streams() -> None:
    statement = select("select * from sql:db ['select 1' metadatasql 'm'] as s, method:a.B.fetch(x, 1) as m")
    assert statement.sources[0].stream == ast.ExternalStream("sql", "db", (), "select 1", "m")
    assert statement.sources[1].stream == ast.ExternalStream("method", "a.B.fetch", (name("x"), number(1)))


def test_contained_events() -> None:
    stream = select("select * from Book[parts][select a, b.* from chapters as c where p > 1]").sources[0].stream
    assert stream == ast.FilterStream(
        "Book",
        (),
        (
            ast.ContainedStep(name("parts")),
            ast.ContainedStep(
                name("chapters"),
                (ast.SelectItem(name("a")), ast.SelectItem(None, None, "b", True)),
                "c",
                ast.Compare(">", name("p"), number(1)),
            ),
        ),
    )


# ---------------------------------------------------------------- select
def test_select_list() -> None:
    items = select("select irstream distinct *, a.*, b.* as bb, c d, e as f, g @eventbean as h from A as a").items
    assert [(item.alias, item.stream, item.wildcard, item.eventbean) for item in items] == [
        (None, None, True, False),
        (None, "a", True, False),
        ("bb", "b", True, False),
        ("d", None, False, False),
        ("f", None, False, False),
        ("h", None, False, True),
    ]


def test_every_clause_of_select() -> None:
    statement = select(
        "@name('s') context Ctx insert rstream into Out(a, b) select irstream distinct x, sum(y) from A where x > 1 "
        "group by x having sum(y) > 1 output last every 2 events order by x desc, y limit 10 offset 2"
    )
    assert statement.annotations == (ast.Annotation("name", "s"),)
    assert statement.context == "Ctx"
    assert statement.insert_into == ast.InsertInto("Out", "rstream", ("a", "b"))
    assert (statement.selector, statement.distinct) == ("irstream", True)
    assert statement.group_by == ast.GroupBy((name("x"),))
    assert statement.having == expr("sum(y) > 1")
    assert statement.output == ast.Output("every-events", "last", rate=number(2))
    assert statement.order_by == (ast.OrderItem(name("x"), True), ast.OrderItem(name("y")))
    assert statement.limit == ast.RowLimit(number(10), number(2))


def test_limit_with_comma_puts_the_offset_first() -> None:
    assert select("select x from A limit 1, 2").limit == ast.RowLimit(number(2), number(1))
    assert select("select x from A limit v").limit == ast.RowLimit(name("v"))


def test_grouping() -> None:
    clause = select("select a from A group by rollup(a, (b, c)), cube(d), grouping sets((a, b), a, ())").group_by
    pair = ast.Tuple_((name("b"), name("c")))
    assert clause == ast.GroupBy(
        (
            ast.Rollup("rollup", (name("a"), pair)),
            ast.Rollup("cube", (name("d"),)),
            ast.GroupingSets((ast.Tuple_((name("a"), name("b"))), name("a"), ast.Tuple_(()))),
        )
    )
    assert expr("grouping(a)") == Chain((NameStep("grouping", (name("a"),)),))


def test_into_table_and_select_without_from() -> None:
    assert select("into table T select count(*) as c from A").into_table == "T"
    assert select("context C select context.id as id").sources == ()
    assert select("select a").sources == ()


FIVE_SECONDS = ast.TimePeriod(((number(5), "second"),))
SET_X = (ast.Assignment(name("x"), number(1)),)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("after 3 events snapshot every 5 sec", ast.Output("every-time", "snapshot", number(3), FIVE_SECONDS)),
        ("first every v events", ast.Output("every-events", "first", rate=name("v"))),
        ("when x > 1 then set x = 1", ast.Output("when", when=expr("x > 1"), then_set=SET_X)),
        ("last when terminated", ast.Output("terminated", "last")),
        ("when terminated and x then set x = 1", ast.Output("terminated", when=name("x"), then_set=SET_X)),
        (
            "when x and when terminated and y then set x = 1",
            ast.Output("when", when=name("x"), and_terminated=True, terminated_when=name("y"), terminated_then=SET_X),
        ),
        ("every 2 events and when terminated", ast.Output("every-events", rate=number(2), and_terminated=True)),
        ("after 2 events", ast.Output(None, None, number(2))),
    ],
)
def test_output(text: str, output: ast.Output) -> None:
    found = select(f"select * from A output {text}").output
    assert found == output


def test_crontab_fields() -> None:
    output = select("select * from A output at (*/5, 8:17, [1, 2:3], *, last, 5 last)").output
    assert output is not None and output.crontab is not None
    step = ast.CronStep
    assert output.crontab.fields == (
        step("step", (number(5),)),
        step("range", (number(8), number(17))),
        step("list", (number(1), step("range", (number(2), number(3))))),
        step("star"),
        step("last"),
        step("nth_last", (number(5),)),
    )
    other = pattern("timer:at(v:8, 10 weekday, lastweekday, v, *, 0, 'GMT+5')")
    assert isinstance(other, ast.PatternObserver)
    assert other.args[:4] == (
        step("range", (name("v"), number(8))),
        step("weekday", (number(10),)),
        step("lastweekday"),
        name("v"),
    )


# ---------------------------------------------------------------- patterns
@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("every a=A -> b=B", "(every a=A) -> b=B"),
        ("a=A or b=B and c=C", "a=A or (b=B and c=C)"),
        ("a=A -> b=B or c=C", "a=A -> (b=B or c=C)"),
        ("every a=A and not b=B", "(every a=A) and (not b=B)"),
        ("every a=A where timer:within(5)", "every (a=A where timer:within(5))"),
        ("a=A and b=B where timer:within(5)", "a=A and (b=B where timer:within(5))"),
        ("every a=A until b=B", "(every a=A) until b=B"),
        ("every [2] a=A -> b=B", "(every ([2] a=A)) -> b=B"),
        ("a=A until b=B -> c=C", "(a=A until b=B) -> c=C"),
        ("a=A until b=B and c=C", "(a=A until b=B) and c=C"),
    ],
)
def test_pattern_precedence(text: str, grouped: str) -> None:
    assert pattern(text) == pattern(grouped)


def test_pattern_nodes() -> None:
    two, four = number(2), number(4)
    assert pattern("a=A -[2]> b=B -> c=C") == ast.PatternFollowedBy((A, B, C), (two, None))
    assert pattern("[2] a=A") == ast.PatternRepeat(A, two, two, None, True)
    assert pattern("[2:4] a=A until b=B") == ast.PatternRepeat(A, two, four, B)
    assert pattern("[:4] a=A until b=B") == ast.PatternRepeat(A, None, four, B)
    assert pattern("every-distinct(a.x, 5 sec) a=A") == ast.PatternEvery(
        A, (name("a", "x"), ast.TimePeriod(((number(5), "second"),)))
    )
    assert pattern("(a=A) while (a.x > 1)") == ast.PatternGuard(A, "", "while", (expr("a.x > 1"),))
    assert pattern("a=A@consume(2)") == ast.PatternFilter("a", ast.FilterStream("A"), (ast.Annotation("consume", 2),))
    assert pattern("timer:schedule(date: 'd', repetitions: -1)") == ast.PatternObserver(
        "timer", "schedule", (), (("date", (Literal("d", "string"),)), ("repetitions", (number(-1),)))
    )
    stream = select("select * from pattern @SuppressOverlappingMatches [a=A]").sources[0].stream
    assert stream == ast.PatternStream(A, (ast.Annotation("SuppressOverlappingMatches"),))


def test_match_recognize() -> None:
    found = select(
        "select * from A match_recognize (partition by g measures A.x as ax all matches after match skip to next row "
        "pattern (A B+? (C | D)* E{2,}) interval 10 sec or terminated define B as B.x > 1)"
    ).match_recognize
    assert found is not None
    assert (found.partition_by, found.all_matches, found.after) == ((name("g"),), True, "to next row")
    assert found.measures == (ast.SelectItem(name("A", "x"), "ax"),)
    assert (found.interval, found.or_terminated) == (ast.TimePeriod(((number(10), "second"),)), True)
    assert found.define == (("B", expr("B.x > 1")),)
    row = ast.RowPattern
    choice = row("alt", None, (row("atom", "C"), row("atom", "D")))
    assert found.pattern == row(
        "seq",
        None,
        (
            row("atom", "A"),
            row("atom", "B", (), "+?"),
            row("group", None, (choice,), "*"),
            row("atom", "E", (), "{n,m}", number(2)),
        ),
    )
