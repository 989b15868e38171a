"""Marble diagrams of match_recognize: the rows of each match, marked."""

from __future__ import annotations

from cepbook import Workbench
from cepbook.widgets.marble.marble_chart import marble_chart

EPL = """create schema Tick(symbol string, price double);
@name('v') select * from Tick{window} match_recognize (partition by symbol
  measures S.price as top, last(D.price) as bottom pattern (S D{{2,}} U)
  define D as D.price < prev(D.price), U as U.price > prev(U.price))"""


def played(window: str) -> Workbench:
    cep = Workbench()
    cep.run(EPL.format(window=window))
    for i, (symbol, price) in enumerate(
        [("A", 9), ("A", 8), ("B", 5), ("A", 7), ("B", 4), ("A", 8), ("A", 7), ("A", 9)]
    ):
        cep.advance(1000 * i) if i else None
        cep.send("Tick", {"symbol": symbol, "price": float(price)})
    return cep


def test_the_rows_of_a_match_are_marked() -> None:
    for window in ("", "#keepall"):
        marble = played(window).marble("v")
        assert [run.time for run in marble.runs] == [5000]
        assert marble.runs[0].rows == ((0, "S"), (1, "D"), (3, "D"), (5, "U"))
        assert "1 match," in repr(marble)
        drawn = marble_chart(marble).to_dict()
        labels = (
            [row.get("label") for layer in drawn["layer"] for row in drawn["datasets"][layer["data"]["name"]]]
            if ("datasets" in drawn)
            else [row.get("label") for layer in drawn["layer"] for row in layer["data"]["values"]]
        )
        assert "matches" in labels
        assert "U" in labels


def test_a_diagram_of_the_last_few_events_has_only_whole_matches() -> None:
    assert played("").marble("v", events=4).runs == ()


def test_other_statements_have_no_lane_of_matches() -> None:
    cep = Workbench()
    cep.run("create schema A(n int); @name('s') select * from A#length(2)")
    cep.send("A", {"n": 1})
    assert cep.marble("s").runs == ()
