"""Facts of plan nodes: what patterns, expressions and statements answer of themselves."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import nodes
from cepbook.lang.plan.expressions import equality_sides
from cepbook.lang.plan.key_requirement import NO_REQUIREMENT, KeyRequirement, equal_columns

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


@pytest.mark.parametrize(
    ("epl", "kind", "names", "trigger"),
    [
        ("select * from Tick#length(2) as t, W as w where t.symbol = w.symbol", "select", ("Tick", "W"), None),
        ("select 1 as one", "select", (), None),
        ("create window V#keepall as Tick", "create window", ("V",), None),
        ("on Wide as e select w.price from W as w", "on select", ("W", "Wide"), None),
        ("on Wide as e delete from W as w where w.symbol = e.symbol", "on delete", ("Wide",), "Wide"),
        ("on Wide as e update W as w set price = 1", "on update", ("Wide",), "Wide"),
        ("on Wide merge W when not matched then insert select symbol, 1.0 as price, 2 as size, 3L as ts",
         "on merge", ("Wide",), "Wide"),
        ("on Tick(size > 3) set limit_ = size", "on set", ("Tick",), "Tick"),
        ("on Tick insert into A select symbol", "split", ("Tick",), "Tick"),
        ("update istream Tick set price = 0", "update istream", ("Tick",), "Tick"),
        ("create index I on W(symbol)", "create index", ("W",), None),
        ("create context C partition by symbol from Tick", "create context", ("Tick",), None),
        ("create table T(k string primary key)", "create table", (), None),
    ],
)  # fmt: skip
def test_kinds_inputs_and_triggers(epl: str, kind: str, names: tuple[str, ...], trigger: str | None) -> None:
    statement = planned(epl)
    assert (statement.statement_kind, statement.names_read) == (kind, names)
    assert (statement.trigger and statement.trigger.event_type) == trigger
    assert (statement.projection is not None) == (kind in ("select", "create window", "on select"))


@pytest.mark.parametrize(
    ("pattern", "duration"),
    [
        ("timer:interval(3)", [(3000,)]),
        ("Tick where timer:within(2 sec)", [(2000,)]),
        ("Tick where timer:withinmax(2 sec, 3)", None),
        ("Tick", None),
        ("(Tick where timer:within(2 sec)) -> timer:interval(3)", [(3000,), (2000,)]),
        ("(Tick where timer:within(2 sec)) -[3]> timer:interval(3)", None),
        ("timer:interval(3) or (Tick where timer:within(2 sec))", [(3000, 2000)]),
        ("timer:interval(3) and not Tick", [(3000,)]),
        ("timer:interval(3) or not Tick", None),
        ("timer:interval(3) and Tick", None),
        ("timer:interval(3) while (1 = 1)", [(3000,)]),
    ],
)
def test_duration_of_patterns(pattern: str, duration: list[tuple[int, ...]] | None) -> None:
    (source,) = planned(f"select * from pattern [every a=Wide -> ({pattern})]").sources
    assert source.pattern is not None
    (step,) = source.pattern.leading_every[1]
    found = step.duration
    assert (found and [tuple(period.constant_millis for period in periods) for periods in found]) == duration


@pytest.mark.parametrize(
    ("epl", "copies"),
    [
        ("insert into A select symbol as s, price from Tick", {"A": {"s"}}),
        ("insert into A select * from Tick", {"A": {"symbol"}}),
        ("insert into A select symbol || 'x' as s from Tick", {"A": set()}),
        ("insert into A select a.symbol as s from Tick#lastevent as a left outer join Wide#lastevent as b "
         "on a.symbol = b.symbol", {"A": set()}),
        ("insert into A select a.symbol as s, b.symbol as u from pattern [every a=Tick -> b=Wide]", {"A": {"s", "u"}}),
        ("insert into A select a.symbol as s from pattern [every (a=Tick -> b=Wide)]", {"A": set()}),
        ("on Tick insert into A select symbol as s insert into B select *", {"A": {"s"}, "B": {"symbol"}}),
        ("on Wide as e merge W as w where w.symbol = e.symbol when not matched then insert select e.symbol as symbol, "
         "1.0 as price, 2 as size, 3L as ts then insert into A select e.symbol as s", {"W": {"symbol"}, "A": {"s"}}),
        ("create table T(symbol string primary key, c count(*)); into table T select count(*) as c from Tick "
         "group by symbol", {"T": {"symbol"}}),
    ],
)  # fmt: skip
def test_columns_that_repeat_the_key(epl: str, copies: dict[str, set[str]]) -> None:
    copied = planned(epl).key_copies(lambda name: frozenset({"symbol"}))
    assert {name: set(columns) for name, columns in copied} == copies


@pytest.mark.parametrize(
    ("epl", "clock", "previous"),
    [
        ("select * from Tick", False, ""),
        ("select prior(1, price) from Tick", False, "it reads earlier events of all keys (prior)"),
        ("select prev(1, price) from Tick#length(3)", False, "it reads events of all keys in its window (prev)"),
        ("select prev(1, price) from Tick#groupwin(symbol)#length(3)", False, ""),
        ("select * from Tick output every 3 events", False, ""),
        ("select * from Tick output every 3 sec", True, ""),
        ("select * from pattern [every timer:interval(3)]", True, ""),
    ],
)
def test_clock_and_previous_events(epl: str, clock: bool, previous: str) -> None:
    statement = planned(epl)
    assert isinstance(statement, nodes.SelectStatement)
    assert (statement.uses_clock, statement.previous_reason) == (clock, previous)


def test_values_that_expressions_stand_for() -> None:
    inner = "(select max(price) from W where symbol = t.symbol)"
    epl = f"select price, limit_, context.key1 as k, count(*) as n, {inner} as p"
    context = "create context C partition by symbol from Tick;"
    statement = planned(f"{context} context C {epl} from Tick#length(3) as t")
    assert isinstance(statement, nodes.SelectStatement)
    price, limit, key, number, _ = (column.value for column in statement.root.columns)
    assert (price.property_of(0), price.property_of(1), price.read_stream, number.read_stream) == ("price", "", 0, None)
    assert (limit.variable_name, price.variable_name) == ("limit_", "")
    assert (key.context_property, limit.context_property) == ("key1", "")
    assert (number.aggregate_number, price.aggregate_number) == (0, None)
    (subquery,) = statement.subqueries
    (condition,) = nodes.where_conjuncts(subquery.root)
    assert {side.parameter_index for side, _ in equality_sides(condition)} == {None, 0}


@pytest.mark.parametrize(
    ("epl", "choices", "reason"),
    [
        ("select * from Tick", [], ""),
        ("select symbol, count(*) from Tick group by symbol", [{"Tick": {"symbol"}}], ""),
        ("select symbol, count(*) from Tick#unique(symbol, size) group by symbol, price", [{"Tick": {"symbol"}}], ""),
        ("select * from Tick#unique(symbol, size)", [{"Tick": {"symbol", "size"}}], ""),
        ("select * from Tick#length(2)#time(3)", [], "several data windows keep events together"),
        ("select symbol, count(*) from Tick#length(2) group by rollup(symbol)", [], "it has several groupings"),
        (
            "select * from pattern [every a=Tick -> b=Wide(symbol = a.symbol)]",
            [{"Tick": {"symbol"}, "Wide": {"symbol"}}],
            "",
        ),
        (
            "select * from Tick#keepall as t, Wide#keepall as w where t.symbol = w.symbol",
            [{"Tick": {"symbol"}, "Wide": {"symbol"}}],
            "",
        ),
        ("on Wide as e select * from W where W.symbol = e.symbol", [{"W": {"symbol"}, "Wide": {"symbol"}}], ""),
        ("on Wide as e delete from W", [], "its condition does not look up rows of W by a key"),
        ("on pattern [every Tick] set limit_ = 4", [], "its events come from a pattern"),
    ],
)
def test_keys_that_divide_statements(epl: str, choices: list[dict[str, set[str]]], reason: str) -> None:
    statement = planned(epl)
    context = nodes.KeyContext(
        {"W": planned("create window V#keepall as Tick").windows}, False, statement.name, [{0, 1}, {0, 1}]
    )
    requirement = statement.key_requirement(context)
    wanted = [((tuple((name, frozenset(columns)) for name, columns in choice.items())),) for choice in choices]
    assert (list(requirement.choices), requirement.reason) == (wanted, reason)


def test_requirements_add_up() -> None:
    by_k, by_g = (equal_columns("Tick", frozenset({key}), "no key") for key in "kg")
    refused = [KeyRequirement(reason=reason) for reason in ("first", "second")]
    assert (by_k + NO_REQUIREMENT, (by_k + by_g).choices) == (by_k, by_k.choices + by_g.choices)
    assert by_k + refused[0] + by_g + refused[1] == refused[0]
    assert (NO_REQUIREMENT.columns, by_k.columns) == (None, {"k"})
    assert equal_columns("Tick", frozenset(), "no key").reason == "no key"
