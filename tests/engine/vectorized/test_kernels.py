"""Kernels give the rows, the order and the state that events give one by one, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized import kernel_library, vectorized_statement
from cepbook.engine.vectorized.array_columns import ArrayColumns, TextColumn
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.row_store import ValueCodes
from tests.engine.histories import GAPS, KEYS, Event, Run, array_of, comparable, run_both, take_all_batches_by_arrays

GROUP_KEYS = ("k", "x", "n", "g", "k, g", "x, k", "n, x, k")
WINDOWS = ("", "#length(1)", "#length(3)", "#time(1 sec)", "#time(7 msec)", "#keepall")
PLAIN = ("x", "d", "k", "n", "d * 2 as d2", "d / d as dd", "d / (x * 1.0) as dx", "d + x as ds")
AGGREGATES = (
    "count(*) as c", "count(d) as cd", "count(x) as cx", "sum(x) as sx", "sum(d) as sd", "sum(n) as sn", "avg(x) as ax",
    "avg(d) as ad", "avg(n) as an", "x - avg(d) as xd", "(d + 0.1) * sum(x) as dsx",
)  # fmt: skip
EXTREMES = ("min(x) as lx", "max(d) as gd", "min(d) as ld", "max(n) as gn")
PREVIOUS = ("prev(1, d) as pd", "prev(1, k) as pk", "prev(1, x) as px", "d - prev(1, d) as dp")  # with one
HAVING = ("count(*) > 1", "avg(d) > 0", "sum(d) <= 0.3", "sum(x) <= 7 and count(d) = 1")
HAVING_UNGROUPED = ("d < 1 or sum(d) >= 0.3", "x = 7 and count(*) > 0", "d > x", "avg(d) >= x or x < 0 or d <= 0.1")
CONTEXTS = (
    "group x > 0 as positive, group x < 0 as negative from A",
    "coalesce by consistent_hash_crc32(k) from A granularity 3",
    "partition by k from A(x > 0)",
    "start A(x > 0) end after 3 sec",
    "initiated by A(x = 7) as s terminated after 3 sec",
)  # fmt: skip
FILTERS = ("", "", "(x > 0)", "(k = 'a')", "(k = 'a' or d > 0)", "(x >= 0, d + 1 > 0.5)")
INTS = (0, 1, -1, 2**31 - 1, -(2**31), 7)
LONGS = (0, 1, -5, 2**40, -(2**40), 2**53, 2**62)
DOUBLES = (None, 0.0, -0.0, 0.1, 0.2, 1e308, -1e308, 5e-324, math.inf, -math.inf, 3.5)


@pytest.fixture(autouse=True)
def _kernels_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_library.kernels(wait=True) is not None, kernel_library.missing_reason()
    take_all_batches_by_arrays(monkeypatch)
    run = vectorized_statement.VectorizedStatement.run

    def counted(self: vectorized_statement.VectorizedStatement, *arguments: Any) -> Any:
        output = run(self, *arguments)
        ArrayRun.by_kernels += output is not None and self.form.needs_kernels
        if output is not None:
            ArrayRun.outputs += ((column, repr(list(column))) for column in output[0].columns)
        return output

    monkeypatch.setattr(vectorized_statement.VectorizedStatement, "run", counted)


def random_statement(random: Random) -> str:
    """A statement for which there are kernels, mostly."""
    keys = random.choice(GROUP_KEYS)
    kind = random.choice((f"partition by {keys} from A", *CONTEXTS))
    context = f"create context C {kind}; context C " * (random.random() < 0.25)
    window = random.choice((*WINDOWS, *(f"#groupwin({keys})#length({n})" for n in (1, 2))))
    if context and ("time" in window or "groupwin" in window):
        window = ""
    own = EXTREMES if window == "" or "time" in window else (*PREVIOUS, *EXTREMES)
    columns = random.sample(PLAIN, random.randint(1, 2)) + random.sample(AGGREGATES + own, random.randint(0, 3))
    clauses = f" group by {keys}" * (random.random() < (0.1 if context else 0.5))
    conditions = HAVING if clauses else (*HAVING, *HAVING_UNGROUPED)
    clauses += f" having {random.choice(conditions)}" * (random.random() < 0.3)
    columns += ["context.id as ci"] * (context != "" and random.random() < 0.3)
    columns += ["context.key1 as ck"] * ("partition" in context and random.random() < 0.3)
    return f"{context}select {', '.join(columns)} from A{random.choice(FILTERS)}{window}{clauses}"


def random_history(random: Random) -> list[Event]:
    time, events = random.choice((0, 5000)), []
    ints, longs = (random.choice((some, (*some, None))) for some in (INTS, LONGS))
    if random.random() < 0.05:
        longs = (-(2**63), *longs)  # which stands for null in arrays
    for _ in range(random.randint(0, 60)):
        time += random.choice(GAPS)
        values = {"k": random.choice(KEYS), "x": random.choice(ints), "n": random.choice(longs)}
        events.append(Event(time, "A", values | {"g": random.randint(0, 2), "d": random.choice(DOUBLES), "f": 1.0}))
    return events


class ArrayRun(Run):
    """A run whose batches are arrays. `by_kernels` counts the batches that kernels have run, `outputs` are the columns
    that they delivered, with the values of each at that time.
    """

    by_kernels = 0
    outputs: ClassVar[list[tuple[Sequence[Any], str]]] = []

    def replay(self, events: Sequence[Event], cuts: Sequence[int], *, stepping: bool = False) -> None:
        batch = self.runtime.batch(["A"])
        bounds = sorted({0, len(events), *(c for c in cuts if c < len(events))})
        for low, high in pairwise(bounds):
            part = events[low:high]
            times = [event.time for event in part]
            arrays = {name: array_of([event.values[name] for event in part]) for name in batch.columns["A"]}
            texts = ["c", None, "b", "a", None]  # in another order than in the events
            codes = np.array([texts.index(event.values["k"]) for event in part], int)
            arrays["k"] = TextColumn(np.where(codes == 1, -1, codes), np.array(texts, object))
            columns = ArrayColumns(arrays, arrays.__getitem__, array_of(times), slice(0, len(part)))
            stops = range(self.runtime.now, times[-1] + 1) if stepping else None
            batch.run([ColumnBatch("A", times, columns)], stops)


@pytest.mark.parametrize("seed", range(8))
def test_batches_are_as_events_one_by_one(seed: int) -> None:
    random = Random(seed)
    ArrayRun.by_kernels = 0
    for _ in range(120):
        epl, events = random_statement(random), random_history(random)
        cuts = [random.randint(1, 60) for _ in range(random.randint(0, 4))]
        compare(epl, events, cuts, stepping=random.random() < 0.5, read=random.randint(0, 2))
    assert ArrayRun.by_kernels > 60


def compare(epl: str, events: list[Event], cuts: list[int], *, stepping: bool, read: int) -> None:
    """Run events one by one and by arrays (see `run_both`)."""
    one_by_one, run = Run(epl), ArrayRun(epl)
    ArrayRun.outputs.clear()
    run_both(one_by_one, run, events, cuts, stepping=stepping, read=read)
    for later in (0, 10_000):
        for either in (run, one_by_one):
            either.runtime.advance(either.runtime.now + later)
        # as texts, which tell -0.0 from 0.0
        assert repr(run.deliveries) == repr(one_by_one.deliveries), (epl, events, cuts)
        assert repr(run.readings()) == repr(one_by_one.readings()), (epl, events, cuts)
        assert repr(exact_state(run)) == repr(exact_state(one_by_one)), (epl, events, cuts)
    for column, values in ArrayRun.outputs:  # a feed keeps the columns
        assert repr(list(column)) == values, (epl, events, cuts)


def exact_state(run: Run) -> list[Any]:
    """Cells, groups in their order, items and due times; equal for equal state only."""
    found = []
    for statement in run.runtime.statements.values():
        if statement.context is not None:
            partitions = statement.context.partitions_by_key()
            states = [partition.states[statement.program.slot] for partition in partitions.values()]
            own = [(state.cells, comparable(list(state.view.contents())), state.ordinal) for state in states]
            found.append((comparable(list(partitions)), [partition.id for partition in partitions.values()], own))
            continue
        state = statement.state
        view = state.view
        views: Sequence[Any] = [view, *getattr(view, "by_key", {}).values()]
        items = [comparable(list(each.contents())) for each in views]
        groups = None if state.groups is None else [comparable(pair) for pair in state.groups.items()]
        keys = comparable(list(getattr(view, "by_key", ())))
        dues = [each.due for each in views]
        found.append((items, groups, comparable(state.cells), state.ordinal, keys, dues))
    return found


FORMS = {
    "select k, x from A": "columns",
    "select k, x from A(x > 0)": "columns",
    "select x, avg(d) as a from A#length(100)": "kernels",
    "select k, x, sum(x) as s from A#time(30 sec) group by k": "kernels",
    "select k, sum(x) as s from A#time(30 sec) group by k": "not every event delivers exactly one row",
    "select k, count(*) as n, avg(d) as a from A#groupwin(k)#length(10) group by k": "kernels",
    "select k, prev(1, d) as before, d from A#groupwin(k)#length(2)": "kernels",
    "select max(x) as m from A": "kernels",
    "select d / avg(d) as ratio from A#keepall": "kernels",
    "select g, d, sum(x) as s from A#length(9) group by g": "kernels",
    "select k, g, sum(x) as s from A#time(1 sec) group by k, g": "not every event delivers exactly one row",
    "select d, k, g, sum(x) as s from A#time(1 sec) group by k, g": "kernels",
    "select x, n, k, sum(x) as s from A#groupwin(n, k)#length(2) group by n, k": "kernels",
    "select x, sum(x) as s from A#groupwin(k)#length(2) group by n": "window and aggregates differ in their groups",
    "select sum(x) as s from A group by d": "not all keys of groups are texts, whole numbers or booleans",
    "select max(x) as m, min(d) as l from A#length(3)": "kernels",
    "select x, max(x) as m from A#groupwin(k)#length(3)": "the aggregate of x has no kernel",
    "create table T(s sum(int)); into table T select sum(x) as s from A": "its aggregates are in a table",
    "select median(d) as m from A#length(3)": "the aggregate of d has no kernel",
    "select sum(x) as s from A#unique(k)": "`unique` has no kernel",
    "select k || k as kk from A#length(3)": "k || k has no kernel",
    "select f from A#length(3)": "`f` is no number, boolean or string",
    "select sum(x) as s from A#length_batch(3)": "not every event delivers exactly one row",
    "select sum(x) as s from A#length(3) having sum(x) > 0 and (x < 9 or d >= x)": "kernels",
    "select sum(x) as s from A#length(3) having n > 0": "n > 0 has no kernel",
    "select max(n) as m from A having max(n) > 0": "max(n) > 0 has no kernel",
    "create context C partition by k from A; context C select k, avg(d) as a, max(x) as m from A#length(3)": "kernels",
    "create context C partition by k from A; context C select d, prev(1, n) as p from A#keepall": "kernels",
    "create context C partition by k from A; context C select x, sum(x) as s from A#time(1 sec)": (
        "its partitions have time windows or groups"
    ),
    "@IterableUnbound select k, x from A": "its last row is kept for iteration (iterable unbound)",
    "select sum(x) as s from A#length(3) having d = 0": "d = 0 has no kernel",
    "select sum(x) as s from A#length(3) having x > 9007199254740993": "x > 9007199254740993 has no kernel",
}


@pytest.mark.parametrize("epl", FORMS)
def test_each_statement_has_a_form_or_a_reason(epl: str) -> None:
    *_, statement = Run(epl).runtime.statements.values()
    form = statement.program.kernel_form()
    assert (form if isinstance(form, str) else "kernels" if form.needs_kernels else "columns") == FORMS[epl]


EVENTS = [Event(10 * i, "A", {"k": "ab"[i % 2], "g": 0, "x": i, "n": i, "d": i / 3, "f": 0.0}) for i in range(40)]


@pytest.mark.parametrize("epl", [epl for epl, form in FORMS.items() if form == "kernels" and "#" in epl])
def test_items_are_made_when_somebody_reads_them(epl: str) -> None:
    run = Run(epl)
    run.replay(EVENTS, [])
    *_, statement = run.runtime.statements.values()
    partitions = statement.context.partitions_by_key().values() if statement.context else ()
    states = [partition.states[statement.program.slot] for partition in partitions] or [statement.state]
    views = [view for state in states for view in getattr(state.view, "by_key", {"": state.view}).values()]
    assert all(view.stored is not None for view in views)
    run.readings()
    assert all(view.stored is None for view in views)
    sent = Run(epl)
    sent.send(EVENTS)
    assert exact_state(run) == exact_state(sent)


@pytest.mark.parametrize("epl", [epl for epl, form in FORMS.items() if form == "kernels"])
def test_a_snapshot_between_two_batches_continues(epl: str) -> None:
    run, sent = Run(epl), Run(epl)
    run.replay(EVENTS[:20], [])
    saved = run.runtime.snapshot()
    run.replay(EVENTS[20:], [])
    sent.send(EVENTS)
    restored = Run(epl)
    restored.runtime = Runtime.restored(saved, {})
    (name,) = restored.recorders
    restored.runtime.statement(name).add_sink(restored.recorders[name])
    restored.replay(EVENTS[20:], [])
    assert exact_state(restored) == exact_state(run) == exact_state(sent)
    assert restored.deliveries[name] == sent.deliveries[name][20:]


@pytest.mark.parametrize("window", ["", "#length(7)", "#time(70 msec)"])
def test_values_that_arrays_do_not_represent_are_left_to_the_row_engine(window: str) -> None:
    odd: list[dict[str, Any]] = [{"d": math.nan}, {"n": 2**62}, {"x": None}, {"k": None, "d": None}]
    events = [event._replace(values=event.values | odd[at // 2 % 4]) for at, event in enumerate(EVENTS)]
    epl = f"select k, x, sum(x) as s, sum(n) as t, avg(d) as a from A{window} group by k"
    run, sent = ArrayRun(epl), Run(epl)
    run.replay(events, range(2, 40, 2))
    sent.send(events)
    assert repr(run.deliveries) == repr(sent.deliveries)
    assert repr(exact_state(run)) == repr(exact_state(sent))


@pytest.mark.parametrize("call", ["min", "max", "sum"])
@pytest.mark.parametrize("values", [(0.0, -0.0, 0.0), (-0.0, 0.0, -0.0), (-0.0, None, -0.0)])
def test_zeros_keep_their_signs(call: str, values: Sequence[float | None]) -> None:
    events = [event._replace(values=event.values | {"d": d}) for event, d in zip(EVENTS, values, strict=False)]
    epl = f"select x, {call}(d) as v from A"
    run, sent = ArrayRun(epl), Run(epl)
    run.replay(events, [])
    sent.send(events)
    assert repr(run.deliveries) == repr(sent.deliveries)


def test_small_batches_and_a_missing_numba_take_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_statement, "kernels", lambda events: None)
    run, sent = Run(FIRST := "select sum(x) as s from A#length(3)"), Run(FIRST)
    run.replay(EVENTS, [])
    sent.send(EVENTS)
    assert run.deliveries == sent.deliveries


def test_the_library_says_why_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert kernel_library.missing_reason() == "numba is not installed (pip install 'cepbook[fast]')"


def test_kernels_are_loaded_once_there_are_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []
    monkeypatch.setattr(kernel_library, "_kernels", None)
    monkeypatch.setattr(kernel_library, "_loader", None)
    monkeypatch.setattr(kernel_library, "_events", 0)
    monkeypatch.setattr(kernel_library, "_load", lambda: began.append("loading"))
    assert kernel_library.kernels(kernel_library.WORTH_LOADING - 1) is None
    assert not began
    kernel_library.kernels(1)
    kernel_library.kernels(wait=True)
    assert began == ["loading"]


@pytest.mark.parametrize("epl", [epl for epl, form in FORMS.items() if form == "kernels"])
@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt])
def test_a_batch_that_fails_has_changed_nothing(
    epl: str, failure: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sent = Run(epl), Run(epl)
    run.replay(EVENTS[:20], [])
    sent.send(EVENTS[:20])

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(vectorized_statement.OutputArrays, "values", fail)
        if failure is MemoryError:
            run.replay(EVENTS[20:30], [])
            sent.send(EVENTS[20:30])
        else:
            with pytest.raises(failure):
                run.replay(EVENTS[20:30], [])
            assert exact_state(run) == exact_state(sent)
            return
    run.replay(EVENTS[30:], [])
    sent.send(EVENTS[30:])
    assert run.deliveries == sent.deliveries
    assert exact_state(run) == exact_state(sent)


@pytest.mark.parametrize("keys", ["k", "g, k", "n"])
@pytest.mark.parametrize("window", ["", "#length(2)", "#groupwin(k)#length(2)", "#time(70 msec)"])
def test_texts_that_no_row_has_any_more_are_forgotten(window: str, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_statement, "MOST_CODES", 0 if "groupwin" in window else 10)
    epl = f"select x, sum(x) as s from A{window.replace('k', keys)} group by {keys}"
    events = [
        event._replace(values=event.values | {"k": f"k{at // 4}", "n": at // 8}) for at, event in enumerate(EVENTS * 4)
    ]
    events = [event._replace(time=10 * at) for at, event in enumerate(events)]
    run, sent = Run(epl), Run(epl)
    run.replay(events[:80], range(8, 80, 8))
    (statement,) = run.runtime.statements.values()
    store = statement.vectorized._rows
    run.replay(events[80:], range(8, 80, 8))
    sent.send(events)
    assert run.deliveries == sent.deliveries
    assert exact_state(run) == exact_state(sent)
    assert "groupwin" in window or statement.vectorized._rows is not store


def test_a_batch_with_few_events_for_many_groups_takes_rows() -> None:
    epl = "select k, x, sum(x) as s from A#length(1000) group by k"
    events = [event._replace(values=event.values | {"k": f"k{at}"}) for at, event in enumerate(EVENTS)]
    run, sent = Run(epl), Run(epl)
    run.replay(events, [30])
    (statement,) = run.runtime.statements.values()
    assert statement.state.view.stored is not None
    run.replay([event._replace(time=1000) for event in events[:4]], [])
    sent.send([*events, *(event._replace(time=1000) for event in events[:4])])
    assert statement.state.view.stored is None
    assert run.deliveries == sent.deliveries


@pytest.mark.parametrize("odd", [{"d": math.nan}, {"n": 2**62}, {"x": None}, {"d": 1}])
def test_retained_values_that_arrays_do_not_represent_are_left_to_the_row_engine(odd: dict[str, Any]) -> None:
    events = [event._replace(values=event.values | odd) for event in EVENTS[:4]] + EVENTS[4:]
    epl = "select k, x, sum(x) as s, sum(n) as t, avg(d) as a from A#length(7) group by k"
    run, sent = ArrayRun(epl), Run(epl)
    run.send(events[:4])
    run.replay(events[4:], range(2, 36, 2))
    sent.send(events)
    assert repr(run.deliveries) == repr(sent.deliveries)
    assert repr(exact_state(run)) == repr(exact_state(sent))


@pytest.mark.parametrize("span", [3, 2**62])
def test_codes_of_keys_are_those_of_their_parts(span: int) -> None:
    random = Random(span)
    numbers = [random.randint(-span, span) for _ in range(50)] * 2
    flags = [random.random() < 0.5 for _ in numbers]
    texts = ValueCodes()
    named = texts.of_values([random.choice(["a", None, "b"]) for _ in numbers])
    keys = list(zip(numbers, flags, [texts.values[code] for code in named.tolist()], strict=True))
    codes = ValueCodes()
    for part in (slice(0, 60), slice(60, 100)):
        parts = np.array(numbers[part]), np.array(flags[part]), named[part]
        assert [codes.values[code] for code in codes.of_keys(parts, (None, None, texts)).tolist()] == keys[part]
    assert len(codes) == len(set(keys))


@pytest.mark.parametrize("condition", ["", " having context.key1 > 1"])
@pytest.mark.parametrize("key", ["g", "x"])
def test_keys_of_contexts_may_be_null(key: str, condition: str) -> None:
    epl = f"create context C partition by {key} from A; context C select d, d + context.key1 as q from A{condition}"
    events = [event._replace(values=event.values | {key: (None, 100, 200)[at % 3]}) for at, event in enumerate(EVENTS)]
    ArrayRun.by_kernels = 0
    compare(epl, events, [10, 20], stepping=False, read=1)
    assert ArrayRun.by_kernels == 3


@pytest.mark.parametrize("clause", ["", " group by k"])
def test_the_last_rows_of_unbound_streams_can_be_iterated(clause: str) -> None:
    epl = f"@IterableUnbound select k, x, count(*) as c from A{clause}"
    compare(epl, EVENTS, [10, 20], stepping=False, read=1)


@pytest.mark.parametrize("epl", [epl for epl, form in FORMS.items() if form == "kernels"])
def test_without_memory_for_its_rows_a_batch_is_run_row_by_row(epl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sent = Run(epl), Run(epl)
    run.replay(EVENTS[:20], [])

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(vectorized_statement.RowStore, "append", fail)
        run.replay(EVENTS[20:30], [])
    run.replay(EVENTS[30:], [])
    sent.send(EVENTS)
    assert run.deliveries == sent.deliveries
    assert exact_state(run) == exact_state(sent)


@pytest.mark.parametrize("select", ["k, x", "k, count(*) as c", "k, d * 2 as q"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_events_in_no_partition_or_in_several_are_run_row_by_row(context: str, select: str) -> None:
    events = [event._replace(values=event.values | {"x": (7, 0, -7)[at % 3]}) for at, event in enumerate(EVENTS)]
    compare(f"create context C {context}; context C select {select} from A", events, [10, 20], stepping=False, read=1)


def test_rows_that_pass_having_keep_their_place_among_other_events() -> None:
    epl = """insert into S select x from A#length(3) having sum(x) > 20;
             @name('out') select a.x as a, s.x as s from pattern [every a=A -> s=S]"""
    run, sent = Run(epl), Run(epl)
    ArrayRun.by_kernels = 0
    run.replay(EVENTS, [10, 20])
    sent.send(EVENTS)
    assert ArrayRun.by_kernels == 3
    assert run.deliveries == sent.deliveries
    assert len(run.deliveries["out"]) > 10


def test_columns_of_earlier_batches_keep_the_keys_of_their_partitions() -> None:
    events = [event._replace(values=event.values | {"k": "ab"[at % 3 == 0]}) for at, event in enumerate(EVENTS)]
    epl = "create context C partition by k from A; context C select k, context.key1 as ck, count(*) as c from A"
    compare(epl, events, [10, 20], stepping=False, read=0)


LENGTH_IN_CONTEXT = """create context C partition by k from A;
    context C select k, avg(d) as a, max(x) as m, prev(1, n) as p from A#length(3)"""


def test_windows_of_partitions_stay_in_the_store_while_others_are_read() -> None:
    """Only the windows that somebody has read, or that events one by one have changed, are loaded again."""
    events = [event._replace(values=event.values | {"k": KEYS[at % 4]}) for at, event in enumerate(EVENTS)]
    run, sent = ArrayRun(LENGTH_IN_CONTEXT), Run(LENGTH_IN_CONTEXT)
    run.replay(events[:20], [])
    (statement,) = run.runtime.statements.values()
    partitions = statement.context.partitions_by_key()
    views = {key: partition.states[statement.program.slot].view for key, partition in partitions.items()}
    run.send([events[20]])  # to a
    list(views["b"].contents())
    assert [key for key, view in views.items() if view.stored is None] == ["a", "b"]
    run.replay(events[21:], [])
    sent.send(events)
    assert not [key for key, view in views.items() if view.stored is None]
    assert repr(run.deliveries) == repr(sent.deliveries)
    assert repr(exact_state(run)) == repr(exact_state(sent))


def test_an_ended_partition_among_many_is_forgotten_after_some_small_batches() -> None:
    events = [event._replace(values=event.values | {"k": f"k{at}"}) for at, event in enumerate(EVENTS)]
    run = Run(LENGTH_IN_CONTEXT)
    run.replay(events, [])
    (statement,) = run.runtime.statements.values()
    ended = statement.context.partitions_by_key()["k39"]
    run.runtime.end_partition("C", ended.id)
    run.replay([event._replace(time=1000) for event in events[:12]], range(2, 12, 2))
    groups = statement.vectorized._rows.groups.values
    assert ended not in groups
    assert len([group for group in groups if group is not None]) == 39


def test_a_partition_that_has_ended_is_forgotten() -> None:
    events = [event._replace(values=event.values | {"k": KEYS[at % 4]}) for at, event in enumerate(EVENTS)]
    run, sent = ArrayRun(LENGTH_IN_CONTEXT), Run(LENGTH_IN_CONTEXT)
    run.replay(events[:20], [])
    sent.send(events[:20])
    (statement,) = run.runtime.statements.values()
    ended = statement.context.partitions_by_key()["b"]
    for either in (run, sent):
        either.runtime.end_partition("C", ended.id)
    assert ended in statement.vectorized._rows.groups.values
    run.replay(events[20:], [10])
    sent.send(events[20:])
    assert ended not in statement.vectorized._rows.groups.values
    assert repr(run.deliveries) == repr(sent.deliveries)
    assert repr(exact_state(run)) == repr(exact_state(sent))
