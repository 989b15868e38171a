"""Modules, names, literals and expressions: what was written, where, and how operators bind."""

from __future__ import annotations

import pytest

from cepbook.dialects.registry import DIALECTS
from cepbook.errors import ParseError
from cepbook.lang.bind import Options, bind
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast import Chain, Literal, NameStep
from cepbook.lang.syntax.reader.parser import parse_epl
from cepbook.lang.syntax.unparser import unparse
from cepbook.lang.types import INT
from tests.lang.trees import expr, name, number, one, select


# ---------------------------------------------------------------- modules and names
def test_dialects() -> None:
    catalog = Catalog(event_types={"A": EventType("A", {"x": INT})})
    text = "@name('s') select x from A"
    assert DIALECTS["epl"].declares(text) == {"s"}
    assert DIALECTS["epl"].translate(text, catalog, (), Options()) == bind(parse_epl(text), catalog, text)


def test_module_header_and_empty_statements() -> None:
    module = parse_epl(";; module a.b; uses c.d; import java.util.*; import 'x';; select x from A; ; // end")
    assert (module.name, module.uses, module.imports) == ("a.b", ("c.d",), ("java.util.*", "x"))
    assert len(module.statements) == 1


def test_semicolons_inside_strings_comments_and_scripts() -> None:
    text = """select ';' as a /* ; */ from A; // ;
      expression double js:f(x) [ var y = "];"; return x[0]; ] select f(x) from A"""
    module = parse_epl(text)
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
    ["count", "sum", "min", "last", "first", "window", "every", "where", "index", "schema", "context"],
)
def test_soft_keyword_names_a_property_and_a_column_but_no_definition(word: str) -> None:
    statement = select(f"select {word} as {word}, e.{word} from A as e where {word} > 1 group by {word}")
    assert statement.items[0].alias == word
    assert statement.items[1].expr == name("e", word)
    for refused in (f"create schema Q({word} int)", f"create schema {word}(a int)", f"select * from A as {word}"):
        with pytest.raises(ParseError):
            parse_epl(refused)
    assert one(f"create schema Q(`{word}` int)") == ast.CreateSchema("Q", (ast.ColumnDef(word, "int"),))


@pytest.mark.parametrize("word", ["at", "left", "Left", "right", "Right", "full"])
def test_keyword_that_names_types_properties_and_streams(word: str) -> None:
    assert one(f"create schema {word}({word} int, k string)") == ast.CreateSchema(
        word, (ast.ColumnDef(word, "int"), ast.ColumnDef("k", "string"))
    )
    statement = select(f"select {word}.{word}, {word} as {word} from {word}({word} > 1)#length(2) as {word}")
    assert statement.items[0].expr == Chain((NameStep(word), NameStep(word)))
    source = statement.sources[0]
    assert isinstance(source.stream, ast.FilterStream)
    assert (source.stream.type_name, source.alias) == (word, word)
    joined = select(f"select * from {word}#keepall {word} outer join B#keepall on a = b") if word != "at" else None
    assert joined is None or (joined.joins[0].kind, joined.sources[0].alias) == (word.lower(), None)


@pytest.mark.parametrize("word", ["select", "order", "by", "day", "year", "inner", "case", "end", "expression"])
def test_reserved_word_is_a_name_in_backticks_only(word: str) -> None:
    with pytest.raises(ParseError):
        parse_epl(f"select {word} from A")
    assert expr(f"`{word}`") == Chain((NameStep(word, escaped=True),))


def test_words_that_only_look_like_keywords() -> None:
    words = "timer interval type value key time timestamp name id object union class next row list date rate unique"
    columns = tuple(ast.ColumnDef(word, "int") for word in words.split())
    text = f"create schema K({', '.join(f'{word} int' for word in words.split())})"
    assert one(text) == ast.CreateSchema("K", columns)


@pytest.mark.parametrize(
    "text",
    [
        "select * from Events",
        "create schema Events(a int)",
        "insert into Events select * from A",
        "select Events.events from A as Events output every 3 events",
    ],
)
def test_events_is_a_name_and_a_keyword_of_the_output_clause(text: str) -> None:
    """Chapters of the reference manual have a stream of this name."""
    assert parse_epl(text)


def test_prevwindow_of_everything() -> None:
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
        (ast.StreamSource(ast.FilterStream("B"), (ast.Window("lastevent", ()),)),),
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


# ---------------------------------------------------------------- spans
def test_spans_point_into_the_whole_text() -> None:
    text = "create schema A(x int);\n  select x + 1 as y, (x) from A#length(2) where x > sum(2) "
    statement = parse_epl(text).statements[1]
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


@pytest.mark.parametrize(
    "text",
    [
        "select (a, b) from A",
        "select f(x, filter: distinct y) from A",
        "select * from A#w(distinct x)",
        "select exists(distinct x) from A",
        "select context.* from A",
        "select f((1, x) => 2) from A",
        "select * from A as a as b",
        "create plain schema A(a int)",
        "create schema A(a int[b])",
        "@name('x')",
    ],
)
def test_what_the_grammar_takes_and_the_language_does_not(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_epl(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "syntax" and diagnostic.span.end > diagnostic.span.start
