"""The syntax tree of every clause: what was written, where, and how operators bind."""

from __future__ import annotations

import pytest

from cepbook.errors import ParseError
from cepbook.lang import ast
from cepbook.lang.ast import Chain, Literal, NameStep
from cepbook.lang.dialects import DIALECTS
from cepbook.lang.dialects.epl import parse
from cepbook.lang.normal import unparse


def one(text: str) -> ast.Statement:
    (statement,) = parse(text).statements
    return statement


def select(text: str) -> ast.Select:
    statement = one(text)
    assert isinstance(statement, ast.Select)
    return statement


def expr(text: str) -> ast.Expr:
    found = select(f"select {text} from A").items[0].expr
    assert found is not None
    return found


def name(*steps: str) -> Chain:
    return Chain(tuple(NameStep(step) for step in steps))


def number(value: int) -> Literal:
    return Literal(value, "int")


def window_args(text: str) -> tuple[ast.Expr, ...]:
    return select(f"select * from A#w({text})").sources[0].windows[0].args


def pattern(text: str) -> ast.PatternNode:
    stream = select(f"select * from pattern [{text}]").sources[0].stream
    assert isinstance(stream, ast.PatternStream)
    return stream.pattern


def atom(tag: str | None, type_name: str) -> ast.PatternFilter:
    return ast.PatternFilter(tag, ast.FilterStream(type_name))


A, B, C = atom("a", "A"), atom("b", "B"), atom("c", "C")


# ---------------------------------------------------------------- modules and names
def test_dialects() -> None:
    assert DIALECTS["epl"]("select x from A") == parse("select x from A")


def test_module_header_and_empty_statements() -> None:
    module = parse(";; module a.b; uses c.d; import java.util.*; import 'x';; select x from A; ; // end")
    assert (module.name, module.uses, module.imports) == ("a.b", ("c.d",), ("java.util.*", "x"))
    assert len(module.statements) == 1


def test_semicolons_inside_strings_comments_and_scripts() -> None:
    text = """select ';' as a /* ; */ from A; // ;
      expression double js:f(x) [ var y = "];"; return x[0]; ] select f(x) from A"""
    module = parse(text)
    assert len(module.statements) == 2
    script = module.statements[1].expressions[0]
    assert (script.name, script.params, script.language, script.return_type) == ("f", ("x",), "js", "double")
    assert script.body == ' var y = "];"; return x[0]; '


def test_keywords_in_any_case_and_names_in_theirs() -> None:
    assert select("SELECT Price FROM Tick AS T WHERE Price > 1") == select(
        "select Price from Tick as T where Price > 1"
    )
    assert select("select price from Tick") != select("select Price from Tick")


@pytest.mark.parametrize(
    "word",
    ["count", "sum", "min", "last", "first", "window", "every", "where", "left", "at", "index", "schema", "context"],
)
def test_soft_keyword_names_a_property_and_a_column_but_no_definition(word: str) -> None:
    statement = select(f"select {word} as {word}, e.{word} from A as e where {word} > 1 group by {word}")
    assert statement.items[0].alias == word
    assert statement.items[1].expr == name("e", word)
    for refused in (f"create schema Q({word} int)", f"create schema {word}(a int)", f"select * from A as {word}"):
        with pytest.raises(ParseError):
            parse(refused)
    assert one(f"create schema Q(`{word}` int)") == ast.CreateSchema("Q", (ast.ColumnDef(word, "int"),))


@pytest.mark.parametrize("word", ["select", "order", "by", "day", "year", "inner", "case", "end", "expression"])
def test_reserved_word_is_a_name_in_backticks_only(word: str) -> None:
    with pytest.raises(ParseError):
        parse(f"select {word} from A")
    assert expr(f"`{word}`") == Chain((NameStep(word, escaped=True),))


def test_words_that_only_look_like_keywords() -> None:
    words = "timer interval type value key time timestamp name id object union class next row list date rate unique"
    columns = tuple(ast.ColumnDef(word, "int") for word in words.split())
    text = f"create schema K({', '.join(f'{word} int' for word in words.split())})"
    assert one(text) == ast.CreateSchema("K", columns)


def test_type_named_events_and_prevwindow_of_everything() -> None:
    assert select("select * from Events#length(2)").sources[0].stream == ast.FilterStream("Events")
    assert one("create schema Events(a int)") == ast.CreateSchema("Events", (ast.ColumnDef("a", "int"),))
    assert expr("prevwindow(*)") == Chain((NameStep("prevwindow", (), wildcard=True),))


# ---------------------------------------------------------------- literals
@pytest.mark.parametrize(
    ("text", "value", "type_name"),
    [
        ("5", 5, "int"),
        ("5L", 5, "long"),
        ("5l", 5, "long"),
        ("2147483648", 2147483648, "long"),
        ("-2147483648", -2147483648, "long"),
        ("-5", -5, "int"),
        ("5d", 5.0, "double"),
        ("5.0", 5.0, "double"),
        (".5", 0.5, "double"),
        ("5.", 5.0, "double"),
        ("1e3", 1000.0, "double"),
        ("1.5E-2", 0.015, "double"),
        ("1.5f", 1.5, "float"),
        ("0x10", 16, "byte"),
        ("0xff", 255, "int"),
        ("010", 10, "int"),
        ("true", True, "boolean"),
        ("NULL", None, "null"),
        ("'a'", "a", "string"),
        ('"it\'s"', "it's", "string"),
        (r"'it\'s \"x\" \\ \u0041 \t'", 'it\'s "x" \\ A t', "string"),
    ],
)
def test_literals(text: str, value: object, type_name: str) -> None:
    assert expr(text) == Literal(value, type_name)


def test_float_is_single_precision() -> None:
    value = expr("1.1f")
    assert isinstance(value, Literal) and value.value != 1.1 and value.value == pytest.approx(1.1)


def test_number_glued_to_a_name_is_an_alias() -> None:
    item = select("select 12abc from A").items[0]
    assert (item.expr, item.alias) == (number(12), "abc")
    item = select("select 1.0L from A").items[0]
    assert (item.expr, item.alias) == (Literal(1.0, "double"), "L")


# ---------------------------------------------------------------- operators
@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a or b and c", "a or (b and c)"),
        ("not a = b and c", "(not (a = b)) and c"),
        ("a + b * c - d", "(a + (b * c)) - d"),
        ("a || b + c", "a || (b + c)"),
        ("a < b || c", "a < (b || c)"),
        ("a < b = c", "(a < b) = c"),
        ("a & b = c", "a & (b = c)"),
        ("a & b and c", "(a & b) and c"),
        ("-a * b", "(-a) * b"),
        ("a - b - c", "(a - b) - c"),
        ("a / b / c", "(a / b) / c"),
        ("a between 1 and 2 and b", "(a between 1 and 2) and b"),
        ("a in (1, 2) and b like 'x' or c", "((a in (1, 2)) and (b like 'x')) or c"),
    ],
)
def test_precedence(text: str, grouped: str) -> None:
    assert expr(text) == expr(grouped)


def test_logical_operands_are_flat() -> None:
    assert expr("a and b and c") == ast.Logical("and", (name("a"), name("b"), name("c")))
    assert expr("a or b or c") == ast.Logical("or", (name("a"), name("b"), name("c")))


@pytest.mark.parametrize(
    "text",
    [
        "a = b = c",
        "1 < 2 < 3",
        "a is null = false",
        "1 | 2 ^ 3",
        "not not b",
        "-(a + b)",
        "case a when 1 then 2 end + 1",
    ],
)
def test_operators_that_do_not_chain(text: str) -> None:
    with pytest.raises(ParseError):
        expr(text)


def test_comparisons() -> None:
    a, one_ = name("a"), number(1)
    assert expr("a <> 1") == expr("a != 1") == ast.Compare("!=", a, one_)
    assert expr("a is not null") == ast.Compare("is not", a, Literal(None, "null"))
    assert expr("a not between 1 and 2") == ast.Between(a, one_, number(2), True)
    assert expr("a not in (1, 2)") == ast.In(a, (one_, number(2)), True)
    assert expr("a in [1:2)") == ast.In(a, (one_, number(2)), False, "[)")
    assert expr("a in (1:2]") == ast.In(a, (one_, number(2)), False, "(]")
    assert expr("a like 'x' escape '!'") == ast.Like(a, Literal("x", "string"), Literal("!", "string"))
    assert expr("a not regexp 'x'") == ast.Like(a, Literal("x", "string"), None, True, True)
    assert expr("a > some (1, 2)") == ast.QuantifiedCompare(">", "any", a, (one_, number(2)))
    assert expr("a <> all ({1})") == ast.QuantifiedCompare("!=", "all", a, (ast.ArrayLiteral((one_,)),))


def test_case() -> None:
    branch = (name("b"), number(1))
    assert expr("case when b then 1 end") == ast.Case(None, (branch,), None)
    assert expr("case a when b then 1 when 2 then 3 else 4 end") == ast.Case(
        name("a"), (branch, (number(2), number(3))), number(4)
    )


def test_subqueries() -> None:
    inner = ast.Select(
        (ast.SelectItem(name("y")),),
        (ast.StreamSource(ast.FilterStream("B"), (ast.Window("lastevent", (), has_parens=False),)),),
        where=ast.Compare("=", name("y"), number(1)),
    )
    text = "(select y from B#lastevent where y = 1)"
    assert expr(text) == ast.Subquery(inner)
    assert expr(f"exists {text}") == ast.Subquery(inner, True)
    assert expr(f"not exists {text}") == ast.Unary("not", ast.Subquery(inner, True))
    assert expr(f"x not in {text}") == ast.InSubquery(name("x"), inner, True)
    assert expr(f"x >= all {text}") == ast.QuantifiedCompare(">=", "all", name("x"), (ast.Subquery(inner),))
    assert expr(f"{text}.firstOf().z") == ast.Member(ast.Subquery(inner), (NameStep("firstOf", ()), NameStep("z")))


# ---------------------------------------------------------------- chains
def test_chains() -> None:
    assert expr("a.b?.c[0].d('k')") == Chain(
        (
            NameStep("a"),
            NameStep("b", optional=True),
            NameStep("c", index=number(0)),
            NameStep("d", (Literal("k", "string"),)),
        )
    )
    assert expr("T[a, b].c") == Chain((NameStep("T", index=ast.Tuple_((name("a"), name("b")))), NameStep("c")))
    assert expr("m[0][1]") == Chain((NameStep("m", index=number(0)), NameStep("", index=number(1))))
    assert expr("f(x)[1]") == Chain((NameStep("f", (name("x"),)), NameStep("", index=number(1))))
    assert expr("(a + b).c") == ast.Member(ast.Binary("+", name("a"), name("b")), (NameStep("c"),))


def test_calls() -> None:
    assert expr("count(*)") == Chain((NameStep("count", (), wildcard=True),))
    assert expr("sum(distinct x)") == Chain((NameStep("sum", (name("x"),), distinct=True),))
    assert expr("window(e.*)") == Chain((NameStep("window", (ast.Star("e"),)),))
    assert expr("sorted(x desc, y)") == Chain((NameStep("sorted", (ast.SortKey(name("x"), True), name("y"))),))
    assert expr("sum(x, filter: y, group_by: (a, b))") == Chain(
        (NameStep("sum", (name("x"),), named=(("filter", (name("y"),)), ("group_by", (name("a"), name("b"))))),)
    )
    assert expr("count(*, group_by: ())") == Chain((NameStep("count", (), wildcard=True, named=(("group_by", ()),)),))
    assert expr("exists(a.b?)") == Chain((NameStep("exists", (Chain((NameStep("a"), NameStep("b", optional=True))),)),))


def test_lambdas_and_time_periods_as_arguments() -> None:
    body = ast.Compare(">", name("v"), number(1))
    assert expr("a.where(v => v > 1)") == Chain((NameStep("a"), NameStep("where", (ast.Lambda(("v",), body),))))
    assert expr("a.where((v, i) => v > 1)") == Chain(
        (NameStep("a"), NameStep("where", (ast.Lambda(("v", "i"), body),)))
    )
    period = ast.TimePeriod(((number(1), "day"), (name("h"), "hour")))
    assert expr("t.plus(1 day h hours)") == Chain((NameStep("t"), NameStep("plus", (period,))))
    assert expr("t.between(a, b)") == Chain((NameStep("t"), NameStep("between", (name("a"), name("b")))))


def test_constructors_and_casts() -> None:
    assert expr("{1, 2}") == ast.ArrayLiteral((number(1), number(2)))
    assert expr("{}") == ast.ArrayLiteral(())
    assert expr("new {a = 1, b}") == ast.NewStruct((("a", number(1)), ("b", None)))
    assert expr("new a.B(1)") == ast.NewInstance("a.B", (number(1),))
    assert expr("new int[3]") == ast.NewInstance("int", (), True, (number(3),))
    assert expr("new int[] {1}") == ast.NewInstance("int", (number(1),), True, (None,))
    assert expr("cast(x as int)") == expr("cast(x, int)") == ast.Cast(name("x"), "int")
    assert expr("cast(x, long[], dateformat: 'iso')") == ast.Cast(
        name("x"), "long[]", (("dateformat", (Literal("iso", "string"),)),)
    )
    assert expr("instanceof(x, int, a.B)") == ast.TypeTest(name("x"), ("int", "a.B"))


# ---------------------------------------------------------------- from
def test_windows_in_three_notations() -> None:
    size = (number(5),)
    stream = select("select * from A(x > 1)#length(5)#win:length(5).win:length(5)#keepall as e").sources[0]
    assert stream.windows == (
        ast.Window("length", size),
        ast.Window("length", size, "win"),
        ast.Window("length", size, "win"),
        ast.Window("keepall", (), None, False),
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


def test_into_table_and_select_in_a_context_without_from() -> None:
    assert select("into table T select count(*) as c from A").into_table == "T"
    assert select("context C select context.id as id").sources == ()
    with pytest.raises(ParseError, match="no from"):
        parse("select a")


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


# ---------------------------------------------------------------- create
def test_create_schema() -> None:
    column = ast.ColumnDef
    assert one(
        "create map schema M as (a int, b string[], c Foo[primitive], d java.util.List<String>, e int[][]) "
        "inherits X, Y copyfrom Z starttimestamp s endtimestamp e"
    ) == ast.CreateSchema(
        "M",
        (
            column("a", "int"),
            column("b", "string", 1),
            column("c", "Foo", 1, True),
            column("d", "java.util.List", type_args=("String",)),
            column("e", "int", 2),
        ),
        ("X", "Y"),
        ("Z",),
        "map",
        (),
        "s",
        "e",
    )
    assert one("create variant schema V as A, *") == ast.CreateSchema(
        "V", representation="variant", alias_of=("A", "*")
    )
    assert one("create schema V() inherits A") == one("create schema V inherits A") == ast.CreateSchema("V", (), ("A",))


def test_create_variable_window_table_index() -> None:
    assert one("create constant variable int[primitive] v = {1}") == ast.CreateVariable(
        "v", "int", 1, True, True, ast.ArrayLiteral((number(1),))
    )
    keepall = (ast.Window("keepall", (), has_parens=False),)
    assert one("create window W#keepall as A") == ast.CreateWindow("W", keepall, as_type="A")
    assert one("create window W#keepall as (k string)") == ast.CreateWindow(
        "W", keepall, (ast.ColumnDef("k", "string"),)
    )
    assert one("create window W#keepall retain-union as select a as b from A insert where a > 1") == ast.CreateWindow(
        "W", keepall, (), "A", (ast.SelectItem(name("a"), "b"),), True, expr("a > 1"), "union"
    )
    assert one("create table T(k string primary key, c count(*))") == ast.CreateTable(
        "T", (ast.ColumnDef("k", "string", primary_key=True), ast.ColumnDef("c", "count", aggregate=expr("count(*)")))
    )
    assert one("create unique index I on W(a, b btree)") == ast.CreateIndex(
        "I", "W", ((name("a"), "hash"), (name("b"), "btree")), True
    )


def test_expressions() -> None:
    half = ast.ExpressionDecl("half", ("x",), expr("x.v / 2"))
    assert one("create expression half { x => x.v / 2 }") == ast.CreateExpression(half)
    assert select("expression half {x => x.v / 2} select half(a) from A as a").expressions == (half,)
    alias = ast.ExpressionDecl("total", (), expr("sum(x)"), alias=True)
    assert one("create expression total alias for { sum(x) }") == ast.CreateExpression(alias)
    pair = ast.ExpressionDecl("add", ("x", "y"), expr("x + y"))
    assert one("create expression add { (x, y) => x + y }") == ast.CreateExpression(pair)


def test_dataflow_is_recognised() -> None:
    module = parse("create dataflow D Source -> s<A> { x: 1; y: { z: 2 } } Sink(s) {}; select x from A")
    assert isinstance(module.statements[0], ast.CreateDataflow) and len(module.statements) == 2


# ---------------------------------------------------------------- contexts
def context(text: str) -> ast.ContextSpec:
    statement = one(f"create context C {text}")
    assert isinstance(statement, ast.CreateContext)
    return statement.spec


def condition(type_name: str, alias: str | None = None) -> ast.ContextCondition:
    return ast.ContextCondition("filter", ast.FilterStream(type_name), alias=alias)


def test_keyed_context() -> None:
    assert context("partition by a, b.c from A(x > 1) as al, d from B") == ast.KeyedContext(
        (
            ast.KeyedItem((name("a"), name("b", "c")), ast.FilterStream("A", (expr("x > 1"),)), "al"),
            ast.KeyedItem((name("d"),), ast.FilterStream("B")),
        )
    )
    assert context("partition by a from A initiated by A as i, B terminated by after 10 sec") == ast.KeyedContext(
        (ast.KeyedItem((name("a"),), ast.FilterStream("A")),),
        (condition("A", "i"), condition("B")),
        ast.ContextCondition("after", period=ast.TimePeriod(((number(10), "second"),))),
    )


def test_hash_and_category_contexts() -> None:
    assert context("coalesce by hash_code(a) from A granularity 16 preallocate") == ast.HashContext(
        (ast.KeyedItem((expr("hash_code(a)"),), ast.FilterStream("A")),), number(16), True
    )
    assert context("group n > 1 as big, group by n < 1 as small from A") == ast.CategoryContext(
        ((expr("n > 1"), "big"), (expr("n < 1"), "small")), ast.FilterStream("A")
    )


def test_temporal_contexts() -> None:
    nine = ast.Crontab((number(0), number(9), *(ast.CronStep("star"),) * 3))
    assert context("start (0, 9, *, *, *) end A") == ast.NonOverlappingContext(
        ast.ContextCondition("crontab", crontabs=(nine,)), condition("A")
    )
    assert context("start pattern [a=A] @inclusive end @now") == ast.NonOverlappingContext(
        ast.ContextCondition("pattern", pattern=A, inclusive=True), ast.ContextCondition("now")
    )
    assert context("initiated by distinct(s.x) A as s terminated by B") == ast.OverlappingContext(
        condition("A", "s"), condition("B"), (name("s", "x"),)
    )
    spec = context("initiated @now and after 1 min terminated after 1 min")
    assert isinstance(spec, ast.OverlappingContext) and spec.also_now


def test_nested_context_with_lists_inside() -> None:
    spec = context("context A partition by x from A, y from B, context B as start C end D, context E start @now")
    assert isinstance(spec, ast.NestedContext)
    assert [part for part, _ in spec.contexts] == ["A", "B", "E"]
    assert isinstance(spec.contexts[0][1], ast.KeyedContext) and len(spec.contexts[0][1].items) == 2


# ---------------------------------------------------------------- on-trigger, update, delete, insert
def action(text: str) -> ast.OnAction:
    statement = one(f"on A as a {text}")
    assert isinstance(statement, ast.OnTrigger)
    assert statement.trigger == ast.StreamSource(ast.FilterStream("A"), alias="a")
    return statement.action


def test_on_set_delete_update() -> None:
    assert action("set x = 1, y[0] = x = 2, f(x)") == ast.OnSet(
        (
            ast.Assignment(name("x"), number(1)),
            ast.Assignment(Chain((NameStep("y", index=number(0)),)), expr("x = 2")),
            ast.Assignment(None, expr("f(x)")),
        )
    )
    assert action("delete from W as w where w.x = 1") == ast.OnDelete("W", "w", expr("w.x = 1"))
    assert action("update W set x = 1 where y") == ast.OnUpdate("W", None, SET_X, name("y"))


def test_on_select() -> None:
    found = action("select and delete w.x from W as w where w.x = 1 order by w.x limit 2")
    assert isinstance(found, ast.OnSelect) and found.delete
    assert found.select.sources == (ast.StreamSource(ast.FilterStream("W"), alias="w"),)
    found = action("insert into Out select w.x from W as w")
    assert isinstance(found, ast.OnSelect) and found.select.insert_into == ast.InsertInto("Out")


def test_on_merge() -> None:
    found = action(
        "merge into W as w where w.x = a.x when matched and a.x > 1 then update set x = 1 where y then delete "
        "when not matched then insert into Log(p) select a.x"
    )
    item = ast.SelectItem(name("a", "x"))
    assert found == ast.OnMerge(
        "W",
        "w",
        expr("w.x = a.x"),
        (
            ast.MergeBranch(
                True,
                expr("a.x > 1"),
                (ast.MergeAction("update", assignments=SET_X, where=name("y")), ast.MergeAction("delete")),
            ),
            ast.MergeBranch(False, None, (ast.MergeAction("insert", "Log", ("p",), (item,)),)),
        ),
    )
    star = ast.SelectItem(None, wildcard=True)
    assert action("merge W insert select *") == ast.OnMerge(
        "W", None, None, (ast.MergeBranch(None, None, (ast.MergeAction("insert", items=(star,)),)),)
    )


def test_split_stream() -> None:
    x = (ast.SelectItem(name("x")),)
    star = (ast.SelectItem(None, wildcard=True),)
    text = "insert into P select x where x > 1 insert into Q select x from [select * from items] as i output all"
    assert action(text) == ast.OnSplit(
        (
            (ast.InsertInto("P"), x, (), expr("x > 1")),
            (ast.InsertInto("Q"), x, (ast.ContainedStep(name("items"), star, "i"),), None),
        ),
        True,
    )


def test_update_istream_and_fire_and_forget() -> None:
    assert one("update istream A as a set x = 1 where y") == ast.UpdateIStream("A", "a", SET_X, name("y"))
    assert one("update W set x = 1") == ast.FafUpdate("W", None, SET_X, None)
    assert one("delete from W where y") == ast.FafDelete("W", None, name("y"))
    assert one("insert into W(a, b) values (1, 2), (3, 4)") == ast.FafInsert(
        "W", ("a", "b"), ((number(1), number(2)), (number(3), number(4)))
    )


def test_annotations() -> None:
    found = one("@Name(\"x\") @Tag(name='a', value='b') @Hint @A({1, 'c'}) @B(x=@C, y=D.E) select x from A").annotations
    assert found == (
        ast.Annotation("Name", "x"),
        ast.Annotation("Tag", None, (("name", "a"), ("value", "b"))),
        ast.Annotation("Hint"),
        ast.Annotation("A", (1, "c")),
        ast.Annotation("B", None, (("x", ast.Annotation("C")), ("y", "D.E"))),
    )


# ---------------------------------------------------------------- spans
def test_spans_point_into_the_whole_text() -> None:
    text = "create schema A(x int);\n  select x + 1 as y, (x) from A#length(2) where x > sum(2) "
    statement = parse(text).statements[1]
    assert isinstance(statement, ast.Select) and statement.where is not None
    nodes = {
        "select x + 1 as y, (x) from A#length(2) where x > sum(2)": statement,
        "x + 1 as y": statement.items[0],
        "x + 1": statement.items[0].expr,
        "A#length(2)": statement.sources[0],
        "#length(2)": statement.sources[0].windows[0],
        "x > sum(2)": statement.where,
    }
    for expected, node in nodes.items():
        assert node is not None
        assert text[node.span.start : node.span.end] == expected


def test_unparse_needs_no_span() -> None:
    assert unparse(ast.Binary("+", name("x"), number(1))) == "x+1"
