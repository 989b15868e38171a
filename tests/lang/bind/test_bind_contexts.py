"""``create context`` and statements under contexts: plans, and what is refused (context_errors.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import BindError, CompileError
from cepbook.lang import types as t
from cepbook.lang.bind import bind
from cepbook.lang.explain.statements import show_statement
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.catalog import Catalog, ContextType, FunctionType
from cepbook.lang.rewrite import rewrite_statement
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang import recorded
from tests.lang.binding import bound, select, source

FILE = Path(__file__).with_name("context_errors.md")
TICK, ALERT = t.event_of("Tick"), t.event_of("Alert")
SYMBOL = x.Prop(t.STRING, 0, "symbol")
VOLUME = x.Prop(t.INT, 0, "volume")
TIMED = {"name": t.STRING, "id": t.INT, "startTime": t.LONG, "endTime": t.LONG}


def tree(spec: str) -> tuple[ContextType, c.ContextSpec]:
    """The context ``create context C <spec>`` and how it is built."""
    statement = bound(f"create context C {spec}").statements[0]
    assert isinstance(statement, nodes.CreateContextTreeStatement)
    return statement.context, statement.spec


def of(name: str, type_: t.Type, member: str, member_type: t.Type = t.STRING) -> x.MemberAccess:
    """``context.name.member``"""
    return x.MemberAccess(member_type, x.ContextProp(type_, name), member)


def equal(left: x.BoundExpr, right: x.BoundExpr) -> x.ComparisonExpr:
    return x.ComparisonExpr(t.BOOLEAN, "=", left, right)


def millis(amount: int) -> x.Period:
    return x.Period(t.LONG, None, x.Const(t.LONG, amount))


def const(value: int) -> x.Const:
    return x.Const(t.INT, value)


@pytest.mark.parametrize(
    ("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:110] if text.strip() else ""
)
def test_refused(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(CompileError) as caught:
        bound(epl.rstrip())
    recorded.check(FILE, epl, error, caught.value, request)


# ---------------------------------------------------------------- segmented contexts
def test_plain_keys_are_a_statement_of_their_own() -> None:
    statement = bound("create context C partition by symbol and volume from Tick as f").statements[0]
    assert isinstance(statement, nodes.CreateContextStatement)
    assert statement.spec == nodes.KeyedStreams((nodes.KeyedStream("Tick", (SYMBOL, VOLUME), None, "f"),))
    assert list(statement.context.properties) == ["name", "id", "key1", "key2"]


def test_keys_with_conditions() -> None:
    context, spec = tree(
        "partition by symbol from Tick, symbol from Alert initiated by Tick(volume > 1) as a, Alert as b"
        " terminated by Alert(level > a.volume) as e"
    )
    streams = nodes.KeyedStreams(
        (nodes.KeyedStream("Tick", (SYMBOL,), None, None), nodes.KeyedStream("Alert", (SYMBOL,), None, None))
    )
    initiated = (
        c.OnEvent("Tick", x.ComparisonExpr(t.BOOLEAN, ">", VOLUME, const(1)), "a"),
        c.OnEvent("Alert", None, "b"),
    )
    ends = x.ComparisonExpr(t.BOOLEAN, ">", x.Prop(t.LONG, 0, "level"), of("a", TICK, "volume", t.INT))
    assert spec == c.KeyedSpec(streams, initiated, c.OnEvent("Alert", ends, "e"))
    names = {"name": t.STRING, "id": t.INT, "key1": t.STRING, "a": TICK, "b": ALERT, "e": ALERT}
    assert (context.kind, dict(context.properties)) == ("keyed", names)
    assert context.event_types == ("Tick", "Alert") and context.keys["Alert"] == (SYMBOL,)


@pytest.mark.parametrize(
    ("termination", "known"),
    [("Tick(volume > f.volume)", True), ("pattern [Tick(volume > f.volume)]", True), ("after 5 sec", False)],
)
def test_the_first_event_has_a_name_for_statements_where_events_end_partitions(termination: str, known: bool) -> None:
    context, _ = tree(f"partition by symbol from Tick as f terminated by {termination}".replace("by after", "after"))
    assert ("f" in context.properties) is known


@pytest.mark.parametrize(
    ("call", "function", "args"),
    [
        ("consistent_hash_crc32(symbol, volume)", "consistent_hash_crc32", (SYMBOL, VOLUME)),
        ("Hash_Code(volume + 1)", "hash_code", (x.Arith(t.INT, "+", VOLUME, const(1)),)),
        ("computeHash(*)", "computeHash", (x.EventOf(TICK, 0),)),
        ("computeHash(symbol)", "computeHash", (SYMBOL,)),
    ],
)
def test_hashes(call: str, function: str, args: tuple[x.BoundExpr, ...]) -> None:
    context, spec = tree(f"coalesce by {call} from Tick(volume > 1) granularity 4 * 4 preallocate")
    stream = c.HashedStream("Tick", function, args, x.ComparisonExpr(t.BOOLEAN, ">", VOLUME, const(1)))
    assert spec == c.HashSpec((stream,), 16, True)
    assert (context.kind, list(context.properties)) == ("hash", ["name", "id"])


def test_categories() -> None:
    context, spec = tree("group volume > 1 as big, group by volume = 1 as small from Tick(symbol = 'a')")
    assert isinstance(spec, c.CategorySpec)
    assert spec.filter == equal(SYMBOL, x.Const(t.STRING, "a"))
    labels = (("big", x.ComparisonExpr(t.BOOLEAN, ">", VOLUME, const(1))), ("small", equal(VOLUME, const(1))))
    assert spec.categories == labels
    assert dict(context.properties) == {"name": t.STRING, "id": t.INT, "label": t.STRING}


# ---------------------------------------------------------------- conditions
def test_the_end_is_correlated_to_the_start() -> None:
    context, spec = tree("start Tick(t.volume > 1) as t end Alert(symbol = t.symbol) as e")
    start = c.OnEvent("Tick", x.ComparisonExpr(t.BOOLEAN, ">", VOLUME, const(1)), "t")
    assert spec == c.NonOverlappingSpec(start, c.OnEvent("Alert", equal(SYMBOL, of("t", TICK, "symbol")), "e"))
    assert (context.kind, dict(context.properties)) == ("nonoverlapping", {**TIMED, "t": TICK, "e": ALERT})


def test_built_in_properties_are_seen_by_the_end() -> None:
    _, spec = tree("start Tick as t end Alert(symbol = context.t.symbol and level > context.id)")
    assert isinstance(spec, c.NonOverlappingSpec) and isinstance(spec.end, c.OnEvent)
    parts = x.conjuncts(spec.end.filter)
    assert parts[0] == equal(SYMBOL, of("t", TICK, "symbol"))
    assert isinstance(parts[1], x.ComparisonExpr) and parts[1].right == x.ContextProp(t.INT, "id")


def test_a_property_of_the_event_comes_before_what_began() -> None:
    _, spec = tree("start Tick as symbol end Alert(symbol = 'x')")
    assert isinstance(spec, c.NonOverlappingSpec) and isinstance(spec.end, c.OnEvent)
    assert spec.end.filter == equal(SYMBOL, x.Const(t.STRING, "x"))


def test_tags_of_a_pattern_are_properties() -> None:
    context, spec = tree("start pattern [a=Tick or b=Alert] @inclusive end pattern [c=Sub(symbol = a.symbol)]")
    assert isinstance(spec, c.NonOverlappingSpec)
    assert isinstance(spec.start, c.OnPattern) and spec.start.inclusive and spec.start.alias is None
    assert isinstance(spec.end, c.OnPattern)
    assert spec.end.pattern.root == p.Atom(0, "c", "Sub", equal(SYMBOL, of("a", TICK, "symbol")))
    assert dict(context.properties) == {**TIMED, "a": TICK, "b": ALERT, "c": t.event_of("Sub")}


def test_a_named_match_is_a_property_with_its_tags() -> None:
    context, spec = tree("start pattern [a=Tick] as p end pattern [c=Alert(symbol = p.a.symbol)] as q")
    match, ended = t.struct_of((("a", TICK),)), t.struct_of((("c", ALERT),))
    assert dict(context.properties) == {**TIMED, "p": match, "q": ended}
    assert isinstance(spec, c.NonOverlappingSpec) and isinstance(spec.end, c.OnPattern)
    began = x.MemberAccess(TICK, x.ContextProp(match, "p"), "a")
    assert spec.end.pattern.atoms[0].filter == equal(SYMBOL, x.MemberAccess(t.STRING, began, "symbol"))


def test_other_conditions() -> None:
    assert tree("start @now")[1] == c.NonOverlappingSpec(c.AtOnce(), None)
    _, spec = tree("start after 5 sec end (0, 9, *, *, *), (0, 11, *, *, *)")
    assert isinstance(spec, c.NonOverlappingSpec) and isinstance(spec.end, c.OnCrontab)
    assert spec.start == c.AfterPeriod(millis(5000))
    assert len(spec.end.crontabs) == 2


def test_times_may_be_variables() -> None:
    found = bound("create variable int v = 5; create context C start @now end after v sec").statements[1]
    assert isinstance(found, nodes.CreateContextTreeStatement) and isinstance(found.spec, c.NonOverlappingSpec)
    assert isinstance(found.spec.end, c.AfterPeriod)
    assert any(isinstance(part, x.VariableRead) for part in x.walk(found.spec.end.period))


@pytest.mark.parametrize("key", ["symbol", "o.symbol"])
def test_distinct_keys_read_the_initiating_event(key: str) -> None:
    context, spec = tree(f"initiated by distinct({key}) Tick as o terminated by Alert(symbol = o.symbol)")
    assert isinstance(spec, c.OverlappingSpec)
    assert spec.distinct == (of("o", TICK, "symbol"),)
    assert context.kind == "overlapping"


def test_now_and_a_pattern() -> None:
    _, spec = tree("initiated by @now and pattern [every timer:interval(1 min)] terminated after 1 min")
    assert isinstance(spec, c.OverlappingSpec)
    assert (
        spec.also_now and isinstance(spec.initiated, c.OnPattern) and spec.terminated == c.AfterPeriod(millis(60_000))
    )


# ---------------------------------------------------------------- nested contexts
NESTED = (
    "create context N context A initiated Tick as t terminated after 5 sec, context K partition by symbol from Tick,"
    " context G group volume > 1 as big from Tick;"
)


def test_levels_are_properties() -> None:
    statement = bound(NESTED).statements[0]
    assert isinstance(statement, nodes.CreateContextTreeStatement)
    context, spec = statement.context, statement.spec
    assert isinstance(spec, c.NestedSpec)
    assert [name for name, _ in spec.levels] == ["A", "K", "G"]
    keyed = nodes.KeyedStreams((nodes.KeyedStream("Tick", (SYMBOL,), None, None),))
    assert spec.levels[1][1] == c.KeyedSpec(keyed)
    assert list(context.properties) == ["name", "id", "A", "K", "G"]
    fields = {level.name: list(level.properties) for level in context.levels}
    assert fields == {
        "A": ["name", "startTime", "endTime", "t"],
        "K": ["name", "key1"],
        "G": ["name", "id", "label"],  # partitions are leaves
    }


def test_properties_of_levels_are_typed() -> None:
    found = select(
        f"{NESTED} context N select context.K.key1 as k, context.A.t.price as p, context.G.id as i from Tick"
    )
    assert list(found.output_type.properties.values()) == [t.STRING, t.DOUBLE, t.INT]
    value = found.root.columns[0].value
    assert isinstance(value, x.MemberAccess) and value.name == "key1"
    assert isinstance(value.target, x.ContextProp) and value.target.name == "K"


def test_keys_of_levels_are_read_from_the_event() -> None:
    keyed = "create context K partition by symbol from Tick;"
    found = select(f"{keyed} context K select symbol, count(*) as c from Tick")
    assert found.kind == "fully_aggregated"
    assert found.root.columns[0].value == x.ContextProp(t.STRING, "key1")
    for property_ in ("symbol", "volume"):
        assert select(f"{NESTED} context N select {property_}, count(*) as c from Tick").kind == "aggregated"
    found = select(f"{NESTED} context N select context.K.key1 as symbol, count(*) as c from Tick")
    assert found.kind == "fully_aggregated"
    value = found.root.columns[0].value
    assert isinstance(value, x.MemberAccess) and value.name == "key1"


# ---------------------------------------------------------------- statements
@pytest.mark.parametrize(
    "statement",
    [
        "select context.t.symbol as s from Alert",
        "select * from Alert where symbol = context.t.symbol",
        "select * from Alert(symbol = context.t.symbol)",
        "select * from Alert#length(context.id + 1)",
        "select * from Alert#time(context.t.volume sec)",
        "select sum(level) as s from Alert having sum(level) > context.t.volume",
        "select * from Alert output when count_insert > context.t.volume",
        "select * from Alert output when terminated and context.t.volume > 1",
        "select a.symbol as s from pattern [a=Alert(symbol = context.t.symbol) -> timer:interval(context.t.volume)]",
        "select context.t, context.endTime output when terminated",
    ],
)
def test_built_in_properties_stand_everywhere(statement: str) -> None:
    found = select(f"create context C initiated Tick as t terminated after 5 sec; context C {statement}")
    assert found.context == "C"


def test_a_statement_without_a_from_clause_tells_of_partitions() -> None:
    found = select("context PerSymbol select context.key1 as k, current_timestamp as now where context.id > 1")
    assert found.source == nodes.SourceNode(nodes.NO_EVENTS, None, None)
    rewritten = rewrite_statement(found)
    assert isinstance(rewritten, nodes.SelectStatement)
    assert isinstance(rewritten.root.input, nodes.Selection)
    assert rewritten.output_type.properties == {"k": t.STRING, "now": t.LONG}


def test_constants_are_folded() -> None:
    spec = "start pattern [a=Tick(volume > 1 + 1)] end Alert(level > 2 * 3)"
    found = rewrite_statement(bound(f"create context C {spec}").statements[0])
    assert isinstance(found, nodes.CreateContextTreeStatement) and isinstance(found.spec, c.NonOverlappingSpec)
    assert isinstance(found.spec.start, c.OnPattern) and isinstance(found.spec.end, c.OnEvent)
    conditions = (found.spec.start.pattern.atoms[0].filter, found.spec.end.filter)
    assert [e.right for e in conditions if isinstance(e, x.ComparisonExpr)] == [const(2), const(6)]


def test_the_event_type_of_any_part_of_a_statement_counts() -> None:
    hashed = "create context C coalesce by hash_code(symbol) from Tick granularity 4;"
    assert source(select(f"{hashed} context C select * from pattern [every Alert -> Sub]")).pattern is not None
    with pytest.raises(BindError):
        bound(f"{hashed} context C select * from Alert")


def test_contexts_are_shown_as_trees() -> None:
    epl = (
        "create context C context A initiated by distinct(t.symbol) Tick(volume > 1) as t"
        " terminated by pattern [b=Alert(symbol = t.symbol) -> timer:interval(5)] as p,"
        " context B start (0, 9, *, *, *), (0, 11, *, *, *) end after 5 sec,"
        " context K partition by symbol from Tick as f initiated by Tick terminated by Tick(volume > f.volume),"
        " context H coalesce by hash_code(symbol) from Tick granularity 4 preallocate,"
        " context G group volume > 3 as big from Tick(price > 1)"
    )
    assert show_statement(bound(epl).statements[0]) == SHOWN


SHOWN = """\
create context `C` (nested)
  context A
    initiated by distinct context.t.symbol Tick as t
      filter volume > 1
    terminated by pattern as p
      ->
        b = Alert
          filter symbol = context.t.symbol
        timer:interval 5 sec
    context B
      start (0, 9, *, *, *, 0), (0, 11, *, *, *, 0)
      end after 5 sec
      context K
        partition by symbol: string from Tick as f
        initiated by Tick
        terminated by Tick
          filter volume > context.f.volume
        context H
          coalesce by hash_code(symbol) from Tick
          granularity 4 preallocate
          context G
            group volume > 3 as big
            from Tick
              filter price > 1"""

# ---------------------------------------------------------------- the document
DOCUMENT = """
create schema BankTxn(custId string, account string, amount double, expired boolean, user string);
create schema LoginEvent(loginId string, loginTime long);
create schema LogoutEvent(loginId string, logoutTime long);
create schema SensorEvent(temp double);
create schema TrafficEvent(speed double, carId string);
create schema PowerOutageEvent(n int);
create schema PowerOnEvent(n int);
create schema TemperatureEvent(temp double);
create schema TrainEnterEvent(trainId string);
create schema TrainLeaveEvent(trainId string);
create schema NewOrderEvent(orderId string);
create schema CloseOrderEvent(closeOrderId string);
create schema MyStartEvent(id string, propertyName int);
create schema MyEndEvent(id string);
create schema MyEvent(id string, level int);
create schema MyInitEvent(id string, level int, propertyName int);
create schema MyOtherEvent(id string);
create schema MyTermEvent(id string, level int, propertyName int);
create schema StartEventOne(id string, propertyName int);
create schema StartEventTwo(id string, propertyName int);
create schema EndEventOne(id string, propertyName int);
create schema EndEventTwo(id string, propertyName int);
create schema SomeEvent(id string);
create schema PassengerScanEvent(tagId string);
create schema AStart(n int); create schema AEnd(n int); create schema BStart(n int); create schema BEnd(n int);
create schema C(n int);
create schema OrderEvent(id string);
create schema ScoreCycle(userId string, keyword string, productId string, score long);
create schema CarArrivalEvent(lot string); create schema CarDepartureEvent(lot string);
create variable int myvar = 1;
"""
BY_CUSTOMER = "create context SegmentedByCustomer partition by custId from BankTxn;"
BY_HASH = "create context H coalesce by consistent_hash_crc32(custId) from BankTxn granularity 16 preallocate;"
EACH_MINUTE = "create context M initiated by pattern [every timer:interval(1 min)] terminated after 5 minutes;"
TRAIN = "create context T initiated by TrainEnterEvent as te terminated after 5 minutes;"


@pytest.mark.parametrize(
    "epl",
    [
        f"{BY_CUSTOMER} context SegmentedByCustomer select custId, account, sum(amount) from BankTxn group by account",
        f"{BY_CUSTOMER} context SegmentedByCustomer select * from pattern"
        " [every a=BankTxn(amount>400) -> b=BankTxn(amount>400) where timer:within(10 minutes)]",
        "create context P partition by custId from BankTxn initiated by BankTxn(amount>100) as largeTxn;"
        " context P select context.largeTxn, custId, sum(amount) from BankTxn",
        "create context P partition by custId from BankTxn terminated by BankTxn(expired=true);"
        " context P select custId, sum(amount) from BankTxn output last when terminated",
        "create context P partition by custId from BankTxn initiated by BankTxn(amount>100) as txn"
        " terminated by BankTxn(expired=true and user=txn.user)",
        "create context P partition by custId from BankTxn, loginId from LoginEvent, loginId from LogoutEvent",
        f"{BY_HASH} context H select custId, account, sum(amount) from BankTxn group by custId, account",
        "create context P coalesce by computeHash(*) from BankTxn granularity 16 preallocate",
        "create context G group temp < 65 as cold, group temp between 65 and 85 as normal, group temp > 85 as large"
        " from SensorEvent; context G select context.label, count(*) from SensorEvent",
        "create context P start (0, 9, *, *, *) end (0, 17, *, *, *);"
        " context P select * from TrafficEvent(speed >= 100)",
        "create context P start PowerOutageEvent end pattern [PowerOnEvent -> timer:interval(5)];"
        " context P select * from TemperatureEvent",
        "create context P start @now end after 15 minutes",
        "create context P start @now",
        "create context P start MyStartEvent end MyEndEvent;"
        " context P select count(*) as cnt from MyEndEvent output when terminated",
        f"{TRAIN} context T select t1 from pattern [t1=TrainEnterEvent(trainId = context.te.trainId) ->"
        " timer:interval(5 min) and not TrainLeaveEvent(trainId = context.te.trainId)]",
        "create context P initiated @now and pattern [every timer:interval(1 minute)] terminated after 1 minutes;"
        " context P select avg(temp) from SensorEvent",
        "create context P initiated by TrainEnterEvent as te",
        "create context P initiated by distinct(orderId) NewOrderEvent as newOrder"
        " terminated by CloseOrderEvent(closeOrderId = newOrder.orderId)",
        "create context P initiated MyEvent(level > 0) terminated after 10 seconds",
        "create context P start MyEvent as myevent end MyEvent(id=myevent.id)",
        "create context P initiated by MyInitEvent as e1 terminated by MyTermEvent(id=e1.id, level <> e1.level) as e2;"
        " context P select context.e1, context.e1.propertyName, context.e2, context.e2.propertyName from SomeEvent",
        "create context P start pattern [StartEventOne or StartEventTwo] end after 5 seconds",
        "create context P start pattern [a=StartEventOne or b=StartEventTwo] @inclusive end after 5 seconds",
        "create context P initiated by pattern [every-distinct(a.id, 20 sec) a=MyInitEvent]@inclusive"
        " terminated after 20 sec",
        "create context P initiated by pattern [every MyInitEvent -> MyOtherEvent where timer:within(5)]"
        " terminated by MyTermEvent",
        "create context P start pattern [a=StartEventOne or b=StartEventTwo]"
        " end pattern [EndEventOne(id=a.id) or EndEventTwo(id=b.id)]",
        "create context P start pattern [a=StartEventOne or b=StartEventTwo] as startingPattern"
        " end pattern [c=EndEventOne(id=startingPattern.a.id) or d=EndEventTwo(id=startingPattern.b.id)]"
        " as endingPattern; context P select context.startingPattern, context.startingPattern.a,"
        " context.startingPattern.a.propertyName, context.endingPattern, context.endingPattern.c,"
        " context.endingPattern.c.propertyName from SomeEvent",
        "create context P initiated (*, *, *, *, *) terminated after 10 seconds",
        "create context P start (0, 8, *, *, *, *), (0, 10, *, *, *, *) end (0, 9, *, *, *, *), (0, 12, *, *, *, *)",
        "create context P start (0, 8, *, *, *, *) end (0, 11, *, *, [1, 2, 3, 4, 5], *), (0, 20, *, *, [0, 6], *)",
        "create context P start (0, 8, *, *, 1, *), (0, 9, *, *, 2, *) end (0, 10, *, *, *)",
        "create context P start after 10 seconds end after 1 minute",
        "create context P initiated after 5 seconds terminated after 1 minute",
        "create context P context NineToFive start (0, 9, *, *, *) end (0, 17, *, *, *),"
        " context SegmentedByCustomer partition by custId from BankTxn;"
        " context P select custId, account, sum(amount) from BankTxn group by account",
        "create context P context InitCtx initiated by TrainEnterEvent as te terminated after 5 minutes,"
        " context HashCtx coalesce by consistent_hash_crc32(tagId) from PassengerScanEvent granularity 16 preallocate",
        "create context P context SpanA start AStart end AEnd, context SpanB start BStart end BEnd;"
        " context P select count(*) from C",
        "create context P start pattern[every a=AStart or every a=BStart] as mypattern"
        " end pattern[every AEnd or every BEnd]",
        "create context P initiated by OrderEvent as orderEvent terminated after 5 minutes;"
        " context P select context.orderEvent as orderEvent",
        f"{EACH_MINUTE} context M select current_timestamp as endtime, context.id as contextId output when terminated",
        f"{EACH_MINUTE} context M select current_timestamp as endtime, context.id, avg(temp) from SensorEvent"
        " output last when terminated",
        f"{EACH_MINUTE} context M select context.id, avg(temp) from SensorEvent"
        " output last every 1 minute and when terminated",
        "create context P initiated by MyStartEvent as startevent terminated by MyEndEvent(id = startevent.id)"
        " as endevent; context P select context.startevent.id, context.endevent.id, count(*) from MyEvent"
        " output last when terminated",
        f"{EACH_MINUTE} context M select * from SensorEvent output when terminated and count_insert >= 2",
        f"{EACH_MINUTE} context M select * from SensorEvent output when terminated then set myvar=3",
        "create context P as coalesce by consistent_hash_crc32(userId) from ScoreCycle granularity 64",
        "create context P initiated by CarArrivalEvent as cae terminated by CarDepartureEvent(lot = cae.lot)",
    ],
)
def test_the_document_binds(epl: str) -> None:
    text = DOCUMENT + epl
    assert bind(parse_epl(text), Catalog(functions={"computeHash": FunctionType(t.INT)}), text).statements


@pytest.mark.parametrize(
    ("epl", "code"),
    [
        (
            f"{BY_CUSTOMER} context SegmentedByCustomer select * from pattern"
            " [every a=LoginEvent -> b=LogoutEvent where timer:within(10 minutes)]",
            "wrong-context",
        ),
        (
            f"{BY_HASH} context H select * from pattern"
            " [every a=LoginEvent -> b=LogoutEvent where timer:within(10 minutes)]",
            "wrong-context",
        ),
        ("create context P partition by custId from BankTxn, account from BankTxn", "duplicate-name"),
        ("create context P partition by custId from BankTxn, loginTime from LoginEvent", "type-mismatch"),
    ],
)
def test_what_the_document_calls_not_valid_is_refused(epl: str, code: str) -> None:
    text = DOCUMENT + epl
    with pytest.raises(BindError) as caught:
        bind(parse_epl(text), Catalog(), text)
    assert [d.code for d in caught.value.diagnostics] == [code]
