"""Types of expressions, as recorded for the reference, and what they are bound to."""

from __future__ import annotations

import pytest

from cepbook.errors import BindError
from cepbook.lang import types as t
from cepbook.lang.bind import Options
from cepbook.lang.plan import expressions as x
from tests.lang.binding import select


def value(text: str, options: Options | None = None) -> x.BoundExpr:
    """The bound form of an expression over the event type Types."""
    return select(f"select {text} as value from Types#keepall as T", options).root.columns[0].value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("i / i", "double"),
        ("i + l", "long"),
        ("l + f", "double"),
        ("f * i", "double"),
        ("f + d", "double"),
        ("f / f", "double"),
        ("i % 2", "int"),
        ("l % 2", "long"),
        ("sh + sh", "int"),
        ("by_ * by_", "int"),
        ("-sh", "int"),
        ("sh & sh", "short"),
        ("b & true", "boolean"),
        ("i * bd", "bigdecimal"),
        ("bi + 1", "biginteger"),
        ("bi + 1.5", "bigdecimal"),
        ("case when i = 1 then i else l end", "long"),
        ("case when i = 1 then 1 else 2.5 end", "double"),
        ("case when i = 1 then null else 5 end", "int"),
        ("coalesce(sh, l)", "long"),
        ("coalesce(i, null, 7)", "int"),
        ("max(i, l)", "long"),
        ("sum(by_)", "int"),
        ("sum(sh)", "int"),
        ("sum(l)", "long"),
        ("sum(f)", "float"),
        ("sum(bi)", "biginteger"),
        ("avg(i)", "double"),
        ("avg(bi)", "bigdecimal"),
        ("count(*)", "long"),
        ("min(sh)", "short"),
        ("first(f)", "float"),
        ("first(*)", "Types"),
        ("current_timestamp", "long"),
        ("current_timestamp()", "long"),
        ("i = 1", "boolean"),
        ("i is null", "boolean"),
        ("1L", "long"),
        ("1f", "float"),
        ("1.0", "double"),
        ("null", "null"),
        ("m('k')", "object"),
        ("n.p", "int"),
        ("n", "Inn"),
        ("na", "Inn[]"),
        ("na[0].q", "string"),
        ("T.n.p", "int"),
        ("T.i", "int"),
        ("T", "Types"),
        ("arr[1]", "int"),
        ("nosuch?", "object"),
        ("n.nosuch?", "object"),
        ("cast(i, long)", "long"),
        ("cast(m('k'), java.lang.Integer)", "int"),
        ("cast(d, string)", "string"),
        ("{1, 2.5}", "double[]"),
        ("id || 'x'", "string"),
        ("id.length()", "int"),
        ("id.substring(0, 1).charAt(0)", "char"),
        ("i in (arr)", "boolean"),
        ("i > all (1, 2)", "boolean"),
        ("i like '1%'", "boolean"),
        ("Math.round(d)", "long"),
        ("Math.abs(sh)", "int"),
        ("java.lang.Math.abs(sh)", "int"),
        ("java.lang.Integer.parseInt(id) + 1", "int"),
        ("Math.max(i, l)", "long"),
        ("Math.pow(i, 2)", "double"),
        ("typeof(i)", "string"),
        ("computeHash(id)", "int"),
    ],
)
def test_type(text: str, shown: str) -> None:
    assert str(value(text.replace("by_", "bt")).type) == shown


def test_integer_division() -> None:
    assert value("i / 2", Options(integer_division=True)).type == t.INT
    assert value("i / 2.0", Options(integer_division=True)).type == t.DOUBLE


def test_struct_type_knows_its_columns() -> None:
    assert value("new {a = i, id}").type == t.struct_of((("a", t.INT), ("id", t.STRING)))
    statement = select("insert into Q select new {a = i} as st from Types; select st.a as a from Q")
    assert statement.root.columns[0].value == x.MemberAccess(t.INT, x.Prop(t.struct_of((("a", t.INT),)), 0, "st"), "a")


def test_negative_numbers_are_constants() -> None:
    assert value("-5") == x.Const(t.INT, -5)
    assert value("-2147483648") == x.Const(t.LONG, -2147483648)


def test_case_with_operand_compares_null_safe() -> None:
    bound = value("case i when 1 then 'a' when null then 'b' end")
    assert isinstance(bound, x.CaseWhen)
    assert [type(condition) for condition, _ in bound.branches] == [x.Is, x.Is]


def test_results_are_converted_to_the_common_type() -> None:
    bound = value("coalesce(i, d)")
    assert isinstance(bound, x.FunctionCall) and bound.args[0] == x.Convert(t.DOUBLE, x.Prop(t.INT, 0, "i"))
    assert isinstance(value("coalesce(i, l)"), x.FunctionCall)
    constant = value("case when b then 1 else 2.5 end")
    assert isinstance(constant, x.CaseWhen) and constant.branches[0][1] == x.Const(t.DOUBLE, 1.0)


def test_decimals_and_floating_numbers_meet_as_decimals() -> None:
    compared = value("d = bd")
    assert isinstance(compared, x.ComparisonExpr) and compared.left == x.Convert(t.BIGDECIMAL, x.Prop(t.DOUBLE, 0, "d"))
    single = value("f = d")
    assert isinstance(single, x.ComparisonExpr) and single.left == x.FunctionCall(
        t.FLOAT, "single precision", (x.Prop(t.FLOAT, 0, "f"),)
    )
    added = value("bd + d")
    assert isinstance(added, x.Arith) and added.right.type == t.BIGDECIMAL


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("i between 1 and 5", True, True),
        ("i in [1:5]", True, True),
        ("i in (1:5)", False, False),
        ("i in [1:5)", True, False),
        ("i in (1:5]", False, True),
    ],
)
def test_ranges(text: str, low: bool, high: bool) -> None:
    bound = value(text)
    assert isinstance(bound, x.RangeTest)
    assert (bound.include_low, bound.include_high) == (low, high)


def test_numbers_are_matched_as_text() -> None:
    bound = value("d like '%.5'")
    assert isinstance(bound, x.StringMatch) and bound.operand == x.Convert(t.STRING, x.Prop(t.DOUBLE, 0, "d"))


def test_typeof_carries_the_declared_name() -> None:
    for text, name in (("i", "Integer"), ("arr", "Integer[]"), ("m('k')", None)):
        bound = value(f"typeof({text})")
        assert isinstance(bound, x.FunctionCall) and bound.args[1] == x.Const(t.STRING, name)
    event = value("typeof(n)")
    assert isinstance(event, x.EventTypeName) and event.declared == "Inn"


def test_instanceof_of_a_known_type_is_decided_here() -> None:
    assert value("instanceof(i, long)") == x.Const(t.BOOLEAN, False)
    present = x.Is(t.BOOLEAN, x.Prop(t.INT, 0, "i"), x.Const(t.NULL, None), True)
    assert value("instanceof(i, long, int)") == present
    assert value("instanceof(i, java.lang.Number)") == present
    assert isinstance(value("instanceof(m('k'), string)"), x.InstanceOf)


def test_exists() -> None:
    nested = x.Prop(t.event_of("Inn"), 0, "n")
    assert value("exists(i?)") == x.Const(t.BOOLEAN, True)
    assert value("exists(n.p?)") == x.Is(t.BOOLEAN, nested, x.Const(t.NULL, None), True)
    assert value("exists(n.zz?)") == x.FunctionCall(t.BOOLEAN, "exists", (nested, x.Const(t.STRING, "zz")))


def test_spans_point_into_the_text() -> None:
    epl = "select i + l as value from Types"
    bound = select(epl).root.columns[0].value
    assert [epl[e.span.start : e.span.end] for e in x.walk(bound)] == ["i + l", "i", "l"]


@pytest.mark.parametrize(
    "text",
    [
        "id + 1",
        "id || i",
        "i + null",
        "b + 1",
        "-id",
        "i and b",
        "not i",
        "i = id",
        "b > true",
        "arr > 1",
        "i is id",
        "i in ('a', 'b')",
        "i between 'a' and 'b'",
        "i between id and 5",
        "id & 1",
        "b like 'a%'",
        "i like 5",
        "case when i then 1 end",
        "case i when 'a' then 1 end",
        "case when b then 1 else 'a' end",
        "coalesce(i, id)",
        "max(i, id)",
        "min(id, id)",
        "sum(id)",
        "avg(*)",
        "sum(i, d, 1)",
        "count()",
        "cast(b, int)",
        "current_timestamp(5)",
        "typeof()",
        "new {i, i}",
        "arr['a']",
        "i[0]",
        "id.nosuch()",
        "i.plus(1 day)",
        "n.nosuch",
        "NoClass.abs(i)",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(BindError) as raised:
        value(text)
    assert "not-supported-yet" not in {d.code for d in raised.value.diagnostics}
