"""Why an event led to nothing: rows that ``distinct`` leaves out, and what nobody knows any more."""

from __future__ import annotations

import pytest

from cepbook import Workbench
from cepbook.session.explain.explanations import StatementOutcome
from cepbook.session.explain.why_not_triggers import ProbeStep
from cepbook.session.history import event_log

SCHEMA = "create schema Tick(symbol string, price double); create schema Ref(x int);"


def course(cep: Workbench, event: int) -> StatementOutcome:
    (outcome,) = cep.why("q", event).courses
    return outcome


def sent(epl: str, *symbols: str) -> Workbench:
    cep = Workbench()
    cep.run(f"{SCHEMA} @name('q') {epl}")
    cep.send("Ref", x=1)
    for number, symbol in enumerate(symbols):
        cep.send("Tick", symbol=symbol, price=float(number))
    return cep


@pytest.mark.parametrize(
    "epl",
    [
        "select distinct symbol from Tick#length_batch(3)",
        "select distinct symbol from Tick#length_batch(3) order by symbol desc",
        "select distinct t.symbol as symbol from Tick#length_batch(3) as t, Ref#keepall as r",
        "select distinct symbol from Tick output every 3 events",
    ],
)
def test_the_row_that_it_equals_is_told(epl: str) -> None:
    explained = course(sent(epl, "b", "a", "b"), -1)
    assert explained.outcome == "fell out"
    note = "its row, 3 of 3, equals row 1 of the same delivery, of symbol=b  price=0.0"
    if "order" in epl:  # the rows of the other events stand behind those of b
        note = "its row, 2 of 3, equals row 1 of the same delivery, of symbol=b  price=0.0"
    assert explained.fell_at == ProbeStep("distinct", False, "select distinct", (("symbol", "b"),), note)
    assert sorted(row["symbol"] for _, row in explained.rows) == ["a", "b"]


@pytest.mark.parametrize("symbols", [("b", "b", "a"), ("a", "b", "c")])
def test_the_first_of_equal_rows_is_delivered(symbols: tuple[str, ...]) -> None:
    explained = course(sent("select distinct symbol from Tick#length_batch(3)", *symbols), -1)
    assert explained.outcome == "delivered" and explained.fell_at is None


def test_rows_of_other_deliveries_do_not_count() -> None:
    assert course(sent("select distinct symbol from Tick", "a", "a"), -1).outcome == "delivered"


@pytest.mark.parametrize("store", ["create window W#keepall as Ref", "create table W(x int primary key)"])
def test_a_store_that_was_filled_before_what_is_kept_is_not_said_to_be_empty(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged() -> StatementOutcome:
        cep = Workbench()
        cep.run(f"{SCHEMA} {store}; insert into W select x from Ref; @name('q') select * from Tick unidirectional, W")
        cep.send("Ref", x=1) if known else None
        for at in range(1, 8):
            cep.advance(at)
            cep.send("Tick", symbol="a", price=float(at))
        return course(cep, -1)

    known = False
    assert ("W", "it holds no rows") in [(stage.text, stage.note) for stage in judged().stages]
    monkeypatch.setattr(event_log, "KEPT", 3)
    known = True
    explained = judged()
    assert explained.outcome == "not known"
    assert [stage.note for stage in explained.stages if stage.text == "W"] == [
        "what it retained is not known: events are kept from 00:00:00.005 on"
    ]
