"""Create statements, contexts, on-triggers and fire-and-forget queries as syntax trees."""

from __future__ import annotations

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast import Chain, NameStep
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang.trees import A, expr, name, number, one, select

SET_X = (ast.Assignment(name("x"), number(1)),)


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
            column("c", "Foo", 1, primitive=True),
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
        "v", "int", 1, True, ast.ArrayLiteral((number(1),)), primitive=True
    )
    keepall = (ast.Window("keepall", ()),)
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
        "I", "W", (ast.IndexColumn(name("a"), "hash"), ast.IndexColumn(name("b"), "btree")), True
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
    module = parse_epl("create dataflow D Source -> s<A> { x: 1; y: { z: 2 } } Sink(s) {}; select x from A")
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
            (ast.InsertInto("P"), x, (), None, expr("x > 1")),
            (ast.InsertInto("Q"), x, (ast.ContainedStep(name("items"), star),), "i", None),
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
