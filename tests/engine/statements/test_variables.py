"""Variables in a running engine: values from outside, who is told, all or nothing, the filter index, replays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import BindError, StatementError, UsageError
from cepbook.lang import types as t
from tests.engine.sinks import Deltas

SCHEMA = "create schema B(id string, v int, p double); create schema K(id string, v int);"


def engine(epl: str, config: Config = Config()) -> Runtime:
    runtime = Runtime(config)
    runtime.deploy(SCHEMA)
    runtime.deploy(epl, deployment_id="main")
    return runtime


def deliveries(runtime: Runtime, *names: str) -> list[tuple[str, Any, Any]]:
    """What the statements deliver from now on, in order."""
    found: list[tuple[str, Any, Any]] = []
    for name in names:
        runtime.statement(name).add_listener(lambda delta, name=name: found.append((name, delta.insert, delta.remove)))
    return found


# ---------------------------------------------------------------- values from outside
@pytest.mark.parametrize(
    ("type_", "value", "held"),
    [
        ("int", 7, 7),
        ("long", 2**40, 2**40),
        ("double", 3, 3.0),
        ("float", 0.1, 0.10000000149011612),
        ("bigdecimal", 1.5, Decimal("1.5")),
        ("boolean", False, False),
        ("string", "x", "x"),
        ("char", "c", "c"),
        ("int[]", (1, None, 2), [1, None, 2]),
        ("double[]", [1, 2], [1.0, 2.0]),
        ("object", {"any": [1]}, {"any": [1]}),
        ("int", None, None),
    ],
)
def test_a_value_becomes_one_of_the_type(type_: str, value: object, held: object) -> None:
    runtime = engine(f"create variable {type_} x")
    runtime.set_variable("x", value)
    found = runtime.get_variable("x")
    assert found == held and type(found) is type(held)


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("int", "7", "variable `x` is int: '7' does not fit"),
        ("int", 1.0, "variable `x` is int: 1.0 does not fit"),
        ("int", True, "variable `x` is int: True does not fit"),
        ("int", 2**31, "variable `x` is int: 2147483648 is out of range"),
        ("byte", 128, "variable `x` is byte: 128 is out of range"),
        ("boolean", 1, "variable `x` is boolean: 1 does not fit"),
        ("char", "no", "variable `x` is char: 'no' is not one character"),
        ("int[]", 5, "variable `x` is int[]: 5 is no list"),
        ("int[]", [1, "a"], "variable `x` is int[]: 'a' does not fit"),
        ("B", 5, "variable `x` is B: 5 does not fit"),
    ],
)
def test_a_value_that_does_not_fit_changes_nothing(type_: str, value: object, message: str) -> None:
    runtime = engine(f"create variable {type_} x")
    with pytest.raises(UsageError) as caught:
        runtime.set_variable("x", value)
    assert str(caught.value) == message
    assert runtime.get_variable("x") is None


def test_names_that_are_not_there_and_constants() -> None:
    runtime = engine("create variable int limit1 = 1; create constant variable int LIM = 10")
    with pytest.raises(UsageError, match="there is no variable `limit`\n  hint: did you mean `limit1`"):
        runtime.get_variable("limit")
    with pytest.raises(UsageError, match="there is no variable `limit`"):
        runtime.set_variable("limit", 5)
    with pytest.raises(UsageError, match="`LIM` is a constant, it cannot be set"):
        runtime.set_variable("LIM", 5)
    assert runtime.get_variable("LIM") == 10


def test_a_variable_from_python() -> None:
    runtime = Runtime()
    runtime.define_variable("lim", t.INT, 5)
    runtime.define_variable("NAME", t.STRING, "n", constant=True)
    runtime.deploy(SCHEMA + "@name('s0') select id, NAME as n from B(v > lim)")
    found = deliveries(runtime, "s0")
    runtime.send("B", {"id": "a", "v": 5})
    runtime.set_variable("lim", 4)
    runtime.send("B", {"id": "b", "v": 5})
    assert found == [("s0", [{"id": "b", "n": "n"}], None)]
    with pytest.raises(UsageError, match="variable `lim` already exists"):
        runtime.define_variable("lim", t.INT)
    with pytest.raises(UsageError, match="variable `x` is int: 'a' does not fit"):
        runtime.define_variable("x", t.INT, "a")
    assert "x" not in runtime.variables


# ---------------------------------------------------------------- who is told
def test_listeners_are_told_of_every_assignment_also_of_the_same_value() -> None:
    runtime = engine("create variable int x = 1; on B set x = v")
    seen: list[int] = []
    cell = runtime.variables["x"]
    cell.listeners.append(lambda: seen.append(cell.value))
    runtime.set_variable("x", 1)
    runtime.send("B", {"v": 1})
    runtime.send("B", {"v": 2})
    assert seen == [1, 1, 2]


def test_a_condition_that_fails_when_a_variable_changes_is_a_failure_of_its_statement() -> None:
    runtime = engine("create variable int x = 1; create variable int y = 1; @name('set') on K set x = v, y = v;")
    runtime.register_function("check", _must_not_be_5, returns=t.BOOLEAN)
    runtime.deploy("@name('when') select id from B output when check(x)")
    runtime.send("B", {"id": "a"})
    with pytest.raises(StatementError, match="statement `when` failed"):
        runtime.set_variable("x", 5)
    assert runtime.get_variable("x") == 5
    found = deliveries(runtime, "set")
    with pytest.raises(StatementError, match="statement `when` failed"):
        runtime.send("K", {"v": 5})
    assert found == [("set", [{"x": 5, "y": 5}], None)]


def _must_not_be_5(value: int) -> bool:
    if value == 5:
        raise ValueError("it is 5")
    return False


def test_the_former_values_are_the_remove_stream_where_selects_have_one() -> None:
    epl = "create variable int x = 1; create variable int y; @name('set') on B set x = v, y = x + 1, x = y * 10"
    runtime = engine(epl, Config(default_stream_selector="irstream"))
    found = deliveries(runtime, "set")
    runtime.send("B", {"v": 4})
    assert found == [("set", [{"x": 50, "y": 5}], [{"x": 1, "y": None}])]
    runtime = engine(epl, Config(default_stream_selector="rstream"))
    found = deliveries(runtime, "set")
    runtime.send("B", {"v": 4})
    assert found == [("set", [{"x": 1, "y": None}], None)]


def test_the_iterator_has_the_present_values() -> None:
    runtime = engine("@name('cv') create variable int x = 1; @name('set') on B set x = v")
    runtime.set_variable("x", 3)
    assert runtime.iterate("cv") == runtime.iterate("set") == [{"x": 3}]


# ---------------------------------------------------------------- all or nothing
def test_an_assignment_that_fails_changes_none_of_the_variables() -> None:
    runtime = engine("create variable int n = 1; create variable int[] arr = {1, 2}")
    runtime.register_function("check", _must_not_be_5, returns=t.BOOLEAN)
    runtime.deploy("@name('set') on B set n = v, arr[1] = case when check(v) then 0 else 7 end")
    array = runtime.get_variable("arr")
    runtime.send("B", {"v": 1})
    assert (runtime.get_variable("n"), runtime.get_variable("arr")) == (1, [1, 7])
    assert array == [1, 2]  # whoever holds the former array keeps it
    with pytest.raises(StatementError) as caught:
        runtime.send("B", {"v": 5})
    assert "statement `set` failed" in str(caught.value)
    assert (runtime.get_variable("n"), runtime.get_variable("arr")) == (1, [1, 7])


def test_a_module_that_fails_creates_no_variable() -> None:
    runtime = engine("create variable int x = 1")
    with pytest.raises(BindError):
        runtime.deploy("create variable int y = 2; select nosuch from B")
    assert list(runtime.variables) == ["x"] == list(runtime.catalog.variables)


def test_an_initial_value_that_cannot_be_computed_is_refused() -> None:
    runtime = Runtime(functions={"broken": lambda: 1 / 0})
    with pytest.raises(BindError) as caught:
        runtime.deploy("create variable int a = 1;\ncreate variable object b = broken()")
    assert str(caught.value) == (
        "initial-value: the initial value of `b` failed: ZeroDivisionError: division by zero\n"
        "  --> epl:2:28\n"
        "2 | create variable object b = broken()\n"
        "  |                            ^^^^^^^^"
    )
    assert not runtime.variables and not runtime.statements


def test_initial_values_are_computed_when_the_variable_is_created() -> None:
    calls = iter(range(10, 20))
    runtime = Runtime()
    runtime.register_function("draw", lambda: next(calls), returns=t.INT)
    runtime.deploy(
        "create variable int a = draw(); create constant variable int C = a + 1; create variable long now = "
        "current_timestamp; create variable int b = C * 2"
    )
    assert {name: cell.value for name, cell in runtime.variables.items()} == {"a": 10, "C": 11, "now": 0, "b": 22}


def test_a_new_version_begins_with_its_initial_value_and_takes_its_readers_along() -> None:
    runtime = engine("create variable int x = 1")
    runtime.deploy("@name('s0') select x from B; @name('set') on K set x = v", deployment_id="readers")
    with pytest.raises(UsageError, match="deployment `main` is used by `s0`, `set`"):
        runtime.undeploy("main")
    runtime.send("K", {"v": 5})
    runtime.redeploy("main", "create variable int x = 2")
    found = deliveries(runtime, "s0")
    runtime.send("B", {})
    runtime.send("K", {"v": 6})
    runtime.send("B", {})
    assert [insert for _, insert, _ in found] == [[{"x": 2}], [{"x": 6}]]
    with pytest.raises(BindError, match="variable `x` is string, the value is int"):
        runtime.redeploy("main", "create variable string x")
    assert runtime.get_variable("x") == 6
    runtime.undeploy("main", cascade=True)
    assert not runtime.variables and not runtime.statements


# ---------------------------------------------------------------- filters, windows, limits
def test_the_filter_index_does_not_hold_on_to_a_value() -> None:
    readers = "".join(f"@name('s{i}') select id from B(v = {i});" for i in range(8))
    runtime = engine(f"create variable int x = 1; @name('by') select id from B(v = x); {readers}")
    found = deliveries(runtime, "by")
    runtime.send("B", {"id": "a", "v": 1})
    runtime.set_variable("x", 2)
    runtime.send("B", {"id": "b", "v": 1})
    runtime.send("B", {"id": "c", "v": 2})
    assert [insert for _, insert, _ in found] == [[{"id": "a"}], [{"id": "c"}]]


def test_a_constant_is_as_good_as_its_value() -> None:
    runtime = engine("create constant variable int LIM = 2 * 5; @name('s0') select id from B#length(LIM) where v > LIM")
    statement = runtime.statement("s0")
    assert [w.args[0].value for w in statement.plan.windows] == [10]  # type: ignore[attr-defined]
    assert ".value" not in statement.program.text


@pytest.mark.parametrize(("limit", "offset", "kept"), [(2, 0, "ab"), (-1, 1, "bcd"), (None, None, "abcd"), (0, 0, "")])
def test_limit_and_offset_are_read_at_each_delivery(limit: int | None, offset: int | None, kept: str) -> None:
    runtime = engine(
        "create variable int n = 1; create variable long o = 0;"
        "@name('s0') select id from B#length_batch(4) order by id limit n offset o"
    )
    found = deliveries(runtime, "s0")
    runtime.set_variable("n", limit)
    runtime.set_variable("o", offset)
    for name in "abcd":
        runtime.send("B", {"id": name})
    assert "".join(row["id"] for _, insert, _ in found for row in insert) == kept


@pytest.mark.parametrize(
    ("window", "value", "fact"),
    [
        ("length(n)", 0, "the size of a window must be above 0, found 0"),
        ("length_batch(n)", None, "the size of a window must be above 0, found null"),
        ("sort(n, v)", -1, "the size of a window must be above 0, found -1"),
        ("time(n)", None, "the period of a window is null"),
        ("time(n sec)", -1, "the period of a window is negative: -1000"),
        ("time_batch(n sec)", 0, "the period of a window must be above 0, found 0"),
        ("time_accum(n)", None, "the period of a window is null"),
    ],
)
def test_a_value_that_is_no_size_or_period_stops_the_deployment(window: str, value: int | None, fact: str) -> None:
    runtime = engine("create variable int n = 1; @name('other') select * from B#time_batch(1 sec, \"START_EAGER\")")
    runtime.set_variable("n", value)
    before = (list(runtime.statements), list(runtime.catalog.event_types), runtime.next_due)
    with pytest.raises(BindError) as caught:
        runtime.deploy(f"create schema Fresh(a int);\n@name('s0') select * from B#{window}")
    shown = str(caught.value)
    assert shown.startswith(f"wrong-parameter: `s0` cannot start: {fact}\n  --> epl:2:")
    assert shown.endswith("^" * (len(window) + 1))
    assert (list(runtime.statements), list(runtime.catalog.event_types), runtime.next_due) == before


def test_a_partition_that_cannot_begin_is_a_failure_of_the_statement() -> None:
    runtime = engine(
        "create variable int n = 1; create context C partition by id from B;"
        "@name('s0') context C select id, sum(v) as s from B#length(n)"
    )
    assert runtime.batch(["B"]).reason == ("`s0` has a window whose parameters are read when a partition begins")
    found = deliveries(runtime, "s0")
    runtime.send("B", {"id": "a", "v": 1})
    runtime.set_variable("n", None)
    with pytest.raises(StatementError, match="the size of a window must be above 0, found null"):
        runtime.send("B", {"id": "b", "v": 2})
    runtime.send("B", {"id": "a", "v": 3})
    runtime.set_variable("n", 2)
    for v in (4, 5):
        runtime.send("B", {"id": "b", "v": v})
    rows = [row for _, insert, _ in found for row in insert]
    assert [(row["id"], row["s"]) for row in rows] == [("a", 1), ("a", 3), ("b", 4), ("b", 9)]


# ---------------------------------------------------------------- contexts and priorities
def test_an_assignment_in_a_context_takes_events_of_its_partitions() -> None:
    runtime = engine(
        "create variable int latest = 0; create context C partition by id from B(v > 0);"
        "@name('set') context C on B set latest = v"
    )
    for v in (1, -5, 2):
        runtime.send("B", {"id": "a", "v": v})
    assert runtime.get_variable("latest") == 2
    assert [p["key1"] for p in runtime.partitions("C")] == ["a"]


def test_priority_decides_what_a_statement_reads() -> None:
    runtime = engine("create variable int x = 0; @name('s0') select x from B; @priority(1) @name('set') on B set x = v")
    found = deliveries(runtime, "s0")
    runtime.send("B", {"v": 3})
    assert found == [("s0", [{"x": 3}], None)]


# ---------------------------------------------------------------- many events at once
def test_slices_read_what_was_set_between_them() -> None:
    runtime = engine("create variable int lim = 2; @name('s0') select v from B(v > lim)")
    seen = Deltas()
    runtime.statement("s0").add_sink(seen)
    batch = runtime.batch(["B"])
    assert batch.reason is None
    batch.run([ColumnBatch("B", [1, 2], {"v": [2, 3]})])
    runtime.set_variable("lim", 0)
    batch.run([ColumnBatch("B", [3], {"v": [1]})])
    assert [delta.insert for delta in seen] == [[{"v": 3}], [{"v": 1}]]


def test_assignments_make_a_replay_go_event_by_event() -> None:
    runtime = engine("create variable int x = 0; @name('set') on K set x = v; @name('s0') select id, x from B")
    assert runtime.batch(["B"]).reason is None  # no event of the replay assigns anything
    batch = runtime.batch(["B", "K"])
    assert batch.reason == "`set` sets variables that others read"
    found = deliveries(runtime, "s0")
    columns = {"id": ["a", "b"], "v": [1, 2], "p": [None, None]}
    changes = {"id": ["k"], "v": [9]}
    batch.run([ColumnBatch("B", [1, 3], columns, ranks=[0, 2]), ColumnBatch("K", [2], changes, ranks=[1])])
    assert [insert for _, insert, _ in found] == [[{"id": "a", "x": 0}], [{"id": "b", "x": 9}]]


def test_output_clauses_that_assign_do_so_too() -> None:
    runtime = engine(
        "create variable int n = 0; @name('s0') select id from K output when count_insert > 1 then set n = n + 1;"
        "@name('s1') select id, n from B"
    )
    for types in (["K", "B"], ["B"]):  # the clock may make it assign, too
        assert runtime.batch(types).reason == "`s0` sets variables that others read"


@pytest.mark.parametrize("type_", ["double", "float"])
def test_a_number_beyond_all_floats_is_refused(type_: str) -> None:
    runtime = Runtime()
    runtime.deploy(f"create variable {type_} v = 1")
    with pytest.raises(UsageError, match=f"variable `v` is {type_}: the value is out of range"):
        runtime.set_variable("v", 10**400)
    assert runtime.get_variable("v") == 1
