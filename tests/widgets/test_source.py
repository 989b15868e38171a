"""The adapter between a view and a workbench, against the smallest workbench that keeps its contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.contexts.selectors import Identity, Step
from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang.types import DOUBLE, STRING
from cepbook.session import ById, Workbench
from cepbook.widgets import StatementView, WorkbenchSource, view
from cepbook.widgets.encode import Column

ROWS = {3: [{"symbol": "A", "price": 1.0}], 5: [{"symbol": "B", "price": 2.0}, {"symbol": "B", "price": 3.0}]}


class FakeRuntime:
    now = 1500
    config = Config()
    catalog = SimpleNamespace(contexts={"PerSymbol": SimpleNamespace(levels=())})

    def __init__(self, context: str | None = "PerSymbol") -> None:
        properties = {"symbol": STRING, "price": DOUBLE}
        self._statement = SimpleNamespace(
            name="out",
            epl="select * from Tick",
            owned=None,
            output_type=SimpleNamespace(properties=properties),
            steps=SimpleNamespace(context=context, source=SimpleNamespace(pattern=None), recognize=None, join=None),
        )

    def statement(self, name: str) -> Any:
        if name != "out":
            raise UsageError(f"no statement {name}; did you mean out?")
        return self._statement

    def iterate(self, name: str) -> list[dict[str, Any]]:
        return [row for rows in ROWS.values() for row in rows]

    def iterate_partitions(self, name: str, selector: ById) -> list[tuple[int, list[dict[str, Any]]]]:
        return [(id_, ROWS.get(id_, [])) for id_ in (3, 5, 7) if id_ in selector.ids]

    def context(self, name: str) -> Any:
        assert name == "PerSymbol"
        found = [Identity(i, {}, (Step(name, "keyed", k, {"key1": k}),)) for i, k in {3: "A", 5: "B", 7: "C"}.items()]
        return SimpleNamespace(partitions=found, identities=lambda: iter(found))


def workbench(**options: Any) -> Any:
    runtime, feed = FakeRuntime(**options), Feed(10)
    return SimpleNamespace(runtime=runtime, feed=lambda name: feed, replaying=None, keeps_rows=lambda name: False)


def test_what_a_view_reads() -> None:
    source = WorkbenchSource(workbench(), "out")
    assert (source.name, source.epl, source.clock()) == ("out", "select * from Tick", 1500)
    assert source.columns == (Column("symbol", "string"), Column("price", "double"))
    assert len(source.rows()) == 3
    assert source.rows(5) == ROWS[5]
    assert source.rows(99) == []
    assert not source.keeps_rows
    assert source.partitioned
    assert source.partitions(10) == (
        3,
        [{"id": 3, "key1": "A", "rows": 1}, {"id": 5, "key1": "B", "rows": 2}, {"id": 7, "key1": "C", "rows": 0}],
    )
    assert source.partitions(1) == (3, [{"id": 3, "key1": "A", "rows": 1}])


def test_an_event_of_a_context_may_be_called_as_a_size_is() -> None:
    cep = Workbench()
    cep.run(
        "create schema Open(id int); create context Odd initiated by Open as rows terminated after 1 min;"
        "@name('out') context Odd select id from Open"
    )
    cep.send("Open", id=7)
    (row,) = WorkbenchSource(cep, "out").partitions(5).rows
    assert (row["rows_"], row["rows"]) == ({"id": 7}, 0)
    assert list(row)[-1] == "rows"


def test_without_a_context_there_are_no_partitions() -> None:
    assert not WorkbenchSource(workbench(context=None), "out").partitioned


def test_an_unknown_statement_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="did you mean out"):
        view(workbench(), "oot")


def test_the_last_picture_of_a_dropped_statement_stays() -> None:
    bench = workbench()
    shown = view(bench, "out")
    before = shown.freeze()
    bench.runtime.statement = lambda name: (_ for _ in ()).throw(UsageError("gone"))
    for _ in range(2):
        after = shown.freeze()
        assert after.text == f"out: this statement was dropped; before that\n{before.text}"
        assert before.html in after.html


def test_a_dropped_statement_is_said_to_be_dropped() -> None:
    bench = workbench()
    shown = view(bench, "out")
    bench.runtime._statement = None
    bench.runtime.statement = lambda name: (_ for _ in ()).throw(UsageError("gone"))
    shown.flush()
    assert isinstance(shown, StatementView) and shown.state == "dropped"
    assert str(shown.freeze()) == "out: this statement was dropped"
