"""Facts of plan nodes: what patterns, expressions and statements answer of themselves."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import nodes

SCHEMA = """
create schema Tick(symbol string, price double, size int, ts long);
create schema Wide(symbol string, size long);
create window W#keepall as Tick;
create variable int limit_ = 3;
"""


def planned(epl: str) -> nodes.StatementPlan:
    """The plan of the last statement of `epl`."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    return runtime.deploy(epl).plan.statements[-1]


@pytest.mark.parametrize(
    ("pattern", "leading", "steps", "tags", "clock"),
    [
        ("every a=Tick -> b=Wide", "a", 1, {"a": "Tick", "b": "Wide"}, False),
        ("every a=Tick -> b=Wide -> (timer:interval(3) and not Tick)", "a", 2, {"a": "Tick", "b": "Wide"}, True),
        ("every a=Tick", "a", 0, {"a": "Tick"}, False),
        ("a=Tick -> b=Wide", None, 0, {"a": "Tick", "b": "Wide"}, False),
        ("every (a=Tick -> b=Wide)", None, 0, {}, False),
        ("every-distinct(a.symbol, 3 sec) a=Tick -> b=Wide", None, 0, {"a": "Tick", "b": "Wide"}, True),
        ("every a=Tick -[2]> b=Wide", None, 0, {"a": "Tick", "b": "Wide"}, False),
        ("every a=Tick -> (b=Wide or c=Tick)", "a", 1, {"a": "Tick"}, False),
        ("every a=Tick -> b=Wide where timer:within(3 sec)", "a", 1, {"a": "Tick"}, True),
    ],
)
def test_patterns(pattern: str, leading: str | None, steps: int, tags: dict[str, str], clock: bool) -> None:
    statement = planned(f"select * from pattern [{pattern}]")
    assert isinstance(statement, nodes.SelectStatement) and statement.source.pattern is not None
    node = statement.source.pattern
    atom, rest = node.leading_every
    assert (atom and atom.tag, len(rest), node.single_tags, node.uses_clock) == (leading, steps, tags, clock)


def test_expressions_that_repeat_a_property() -> None:
    statement = planned(
        "select symbol, cast(size, long) as wide, price, cast(ts, int) as narrow, size + 1 as s from Tick"
    )
    assert isinstance(statement, nodes.SelectStatement)
    values = [column.value for column in statement.root.columns]
    assert [v.copied_property and v.copied_property.name for v in values] == ["symbol", "size", "price", None, None]
    assert [v.key_property and v.key_property.name for v in values] == ["symbol", None, None, None, None]


@pytest.mark.parametrize(
    ("epl", "lookup", "changed", "reason"),
    [
        ("on Wide as e select w.price from W as w where w.symbol = e.symbol", ("W", "Wide", 1), set(), ""),
        ("on Wide as e delete from W as w", ("W", "Wide", 0), set(), ""),
        (
            "on Wide as e merge W as w where w.symbol = e.symbol and w.price > 1 when matched then update set size = 1",
            ("W", "Wide", 2),
            {("W", "size")},
            "",
        ),
        ("update istream Tick set price = 1, size = 2", None, {("Tick", "price"), ("Tick", "size")}, ""),
        ("on Wide set limit_ = 1", None, set(), "it assigns variables, which all keys share"),
        ("@Drop select * from Tick", None, set(), "it may hide events from other statements (@Drop)"),
        ("select * from Tick", None, set(), ""),
    ],
)
def test_statements(epl: str, lookup: tuple[str, str, int] | None, changed: set[tuple[str, str]], reason: str) -> None:
    statement = planned(epl)
    assert isinstance(statement, nodes.StreamStatement)
    at = statement.lookup
    assert (at and (at.store.name, at.source.event_type, len(at.conditions))) == lookup
    assert (set(statement.changed_properties), statement.order_reason) == (changed, reason)
