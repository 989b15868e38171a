"""Variables in a workbench: the table, get and set, replacing, rehearsals and queries."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench

TYPES = "create schema B(id string, v int)"
VARIABLES = "create variable int lim = 2; create constant variable string NAME = 'n'; create variable double[] arr"


@pytest.fixture
def cep() -> Workbench:
    cep = Workbench()
    cep.run(TYPES)
    cep.run(VARIABLES)
    cep.run("@name('s0') select id, lim from B(v > lim)")
    return cep


def test_the_table_of_variables(cep: Workbench) -> None:
    frame = cep.variables()
    assert list(frame.columns) == ["name", "type", "value", "constant"]
    assert frame.values.tolist() == [
        ["lim", "int", 2, False],
        ["NAME", "string", "n", True],
        ["arr", "double[]", None, False],
    ]
    assert list(Workbench().variables().columns) == ["name", "type", "value", "constant"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("lim", 5, 5),
        ("lim", np.int64(5), 5),
        ("lim", pd.NA, None),
        ("lim", float("nan"), None),
        ("arr", np.array([1, 2]), [1.0, 2.0]),
        ("arr", [1, None], [1.0, None]),
    ],
)
def test_setting_a_variable(cep: Workbench, name: str, value: object, expected: object) -> None:
    cep.set(name, value)
    assert cep.get(name) == expected


def test_dates_may_be_written(cep: Workbench) -> None:
    cep.run("create variable date since; create schema Seen(id string, born localdate); @name('q') select * from Seen")
    cep.set("since", "2024-01-02")
    assert cep.get("since") == datetime(2024, 1, 2, tzinfo=UTC)
    with pytest.raises(UsageError, match="variable `since` is timestamp, and 'soon' is not written as in"):
        cep.set("since", "soon")
    cep.send("Seen", id="a", born="2024-01-03")
    cep.replay(pd.DataFrame({"id": ["b"], "born": ["2024-01-04"], "at": [5]}), type="Seen", time="at").run()
    assert list(cep.changes("q")["born"]) == [date(2024, 1, 3), date(2024, 1, 4)]


def test_statements_read_the_new_value(cep: Workbench) -> None:
    cep.send("B", id="a", v=3)
    cep.set("lim", 3)
    cep.send("B", id="b", v=3)
    cep.send("B", id="c", v=4)
    assert cep.changes("s0")[["id", "lim"]].values.tolist() == [["a", 2], ["c", 3]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("limm", 1, "there is no variable `limm`\n  hint: did you mean `lim`?"),
        ("NAME", "x", "`NAME` is a constant, it cannot be set"),
        ("lim", "x", "variable `lim` is int, not 'x'"),
        ("lim", 2**40, "variable `lim`"),
        ("arr", 5, "variable `arr` is double[], not 5"),
    ],
)
def test_a_mistake_changes_nothing(cep: Workbench, name: str, value: object, message: str) -> None:
    before = cep.variables().values.tolist()
    with pytest.raises(UsageError) as caught:
        cep.set(name, value)
    assert message in str(caught.value)
    assert cep.variables().values.tolist() == before


def test_running_a_cell_again_begins_with_the_initial_value(cep: Workbench) -> None:
    cep.set("lim", 9)
    result = cep.run(VARIABLES.replace("lim = 2", "lim = 1"))
    assert result.replaced and "s0" in result.messages[0]
    assert cep.get("lim") == 1
    cep.send("B", id="a", v=2)
    assert cep.changes("s0")["lim"].tolist() == [1]


def test_what_a_run_tells() -> None:
    cep = Workbench()
    cep.run(TYPES)
    result = cep.run("create variable int a = 1; create constant variable int C = 2; @name('set') on B set a = v")
    assert repr(result) == "deployed a, C, set"
    assert ">a</td>" in result._repr_html_() and "on set" in result._repr_html_()


def test_dropping_a_variable(cep: Workbench) -> None:
    with pytest.raises(UsageError, match="`s0` would have to go, too"):
        cep.drop("lim")
    cep.drop("lim", cascade=True)
    assert cep.variables().empty


def test_statements_of_variables_are_listed_and_keep_rows(cep: Workbench) -> None:
    cep.run("@name('set') on B set lim = v; @name('cv') create variable long n = 1")
    cep.send("B", id="a", v=7)
    frame = cep.statements().set_index("name")
    assert frame.loc["set", ["kind", "reads", "columns", "delivered"]].tolist() == ["on set", "B", "lim int", 1]
    assert frame.loc[["lim", "cv"], "kind"].tolist() == ["create variable", "create variable"]
    assert cep.keeps_rows("set") and cep.to_frame("set").values.tolist() == [[7]]
    assert cep.to_frame("cv").values.tolist() == [[1]]
    for stage in ("ast", "plan", "rewritten", "steps", "python"):
        assert "n" in cep.explain("cv", stage) and "lim" in cep.explain("set", stage)


def test_a_rehearsal_begins_with_what_was_given(cep: Workbench) -> None:
    cep.run("@name('set') on B(v > 100) set lim = v")
    cep.set("lim", 50)
    cep.send("B", id="a", v=200)
    twin = cep.rehearsal()
    assert (cep.get("lim"), twin.get("lim")) == (200, 50)
    twin.set("lim", 1)
    assert cep.get("lim") == 200


def test_a_query_reads_variables(cep: Workbench) -> None:
    cep.run("@name('kept') select * from B#keepall")
    for v in (1, 2, 3):
        cep.send("B", id=str(v), v=v)
    assert cep.query("select id, NAME as n from kept where v > lim").values.tolist() == [["3", "n"]]
    cep.set("lim", 1)
    assert cep.query("select id from kept where v > lim")["id"].tolist() == ["2", "3"]


def test_a_replay_with_assignments(cep: Workbench) -> None:
    cep.run("@name('set') on B(id = 'set') set lim = v")
    events = pd.DataFrame({"id": ["a", "set", "b", "c"], "v": [3, 9, 5, 10], "t": [1, 2, 3, 4]})
    cep.replay(events, type="B", time="t").run()
    assert cep.changes("s0")[["id", "lim"]].values.tolist() == [["a", 2], ["set", 2], ["c", 9]]
