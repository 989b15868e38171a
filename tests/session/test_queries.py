"""Queries of the workbench over named windows, beside those over statements."""

from __future__ import annotations

import pytest

from cepbook import Workbench
from cepbook.errors import BindError, UsageError
from cepbook.session.query import tables_of


@pytest.fixture
def cep() -> Workbench:
    found = Workbench()
    found.run(
        "create schema Tick(k string, x int); create window W#keepall as (k string, x int);"
        "insert into W select k, x from Tick; @name('kept') select k, x from Tick#length(2)"
    )
    for number, key in enumerate("abc"):
        found.send("Tick", k=key, x=number)
    return found


def test_a_query_reads_named_windows_and_statements(cep: Workbench) -> None:
    assert cep.query("select k, x from W order by x desc").to_dict("list") == {"k": ["c", "b", "a"], "x": [2, 1, 0]}
    assert cep.query("select k from kept").to_dict("list") == {"k": ["b", "c"]}
    assert tables_of("select * from W", cep.runtime) == ()
    assert tables_of("select * from kept", cep.runtime) == ("kept",)


def test_a_query_that_changes_a_named_window_gives_what_changed(cep: Workbench) -> None:
    heard: list[object] = []
    cep.run("@name('count') select count(*) as n from W")
    cep.on("count", lambda delta: heard.append(delta.insert[0]["n"]))
    assert cep.query("insert into W values ('d', 7)").to_dict("list") == {"k": ["d"], "x": [7]}
    assert cep.query("delete from W where x < 2").to_dict("list") == {"k": ["a", "b"], "x": [0, 1]}
    cep.query("update W set x = x + 1 where k = 'd'")
    assert cep.query("select sum(x) as s from W")["s"].tolist() == [10]
    assert heard == [4, 2, 2]


def test_partitions_of_what_has_no_context_cannot_be_selected(cep: Workbench) -> None:
    with pytest.raises(UsageError, match="nothing that has a context"):
        cep.query("select * from W", selector=1)
    with pytest.raises(BindError, match="no property `y`"):
        cep.query("select y from W")
    assert len(cep.query("select * from W")) == 3
