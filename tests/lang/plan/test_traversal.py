"""The one walk and the one transformation of plans know nodes that they have never heard of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import StatementPlan
from cepbook.lang.plan.pattern import Atom, EveryPattern, RepeatPattern, operands
from cepbook.lang.plan.pattern import walk as walk_pattern
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.references import event_types_read, expressions_in
from cepbook.lang.plan.relational import SourceNode
from cepbook.lang.plan.traversal import map_expressions, transform, walk
from cepbook.lang.rewrite import rewrite_statement


@dataclass(frozen=True, slots=True)
class Part(PlanNode):
    event_type: str
    criteria: tuple[tuple[x.BoundExpr, bool], ...]


@dataclass(frozen=True, slots=True)
class Novel(StatementPlan):
    parts: tuple[Part, ...]
    condition: x.BoundExpr | None = None


def number(value: int) -> x.Const:
    return x.Const(t.INT, value)


def novel() -> Novel:
    total = x.Arith(t.INT, "+", number(1), number(2))
    price = x.Arith(t.INT, "*", x.Prop(t.INT, 0, "price"), total)
    return Novel("n", True, "", (), (Part("A", ((total, True),)), Part("B", ((price, False),))), total)


def test_a_new_node_is_walked_with_all_that_it_holds() -> None:
    plan = novel()
    assert [type(each).__name__ for each in walk(plan)] == ["Novel", "Part", "Arith", "Part", "Arith", "Arith"]
    assert list(event_types_read(plan)) == ["A", "B"]
    assert [e.name for e in expressions_in((plan,)) if isinstance(e, x.Prop)] == ["price"]


def test_its_expressions_are_folded_and_the_rest_is_kept() -> None:
    plan = rewrite_statement(novel())
    assert isinstance(plan, Novel)
    assert plan.condition == number(3)
    assert plan.parts[0].criteria == ((number(3), True),)
    assert plan.parts[1].criteria[0][0] == x.Arith(t.INT, "*", x.Prop(t.INT, 0, "price"), number(3))


def test_what_does_not_change_is_the_same_object() -> None:
    plan = novel()
    assert map_expressions(plan, lambda e: e) is plan
    changed = transform(
        plan, lambda n: replace(n, event_type="C") if isinstance(n, Part) and n.event_type == "A" else n
    )
    assert [part.event_type for part in changed.parts] == ["C", "B"]
    assert changed.parts[1] is plan.parts[1]


def test_patterns_are_found_in_text_order() -> None:
    a, b = Atom(0, "a", "A", None), Atom(1, "b", "B", None)
    repeat = RepeatPattern(EveryPattern(a), number(1), None, b, ("a",))
    assert operands(repeat) == (EveryPattern(a), b)
    assert walk_pattern(repeat) == [repeat, EveryPattern(a), a, b]


def test_a_source_is_a_leaf() -> None:
    assert list(event_types_read(SourceNode("A", None, None))) == ["A"]
