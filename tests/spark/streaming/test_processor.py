"""The stateful processor without Spark: whatever the batches, watermarks and restarts, its rows are the kernel's."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import SnapshotError, UsageError
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.lang.plan.nodes import CreateSchemaStatement, CreateVariableStatement
from cepbook.spark.execution.execution import _task_modules
from cepbook.spark.execution.spark_actions import error_behind
from cepbook.spark.plan.placement import Placement, place
from cepbook.spark.plan.state_fingerprint import state_fingerprint_of
from cepbook.spark.streaming.initial_state import (
    final_state_function,
    is_in_partitions,
    restore_saved,
    split_saved_state,
    workbench_program,
)
from cepbook.spark.streaming.processor import EngineProcessor, to_ipc_bytes
from cepbook.spark.task.program import DeploymentStep, TaskProgram, check_fingerprint
from cepbook.spark.task.stream_columns import SEQ, TAG, TASK, TICK, TIME
from cepbook.spark.task.task_runner import output_schema
from tests.random_cases import several
from tests.spark.streams import Store, Watermark, differences
from tests.spark.tasks import Recorded

pytestmark = pytest.mark.histories

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """
create schema T(ts long, s string, n long); create schema Q(ts long, s string, p long);
create context P partition by s from T, s from Q;
"""
QUERIES = [
    "select s, n from T(n > 50)",
    "select irstream s, sum(n) as total from T#time(3 sec) group by s",
    "select irstream s, n from T#length_batch(4)",
    "select s, count(*) as c from T#time_batch(2 sec) group by s",
    "context P select a.n as x, b.n as y from pattern [every a=T(n > 60) -> (b=T(n < 40) and not Q)]",
    "context P select a.s as s from pattern [every a=T -> (timer:interval(1 sec) and not T)]",
    "select s, sum(n) as total from T group by s output last every 2 sec",
    "select t.s as s, t.n as n, q.p as p from T#length(3) as t, Q#time(2 sec) as q where t.s = q.s",
    "@name('big') insert into Big select s, n from T(n > 30); select irstream s, n from Big#time(1 sec)",
]


Event = tuple[int, int, int, tuple[Any, ...]]  # tag, time, sequence, values


def program_of(epl: str) -> TaskProgram:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(epl)
    return program_in(runtime)


def program_in(runtime: Runtime) -> TaskProgram:
    """Of the last statement."""
    modules = [(s, d.plan) for d in runtime.deployments.values() for s in d.plan.statements]
    last = modules[-1][0]
    created = [(s, m) for s, m in modules if not isinstance(s, CreateSchemaStatement | CreateVariableStatement)]
    steps = tuple(DeploymentStep(s.name, replace(m, statements=(s,)), s is last) for s, m in created)
    types = tuple(t for name, t in runtime.catalog.event_types.items() if name in ("T", "Q"))
    inputs = ((0, "T", ("ts", "s", "n"), ("a0", "a1", "a2")), (1, "Q", ("ts", "s", "p"), ("b0", "b1", "b2")))
    outputs = ((last.name, last.output_type),)
    given = runtime.external_variables()
    return TaskProgram(steps, types, inputs, outputs, runtime.catalog.event_types, Config(), 0, variables=given)


def history(seed: int, count: int = 70) -> list[Event]:
    rng, now, found = random.Random(seed), 1000, []
    for number in range(count):
        now += rng.choice((0, 0, 100, 400, 1500))
        found.append((rng.choice((0, 0, 0, 1)), now, number, (now, rng.choice("abc"), rng.randrange(100))))
    return found


def table(events: list[Event]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [e[i] for e in events] for i, name in enumerate((TAG, TIME, SEQ))}
    for tag, letter in ((0, "a"), (1, "b")):
        for i in range(3):
            columns[f"{letter}{i}"] = [e[3][i] if e[0] == tag else None for e in events]
    kinds = [pa.int32(), pa.int64(), pa.int64(), *[pa.int64(), pa.string(), pa.int64()] * 2]
    arrays = [pa.array(values, kind) for values, kind in zip(columns.values(), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def expected(epl: str, events: list[Event], until: int) -> list[tuple[Any, ...]]:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    name = runtime.deploy(epl).statements[-1].name
    found: list[tuple[Any, ...]] = []

    def take(delta: Any) -> None:
        found.extend((delta.time, "insert", *row.values()) for row in delta.insert or ())
        found.extend((delta.time, "remove", *row.values()) for row in delta.remove or ())

    runtime.statement(name).add_listener(take)
    for tag, time, _, values in events:
        runtime.advance(time, stepping=True)
        names = ("ts", "s", "n") if tag == 0 else ("ts", "s", "p")
        runtime.send("TQ"[tag], dict(zip(names, values, strict=True)))
    runtime.advance(until, stepping=True)
    return found


def streamed(
    program: TaskProgram, events: list[Event], seed: int, sequenced: bool = True, begin: dict[str, Any] | None = None
) -> tuple[list[Any], list[str]]:
    """The rows, by time of delivery, and the errors; a new processor for each micro-batch, as after a restart."""
    rng, store, before, watermark = random.Random(seed), Store(), 0, 0
    rows: list[tuple[Any, ...]] = []
    errors: list[str] = []
    left = list(events)
    if begin is not None:
        processor = EngineProcessor(program, sequenced)
        processor.init(store)  # type: ignore[arg-type]
        processor.handleInitialState(0, Row(**begin), Watermark(0))
    size = rng.choice((7, 40))
    while True:
        processor = EngineProcessor(program, sequenced)
        processor.init(store)  # type: ignore[arg-type]
        part, left = left[:size], left[size:]
        given = part if not sequenced else rng.sample(part, len(part))
        payload = iter([Row(payload=to_ipc_bytes(table(given)))])
        taken = list(processor.handleInputRows(0, payload, Watermark(watermark))) if part else []
        if any(before < timer <= watermark for timer in store.timers):  # Spark never looks at earlier ones again
            taken += processor.handleExpiredTimer(0, Watermark(watermark), None)
        for row in taken:
            for batch in pa.ipc.open_stream(row["payload"]):
                assert batch.schema == output_schema(program)
                for each in batch.to_pylist():
                    if each["error"] is not None:
                        errors.append(each["error"])
                    else:
                        rows.append((each["time"], each["kind"], *each["s0"].values()))
        if not part and watermark == 10**7:
            return rows, errors
        before, watermark = watermark, (max([watermark, *(e[1] for e in part)]) if left else 10**7)


@pytest.mark.parametrize("epl", QUERIES)
def test_the_rows_are_those_of_a_kernel_whose_clock_stops_when_something_is_due(epl: str) -> None:
    program = program_of(epl)
    for seed in range(several(2)):
        events = history(seed)
        rows, errors = streamed(program, events, seed)
        assert (rows, errors) == (expected(epl, events, 10**7), [])


@pytest.mark.parametrize("epl", QUERIES)
def test_a_stream_goes_on_from_the_end_of_a_batch(epl: str) -> None:
    program, events = program_of(epl), history(7)
    for at in (0, 25, 69):
        end = events[at][1]
        before = [event for event in events if event[1] <= end]
        rows = table(before).append_column(TASK, pa.array([0] * len(before), pa.int32()))
        stop = pa.RecordBatch.from_pylist([{TAG: TICK, TIME: end, SEQ: 10**9, TASK: 0}], rows.schema)
        halves = [rows.slice(0, len(before) // 2), rows.slice(len(before) // 2), stop]
        (begin,) = (row for batch in final_state_function(program)(halves) for row in batch.to_pylist())
        found = streamed(program, events[len(before) :], at, begin=begin)
        assert found == ([row for row in expected(epl, events, 10**7) if row[0] > end], []), at


SET = "create variable long v = 0; on Q set v = v + p; select s, n + v as m from T"
OTHERS = (
    "@name('o') select count(*) as n from T#time(7 sec)",
    "create window W#time(9 sec) as T; insert into W select * from T; create context C start @now end after 4 sec",
)


@pytest.mark.parametrize("epl", [*QUERIES, SET])
def test_a_stream_goes_on_from_a_saved_workbench(epl: str) -> None:
    events = history(8)
    end = events[35][1]
    saved, runtime = Runtime(), Runtime()
    for each in (SCHEMA, OTHERS[0], epl, OTHERS[1]):
        saved.deploy(each)
    for each in (SCHEMA, epl):
        runtime.deploy(each)
    for tag, time, _, values in events:
        if time <= end:
            saved.advance(time, stepping=True)
            saved.send("TQ"[tag], dict(zip(("ts", "s", "np"[tag]), values, strict=True)))
    program = workbench_program(program_in(runtime), runtime)
    found = restore_saved(saved.snapshot(), program, runtime)
    begin = {"task": 0, "saved": found.snapshot(), "passed": found.now, "due": found.next_due, "count": 0}
    rows = streamed(program, [event for event in events if event[1] > end], 1, begin=begin)
    assert rows == ([row for row in expected(epl, events, 10**7) if row[0] > end], [])


CONTEXTS = """
create context Ended partition by s from T, s from Q terminated after 3 sec;
create context Begun partition by s from T, s from Q initiated by T(n > 40) terminated by Q(p > 60);
create context Two partition by s and n from T;
"""
IN_PARTITIONS = [
    "context {c} select irstream s, n, count(*) as c from T#time(3 sec)",
    "context {c} select s, sum(n) as total from T#length(3) output last every 2 sec",
    "context {c} select a.n as x, b.n as y from pattern [every a=T(n > 60) -> (b=T(n < 40) and not Q)]",
    "context {c} select a.s as s from pattern [every a=T -> (timer:interval(1 sec) and not T)]",
    "context {c} select t.n as n, q.p as p from T#length(3) as t, Q#time(2 sec) as q where t.s = q.s",
    "context {c} create window W#length(2) as T; context {c} insert into W select * from T; context {c} select irstream s, sum(n) as m from W",
    "context {c} select n, (select max(p) from Q#length(3)) as m, prior(2, n) as p from T",
    "context {c} create table Sums(k string primary key, total sum(long)); context {c} into table Sums select sum(n) as total from T group by s; context {c} select Sums[s].total as t from Q",
]


@pytest.mark.parametrize(
    "epl",
    [
        *(each.replace("{c}", name) for each in IN_PARTITIONS for name in ("P", "Ended", "Begun")),
        "context Two select irstream s, n, count(*) as c from T#time(3 sec)",
    ],
)
@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_a_saved_state_is_divided_by_the_partitions_of_contexts(epl: str, tasks: int) -> None:
    for seed in range(several(1)):
        events = history(seed + tasks)
        end = events[35][1]
        saved = Runtime()
        for each in (SCHEMA, CONTEXTS, OTHERS[0], epl):
            saved.deploy(each)
        runtime = Runtime()
        for each in (SCHEMA, CONTEXTS, epl):
            runtime.deploy(each)
        plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
        line = dependencies_of(plans[-1].name, plans, runtime.catalog, ("T", "Q"))
        assert is_in_partitions(line, runtime.catalog)
        for tag, time, _, values in events:
            if time <= end:
                saved.advance(time, stepping=True)
                saved.send("TQ"[tag], dict(zip(("ts", "s", "np"[tag]), values, strict=True)))
        program = workbench_program(program_in(runtime), runtime)
        kept = restore_saved(saved.snapshot(), program, runtime)
        (context,) = line.contexts
        identities = [*kept.context(context.context.name).identities()]
        divisions = {each.id: sum(map(ord, str(each.steps[0].key[0]))) % tasks for each in identities}
        rows = []
        for number, state, passed, due, count in split_saved_state(
            kept, program, {context.context.name: divisions}, tasks
        ):
            begin = {"task": number, "saved": state, "passed": passed, "due": due, "count": count}
            own = [e for e in events if e[1] > end and sum(map(ord, e[3][1])) % tasks == number]
            found, errors = streamed(program, own, seed, begin=begin)
            rows += found
            assert not errors
        left = [row for row in expected(CONTEXTS + epl, events, 10**7) if row[0] > end]
        assert len(left) > 2 and sorted(rows, key=repr) == sorted(left, key=repr)


def test_the_state_of_other_statements_is_refused() -> None:
    saved, runtime = Runtime(), Runtime()
    for each, how in ((saved, 3), (runtime, 4)):
        each.deploy(SCHEMA)
        each.deploy(f"@name('q') select s, n from T#length({how})")
    with pytest.raises(SnapshotError, match="has other statements than the stream"):
        restore_saved(saved.snapshot(), workbench_program(program_in(runtime), runtime), runtime)
    saved.undeploy(list(saved.deployments)[-1])
    with pytest.raises(UsageError, match="has no statement q; it has "):
        restore_saved(saved.snapshot(), workbench_program(program_in(runtime), runtime), runtime)


def test_without_a_sequence_events_of_one_time_count_as_they_come() -> None:
    program = program_of("select irstream s, n from T#length(2)")
    events = [(0, 5, 0, (5, "a", i)) for i in range(7)]
    assert [row[3] for row in streamed(program, events, 1, sequenced=False)[0] if row[1] == "insert"] == list(range(7))


def test_events_at_the_first_instant_are_not_forgotten() -> None:
    program = program_of("select s, n from T")
    events = [(0, 0, i, (0, "a", i)) for i in range(3)]
    assert [row[3] for row in streamed(program, events, 1)[0]] == [0, 1, 2]


def test_events_without_a_time_are_left_out_and_told_of() -> None:
    program, store = program_of("select s, n from T"), Store()
    processor = EngineProcessor(program, True)
    processor.init(store)  # type: ignore[arg-type]
    given = [(0, 3, 0, (3, "x", 3)), (0, None, 1, (4, "x", 4)), (0, None, 2, (5, "x", 5))]
    rows = processor.handleInputRows(0, iter([Row(payload=to_ipc_bytes(table(given)))]), Watermark(0))  # type: ignore[arg-type]
    found = [r["error"] for row in rows for batch in pa.ipc.open_stream(row["payload"]) for r in batch.to_pylist()]
    assert found == ["2 events of T were left out: the time is missing"] and store.timers == {3}


def test_late_events_are_left_out_and_told_of() -> None:
    program = program_of("select s, n from T")
    store = Store()
    for given, watermark in (([1, 2], 0), ([3], 2), ([2, 1, 4], 3), ([], 9)):
        processor = EngineProcessor(program, True)
        processor.init(store)  # type: ignore[arg-type]
        events = [(0, time, watermark * 10 + i, (time, "x", time)) for i, time in enumerate(given)]
        payloads = [Row(payload=to_ipc_bytes(table(events)))] if events else []
        rows = processor.handleInputRows(0, iter(payloads), Watermark(watermark))
        found = [r for row in rows for batch in pa.ipc.open_stream(row["payload"]) for r in batch.to_pylist()]
        if watermark == 3:
            assert [r["error"] for r in found if r["error"]] == [
                "2 events of T, the first at 00:00:00.001, were left out: the watermark had passed 00:00:00.002"
            ]
        assert [r["s0"]["c1"] for r in found if r["error"] is None] == {0: [], 2: [1, 2], 3: [3], 9: [4]}[watermark]


def test_what_is_kept_is_of_the_same_statements_divided_alike() -> None:
    program, others = program_of(QUERIES[1]), program_of(QUERIES[1].replace("3 sec", "4 sec"))
    by_key = Placement("by key", (("T", ("s",)),), True, "")
    own = state_fingerprint_of(program, by_key, 32)
    assert own == state_fingerprint_of(program_of(QUERIES[1]), by_key, 32)
    check_fingerprint(own, own)
    for other, what in (
        (
            state_fingerprint_of(others, by_key, 32),
            "the checkpoint holds the state of other statements, or of another version",
        ),
        (
            state_fingerprint_of(program, by_key, 3),
            r"divided in another way \(3 parts, T by s, here 32 parts, T by s\)",
        ),
        (
            state_fingerprint_of(program, replace(by_key, keys=(("T", ("n",)),)), 32),
            "divided in another way .*T by n, here",
        ),
        (
            state_fingerprint_of(program, replace(by_key, path="ordered"), 1),
            "another way .whole, here .*\n  hint: pass the same",
        ),
        (state_fingerprint_of(program, replace(by_key, path="native"), 32), "the state of other statements"),
        (None, "was written by a version of cepbook with another format.*\n  hint: continue with the"),
    ):
        with pytest.raises(SnapshotError, match=what):
            check_fingerprint(own, other)


def test_a_mark_is_of_all_partitions_that_are_dealt_out() -> None:
    def marked(context: str, reason: str = "") -> dict[str, Any]:
        runtime = Runtime()
        runtime.deploy(SCHEMA)
        runtime.deploy(f"create context C {context}; @name('q') context C select s, sum(n) as total from T")
        plans = [s for d in runtime.deployments.values() for s in d.plan.statements]
        placement = place(dependencies_of("q", plans, runtime.catalog, {"T": None}), runtime.catalog)
        program = program_in(runtime)
        assert placement.shards is not None
        program = replace(program, task_modules=_task_modules(program, placement.shards, 32))
        found: dict[str, Any] = json.loads(state_fingerprint_of(program, replace(placement, reason=reason), 32))
        return found

    categories = "group by n < 5 as low, group by n > 9 as high from T"
    own = marked(categories)
    assert own["divided"] == "32 parts, categories low, high of C"
    assert own == marked(categories, "in other words")
    assert own["code"] != marked(categories.replace("> 9", "> 8"))["code"]  # which is not the first part's
    assert own["divided"] != marked(categories.replace("high", "more"))["divided"]
    hashed = "coalesce by hash_code(s, n) from T granularity 5"
    assert marked(hashed)["divided"] == "32 parts, 5 hash buckets of C, T by hash_code(s, n)"


EMPTY = (
    "select count(*) as n from T#time_batch(2 sec, 'FORCE_UPDATE,START_EAGER')",
    "select current_timestamp as at from pattern [every timer:interval(3 sec)]",
)


@pytest.mark.parametrize("epl", EMPTY)
def test_categories_deliver_without_an_event_of_theirs(epl: str) -> None:
    """Whose division Spark would not know of."""
    engine = Recorded(0, {})
    engine.deploy(
        SCHEMA + "create context C group n < 50 as low, group n > 90 as high, group n > 200 as none from T", "a"
    )
    engine.deploy(f"@name('q') context C {epl}", "b")
    for tag, time, _, (ts, s, n) in history(3, 120):
        engine.advance(time, stepping=True)
        engine.send("TQ"[tag], {"ts": ts, "s": s, "np"[tag]: n})
    until = engine.runtime.now + 4000
    engine.advance(until, stepping=True)
    wrong, ran = differences(engine, random.Random(1), until)
    assert not wrong and ran["by key"] == 1
    assert len(engine.rows["q"]) > 30


def test_the_state_of_another_mark_is_refused() -> None:
    program, store = replace(program_of(QUERIES[1]), fingerprint="{}"), Store()

    def show(program: TaskProgram) -> None:
        processor = EngineProcessor(program, True)
        processor.init(store)  # type: ignore[arg-type]
        list(processor.handleInputRows(0, iter([Row(payload=to_ipc_bytes(table(history(1)[:3])))]), Watermark(0)))

    show(program)
    show(program)
    with pytest.raises(SnapshotError, match="was written by a version"):
        show(replace(program, fingerprint='{"format": 1}'))


def test_what_spark_says_of_a_state_with_other_columns_is_said_as_of_another_mark() -> None:
    said = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema."
    found = error_behind(
        f"org.apache.spark.sql.execution.streaming.state.StateStoreValueSchemaNotCompatible: {said}\nat ..."
    )
    with pytest.raises(SnapshotError) as wrong:
        check_fingerprint(state_fingerprint_of(program_of(QUERIES[0]), Placement("by key", (), True, ""), 32), None)
    assert str(found) == str(wrong.value) and isinstance(found, SnapshotError)
