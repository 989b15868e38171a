"""Rewrites: the plan before and after, as text."""

from __future__ import annotations

import pytest

from cepbook.lang import types as t
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.explain.statements import show_statement
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.traversal import substitute_expr
from cepbook.lang.rewrite import rewrite, rewrite_statement
from cepbook.lang.rewrite.fold_constants import fold_expr
from tests.lang.binding import bound, select, source


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("price > 2 * 50", "price > 100"),
        ("price > 7 / 2", "price > 3.5"),
        ("volume = 2147483647 + 1", "volume = -2147483648"),
        ("volume = -7 % 3", "volume = -1"),
        ("volume > 1 and 1 = 1", "volume > 1"),
        ("volume > 1 and 1 = 2", "false"),
        ("(volume > 1 or 1 = 1)", "true"),
        ("not (1 = 2) and price > 1", "price > 1"),
        ("symbol = 'a' || 'b'", "symbol = 'ab'"),
        ("price > (case when 1 = 1 then 5 else 6 end)", "price > 5"),
        ("price > cast(5, double)", "price > 5.0"),
        ("price > 1 / 0", "price > (1 / 0)"),
        ("volume > null", "volume > null"),
        ("1 = null", "null"),
        ("null is null and volume > 1", "volume > 1"),
    ],
)
def test_fold_constants(written: str, folded: str) -> None:
    statement = rewrite_statement(select(f"select * from Tick#keepall where {written} and ts > 0"))
    expected = {"false": "where false", "true": "where ts > 0", "null": "where null and (ts > 0)"}
    compound = f"where ({folded}) and (ts > 0)"
    assert expected.get(folded, compound) in show_statement(statement)


def test_where_without_a_window_is_a_filter() -> None:
    statement = rewrite_statement(select("select count(*) from Tick(price > 1) where volume > 2 and symbol = 'a'"))
    filter_ = source(statement).filter
    assert filter_ is not None
    assert show_expr(filter_) == "(price > 1) and (volume > 2) and (symbol = 'a')"
    assert "where" not in show_statement(statement)


def test_where_over_a_window_stays() -> None:
    statement = rewrite_statement(select("select * from Tick#length(2) where volume > 2"))
    assert source(statement).filter is None
    assert "where volume > 2" in show_statement(statement)


def test_having_stays_and_where_below_it_is_a_filter() -> None:
    statement = rewrite_statement(select("select * from Tick where price > 1 having volume > 2"))
    assert "having" in show_statement(statement)
    assert "where" not in show_statement(statement)


def test_tautologies_disappear() -> None:
    shown = show_statement(rewrite_statement(select("select * from Tick(true) where 1 = 1 having true")))
    assert not any(word in shown for word in ("filter", "where", "having"))


def test_other_statements_stay() -> None:
    module = bound("create schema A(x int); create context C partition by x from A(x > 1 + 1)")
    rewritten = rewrite(module)
    assert rewritten.statements[0] is module.statements[0]
    assert "filter x > 2" in show_statement(rewritten.statements[1])


def test_substitution_is_outermost_first() -> None:
    a, b = x.Prop(t.INT, 0, "a"), x.Prop(t.INT, 0, "b")
    whole = x.Arith(t.INT, "+", a, b)
    found = substitute_expr(x.Arith(t.INT, "*", whole, a), {a: x.KeyRef(t.INT, 0), whole: x.KeyRef(t.INT, 1)})
    assert found == x.Arith(t.INT, "*", x.KeyRef(t.INT, 1), x.KeyRef(t.INT, 0))


def test_fold_keeps_unchanged_expressions() -> None:
    bound_filter = source(select("select * from Tick(price > 1, volume + 1 < 5)")).filter
    assert bound_filter is not None
    assert fold_expr(bound_filter) is bound_filter


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("ts.before(5L)", "ts < 5"),
        ("ts.after(5L)", "ts > 5"),
        ("ts.coincides(5L) and price > 1", "where (ts = 5) and (price > 1)"),
        ("ts.meets(5L, 1 sec)", "where (ts >= -995) and (ts <= 1005)"),
        ("ts.before(5L, 2, 1)", "where (5 >= (ts + 1)) and (5 <= (ts + 2))"),
        ("ts.meets(5L, ts)", "where ts.meets("),
        ("not ts.before(5L)", "not (ts.before("),
        ("ts.before(5L) or price > 1", "where ts.before("),
    ],
)
def test_relations_of_intervals_are_comparisons_where_they_must_be_true(written: str, compared: str) -> None:
    statement = rewrite_statement(select(f"select ts.before(5L) as b from Tick#keepall where {written}"))
    shown = show_statement(statement)
    assert compared in shown
    assert ".before(" in shown, "a value may be null, which comparisons are not always"
