"""Variables as the binder sees them: what is folded, what stays a variable, what a module needs and gives."""

from __future__ import annotations

import pytest

from cepbook.dialects.stages import show_stage
from cepbook.lang import types as t
from cepbook.lang.bind import bind
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import VariableType
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang.binding import CATALOG, bound, select, source


def created(epl: str) -> nodes.CreateVariableStatement:
    statement = bound(epl).statements[-1]
    assert isinstance(statement, nodes.CreateVariableStatement)
    return statement


@pytest.mark.parametrize(
    ("epl", "variable"),
    [
        ("create variable int a", VariableType("a", t.INT)),
        ("create variable Integer[] a = {}", VariableType("a", t.array_of(t.INT))),
        ("create variable Tick a", VariableType("a", t.event_of("Tick"))),
        ("create constant variable long a = 2 * 3", VariableType("a", t.LONG, True, 6, True)),
        ("create constant variable string a", VariableType("a", t.STRING, True, None, True)),
        ("create constant variable int a = computeHash('x')", VariableType("a", t.INT, True, None, False)),
        ("create constant variable float a = 0.1f", VariableType("a", t.FLOAT, True, 0.10000000149011612, True)),
    ],
)
def test_what_is_known_of_a_variable(epl: str, variable: VariableType) -> None:
    assert created(epl).variable == variable


def test_constants_are_put_in_place_and_variables_are_read() -> None:
    statement = select(
        "create constant variable int C = 5; create variable int v = 1;"
        "create constant variable int D = computeHash('x'); select C, v, D from Tick"
    )
    values = [column.value for column in statement.root.columns]
    assert values == [x.Const(t.INT, 5), x.VariableRead(t.INT, "v"), x.VariableRead(t.INT, "D")]


def test_a_constant_in_a_filter_is_folded() -> None:
    module = rewrite(bound("create constant variable int C = 5; select * from Tick(volume > C * 2)"))
    statement = module.statements[-1]
    assert isinstance(statement, nodes.SelectStatement)
    assert source(statement).filter == x.ComparisonExpr(t.BOOLEAN, ">", x.Prop(t.INT, 0, "volume"), x.Const(t.INT, 10))


def test_properties_hide_variables_and_targets_are_always_variables() -> None:
    module = bound("create variable int volume = 1; on Tick set volume = volume + 1")
    statement = module.statements[-1]
    assert isinstance(statement, nodes.OnSetStatement)
    (assignment,) = statement.assignments
    assert assignment.variable == "volume"
    assert x.Prop(t.INT, 0, "volume") in x.walk(assignment.value)


def test_what_a_module_needs_and_gives() -> None:
    epl = "create variable int a = 1; create variable int b = a; on Tick set a = volume"
    module = bound(epl)
    assert module.provides == (("variable", "a"), ("variable", "b"))
    assert module.requires == (("event type", "Tick"),)
    catalog = CATALOG.copy()
    catalog.variables["a"] = VariableType("a", t.INT)
    for text in ("select a from Tick", "on Tick set a = 1", "create variable int b = a"):
        assert ("variable", "a") in bind(parse_epl(text), catalog, text).requires


def test_values_are_of_the_type_of_the_variable() -> None:
    module = bound("create variable double d = 1; create variable double[] ds = {1, 2}; on Tick set d = volume")
    first, second, third = module.statements
    assert isinstance(first, nodes.CreateVariableStatement) and first.initial == x.Const(t.DOUBLE, 1.0)
    assert isinstance(second, nodes.CreateVariableStatement)
    assert [e.value for e in x.children(second.initial)] == [1.0, 2.0]  # type: ignore[arg-type,attr-defined]
    assert isinstance(third, nodes.OnSetStatement)
    assert third.assignments[0].value == x.Convert(t.DOUBLE, x.Prop(t.INT, 0, "volume"))


def test_the_plan_as_text() -> None:
    epl = "create variable int[] a = {1, 2}; @name('set') on Tick(volume > 1) set a[0] = volume + 1"
    assert show_stage("plan", epl, CATALOG) == (
        "create variable `stmt_1`\n"
        "  a: int[] = {1, 2}\n"
        "\n"
        "on set statement `set` (istream)\n"
        "  a[0] = volume + 1\n"
        "    from Tick\n"
        "      filter volume > 1\n"
        "  gives <set>(a int[])\n"
        "\n"
        "requires event type Tick\n"
        "\n"
        "provides variable a"
    )
