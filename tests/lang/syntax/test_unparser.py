"""Column names without ``as``: recorded ones, and the rules of parentheses, words and signs."""

from __future__ import annotations

import pytest

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.parser import parse_epl
from cepbook.lang.syntax.unparser import column_name, unparse


def name_of(text: str) -> str | None:
    statement = parse_epl(f"select {text} from E").statements[0]
    assert isinstance(statement, ast.Select)
    return column_name(statement.items[0])


# The corpus cases column_names, column_names_2, select_column_names and size_expression_columns.
RECORDED = {
    "i + 1": "i+1",
    "x  *  2": "x*2",
    "price * 2": "price*2",
    "(i + j) * 2": "(i+j)*2",
    "-i": "-1*i",
    "s || 'x'": 's||"x"',
    "n.p": "n.p",
    "E.i": "E.i",
    "arr[0]": "arr[0]",
    "m('k')": "m('k')",
    "'lit'": '"lit"',
    "5": "5",
    "2.50": "2.5",
    "null": "null",
    "true": "true",
    "count( * )": "count(*)",
    "sum(i)": "sum(i)",
    "sum(x)+1": "(sum(x))+1",
    "sum(distinct i)": "sum(distinct i)",
    "count(distinct id)": "count(distinct id)",
    "max(i, j)": "max(i,j)",
    "max(x)": "max(x)",
    "case when b then 1 else 2 end": "case when b then 1 else 2 end",
    "case when x=1 then 2 end": "case when x=1 then 2 end",
    "case i when 1 then 'a' end": 'case i when 1 then "a" end',
    "i in (1, 2)": "i in (1,2)",
    "i not in (1,2)": "i not in (1,2)",
    "i in [1:5)": "i in [1:5)",
    "i between 1 and 3": "i between 1 and 3",
    "s like 'a%'": 's like "a%"',
    "s regexp 'a'": 's regexp "a"',
    "not b": "not b",
    "b and not b or b": "b and not b or b",
    "i is null": "i is null",
    "i=1": "i=1",
    "i<>2": "i!=2",
    "i  >=  j": "i>=j",
    "i%2": "i%2",
    "i/j": "i/j",
    "i&j": "i&j",
    "coalesce(i, j)": "coalesce(i,j)",
    "cast(i, long)": "cast(i,long)",
    "instanceof(i,int)": "instanceof(i,int)",
    "typeof(i)": "typeof(i)",
    "{1,2}": "{1,2}",
    "exists(n.p?)": "exists(n.p?)",
    "current_timestamp": "current_timestamp()",
    "prev(1, i)": "prev(1,i)",
    "s.length()": "s.length()",
    "Math.abs(i)": "Math.abs(i)",
    "window(i)": "window(i)",
}


@pytest.mark.parametrize(("text", "name"), RECORDED.items())
def test_recorded_name(text: str, name: str) -> None:
    assert name_of(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a - (b - c)", "a-(b-c)"),
        ("(a - b) - c", "a-b-c"),
        ("(a or b) and c", "(a or b) and c"),
        ("a or (b and c)", "a or b and c"),
        ("not (a and b)", "not (a and b)"),
        ("not a = b", "not a=b"),
        ("1 + 2 & 3", "1+2&3"),
        ("(a = b) = c", "(a=b)=c"),
        ("a < b = c", "a<b=c"),
        ("(a & b) | c", "(a&b)|c"),
        ("a & b & c", "a&b&c"),
        ("(not a) = b", "(not a)=b"),
        ("max(a, b) + 1", "max(a,b)+1"),
        ("count(*) > 1", "(count(*))>1"),
        ("a.where(x => x > 1).first().y", "a.where(x => x>1).first().y"),
        ("T[a, b].c", "T[a,b].c"),
        ("a[0][1]", "a[0][1]"),
        ("sum(x, filter: y > 1)", "sum(x,filter:y>1)"),
        ("count(*, group_by: (a, b))", "count(*,group_by:(a,b))"),
        ("x.plus(1 hour 2 min)", "x.plus(1 hours 2 minutes)"),
        ("(select max(x) from A#keepall where y=1)", "(select max(x) from A#keepall where y=1)"),
        ("x > all (1, 2)", "x>all (1,2)"),
        ("`a b` + `count`", "a b+count"),
        ("new {a = 1, b}", "new{a=1,b}"),
        ("1e10", "1.0E10"),
        ("0.00001", "1.0E-5"),
        ("1.1f", "1.1"),
        ("123456789.5", "1.234567895E8"),
        ("1e3", "1000.0"),
        ("69486747.38744652", "6.948674738744652E7"),
        ("-5", "-5"),
    ],
)
def test_parentheses_and_spelling(text: str, name: str) -> None:
    assert name_of(text) == name


def test_known_function_of_one_string_is_no_mapped_property() -> None:
    statement = parse_epl("select upper('k') from E").statements[0]
    assert isinstance(statement, ast.Select) and statement.items[0].expr is not None
    assert unparse(statement.items[0].expr) == "upper('k')"
    assert unparse(statement.items[0].expr, functions={"upper"}) == 'upper("k")'


def test_alias_and_wildcards() -> None:
    statement = parse_epl("select a as b, *, e.*, e.* as f from E as e").statements[0]
    assert isinstance(statement, ast.Select)
    assert [column_name(item) for item in statement.items] == ["b", None, None, "f"]


def test_normal_text_parses_to_the_same_tree() -> None:
    for text in RECORDED:
        normal = name_of(text)
        assert normal is not None
        assert name_of(normal) == normal
