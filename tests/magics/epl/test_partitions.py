"""``%epl partitions``, ``end``, ``timeline`` and ``partials``."""

from __future__ import annotations

import sys

import pytest

from cepbook.widgets.charts import MIME
from tests.magics.conftest import Notebook
from tests.magics.editor.test_completion import offers

MODULE = """%%epl
create context BySymbol partition by symbol from Trade;
@name('sums') context BySymbol select symbol, sum(volume) as total from Trade#length(2);
@name('rise') context BySymbol
select a.price as low, b.price as high
from pattern [every a=Trade -> b=Trade(price > a.price) where timer:within(1 min)]"""
EVENTS = """%%events
t = 1000
Trade symbol="A" price=5 volume=1
Trade symbol="B" price=6 volume=2
t = 3000
Trade symbol="A" price=4 volume=3
Trade symbol="A" price=4.5 volume=4"""


@pytest.fixture
def traded(trades: Notebook) -> Notebook:
    trades.run(MODULE)
    trades.run(EVENTS)
    return trades


def test_the_partitions_of_a_context(traded: Notebook) -> None:
    assert traded.run("%epl partitions BySymbol").splitlines() == [
        "BySymbol: 2 partitions, used by sums, rise",
        "  id  symbol  retained  partials",
        "   0  A              2         3",
        "   1  B              1         2",
    ]
    assert traded.run("%epl partitions").splitlines() == [
        "  context   kind   reads  statements  partitions",
        "  BySymbol  keyed  Trade  sums, rise           2",
    ]


def test_events_of_a_context_that_are_called_as_columns_are(trades: Notebook) -> None:
    trades.run("""%%epl
    create context Odd initiated by Trade as statements terminated after 1 min;
    @name('odd') context Odd select count(*) as n from Trade""")
    trades.run('%%events\nTrade symbol="A" price=5 volume=1')
    assert trades.run("%epl partitions Odd").splitlines()[1:] == [
        "  id  startTime     endTime       statements                       retained",
        "   0  00:00:00.000  00:01:00.000  {symbol=A, price=5.0, volume=1}         0",
    ]


def test_a_nested_context(trades: Notebook) -> None:
    trades.run("""%%epl
    create context Both context Shift initiated by Trade(volume = 0) as opener terminated after 1 min,
      context Each partition by symbol from Trade;
    @name('n') context Both select count(*) as n from Trade""")
    trades.run('%%events\nt = 5000\nTrade symbol="A" volume=0')
    assert trades.run("%epl partitions Both").splitlines() == [
        "Both: 1 partition, used by n",
        "  id  Shift.startTime  Shift.endTime  Shift.opener                      Each.symbol  retained",
        "   0  00:00:05.000     00:01:05.000   {symbol=A, price=null, volume=0}  A                   0",
    ]
    assert "timeline of Both: 1 partition, 1 live, 00:00:05.000 to 00:00:05.000" in trades.run("%epl timeline Both")


def test_without_contexts_and_partitions(trades: Notebook) -> None:
    assert trades.run("%epl partitions") == "no contexts"
    trades.run("%%epl\ncreate context BySymbol partition by symbol from Trade")
    assert trades.run("%epl partitions BySymbol") == "BySymbol: 0 partitions, no statement uses it"


def test_ending_partitions(traded: Notebook) -> None:
    assert traded.run("%epl end BySymbol 1") == "ended 1 of BySymbol"
    assert traded.cep.partitions("BySymbol")["id"].tolist() == [0]
    assert "no live partition `1`" in traded.error("%epl end BySymbol 0 1")
    assert traded.cep.partitions("BySymbol")["id"].tolist() == [0], "none ends when one of them does not exist"
    assert "no live partition `A`" in traded.error("%epl end BySymbol A")
    assert "no context `BySimbol`" in traded.error("%epl end BySimbol 0")
    assert "takes a context and the ids" in traded.error("%epl end BySymbol")


def test_a_timeline(traded: Notebook) -> None:
    words = "timeline of BySymbol: 2 partitions, 2 live, 00:00:01.000 to 00:00:03.000"
    for line in ("%epl timeline BySymbol", "cep.timeline('BySymbol')"):
        assert traded.run(line) == words
        bundles = [output["data"] for output in traded.shell.display_pub.outputs]  # type: ignore[attr-defined]
        chart = next(bundle[MIME] for bundle in bundles if MIME in bundle)
        assert chart["description"] == words
    assert traded.run("%epl timeline BySymbol --rows").splitlines()[1:] == [
        "  id  born          died  key1",
        "   0  00:00:01.000        A",
        "   1  00:00:01.000        B",
    ]
    assert "1 to 500 partitions, not 0" in traded.error("%epl timeline BySymbol --partitions 0")
    assert "takes the name of one context" in traded.error("%epl timeline")
    assert "no context `x`" in traded.error("%epl timeline x")


def test_a_timeline_without_altair_is_a_text_that_says_why(traded: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert traded.run("%epl timeline BySymbol").splitlines()[1] == (
        "  charts need the package altair: pip install 'cepbook[lab]'"
    )


def test_partial_matches(traded: Notebook) -> None:
    assert traded.run("%epl partials rise --partition 1").splitlines() == [
        "rise: 2 partial matches",
        "  since         partition  waiting for               until         events so far",
        "  00:00:01.000          1  a=Trade",
        "  00:00:01.000          1  b=Trade(price > a.price)  00:01:01.000  a = {symbol=B, price=6.0, volume=2}",
    ]
    assert traded.run("%epl partials rise").startswith("rise: 5 partial matches")
    assert traded.run("%epl partials rise --partition 7") == "rise: 0 partial matches"
    assert "`sums` has no pattern" in traded.error("%epl partials sums")
    assert "takes the name of one statement" in traded.error("%epl partials")
    assert "did you mean `rise`?" in traded.error("%epl partials ris")


def test_names_are_offered(traded: Notebook) -> None:
    assert offers(traded, "%epl partials |") == ["rise"]
    assert offers(traded, "%epl timeline |") == ["BySymbol"]
    assert offers(traded, "%epl end |") == ["BySymbol"]
    assert offers(traded, "%epl end BySymbol |") == ["0", "1"]
    assert {"partitions", "end", "timeline", "partials"} <= set(offers(traded, "%epl |"))


def test_help_tells_of_them(traded: Notebook) -> None:
    shown = traded.run("%epl help epl")
    for form in ("%epl partitions [CONTEXT]", "%epl end CONTEXT ID …", "%epl timeline CONTEXT", "%epl partials NAME"):
        assert form in shown


def test_events_that_begin_partitions_show_their_times(notebook: Notebook) -> None:
    notebook.run(
        "%%epl\ncreate schema T(at long, p double) starttimestamp at;"
        "create context S initiated by T as t terminated after 1 sec; @name('o') context S select count(*) as n from T"
    )
    notebook.run("%%events --quiet\nt = '2024-01-01 08:00'\nT = {at = '2024-01-01 08:00', p = 1}")
    assert "t={at=2024-01-01 08:00:00, p=1.0}" in notebook.run("%epl timeline S --rows").replace("  {", "t={")
    assert "{at=2024-01-01 08:00:00, p=1.0}" in notebook.run("%epl partitions S")
