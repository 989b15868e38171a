"""The latest events over again: other values, further statements, frames; the running workbench is left alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from cepbook.errors import BindError, UsageError
from cepbook.session import Workbench
from cepbook.session.history.rerun_workbench import ForgottenWarning

EPL = """create schema A(k string, x int);
create variable int low = 2;
@name('big') select k, x from A(x > low)#length(2);
@name('sums') select sum(x) as total from A#time(10 sec)"""


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(EPL)
    workbench.replay({"A": pd.DataFrame({"k": list("abc"), "x": [1, 2, 3], "at": [0, 1000, 2000]})}, time="at").run()
    workbench.send("A", k="d", x=4)
    workbench.advance(by="1 min")
    workbench.send_together(("A", {"k": "e", "x": 5}), ("A", {"k": "f", "x": 6}))
    return workbench


def inserted(frame: pd.DataFrame) -> list[Any]:
    dated = frame.assign(time=frame["time"].astype("int64"))
    return dated[dated.kind == "insert"].drop(columns=["kind", "seq"]).to_numpy().tolist()


def test_the_same_happens_again(cep: Workbench) -> None:
    twin = cep.again()
    for name in ("big", "sums"):
        pd.testing.assert_frame_equal(twin.changes(name), cep.changes(name))
        assert twin.iterate(name) == cep.iterate(name)
    assert twin.clock == cep.clock
    assert len(twin.marble("big").arrivals) == len(cep.marble("big").arrivals)


def test_other_values_and_a_further_statement(cep: Workbench) -> None:
    past = cep.past()
    assert (past.events, past.complete) == (6, True)
    cep.send("A", k="g", x=9)
    twin = cep.again({"low": 4}, past=past, epl="@name('n') select count(*) as n from A", parameters={})
    assert inserted(twin.changes("big")) == [[62000, "e", 5], [62000, "f", 6]]
    assert twin.iterate("n") == [{"n": 6}]
    assert cep.get("low") == 2 and "n" not in cep.runtime.statements
    with pytest.raises(UsageError, match="`lov`"):
        cep.again({"lov": 1})


def test_a_statement_as_an_expression(cep: Workbench) -> None:
    assert cep.answer("select k from big where x > 5").to_dict("list") == {"k": ["f"]}
    answer = cep.answer("select x * :factor as y from A#length(1)", parameters={"factor": 10})
    assert inserted(answer) == [[0, 10], [1000, 20], [2000, 30], [2000, 40], [62000, 50], [62000, 60]]
    answer = cep.answer("create schema B(y int); insert into B select x as y from A; select max(y) as top from B")
    assert inserted(answer)[-1] == [62000, 6]
    pairs = cep.answer("select a.x as a, b.x as b from pattern [every a=A -> b=A(x = a.x + 1)]")
    assert len(pairs) == 5
    assert list(cep.runtime.statements) == ["big", "sums"] or "big" in cep.runtime.statements
    with pytest.raises(UsageError, match="delivers no rows"):
        cep.answer("create schema C(y int)")
    with pytest.raises(BindError, match="`z`"):
        cep.answer("select z from A")


def test_what_is_forgotten_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cep = Workbench()
    cep.run(EPL)
    frame = pd.DataFrame({"k": ["a"] * 5000, "x": range(5000)})
    cep.replay({"A": frame.assign(at=range(5000))}, time="at").run()
    past = cep.past()
    assert (past.events, past.complete) == (2000, False)
    with pytest.warns(ForgottenWarning, match="only the latest 2,000 events"):
        assert len(cep.answer("select x from A", parameters=None)) == 2000


def test_frames_of_other_libraries(cep: Workbench) -> None:
    table = cep.to_frame("big", as_="arrow")
    assert table.to_pydict() == {"k": ["e", "f"], "x": [5, 6]}
    assert str(table.schema.field("x").type) == "int32"
    with pytest.raises(UsageError, match='"pandas", "arrow" or "polars", not \'duck\''):
        cep.to_frame("big", as_="duck")
    polars = pytest.importorskip("polars", reason="polars is optional; the tests' own environment has it")
    assert cep.to_frame("big", as_="polars").equals(polars.from_arrow(table))


def test_changes_for_other_libraries(cep: Workbench) -> None:
    table = cep.changes("big", as_="arrow")
    assert table.to_pylist() == cep.changes("big").to_dict("records")
    assert [str(field.type) for field in table.schema] == ["timestamp[ms]", "int64", "string", "string", "int32"]
    polars = pytest.importorskip("polars", reason="polars is optional; the tests' own environment has it")
    assert cep.changes("big", as_="polars").equals(polars.from_arrow(table))
    with pytest.raises(UsageError, match='"pandas", "arrow" or "polars", not \'duck\''):
        cep.changes("big", as_="duck")


def test_what_was_done_by_hand_happens_again() -> None:
    cep = Workbench()
    cep.run("""create schema A(k string, x int); create window Kept#keepall as A;
        create context Each initiated by A as a terminated after 1 hour;
        @name('n') select k, (select count(*) from Kept) as n from A;
        @name('total') context Each select sum(x) as s from A output when terminated""")
    cep.send("A", k="a", x=1)
    cep.query("insert into Kept select :k as k, 7 as x", parameters={"k": "z"})
    cep.end_partition("Each", 0)
    cep.send("A", k="b", x=2)
    twin = cep.again()
    assert inserted(twin.changes("n")) == inserted(cep.changes("n")) == [[0, "a", 0], [0, "b", 1]]
    assert inserted(twin.changes("total")) == inserted(cep.changes("total"))
    fired = cep.why("n")
    assert (fired.basis, fired.row) == ("run again", {"k": "b", "n": 1})
