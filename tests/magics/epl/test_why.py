"""``%epl why``."""

from __future__ import annotations

import pytest

from tests.magics.conftest import Notebook
from tests.magics.editor.test_completion import offers
from tests.magics.epl.test_partitions import EVENTS, MODULE


@pytest.fixture
def traded(trades: Notebook) -> Notebook:
    trades.run(MODULE)
    trades.run(EVENTS)
    return trades


def test_the_last_row_of_a_statement(traded: Notebook) -> None:
    assert traded.run("%epl why rise").splitlines() == [
        "why rise delivered + at 00:00:03.000",
        "  row         low=4.0  high=4.5",
        "  because of  Trade  symbol=A  price=4.5  volume=4",
        "  partition   id=0  symbol=A",
        "provenance: 2 events",
        "     time          symbol  price  volume",
        "  a  00:00:03.000  A         4.0       3",
        "  b  00:00:03.000  A         4.5       4",
        "other matches wait for a=Trade, b=Trade(price > a.price)",
    ]


def test_a_row_before_it(traded: Notebook) -> None:
    assert traded.run("%epl why sums --row 0").splitlines()[1] == "  row         symbol=A  total=1"
    assert traded.run("%epl why sums --at 1000").splitlines()[1] == "  row         symbol=B  total=2"
    assert traded.run("%epl why sums --row -1").splitlines()[1] == "  row         symbol=A  total=7"


def test_an_event_at_one_statement_and_everywhere(traded: Notebook) -> None:
    one = traded.run("%epl why rise --event 3").splitlines()
    assert one[:3] == ["what became of Trade at 00:00:03.000", "  event  symbol=A  price=4.0  volume=3", "rise: kept"]
    assert [line.split()[:2] for line in one[4:6]] == [["context", "passed"], ["pattern", "passed"]]
    assert "is part of a match that is not complete" in one[-1]
    shown = traded.run("%epl why --event -1").splitlines()
    assert shown[:3] == [
        "what became of Trade at 00:00:03.000",
        "  event  symbol=A  price=4.5  volume=4",
        "at 3 statements",
    ]
    assert [line.split()[:2] for line in shown[4:]] == [
        ["all", "delivered"],
        ["sums", "delivered"],
        ["rise", "delivered"],
    ]


def test_a_number_counts_the_events_of_a_type(traded: Notebook) -> None:
    traded.run("%%epl\ncreate schema Quote(symbol string, bid double); @name('bids') select * from Quote")
    traded.run("cep.send('Quote', symbol='A', bid=4.5)")
    assert "Quote at" in traded.run("%epl why --event -1").splitlines()[0]
    of_type = traded.run("%epl why --event -1 --type Trade")
    assert of_type.splitlines()[1] == "  event  symbol=A  price=4.5  volume=4"
    assert of_type == traded.run("cep.why(None, -1, type='Trade')")
    assert traded.run("%epl why rise --event 3 --type Trade") == traded.run("%epl why rise --event 3")


def test_what_python_returns_is_shown_alike(traded: Notebook) -> None:
    assert traded.run("cep.why('rise')") == traded.run("%epl why rise")
    assert traded.run("cep.why(None, 'Trade')") == traded.run("%epl why --event Trade")


def test_errors(traded: Notebook) -> None:
    assert "the name of a statement, or --event, is missing" in traded.error("%epl why")
    assert "not both" in traded.error("%epl why sums --row 1 --event 1")
    traded.run("%%epl\ncreate schema Quote(symbol string)")
    assert "--type says which events --event counts" in traded.error("%epl why sums --type Trade")
    assert "type `Trade` or of type `Quote`, not both" in traded.error("%epl why sums --event Trade --type Quote")
    assert "there is no event type `Trad`" in traded.error("%epl why sums --event 1 --type Trad")
    assert "`sums` has 4 rows; there is no row 9" in traded.error("%epl why sums --row 9")


def test_names_are_completed(traded: Notebook) -> None:
    assert "rise" in offers(traded, "%epl why r|")
    assert offers(traded, "%epl why rise --t|") == ["--type"]
    for option in ("--event", "--type"):
        assert offers(traded, f"%epl why rise {option} T|") == ["Trade"]
