"""Rows as DataFrames; which deployment a run replaces."""

from __future__ import annotations

import pytest

from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang import types as t
from cepbook.session.core.cell_deployments import CellRun, CellRuns, replaced_deployment
from cepbook.session.io.output.result_frames import changes_frame, rows_frame
from cepbook.session.workbench import Workbench

PROPERTIES = {"s": t.STRING, "n": t.LONG, "i": t.INT, "x": t.DOUBLE, "b": t.BOOLEAN, "o": t.OBJECT}
DTYPES = ["string", "Int64", "Int32", "float64", "boolean", "object"]


@pytest.mark.parametrize("rows", [[], [{"s": "a", "n": 1, "i": 2, "x": 0.5, "b": True, "o": []}], [{}]])
def test_dtypes_follow_types_not_values(rows: list[dict[str, object]]) -> None:
    frame = rows_frame(rows, PROPERTIES)
    assert [str(d) for d in frame.dtypes] == DTYPES
    assert list(frame.columns) == list(PROPERTIES)
    assert len(frame) == len(rows)


def test_nulls_and_broken_promises() -> None:
    frame = rows_frame([{"n": None, "x": None}, {"n": 2**62, "x": 1}], {"n": t.LONG, "x": t.DOUBLE})
    assert frame["n"].isna().tolist() == [True, False]
    assert frame["n"].iloc[1] == 2**62
    assert rows_frame([{"n": "no number"}], {"n": t.LONG})["n"].dtype == object


def test_changes() -> None:
    feed = Feed()
    for delivery in (1, None, None), (2, None, None), (3, [{"n": 0}], None):
        feed.push(*delivery)
    feed.push(10, [{"n": 1}, {"n": 2}], None)
    feed.push(11, None, [{"n": 1}])
    frame = changes_frame(feed.columns(3), {"n": t.INT}, t.LONG)
    assert list(frame.columns) == ["time", "seq", "kind", "n"]
    assert frame.to_dict("list") == {
        "time": [10, 10, 11], "seq": [3, 3, 4], "kind": ["insert", "insert", "remove"], "n": [1, 2, 1],
    }  # fmt: skip
    assert [str(d) for d in changes_frame(Feed().columns(), {"n": t.INT}, t.LONG).dtypes] == [
        "int64",
        "int64",
        "string",
        "Int32",
    ]


def test_changes_of_a_statement_with_a_column_named_time() -> None:
    feed = Feed()
    feed.push(10, [{"time": 7}], None)
    frame = changes_frame(feed.columns(), {"time": t.LONG, "kind_": t.INT}, t.LONG)
    assert list(frame.columns) == ["time_", "seq", "kind", "time", "kind_"]


def test_a_frame_of_changes_shares_no_lists_with_the_engine() -> None:
    feed, array = Feed(), [1, 2]
    feed.push(10, [{"a": array}], None)
    changes_frame(feed.columns(), {"a": t.Type("array", t.INT)}, t.LONG)["a"].iloc[0].append(3)
    assert array == [1, 2]


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@pytest.mark.parametrize(
    ("new", "cell", "expected"),
    [
        ("x", None, None),  # nothing in common
        ("a", None, "one"),  # by a name, without a key
        ("a z", None, "one"),
        ("z", "c1", "one"),  # by the cell, whatever it declares
        ("", "c1", "one"),
        ("a b q", "c9", "one"),  # takes over: declares all of it
        ("c", "c9", "two"),
        ("x", "c9", None),
        ("", None, None),
    ],
)
def test_what_a_run_replaces(new: str, cell: str | None, expected: str | None) -> None:
    owned = CellRuns({"one": CellRun("c1", names("a b"), "A"), "two": CellRun(None, names("c"), "C")})
    assert replaced_deployment(names(new), "text", cell, owned) == expected


def test_a_module_without_names_is_known_by_its_text() -> None:
    owned = CellRuns({"one": CellRun(None, names(""), "select 1"), "two": CellRun("c1", names(""), "select 2")})
    assert replaced_deployment(names(""), " select\n1", None, owned) == "one"
    assert replaced_deployment(names(""), "select 2", None, owned) is None


@pytest.mark.parametrize(
    ("new", "cell"),
    [
        ("a", "c9"),  # half of what another cell has
        ("c z", "c1"),  # a name of another cell, while the cell has its own deployment
        ("a c", None),  # names of two deployments
    ],
)
def test_names_of_other_cells(new: str, cell: str | None) -> None:
    owned = CellRuns({"one": CellRun("c1", names("a b"), "A"), "two": CellRun(None, names("c"), "C")})
    with pytest.raises(UsageError, match="deployed by other cells"):
        replaced_deployment(names(new), "text", cell, owned)


def test_named_windows_and_tables_are_asked_and_changed() -> None:
    workbench = Workbench()
    workbench.run(
        "create schema A(id string, n int); create window W#keepall as A; insert into W select * from A;"
        "create table T(id string primary key, s sum(int)); into table T select sum(n) as s from A group by id"
    )
    workbench.send("A", id="a", n=1)
    assert workbench.query("select id, n from W").to_dict("records") == [{"id": "a", "n": 1}]
    assert workbench.query("insert into W values ('z', 5)").to_dict("records") == [{"id": "z", "n": 5}]
    assert workbench.query("update W set n = 3 where id = 'z'").to_dict("records") == [{"id": "z", "n": 3}]
    assert len(workbench.query("delete from W")) == 2
    assert workbench.query("select T.id as id, T.s as s from T").to_dict("records") == [{"id": "a", "s": 1}]
