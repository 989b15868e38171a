"""Data windows, derived-value windows, prev and prior, grouping sets: plans, and what is refused (window_errors.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import BindError, CompileError
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from tests.lang import recorded
from tests.lang.binding import aggregation, bound, select, windows

FILE = Path(__file__).with_name("window_errors.md")
SYMBOL = x.Prop(t.STRING, 0, "symbol")
PRICE = x.Prop(t.DOUBLE, 0, "price")
VOLUME = x.Prop(t.INT, 0, "volume")
TS = x.Prop(t.LONG, 0, "ts")
TICK = x.EventOf(t.event_of("Tick"), 0)


def const(value: int) -> x.Const:
    return x.Const(t.INT, value)


def period(millis: int) -> x.Period:
    return x.Period(t.LONG, None, x.Const(t.LONG, millis))


def window(text: str) -> nodes.WindowSpec:
    """The only window of ``from Tick#text``."""
    (found,) = windows(select(f"select * from Tick#{text}"))
    return found


def column(text: str) -> x.BoundExpr:
    """The bound value of the only column of ``select text``."""
    (found,) = select(f"select {text}").root.columns
    return found.value


@pytest.mark.parametrize(("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:60])
def test_recorded_text(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(CompileError) as caught:
        bound(epl.rstrip())
    recorded.check(FILE, epl, error, caught.value, request)


# ---------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("firstlength(2)", (const(2),)),
        ("firsttime(1 min)", (period(60_000),)),
        ("firstevent", ()),
        ("firstevent()", ()),
        ("firstunique(symbol, volume)", (SYMBOL, VOLUME)),
        ("ext_timed(ts, 0.5)", (TS, period(500))),
        ("ext_timed(volume, 10 sec)", (VOLUME, period(10_000))),
        ("ext_timed(price, 10 sec)", (x.Convert(t.LONG, PRICE), period(10_000))),
        ("ext_timed_batch(ts, 10L)", (TS, period(10_000))),
        ("ext_timed_batch(ts, 10 sec, 500)", (TS, period(10_000), x.Const(t.LONG, 500))),
        ("time_length_batch(2, 5)", (period(2000), const(5))),
        ("time_accum(1 sec 500 msec)", (period(1500),)),
        ("time_order(ts, 10 sec)", (TS, period(10_000))),
        ("time_order(ts, 0 sec)", (TS, period(0))),
        ("timetolive(ts)", (TS,)),
        ("length(1 + 2 * 3)", (const(7),)),
    ],
)
def test_arguments(text: str, args: tuple[x.BoundExpr, ...]) -> None:
    assert window(text) == nodes.WindowSpec(text.partition("(")[0], args)


def test_months_stay_apart_from_milliseconds() -> None:
    assert window("ext_timed(ts, 1 month 2 sec)").args[1] == x.Period(t.LONG, const(1), x.Const(t.LONG, 2000))


def test_flow_control_of_time_length_batch() -> None:
    spec = window("time_length_batch(1 sec, 5, 'start_eager,Force_Update')")
    assert spec.args == (period(1000), const(5))
    assert spec.options == ("START_EAGER", "FORCE_UPDATE")


def test_sort_criteria() -> None:
    spec = window("sort(3, price desc, symbol asc, volume)")
    assert spec.args == (const(3),)
    assert spec.criteria == ((PRICE, True), (SYMBOL, False), (VOLUME, False))


def test_rank_finds_its_size_behind_the_keys() -> None:
    spec = window("rank(symbol, volume, 2 + 1, price desc, ts)")
    assert spec.args == (const(3), SYMBOL, VOLUME)
    assert spec.criteria == ((PRICE, True), (TS, False))


def test_the_condition_of_expr_knows_the_window() -> None:
    spec = window("expr(current_count < 3 and newest_event.price > oldest_event.price and sum(volume) < 9)")
    condition = spec.args[0]
    assert isinstance(condition, x.Logic)
    count, events, total = condition.operands
    assert count == x.ComparisonExpr(t.BOOLEAN, "<", x.WindowValue(t.INT, "current_count"), const(3))
    newest, oldest = (x.WindowValue(t.event_of("Tick"), f"{which}_event") for which in ("newest", "oldest"))
    assert events == x.ComparisonExpr(
        t.BOOLEAN, ">", x.MemberAccess(t.DOUBLE, newest, "price"), x.MemberAccess(t.DOUBLE, oldest, "price")
    )
    assert total == x.ComparisonExpr(t.BOOLEAN, "<", x.AggregateRef(t.INT, 0), const(9))
    assert spec.calls == (nodes.AggregateCall("sum", (VOLUME,), t.INT),)


def test_aggregates_of_a_condition_are_not_those_of_the_statement() -> None:
    statement = select("select count(*) as c from Tick#expr_batch(sum(price) > 5, false)")
    assert windows(statement)[0].calls == (nodes.AggregateCall("sum", (PRICE,), t.DOUBLE),)
    assert windows(statement)[0].args[1] == x.Const(t.BOOLEAN, False)
    assert [call.name for call in aggregation(statement).calls] == ["count"]


def test_built_in_names_end_with_the_condition() -> None:
    with pytest.raises(BindError, match="no property `current_count`"):
        bound("select current_count from Tick#expr(current_count < 3)")


# ---------------------------------------------------------------- combinations
@pytest.mark.parametrize(
    ("text", "union"),
    [
        ("#length(2)#time(1 sec)", False),
        ("#length(2)#time(1 sec) retain-intersection", False),
        ("#length(2)#time(1 sec) retain-union", True),
        ("#groupwin(symbol)#length(2)#time(1 sec) retain-union", True),
        ("#length(2) retain-union", False),
        ("#groupwin(symbol)#length(2) retain-union", False),
    ],
)
def test_union(text: str, union: bool) -> None:
    node = select(f"select * from Tick{text}").root.input
    assert isinstance(node, nodes.Windowed)
    assert node.union is union


def test_merge_has_no_arguments() -> None:
    found = windows(select("select * from Tick.std:groupwin(symbol).win:length(2).std:merge(symbol)"))
    assert [spec.name for spec in found] == ["groupwin", "length", "merge"]
    assert found[2] == nodes.WindowSpec("merge", ())


@pytest.mark.parametrize(
    ("hint", "reclaim"),
    [
        ("reclaim_group_aged=10", (10_000, 10_000)),
        ("reclaim_group_aged=10,reclaim_group_freq=0.5", (10_000, 500)),
        ("other, RECLAIM_GROUP_FREQ=5 , reclaim_group_aged = 10", (10_000, 5000)),
        ("reclaim_group_freq=5", None),
    ],
)
def test_reclaim_hints(hint: str, reclaim: tuple[int, int] | None) -> None:
    statement = select(f"@Hint('{hint}') select * from Tick#groupwin(symbol)#length(2)")
    assert windows(statement)[0].reclaim == reclaim


# ---------------------------------------------------------------- derived-value windows
def test_a_derived_window_changes_the_type_of_the_stream() -> None:
    statement = select("select *, average / 2 as half from Tick#length(5)#uni(price) where total > 3")
    assert statement.derived is not None
    assert statement.derived.event_type.name == "<uni>"
    names = "datapoints total stddev stddevpa variance average"
    assert list(statement.output_type.properties) == [*names.split(), "half"]
    assert statement.output_type.properties["datapoints"] == t.LONG
    assert isinstance(statement.derived.input, nodes.Windowed)
    assert [spec.name for spec in statement.derived.input.windows] == ["length"]


def test_a_derived_window_alone_stands_over_the_source() -> None:
    node = select("select size from Tick(price > 1)#size").derived
    assert node is not None
    assert isinstance(node.input, nodes.SourceNode)
    assert node.input.filter is not None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("size(price * 2, symbol)", "size price*2 symbol"),
        ("weighted_avg(price, volume, symbol, *)", "average symbol price volume ts flags info"),
        ("correl(price, volume, symbol, symbol)", "correlation symbol"),
        ("groupwin(symbol)#length(2)#size(volume)", "symbol size volume"),
        ("groupwin(symbol)#length(2)#size(volume, symbol)", "symbol size volume"),
        ("groupwin(symbol)#length(2)#merge(symbol)#size(volume)", "size volume"),
        ("groupwin(symbol)#size#merge(symbol)", "symbol size"),
    ],
)
def test_properties_of_derived_events(text: str, names: str) -> None:
    node = select(f"select * from Tick#{text}").derived
    assert node is not None
    assert list(node.event_type.properties) == names.split()


def test_keys_and_extra_columns() -> None:
    node = select("select * from Tick#groupwin(symbol)#uni(price, volume)").derived
    assert node is not None
    assert isinstance(node.input, nodes.SourceNode)
    assert node.keys == (nodes.OutputColumn("symbol", SYMBOL),)
    assert node.args == (PRICE,)
    assert node.extra == (nodes.OutputColumn("volume", VOLUME),)


def test_windows_over_derived_events_keep_the_groups() -> None:
    node = select("select * from Tick#groupwin(symbol)#size#length(3)").root.input
    assert isinstance(node, nodes.Windowed)
    assert [spec.name for spec in node.windows] == ["groupwin", "length"]
    assert node.windows[0].args == (SYMBOL,)
    node = select("select * from Tick#groupwin(symbol)#size#merge(symbol)#length(3)").root.input
    assert isinstance(node, nodes.Windowed)
    assert [spec.name for spec in node.windows] == ["length"]


def test_an_insert_takes_the_type_of_derived_events() -> None:
    statement = select("insert into Sizes select * from Tick#size; select size from Sizes")
    assert statement.output_type.properties == {"size": t.LONG}


# ---------------------------------------------------------------- prev, prior, istream
@pytest.mark.parametrize(
    ("text", "bound_value"),
    [
        ("prev(1, price)", x.Prev(t.DOUBLE, "prev", const(1), PRICE)),
        ("prev(price)", x.Prev(t.DOUBLE, "prev", const(1), PRICE)),
        ("prev(price, 2)", x.Prev(t.DOUBLE, "prev", const(2), PRICE)),
        ("prev(volume, price)", x.Prev(t.DOUBLE, "prev", VOLUME, PRICE)),
        ("prev(0, e)", x.Prev(t.event_of("Tick"), "prev", const(0), TICK)),
        ("prev(1, e.price)", x.Prev(t.DOUBLE, "prev", const(1), PRICE)),
        ("prevtail(price)", x.Prev(t.DOUBLE, "tail", const(0), PRICE)),
        ("prevtail(2, price)", x.Prev(t.DOUBLE, "tail", const(2), PRICE)),
        ("prevcount(price)", x.Prev(t.LONG, "count", None, PRICE)),
        ("prevcount(e)", x.Prev(t.LONG, "count", None, TICK)),
        ("prevwindow(price)", x.Prev(t.array_of(t.DOUBLE), "window", None, PRICE)),
        ("prevwindow(e)", x.Prev(t.array_of(t.event_of("Tick")), "window", None, TICK)),
        ("prevwindow(e.*)", x.Prev(t.array_of(t.event_of("Tick")), "window", None, TICK)),
        ("prior(2, price)", x.Prior(t.DOUBLE, 2, PRICE)),
        ("prior(0, e)", x.Prior(t.event_of("Tick"), 0, TICK)),
        ("istream()", x.InsertStream(t.BOOLEAN)),
    ],
)
def test_functions_of_a_place(text: str, bound_value: x.BoundExpr) -> None:
    assert column(f"{text} from Tick#groupwin(symbol)#length(5) as e") == bound_value


def test_prior_and_istream_need_no_window() -> None:
    assert column("prior(1, price) from Tick") == x.Prior(t.DOUBLE, 1, PRICE)
    assert column("istream() from Tick") == x.InsertStream(t.BOOLEAN)


def test_column_names() -> None:
    statement = select("select prev( 1, price ), prevwindow(e), prior(2,price), istream() from Tick#keepall as e")
    assert list(statement.output_type.properties) == ["prev(1,price)", "prevwindow(e)", "prior(2,price)", "istream()"]


def test_prev_over_derived_events_looks_at_the_windows_over_them() -> None:
    assert isinstance(column("prev(1, size) from Tick#size#length(2)"), x.Prev)
    with pytest.raises(BindError, match="`prev` needs a data window"):
        bound("select prev(1, size) from Tick#length(2)#size")


@pytest.mark.parametrize("text", ["length(0)", "lenght(2)", "groupwin(nosuch)#length(2)"])
def test_prev_is_not_refused_for_a_window_that_was(text: str) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"select prev(1, price) from Tick#{text}")
    assert len(caught.value.diagnostics) == 1


def test_members_of_other_events() -> None:
    assert column("prev(1, e).price from Tick#length(2) as e").type == t.DOUBLE
    assert column("prev(1, e).average from Tick#uni(price)#length(2) as e").type == t.DOUBLE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("symbol, prev(1, symbol), count(*) from Tick#length(2) group by symbol", "aggregated_grouped"),
        ("symbol, prevcount(symbol), count(*) from Tick#length(2) group by symbol", "aggregated_grouped"),
        ("prior(1, price), count(*) from Tick", "aggregated"),
        ("istream(), count(*) from Tick", "fully_aggregated"),
    ],
)
def test_rows_with_other_events_are_rows_of_events(text: str, kind: str) -> None:
    assert select(f"select {text}").kind == kind


def test_another_event_keeps_its_own_key() -> None:
    statement = select("select symbol, prev(1, symbol) as p, count(*) from Tick#length(2) group by symbol")
    assert statement.root.columns[1].value == x.Prev(t.STRING, "prev", const(1), SYMBOL)


# ---------------------------------------------------------------- grouping sets
@pytest.mark.parametrize(
    ("clause", "levels"),
    [
        ("rollup(symbol, volume)", ((0, 1), (0,), ())),
        ("cube(symbol, volume)", ((0, 1), (0,), (1,), ())),
        ("cube(symbol, volume, ts)", ((0, 1, 2), (0, 1), (0, 2), (0,), (1, 2), (1,), (2,), ())),
        ("grouping sets((symbol, volume), volume, ())", ((0, 1), (1,), ())),
        ("grouping sets(rollup(symbol, volume), ts)", ((0, 1), (0,), (), (2,))),
        ("grouping sets((symbol), grouping sets(volume))", ((0,), (1,))),
        ("ts, rollup(symbol, volume)", ((0, 1, 2), (0, 1), (0,))),
        ("rollup(symbol), cube(volume)", ((0, 1), (0,), (1,), ())),
        ("rollup((symbol, volume), ts)", ((0, 1, 2), (0, 1), ())),
        ("symbol, rollup(symbol, volume)", ((0, 1), (0,))),
        ("(symbol, volume)", ()),
    ],
)
def test_levels(clause: str, levels: tuple[tuple[int, ...], ...]) -> None:
    node = aggregation(select(f"select sum(price) from Tick group by {clause}"))
    assert node.levels == levels
    assert len(node.keys) == len(set(node.keys))


def test_rows_of_levels_read_keys() -> None:
    statement = select(
        "select volume, symbol || 'x' as s, sum(price) as p, grouping(volume) as g, grouping_id(volume, symbol) as i"
        " from Tick group by rollup(symbol, volume) order by symbol"
    )
    assert statement.kind == "fully_aggregated_grouped"
    values = {c.name: c.value for c in statement.root.columns}
    assert values["volume"] == x.KeyRef(t.INT, 1)
    assert values["s"] == x.Concat(t.STRING, (x.KeyRef(t.STRING, 0), x.Const(t.STRING, "x")))
    assert values["g"] == x.Grouping(t.INT, (1,))
    assert values["i"] == x.Grouping(t.INT, (1, 0))
    assert statement.root.order_by == ((x.KeyRef(t.STRING, 0), False),)


def test_grouping_sets_without_aggregates() -> None:
    statement = select("select symbol from Tick group by rollup(symbol)")
    assert statement.kind == "fully_aggregated_grouped"
    assert aggregation(statement).calls == ()
