"""What the engine is built on, and the tests that keep each of it (`KEPT_BY`); those that stand nowhere else are here.

1. What flows is what entered and what left; only the border makes a delivery of it.
2. State is plain data: it can be laid flat and put back at any instant. A program belongs to nobody.
3. A fact about a window, an aggregate or a function is a field of its row.
4. Values are found by input and property: ``a.price`` and ``b.price`` never meet.
5. The writer asks no window which it is; a fragment is the same as its object.
6. A slice gives what its events one by one give; whether it runs statement by statement is decided per component.
7. Slices leave as columns; rows are made when somebody reads them.
8. There is one walk and one transformation of plans.
9. A round is atomic, or the runtime says that it is broken.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.engine.delivery import row_layout
from cepbook.engine.expressions import code_scope
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized import column_batch
from cepbook.feed_segments import Segment
from cepbook.session import Workbench
from cepbook.testing.engines import RowsEngine
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.sweep import scenario_files

ROOT = Path(__file__).parents[2]
KEPT_BY = {
    1: (
        "test_architecture.py::test_only_the_border_makes_deltas",
        "engine/delivery/test_outlet.py::test_everybody_is_told_of_the_same_deliveries",
    ),
    2: (
        "engine/snapshot/test_corpus.py::test_traces_cut_saved_and_continued",
        "engine/snapshot/test_histories.py::test_random_modules_and_histories",
        "engine/snapshot/test_graph.py::test_what_is_not_known_is_refused",
        "engine/test_invariants.py::test_a_program_belongs_to_nobody",
    ),
    3: (
        "test_architecture.py::test_what_is_true_of_windows_and_aggregates_stands_in_their_rows",
        "test_architecture.py::test_nobody_asks_a_window_an_aggregate_or_a_function_for_its_name",
        "test_completeness.py::test_example_runs",
    ),
    4: (
        "engine/test_invariants.py::test_inputs_with_properties_of_one_name_never_meet",
        "engine/test_invariants.py::test_no_two_inputs_share_code_in_any_statement_of_the_corpus",
    ),
    5: (
        "test_architecture.py::test_the_writer_asks_no_window_which_it_is",
        "engine/codegen/test_fragments.py::test_random_statements_with_and_without_fragments",
    ),
    6: (
        "engine/replay/test_corpus.py::test_traces_in_batches",
        "engine/replay/test_batch_replayer.py::test_one_type",
        "engine/replay/test_components.py::test_modules_of_several_components",
        "engine/replay/test_components.py::test_reasons_are_those_of_components",
    ),
    7: (
        "engine/test_invariants.py::test_a_replay_that_nobody_looks_at_makes_no_rows",
        "test_architecture.py::test_rows_are_made_in_few_places",
        "engine/delivery/test_outlet.py::test_without_anybody_no_rows_are_made",
    ),
    8: (
        "lang/plan/test_traversal.py::test_a_new_node_is_walked_with_all_that_it_holds",
        "lang/plan/test_traversal.py::test_its_expressions_are_folded_and_the_rest_is_kept",
    ),
    9: (
        "engine/dispatch/test_faults.py::test_a_fault_at_any_line_leaves_a_round_whole_or_is_told",
        "engine/replay/test_slice_faults.py::test_a_fault_at_any_line_of_a_slice_is_told_or_changes_nothing",
    ),
}


@pytest.mark.parametrize("number", KEPT_BY)
def test_tests_that_keep_it_are_there(number: int) -> None:
    for name in KEPT_BY[number]:
        file, _, function = name.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text("utf-8"), flags=re.MULTILINE), name


# ---------------------------------------------------------------- 2
def test_a_program_belongs_to_nobody() -> None:
    """Two runtimes with a module share the code of its statements, and what one sees the other does not."""
    module = "create schema E(k string, x int); @name('s') select k, sum(x) as s from E#length(3) group by k"
    one, other = Runtime(), Runtime()
    for runtime in (one, other):
        runtime.deploy(module)
    programs = [runtime.statement("s").program for runtime in (one, other)]
    first, second = (program.functions.on_event for program in programs)
    assert first.__code__ is second.__code__
    one.send("E", {"k": "a", "x": 1})
    assert (one.iterate("s"), other.iterate("s")) == ([{"k": "a", "s": 1}], [])


# ---------------------------------------------------------------- 4
SCHEMAS = "create schema A(k string, x int); create schema B(k string, x int);"
# Each with two or more inputs, both of which have `x`: 1 in the first event, 2 in the second
INPUTS = {
    "join": "select a.x as a, b.x as b from A#keepall as a inner join B#keepall as b on a.k = b.k",
    "join by a range": "select a.x as a, b.x as b from A#firstevent as a, B#lastevent as b where a.x < b.x",
    "outer join": "select a.x as a, b.x as b from A#lastevent as a left outer join B#lastevent as b on a.k = b.k",
    "aggregates of a join": "select sum(a.x) as a, sum(b.x) as b from A#keepall as a, B#keepall as b",
    "groups of a join": "select a.x as a, max(b.x) as b from A#keepall as a, B#keepall as b group by a.x",
    "pattern": "select a.x as a, b.x as b from pattern[a=A -> b=B(x > a.x)]",
    "matches in a window": "select a.x as a, b.x as b from pattern[every a=A -> b=B]#length(2)",
    "join with a pattern": "select p.a.x as a, b.x as b from pattern[every a=A]#lastevent as p, B#lastevent as b",
    "subquery": "select (select a.x from A#lastevent as a where a.k = b.k and a.x < b.x) as a, x as b from B as b",
    "named window": "on B as b select w.x as a, b.x as b from W as w where w.k = b.k and w.x < b.x",
    "match_recognize": "select a, b from AB match_recognize(measures a.x as a, b.x as b pattern(a b)"
    " define b as b.x > a.x)",
    "context": "context C select context.a.x as a, b.x as b from B as b",
}
AROUND = """
create window W#keepall as A; insert into W select * from A;
create schema AB(k string, x int); insert into AB select * from A; insert into AB select * from B;
create context C initiated by A as a terminated after 1 hour;
"""


@pytest.mark.parametrize("form", INPUTS)
def test_inputs_with_properties_of_one_name_never_meet(form: str) -> None:
    runtime, told = Runtime(), list[Any]()
    runtime.deploy(SCHEMAS + AROUND + f"@name('s') {INPUTS[form]}")
    runtime.statement("s").add_listener(lambda delta: told.append(delta.insert))
    runtime.send("A", {"k": "k", "x": 1})
    runtime.send("B", {"k": "k", "x": 2})
    assert told[-1] == [{"a": 1, "b": 2}]


@pytest.mark.histories
def test_no_two_inputs_share_code_in_any_statement_of_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every third file of scenarios an expression has each property by input and name, by itself."""
    several, wrong = Counter[int](), set[str]()
    original = code_scope.CodeScope.at

    def checked(self: code_scope.CodeScope, **changes: Any) -> code_scope.CodeScope:
        scope = original(self, **changes)
        props = scope.props
        if not all(isinstance(place, tuple) and isinstance(place[0], int) for place in props):
            wrong.add(f"not by input: {sorted(props)}")
        if len({number for number, _ in props}) > 1:
            several[len(props)] += 1
            for code in props.values():
                if len({number for (number, _), each in props.items() if each == code}) > 1:
                    wrong.add(f"{code} for several inputs: {dict(props)}")
        return scope

    monkeypatch.setattr(code_scope.CodeScope, "at", checked)
    for path in list(scenario_files(ROOT / "tests" / "corpus"))[::3]:
        for section in case_sections(path.read_text("utf-8")):
            if re.search(r"\bjoin\b|\bpattern\b|\(\s*select\b|\bon\s|,", str(section.blocks)):
                assert run(parse_case(section, path), RowsEngine).outcome is not Outcome.FAILED, section.title
    assert not wrong, "\n".join(sorted(wrong))
    assert sum(several.values()) > 150


# ---------------------------------------------------------------- 7
# Filter, window, aggregates, groups, batch, one after the other; beside them partitions and a join
CHAIN = """
create schema E(k string, x int, g int);
create schema B(k string, x int, g int);
@name('filter') insert into F select k, x + 1 as y, g from E(x > 0);
@name('window') insert into G select irstream k, y from F#length(10);
@name('total') select sum(y) as s from F#time(5 sec);
@name('groups') insert into H select k, count(*) as n from G group by k;
@name('batch') select k, max(n) as n from H#length_batch(100) group by k;
create context C partition by k from E;
@name('partitions') context C select count(*) as n from E#length(5);
@name('join') select a.x as a, b.x as b from E(x = 1)#length(3) as a inner join B#unique(k) as b on a.k = b.k;
"""


def test_a_replay_that_nobody_looks_at_makes_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dict, no event, no delivery: columns go in, from statement to statement, and into feeds."""
    made: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        what = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            made[name] += 1
            return what(*args, **more)

        monkeypatch.setattr(owner, name, counted)

    for each in ("event", "delta"):
        counting(row_layout.RowLayout, each)
    counting(column_batch, "_maker")
    maker = row_layout._maker

    def making(columns: Any, types: Any) -> Any:
        make = maker(columns, types)

        def row(values: Any) -> Any:
            made["row"] += 1
            return make(values)

        return row

    monkeypatch.setattr(row_layout, "_maker", making)
    bench = Workbench()
    bench.run(CHAIN)
    count = 3000
    numbers = pd.Series(range(count))
    frame = pd.DataFrame({"t": numbers, "k": "k" + (numbers % 7).astype(str), "x": numbers % 5, "g": numbers % 3})
    bench.replay({"E": frame, "B": frame}, time="t").run()
    assert made == {}
    feed = bench.feed("filter")
    assert len(feed) == count * 4 // 5
    assert [(type(each), *map(type, each.values)) for each, _, _ in feed._segments][:1] == [(Segment, list, list, list)]
    assert made == {}
    assert feed.since(0).deliveries[0].insert == [{"k": "k1", "y": 2, "g": 1}]
    assert made["row"]
