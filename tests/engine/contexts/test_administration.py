"""Partitions from outside: listeners, ending by hand, selectors; what a failing expression does."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.engine.contexts.selectors import ByCategory, ByHash, ById, ByKey, ByProperties, Nested, Selector
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import BindError, StatementError, UsageError
from tests.engine.sinks import Deltas

SCHEMA = "create schema S(id string, v int);create schema E(id string, v int);create schema D(id string, v int);"


def running(epl: str, **options: Any) -> Runtime:
    runtime = Runtime(**options)
    runtime.deploy(SCHEMA, deployment_id="schema")
    runtime.deploy(epl, deployment_id="main")
    return runtime


def rows(runtime: Runtime, statement: str) -> list[Any]:
    """The deliveries of a statement from now on."""
    found: list[Any] = []
    runtime.statement(statement).add_listener(lambda delta: found.append((delta.insert, delta.remove)))
    return found


def sent(runtime: Runtime, *events: tuple[str, str, int | None]) -> Runtime:
    for type_name, id_, v in events:
        runtime.send(type_name, {"id": id_, "v": v})
    return runtime


def ids(runtime: Runtime, context: str = "C") -> list[int]:
    return [partition["id"] for partition in runtime.partitions(context)]


COUNT = "@name('s') context C select count(*) as c from D output snapshot when terminated"


# -------------------------------------------------------------------- listeners
@pytest.mark.parametrize("all_contexts", [False, True])
def test_a_partition_listener_is_told_of_births_and_deaths(all_contexts: bool) -> None:
    runtime = running("create context C initiated by S as s terminated after 10 sec")
    notices: list[PartitionNotice] = []
    runtime.add_partition_listener(None if all_contexts else "C", notices.append)
    runtime.deploy(COUNT, deployment_id="s")
    sent(runtime, ("S", "a", 1))
    runtime.advance(10_000)
    runtime.undeploy("s")
    properties = {"id": 0, "startTime": 0, "endTime": 10_000, "s": {"id": "a", "v": 1}, "name": "C"}
    assert notices == [
        PartitionNotice("activated", "C", None, {}, 0),
        PartitionNotice("allocated", "C", 0, properties, 0),
        PartitionNotice("deallocated", "C", 0, properties, 10_000),
        PartitionNotice("deactivated", "C", None, {}, 10_000),
    ]


def test_plain_keyed_contexts_tell_too() -> None:
    runtime = running("create context C partition by id from D;@name('s') context C select * from D")
    notices: list[PartitionNotice] = []
    runtime.add_partition_listener("C", notices.append)
    sent(runtime, ("D", "a", 1), ("D", "a", 2), ("D", "b", 1))
    runtime.end_partition("C", 0)
    runtime.undeploy("main")
    kinds = [(n.kind, n.partition, n.properties.get("key1")) for n in notices]
    assert kinds == [
        ("allocated", 0, "a"),
        ("allocated", 1, "b"),
        ("deallocated", 0, "a"),
        ("deallocated", 1, "b"),
        ("deactivated", None, None),
    ]


def test_listeners_of_other_contexts_are_not_called() -> None:
    runtime = running("create context C start @now;@name('s') context C select * from D")
    notices: list[PartitionNotice] = []
    runtime.add_partition_listener("Other", notices.append)
    runtime.end_partition("C", 0)
    assert notices == []
    runtime.remove_partition_listener("Other", notices.append)


def test_a_listener_that_fails_is_reported_and_stops_nothing() -> None:
    runtime = running("create context C partition by id from D;@name('s') context C select id from D")

    def failing(notice: PartitionNotice) -> None:
        raise RuntimeError("no")

    runtime.add_partition_listener(None, failing)
    found = rows(runtime, "s")
    with pytest.raises(StatementError, match="a partition listener of context `C` failed: RuntimeError: no"):
        sent(runtime, ("D", "a", 1))
    assert found == [([{"id": "a"}], None)]


# -------------------------------------------------------------------- ending by hand
def test_ending_by_hand_is_like_a_condition() -> None:
    runtime = running(f"create context C initiated by S as s;{COUNT}")
    found = rows(runtime, "s")
    sent(runtime, ("S", "a", 0), ("S", "b", 0), ("D", "x", 1))
    runtime.end_partition("C", 0)
    assert found == [([{"c": 1}], None)]
    assert ids(runtime) == [1]
    with pytest.raises(UsageError, match="context `C` has no live partition 0"):
        runtime.end_partition("C", 0)


def test_a_span_ended_by_hand_waits_for_its_start_again() -> None:
    runtime = running("create context C start S end E;@name('s') context C select id from D")
    sent(runtime, ("S", "a", 0))
    runtime.end_partition("C", 0)
    assert ids(runtime) == []
    sent(runtime, ("S", "a", 0))
    assert ids(runtime) == [1]


def test_a_span_that_is_always_on_begins_again() -> None:
    runtime = running("create context C start @now;@name('s') context C select id from D")
    runtime.end_partition("C", 0)
    assert ids(runtime) == [1]


def test_a_category_ended_by_hand_begins_with_its_next_event() -> None:
    runtime = running("create context C group v > 0 as pos, group v <= 0 as neg from D;" + COUNT)
    found = rows(runtime, "s")
    sent(runtime, ("D", "x", 1))
    runtime.end_partition("C", 0)
    assert found == [([{"c": 1}], None)]
    assert ids(runtime) == [1]
    sent(runtime, ("D", "x", 1))
    assert ids(runtime) == [1, 2]
    runtime.end_partition("C", 2)
    assert found[1:] == [([{"c": 1}], None)]


def test_an_event_of_several_categories_is_seen_once_in_one_that_it_begins_anew() -> None:
    runtime = running(
        "create context C group v > 0 as lo, group v > 1 as hi from D;"
        "@name('s') context C select context.id as id, count(*) as c from D"
    )
    found = rows(runtime, "s")
    runtime.end_partition("C", 0)
    sent(runtime, ("D", "a", 2))
    assert found == [([{"id": 2, "c": 1}, {"id": 1, "c": 1}], None)]


def test_a_plain_keyed_partition_can_be_ended() -> None:
    runtime = running("create context C partition by id from D;@name('s') context C select id, count(*) as c from D")
    found = rows(runtime, "s")
    sent(runtime, ("D", "a", 1), ("D", "a", 1))
    runtime.end_partition("C", 0)
    sent(runtime, ("D", "a", 1))
    assert [row["c"] for insert, _ in found for row in insert] == [1, 2, 1]
    assert ids(runtime) == [1]


# -------------------------------------------------------------------- selectors
NESTED = """create context C context H coalesce by hash_code(v) from D granularity 4,
  context K partition by id from D;@name('s') context C select id, v from D#keepall"""
KEYED = "create context C partition by id from D;@name('s') context C select id, v from D#keepall"
EVENTS = (("D", "a", 1), ("D", "b", 1), ("D", "a", 2), ("D", "b", 6))


def selected(runtime: Runtime, selector: Selector) -> list[int | None]:
    return [id_ for id_, _ in runtime.iterate_partitions("s", selector)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (ById(0, 7), [0]),
        (ByKey("b"), [1]),
        (ByKey(("a",), "b", "c"), [0, 1]),
        (ByProperties(lambda p: p["key1"] == "b" and p["id"] == 1 and p["name"] == "C"), [1]),
    ],
)
def test_selecting_keyed_partitions(selector: Selector, expected: list[int]) -> None:
    runtime = sent(running(KEYED), *EVENTS)
    assert selected(runtime, selector) == expected


def test_selecting_by_hash_and_category() -> None:
    runtime = running(
        "create context C coalesce by hash_code(v) from D granularity 4;@name('s') context C select * from D"
    )
    sent(runtime, *EVENTS)
    assert selected(runtime, ByHash(2)) == [1]
    runtime = running(
        "create context C group v > 1 as many, group v <= 1 as few from D;@name('s') context C select * from D"
    )
    assert selected(runtime, ByCategory("few")) == [1]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (Nested(K=ByKey("b")), [1, 3]),
        (Nested(H=ByHash(2), K=ByKey("a")), [2]),
        (Nested({"H": ByHash(1)}), [0, 1]),
        (ById(3), [3]),
        (ByProperties(lambda p: p["K"]["key1"] == "a"), [0, 2]),
    ],
)
def test_selecting_nested_partitions(selector: Selector, expected: list[int]) -> None:
    runtime = sent(running(NESTED), *EVENTS)
    assert selected(runtime, selector) == expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (ByKey("a"), r"ByKey is for keyed contexts, this one is hash over keyed; name the level: Nested\(level=…\)"),
        (Nested(K=ByHash(1)), "ByHash is for hash contexts, this one is keyed"),
        (Nested(L=ByKey("a")), "the context has no level `L`"),
    ],
)
def test_selectors_that_do_not_fit(selector: Selector, message: str) -> None:
    runtime = sent(running(NESTED), *EVENTS)
    with pytest.raises(UsageError, match=message):
        selected(runtime, selector)


def test_without_a_context_nothing_can_be_selected() -> None:
    runtime = running("@name('s') select * from D#keepall")
    with pytest.raises(UsageError, match="statement `s` has no context"):
        selected(runtime, ById(0))


# -------------------------------------------------------------------- failures
def test_a_condition_that_fails_is_reported_under_the_name_of_the_context() -> None:
    runtime = running("create schema T(v int)")
    runtime.register_function("broken", lambda v: 1 // 0)
    runtime.deploy("create context C start S(broken(v) = 1) end E;@name('s') context C select * from D")
    runtime.deploy("@name('other') select id from S")
    found = rows(runtime, "other")
    with pytest.raises(StatementError, match="context `C` failed: ZeroDivisionError"):
        sent(runtime, ("S", "a", 0))
    assert found == [([{"id": "a"}], None)]


def test_the_filter_of_a_keyed_context_that_fails_hides_the_event() -> None:
    runtime = Runtime(functions={"broken": lambda v: 1 // v})
    runtime.deploy(SCHEMA + "@name('first') select id from S")
    runtime.deploy("create context C partition by id from S(broken(v) = 1);@name('s') context C select id from S")
    runtime.deploy("@name('ahead') @priority(1) context C select id from S;@name('last') select id from S")
    first, in_context, last = (rows(runtime, name) for name in ("first", "s", "last"))
    sent(runtime, ("S", "a", 1))
    with pytest.raises(StatementError, match="context `C` failed: ZeroDivisionError"):
        sent(runtime, ("S", "a", 0))
    sent(runtime, ("S", "a", 1))
    assert (len(first), len(in_context), len(last)) == (3, 2, 3)


@pytest.mark.parametrize("context", ["partition by v from S", "initiated by S as s terminated by E(v = s.v)"])
def test_a_window_that_cannot_begin_is_the_failure_of_its_statement(context: str) -> None:
    """Sent and replayed: the partition is not allocated, statements of other contexts see the event."""
    key = "key1" if "partition" in context else "s.v"
    epl = f"""create context C {context};
    @name('a') context C select id from S; @name('s') context C select v, count(*) as c from S#length(context.{key});
    @name('other') select id from S"""
    sizes: list[int | None] = [0, 2, None, 2]
    ran = []
    for replayed in (False, True):
        runtime = running(epl)
        failures: list[StatementError] = []
        runtime.add_error_listener(failures.append)
        sinks = {name: Deltas() for name in ("a", "s", "other")}
        for name, sink in sinks.items():
            runtime.statement(name).add_sink(sink)
        if replayed:
            runtime.batch(["S"]).run([ColumnBatch("S", [1, 2, 3, 4], {"id": ["x"] * 4, "v": sizes})])
        else:
            for time, size in enumerate(sizes, 1):
                runtime.advance(time)
                sent(runtime, ("S", "x", size))
        ran.append(({name: list(sink) for name, sink in sinks.items()}, runtime.partitions("C"), len(failures)))
        assert str(failures[0]).startswith("statement `s` failed on an event: ValueError: the size of a window")
        assert (len(sinks["other"]), len(failures)) == (4, 2)
    assert ran[0] == ran[1]


@pytest.mark.parametrize(
    "context",
    [
        "coalesce by broken(v) from S granularity 4",
        "coalesce by hash_code(id) from S(broken(v) = 1) granularity 4",
        "partition by id from S(broken(v) = 1)",
        "partition by id from S(broken(v) = 1) terminated after 9 sec",
        "group broken(v) = 1 as one, group v = 2 as two from S",
        "context A partition by id from S, context Z coalesce by broken(v) from S granularity 4",
        "context A coalesce by broken(v) from S granularity 4, context Z partition by id from S",
        "context A start @now end after 9 sec, context Z group broken(v) = 1 as one from S",
    ],
)
def test_a_context_that_fails_on_an_event_fails_once(context: str) -> None:
    """However many statements and branches ask what the event is to it: it belongs to no partition."""
    runtime = Runtime(functions={"broken": lambda v: 1 // v})
    errors: list[StatementError] = []
    runtime.add_error_listener(errors.append)
    runtime.deploy(SCHEMA)
    runtime.deploy(f"create context C {context}; @name('s') context C select id from S; context C select v from S")
    found = rows(runtime, "s")
    for v in (1, 0, 1, 0):
        runtime.send("S", {"id": "a", "v": v})
    assert (len(errors), len(found)) == (2, 2)


def test_a_period_that_is_null_allocates_nothing() -> None:
    runtime = running(
        "create variable int lasts = 5;create context C initiated by S terminated after lasts sec;" + COUNT
    )
    runtime.set_variable("lasts", None)
    with pytest.raises(StatementError, match="context `C` failed: ValueError: a time period is null"):
        sent(runtime, ("S", "a", 0))
    assert ids(runtime) == []
    runtime.set_variable("lasts", 1)
    sent(runtime, ("S", "a", 0))
    assert ids(runtime) == [0]


def test_a_runaway_pattern_of_a_condition_is_stopped_with_a_warning() -> None:
    runtime = running(
        "create context C initiated by pattern [every a=S -> b=E];@name('s') context C select * from D",
        config=Config(pattern_limit=3),
    )
    warnings: list[StatementError] = []
    runtime.add_error_listener(warnings.append)
    sent(runtime, *[("S", "a", i) for i in range(9)])
    assert len(warnings) == 1
    assert "a pattern of context `C` has 3 open partial matches" in str(warnings[0])


# -------------------------------------------------------------------- time
def test_a_period_of_zero_is_over_when_the_clock_moves() -> None:
    runtime = running(
        "create variable int lasts = 0;create context C start @now end after lasts sec;"
        "@name('s') context C select context.id as i"
    )
    found = rows(runtime, "s")
    runtime.advance(3, stepping=True)
    runtime.advance(1000)
    assert [row["i"] for insert, _ in found for row in insert] == [1, 2, 3, 4]


@pytest.mark.parametrize("scale", [1, 1000])
def test_calendar_months_in_units_of_the_clock(scale: int) -> None:
    """Jan 31 2024 01:00 and a month and a second."""
    start = 1_706_662_800_000 * scale
    runtime = running(
        "create context C start @now end after 1 month 1 sec;@name('s') context C select id from D",
        config=Config(microseconds=scale == 1000),
        start=start,
    )
    assert runtime.partitions("C")[0]["endTime"] == 1_709_168_401_000 * scale


def test_a_statement_that_cannot_begin_in_the_live_partitions_is_not_deployed() -> None:
    runtime = running("create variable int n = 0;create context C start @now;@name('s') context C select id from D")
    with pytest.raises(BindError, match="`t` cannot start: the size of a window must be above 0, found 0"):
        runtime.deploy("@name('r') select id from D;@name('t') context C select id from D#length(n)")
    assert "r" not in runtime.statements
    found = rows(runtime, "s")
    sent(runtime, ("D", "a", 1))
    assert found == [([{"id": "a"}], None)]


def test_a_partition_that_a_listener_ends_gets_no_further_rows_of_the_event() -> None:
    runtime = running("create context C partition by id from D")
    runtime.deploy("@name('s') context C select v from D; @name('t') context C select count(*) as c from D")
    errors: list[StatementError] = []
    runtime.add_error_listener(errors.append)
    counted = rows(runtime, "t")

    def end(_: object) -> None:
        for id_ in ids(runtime):
            runtime.end_partition("C", id_)

    runtime.statement("s").add_listener(end)
    sent(runtime, ("D", "a", 1), ("D", "a", 2))
    assert (errors, ids(runtime), counted) == ([], [], [])
    runtime.statement("s").remove_listener(end)
    sent(runtime, ("D", "a", 3))
    assert counted == [([{"c": 1}], None)]


@pytest.mark.parametrize("context", ["partition by id from D", "initiated by D as d terminated after 1 min"])
def test_a_partition_that_is_ended_while_it_is_allocated_sees_nothing(context: str) -> None:
    runtime = running(f"create context C {context}; @name('t') context C select count(*) as c from D")
    errors: list[StatementError] = []
    runtime.add_error_listener(errors.append)
    counted = rows(runtime, "t")

    def end(notice: PartitionNotice) -> None:
        if notice.kind == "allocated" and notice.partition is not None:
            runtime.end_partition("C", notice.partition)

    runtime.add_partition_listener("C", end)
    sent(runtime, ("D", "a", 1))
    runtime.advance(100_000)
    assert (errors, ids(runtime), counted) == ([], [], [])


@pytest.mark.parametrize("end", ["D(cast(id, int) = d.v)", "pattern [D(cast(id, int) = d.v)]"])
def test_a_key_that_fails_ends_nothing_and_the_event_begins_what_it_may(end: str) -> None:
    runtime = running(f"create context C initiated by D as d terminated by {end}; {COUNT}")
    errors: list[StatementError] = []
    runtime.add_error_listener(errors.append)
    sent(runtime, ("D", "1", 5), ("D", "none", 7))
    assert ids(runtime) == [0, 1]
    assert "'none' is not a whole number" in str(errors[0])
    sent(runtime, ("D", "5", 9))
    assert ids(runtime) == [1, 2]
