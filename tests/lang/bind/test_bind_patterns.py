"""Event patterns: plans, and what is refused (pattern_errors.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import CompileError
from cepbook.lang import types as t
from cepbook.lang.bind import Options
from cepbook.lang.explain.statements import show_statement
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as p
from cepbook.lang.rewrite import rewrite_statement
from tests.lang import recorded
from tests.lang.binding import bound, select, source

FILE = Path(__file__).with_name("pattern_errors.md")
TICK, ALERT = t.event_of("Tick"), t.event_of("Alert")


def pattern(text: str, options: Options | None = None, annotations: str = "") -> p.Pattern:
    """The pattern of a statement that selects nothing of it."""
    found = source(select(f"select 1 as one from pattern {annotations} [{text}]", options)).pattern
    assert found is not None
    return found


def atom(number: int, tag: str | None, event_type: str = "Tick", condition: x.BoundExpr | None = None) -> p.Atom:
    return p.Atom(number, tag, event_type, condition)


def tag(name: str, type_: t.Type = TICK) -> x.Prop:
    return x.Prop(type_, p.MATCH_STREAM, name)


def millis(amount: int) -> x.Period:
    return x.Period(t.LONG, None, x.Const(t.LONG, amount))


def const(value: int) -> x.Const:
    return x.Const(t.INT, value)


@pytest.mark.parametrize(
    ("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:90] if text.strip() else ""
)
def test_refused(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(CompileError) as caught:
        bound(epl.rstrip())
    recorded.check(FILE, epl, error, caught.value, request)


# ---------------------------------------------------------------- atoms and tags
def test_a_filter_reads_the_event_and_earlier_tags() -> None:
    found = pattern("a=Tick -> b=Alert(symbol = a.symbol, level > 1)")
    symbol = x.Prop(t.STRING, p.EVENT_STREAM, "symbol")
    correlated = x.ComparisonExpr(t.BOOLEAN, "=", symbol, x.MemberAccess(t.STRING, tag("a"), "symbol"))
    level = x.ComparisonExpr(t.BOOLEAN, ">", x.Prop(t.LONG, p.EVENT_STREAM, "level"), const(1))
    condition = x.Logic(t.BOOLEAN, "and", (correlated, level))
    assert found.root == p.FollowedByPattern((atom(0, "a"), atom(1, "b", "Alert", condition)), (None,))
    assert found.match_type.properties == {"a": TICK, "b": ALERT}


@pytest.mark.parametrize("prefix", ["", "a.", "Tick."])
def test_the_event_answers_to_its_tag_and_its_type(prefix: str) -> None:
    found = pattern(f"a=Tick({prefix}volume > 1)").root
    assert found == atom(
        0, "a", "Tick", x.ComparisonExpr(t.BOOLEAN, ">", x.Prop(t.INT, p.EVENT_STREAM, "volume"), const(1))
    )


def test_properties_of_the_event_hide_tags() -> None:
    found = pattern("n=Tick -> b=Types(n is null)").atoms[1].filter
    assert isinstance(found, x.Is)
    assert found.left == x.Prop(t.event_of("Inn"), p.EVENT_STREAM, "n")


def test_an_event_may_have_the_tag_of_a_type() -> None:
    found = pattern("Tick=Alert -> b=Tick(symbol = Tick.symbol)").atoms[1].filter
    assert isinstance(found, x.ComparisonExpr)
    assert found.right == x.MemberAccess(t.STRING, tag("Tick", ALERT), "symbol")


def test_atoms_are_numbered_in_text_order() -> None:
    found = pattern("every (a=Tick or Alert) -> c=Sub and not d=Tick")
    assert [(one.number, one.tag, one.event_type) for one in found.atoms] == [
        (0, "a", "Tick"),
        (1, None, "Alert"),
        (2, "c", "Sub"),
        (3, "d", "Tick"),
    ]
    assert list(found.match_type.properties) == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("every a=Tick or every a=Tick", TICK),
        ("a=Tick or a=Sub", TICK),
        ("a=Tick or a=Alert", t.MAP),
        ("[2] a=Tick or [2] a=Sub", t.array_of(TICK)),
    ],
)
def test_branches_of_an_or_may_share_a_tag(text: str, type_: t.Type) -> None:
    found = pattern(text)
    assert found.match_type.properties == {"a": type_}
    assert [one.tag for one in found.atoms] == ["a", "a"]


@pytest.mark.parametrize(("annotation", "level"), [("", 0), ("@consume", 1), ("@Consume(3)", 3)])
def test_consumption(annotation: str, level: int) -> None:
    assert pattern(f"a=Tick {annotation}").atoms[0].consume == level


@pytest.mark.parametrize(
    ("annotations", "flags"),
    [
        ("", (False, False)),
        ("@SuppressOverlappingMatches", (True, False)),
        ("@SuppressOverlappingMatches @DiscardPartialsOnMatch", (True, True)),
    ],
)
def test_annotations(annotations: str, flags: tuple[bool, bool]) -> None:
    found = pattern("every a=Tick", annotations=annotations)
    assert (found.suppress_overlapping, found.discard_partials) == flags


# ---------------------------------------------------------------- operators
def test_precedence() -> None:
    a, b, c, d = (atom(i, None, name) for i, name in enumerate(("Tick", "Alert", "Sub", "Inn")))
    found = pattern("every Tick or Alert and Sub -> Inn").root
    assert found == p.FollowedByPattern(
        (p.LogicalPattern("or", (p.EveryPattern(a), p.LogicalPattern("and", (b, c)))), d), (None,)
    )


def test_guards_bind_tighter_than_every_and_until_weaker() -> None:
    found = pattern("every a=Tick where timer:within(5) until b=Alert").root
    guarded = p.EveryPattern(p.WithinGuard(atom(0, "a"), millis(5000)))
    assert found == p.RepeatPattern(guarded, None, None, atom(1, "b", "Alert"), ("a",))


def test_maxima() -> None:
    found = pattern("a=Tick -[5]> b=Tick -> c=Tick").root
    assert isinstance(found, p.FollowedByPattern)
    assert found.maxima == (const(5), None)


@pytest.mark.parametrize(
    ("bounds", "low", "high"), [("[2]", 2, 2), ("[2:4]", 2, 4), ("[2:]", 2, None), ("[:4]", None, 4), ("", None, None)]
)
def test_repeats_make_arrays(bounds: str, low: int | None, high: int | None) -> None:
    found = pattern(f"{bounds} a=Tick until b=Alert")
    ends = [None if end is None else const(end) for end in (low, high)]
    assert found.root == p.RepeatPattern(atom(0, "a"), ends[0], ends[1], atom(1, "b", "Alert"), ("a",))
    assert list(found.match_type.properties.items()) == [("b", ALERT), ("a", t.array_of(TICK))]


def test_tags_are_single_events_inside_of_a_repeat_and_arrays_behind() -> None:
    found = pattern("[2] (a=Tick -> b=Tick(volume > a.volume)) -> c=Tick(volume > a[1].volume)")
    inside, behind = found.atoms[1].filter, found.atoms[2].filter
    assert isinstance(inside, x.ComparisonExpr)
    assert inside.right == x.MemberAccess(t.INT, tag("a"), "volume")
    assert isinstance(behind, x.ComparisonExpr)
    assert behind.right == x.MemberAccess(t.INT, x.IndexAccess(TICK, tag("a", t.array_of(TICK)), const(1)), "volume")


def test_there_are_no_arrays_of_arrays() -> None:
    assert pattern("[2] (a=Tick until b=Alert)").match_type.properties == {
        "a": t.array_of(TICK),
        "b": t.array_of(ALERT),
    }


def test_bounds_may_be_variables() -> None:
    epl = "create variable int lo = 2; select 1 as one from pattern [[lo:lo+1] a=Tick until b=Alert]"
    found = source(select(epl)).pattern
    assert found is not None and isinstance(found.root, p.RepeatPattern)
    assert found.root.low == x.VariableRead(t.INT, "lo")


@pytest.mark.parametrize(
    ("written", "keys", "expiry"),
    [("a.symbol", 1, None), ("a.symbol, a.price", 2, None), ("a.symbol, 10 sec", 1, 10_000), ("a.symbol, 3", 1, 3000)],
)
def test_every_distinct(written: str, keys: int, expiry: int | None) -> None:
    found = pattern(f"every-distinct({written}) a=Tick").root
    assert isinstance(found, p.EveryPattern) and found.keys is not None
    assert len(found.keys) == keys and found.keys[0] == x.MemberAccess(t.STRING, tag("a"), "symbol")
    assert found.expiry == (None if expiry is None else millis(expiry))


# ---------------------------------------------------------------- guards and observers
def test_guards() -> None:
    found = pattern("a=Tick -> (every b=Tick) where timer:withinmax(a.volume sec, 3)").root
    assert isinstance(found, p.FollowedByPattern)
    guard = found.operands[1]
    assert isinstance(guard, p.WithinGuard)
    assert guard.operand == p.EveryPattern(atom(1, "b")) and guard.count == const(3)
    assert any(part == x.MemberAccess(t.INT, tag("a"), "volume") for part in x.walk(guard.period))


def test_while_sees_its_own_tags() -> None:
    found = pattern("a=Tick -> (every b=Tick) while (b.volume > a.volume)").root
    assert isinstance(found, p.FollowedByPattern) and isinstance(found.operands[1], p.WhileGuard)
    sides = (x.MemberAccess(t.INT, tag("b"), "volume"), x.MemberAccess(t.INT, tag("a"), "volume"))
    assert found.operands[1].condition == x.ComparisonExpr(t.BOOLEAN, ">", *sides)


@pytest.mark.parametrize(("written", "period"), [("5 sec", 5000), ("1.5", 1500), ("1 min 2 msec", 60_002)])
def test_intervals(written: str, period: int) -> None:
    assert pattern(f"timer:interval({written})").root == p.IntervalTimer(millis(period))


def test_crontabs() -> None:
    found = pattern("timer:at(*/5, 9, *, *, 1:5, 30)").root
    assert isinstance(found, p.CrontabTimer)
    assert [one.kind for one in found.crontab.fields] == ["step", "value", "star", "star", "range", "value"]


DATE = 1_709_542_800_000  # 2024-03-04T09:00:00Z
ONCE = const(1)


@pytest.mark.parametrize(
    ("parameters", "date", "months", "units", "repetitions"),
    [
        ("iso: '2024-03-04T09:00:00Z'", DATE, None, None, 1),
        ("iso: '2024-03-04T10:00:00.250+01:00'", DATE + 250, None, None, 1),
        ("iso: 'R3/2024-03-04T09:00:00Z/PT10M'", DATE, None, 600_000, 3),
        ("iso: 'R/2024-03-04T09:00:00Z/P1Y2M10DT2H30M'", DATE, 14, 873_000_000 + 0, None),
        ("iso: 'R-1/PT1.5S'", None, None, 1500, None),
        ("iso: 'PT10S'", None, None, 10_000, 1),
        ("iso: 'R2/P2W'", None, None, 1_209_600_000, 2),
        ("period: 5 sec", None, None, 5000, 1),
        ("repetitions: -1, period: 1 month", None, 1, None, None),
        ("repetitions: 2, date: '2024-03-04T09:00:00Z', period: 1 hour", DATE, None, 3_600_000, 2),
        ("date: 1709542800000L", DATE, None, None, 1),
    ],
)
def test_schedules(
    parameters: str, date: int | None, months: int | None, units: int | None, repetitions: int | None
) -> None:
    def long(value: int | None) -> x.Const | None:
        return None if value is None else x.Const(t.LONG, value)

    every = None
    if months is not None or units is not None:
        every = x.Period(t.LONG, None if months is None else const(months), long(units))
    count = None if repetitions is None else const(repetitions)
    assert pattern(f"timer:schedule({parameters})").root == p.ScheduleTimer(long(date), every, count)


def test_the_clock_may_count_microseconds() -> None:
    found = pattern("timer:schedule(iso: 'R/2024-03-04T09:00:00Z/PT0.000001S')", Options(microseconds=True)).root
    assert found == p.ScheduleTimer(x.Const(t.LONG, DATE * 1000), x.Period(t.LONG, None, x.Const(t.LONG, 1)), None)


# ---------------------------------------------------------------- the match as a stream
def test_select_star_gives_the_tags() -> None:
    found = select("select * from pattern [every a=Tick -> b=Alert]")
    assert found.output_type.properties == {"a": TICK, "b": ALERT}
    assert source(found).event_type == "<pattern>" and source(found).filter is None


def test_a_tag_with_star_gives_its_properties() -> None:
    found = select("select b.*, a.volume as v from pattern [every a=Tick -> b=Alert]")
    names = [column.name for column in found.root.columns]
    assert names == ["symbol", "level", "v"]
    assert found.root.columns[0].value == x.MemberAccess(t.STRING, x.Prop(ALERT, 0, "b"), "symbol")
    assert select("select b.* as x from pattern [every b=Alert]").output_type.properties == {"x": ALERT}


def test_columns_are_named_as_written() -> None:
    found = select("select a.symbol, p.a.price, a.volume as v from pattern [every a=Tick] as p")
    assert list(found.output_type.properties) == ["a.symbol", "p.a.price", "v"]


def test_methods_of_array_tags() -> None:
    found = select("select a.countOf() as n, a.lastOf().symbol as s, a.firstOf() as f from pattern [every [2] a=Tick]")
    assert list(found.output_type.properties.values()) == [t.INT, t.STRING, TICK]


def test_windows_aggregates_and_order_work_over_matches() -> None:
    found = select(
        "select a.symbol as s, sum(a.volume) as v from pattern [every a=Tick]#length(2) where a.price > 1"
        " group by a.symbol having sum(a.volume) > 1 order by a.symbol"
    )
    assert found.kind == "fully_aggregated_grouped"
    assert [window.name for window in found.windows] == ["length"]


def test_matches_are_inserted_with_their_events() -> None:
    found = bound("insert into Pair select * from pattern [every a=Tick -> b=Alert]; select a.volume from Pair")
    pairs = found.statements[0]
    assert isinstance(pairs, nodes.SelectStatement)
    assert pairs.insert is not None and pairs.insert.creates
    assert pairs.output_type.properties == {"a": TICK, "b": ALERT}


def test_a_pattern_may_read_a_keyed_context() -> None:
    found = select("context PerSymbol select context.key1 from pattern [every a=Tick(symbol = context.key1) -> Alert]")
    assert found.context == "PerSymbol"


def test_patterns_trigger_assignments() -> None:
    found = bound("create variable int v = 1; on pattern [every a=Tick(volume > v)] set v = a.volume").statements[1]
    assert isinstance(found, nodes.OnSetStatement) and found.source.pattern is not None
    assert found.assignments[0].value == x.MemberAccess(t.INT, x.Prop(TICK, 0, "a"), "volume")


def test_conditions_on_matches_stay_behind_the_pattern() -> None:
    found = rewrite_statement(select("select a.symbol from pattern [every a=Tick(volume > 1 + 1)] where a.price > 1"))
    assert isinstance(found, nodes.SelectStatement)
    assert isinstance(found.root.input, nodes.Selection)
    condition = found.source.pattern.atoms[0].filter if found.source.pattern is not None else None
    assert isinstance(condition, x.ComparisonExpr)
    assert condition.right == const(2)


def test_patterns_are_shown_as_trees() -> None:
    epl = (
        "select a[0].symbol from pattern @SuppressOverlappingMatches [every-distinct(b.symbol, 5 min) b=Alert@consume"
        " -[2]> [2:] a=Tick(symbol = b.symbol) until (timer:interval(5) and not c=Alert)"
        " -> d=Tick where timer:withinmax(1 sec, 3) or timer:at(0, 9, *, *, *)] as p"
    )
    assert show_statement(select(epl)) == SHOWN


SHOWN = """\
select statement `stmt_1` (unaggregated, istream)
  project
    a[0].symbol: string = a[0].symbol
    from pattern @SuppressOverlappingMatches as p
      -[2]> ->
        every distinct b.symbol, expiry 5 min
          b = Alert @consume(1)
        repeat [2:] until
          a = Tick
            filter symbol = b.symbol
          and
            timer:interval 5 sec
            not
              c = Alert
        or
          within 1 sec, 3 matches
            d = Tick
          timer:at (0, 9, *, *, *, 0)
  gives <stmt_1>(a[0].symbol string)"""
