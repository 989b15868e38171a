"""Completion and inspection of EPL cells."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from cepbook.magics import _ATTRIBUTE
from cepbook.magics.complete import complete
from cepbook.magics.inspect import describe
from tests.magics.conftest import Notebook


def offers(notebook: Notebook, code: str) -> list[str]:
    """What is offered at ``|`` in `code`."""
    host = getattr(notebook.shell, _ATTRIBUTE)._host
    cursor = code.index("|")
    found = complete(host, code.replace("|", "", 1), cursor)
    return [completion.text for completion in found["completions"]]


@pytest.fixture
def typed(trades: Notebook) -> Notebook:
    trades.run("%%epl\ncreate schema Quote(symbol string, bid double)")
    trades.run(
        "%%epl\ncreate context PerSymbol partition by symbol from Trade;"
        "create context Both context Half group by price < 5 as low, group by price >= 5 as high from Trade,"
        " context Each partition by symbol from Trade;"
        "create context Opened initiated by Trade as t terminated after 1 min"
    )
    return trades


@pytest.mark.parametrize(
    ("code", "expected", "not_offered"),
    [
        ("%%epl\nselect * from |", ["Trade", "Quote", "pattern"], ["price", "sum"]),
        ("%%epl\nselect * from Tr|", ["Trade"], ["Quote"]),
        ("%%epl\nselect * from tr|", ["Trade"], []),
        ("%%epl\nselect | from Trade", ["symbol", "price", "volume", "sum", "coalesce"], ["bid"]),
        ("%%epl\nselect pr| from Trade", ["price"], ["symbol"]),
        ("%%epl\nselect * from Trade(|", ["symbol", "price"], ["bid"]),
        ("%%epl\nselect * from Trade#|", ["length", "time", "keepall"], ["price"]),
        ("%%epl\nselect * from Trade#le|", ["length", "length_batch"], ["time"]),
        ("%%epl\nselect * from Trade#groupwin(symbol)#std:|", ["unique"], ["length"]),
        ("%%epl\nselect * from Trade.win:|", ["length"], ["unique"]),
        (
            "%%epl\nselect t.| from Trade#length(5) as t",
            ["symbol", "price", "volume"],
            ["bid", "sum", "where", "format"],
        ),
        ("%%epl\nselect q.| from Trade#lastevent t, Quote#unique(symbol) q", ["bid"], ["price"]),
        ("%%epl\nselect * from pattern [every a=Trade -> b=Quote(b.|", ["bid"], ["price"]),
        ("%%epl\nselect * from Trade, |", ["Trade", "Quote"], ["price"]),
        ("%%epl\n@name('x') context PerSymbol select context.|", ["name", "id", "key1"], ["abs", "price"]),
        ("%%epl\ncontext Both select context.|", ["name", "id", "Half", "Each"], ["abs", "key1"]),
        ("%%epl\ncontext Both select context.Half.| from Trade", ["label"], ["abs", "key1"]),
        ("%%epl\ncontext Opened select context.t.| from Quote", ["symbol", "price"], ["bid"]),
        ("%%epl\ncontext Later select context.|", ["name", "id"], ["key1"]),
        ("%%epl\nselect * from Trade where symbol = '|", [""], ["price"]),
        ("%%epl\nselect * from Trade; select | from Quote", ["bid"], ["price"]),
        ("%%epl\ncreate schema Mine(alpha int);\nselect al| from Mine", ["alpha"], []),
        ("%%epl\nsel|", ["select"], []),
        ("%%epl --|\n", ["--on", "--name", "--quiet"], []),
        ("%view |", ["all"], ["Trade"]),
        ("%epl |", ["list", "show", "drop", "reset", "help"], []),
        ("%%epl\ncreate variable int low = 1;\nselect lo| from Trade", ["low"], []),
        ("%epl show |", ["ast", "plan", "python"], ["all"]),
        ("%epl show plan |", ["all"], []),
        ("%epl drop |", ["all", "Trade"], []),
        ("%query select * from |", ["Trade"], ["price"]),
        ("%%events\n|", ["Trade", "Quote", "t = t.plus("], ["price"]),
        ("%%events\nTrade = {|", ["symbol = ", "price = "], []),
        ('%%events\nTrade symbol="A" p|', ["price="], []),
        ('%%events\nTrade symbol="A"\n    a|', ["all"], []),
        ("%%events\niterate |", ["all"], []),
        ("%%events\nset |", [""], ["all"]),
        ("%%events\nse|", ["set "], ["select"]),
    ],
)
def test_offers(typed: Notebook, code: str, expected: list[str], not_offered: list[str]) -> None:
    found = offers(typed, code)
    assert set(expected) <= set(found), found
    assert not set(not_offered) & set(found), found


def test_python_is_none_of_our_business(typed: Notebook) -> None:
    assert offers(typed, "import o|") == []
    assert offers(typed, "x = 1\nx.|") == []


def test_nothing_to_offer_still_suppresses_python(typed: Notebook) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    code = "%%epl\nselect zzzz"
    found = complete(host, code, len(code))
    assert found["suppress"] is True and [c.text for c in found["completions"]] == ["zzzz"]


def test_through_ipython(typed: Notebook) -> None:
    completer = typed.shell.Completer
    code = "%%epl\nselect t.pr from Trade as t"
    with provisionalcompleter():
        found = list(completer.completions(code, code.index("pr from") + 2))
    assert [c.text for c in found] == ["price"]
    assert (found[0].start, found[0].end) == (code.index("pr from"), code.index("pr from") + 2)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%%epl\nselect * from Tr|ade", "event type Trade\n  symbol  string"),
        ("%%epl\nselect pri|ce from Trade", "price double\n  property of Trade"),
        ("%%epl\nselect t.vol|ume from Trade t", "volume int\n  property of Trade"),
        ("%%epl\nselect * from Trade#len|gth(5)", "#length(size)"),
        ("%%epl\nselect su|m(price) from Trade", "sum: aggregation function"),
        ("%%epl\nselect coal|esce(price, 0) from Trade", "coalesce("),
        ("%%epl\nselect price from Trade gro|up by symbol", "group by\n  Aggregates are of each group"),
        ("%%epl\nselect irst|ream * from Trade", "Which streams are delivered"),
        ("%epl help having|", "Which rows are delivered, by values of aggregates"),
        ("%view al|l", "statement all"),
        ("%%events\nTra|de = {symbol = 'A'}", "event type Trade"),
    ],
)
def test_inspection(typed: Notebook, code: str, expected: str) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    cursor = code.index("|")
    assert expected in (describe(host, code.replace("|", "", 1), cursor) or "")


def test_a_word_that_is_the_name_of_a_magic_too_is_that_of_epl(typed: Notebook) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    code = "%%epl\nselect * from Trade output every 5 events"
    found = describe(host, code, len(code) - 2) or ""
    assert found.startswith("events\n  How many events") and "%%events" not in found
    assert typed.shell.find_cell_magic("events").__doc__.startswith("%%events")  # which IPython shows at the magic


def test_inspection_of_nothing(typed: Notebook) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    assert describe(host, "%%epl\nselect nosuchname", 14) is None
    assert describe(host, "%%epl\n", 6) is None
    assert describe(host, "print(1)", 3) is None
