"""Completion and inspection of EPL cells."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from cepbook.magics import _ATTRIBUTE
from cepbook.magics.editor.completion import complete
from cepbook.magics.editor.inspection import describe
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
        ("%%epl\n|", ["select", "create schema", "insert into", "on"], ["price", "sum", "where", "Trade"]),
        ("%%epl\n@name('x')\n// why\n|", ["select", "on"], ["where"]),
        ("%%epl\nselect * from Trade;\n|", ["select"], ["price"]),
        ("%%epl\nselect |", ["symbol", "price", "bid", "sum"], []),
        ("%%epl\nselect * from Trade#time(5 |", ["sec", "min", "hours"], ["price", "events"]),
        ("%%epl\nselect * from Trade#time(5 m|", ["min", "minutes", "msec"], ["max"]),
        ("%%epl\nselect * from Trade output every 5 |", ["sec", "events"], ["price"]),
        ("%%epl\nselect * from Trade#tum|", ["tumbling", "tumble"], []),
        ("%%epl\nselect upp| from Trade", ["upper"], []),
        ("%epl help slid|", ["sliding"], []),
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


def test_values_that_were_seen(typed: Notebook) -> None:
    """Texts of a property with few values, sent or replayed, in the quotes of a comparison."""
    typed.run('%%events\nQuote symbol="New York" bid=1.0\nQuote symbol="Newark" bid=2.0')
    assert offers(typed, "%%epl\nselect * from Quote where symbol = '|") == ["New York", "Newark"]
    assert offers(typed, "%%epl\nselect * from Quote(symbol = 'Newa|") == ["Newark"]
    assert offers(typed, "%%epl\nselect * from Quote(symbol in ('x', 'New Y|") == ["York"]
    assert offers(typed, "%%epl\nselect * from Quote#lastevent q where q.symbol != '|") == ["New York", "Newark"]
    assert offers(typed, "%%epl\nselect * from Quote where bid = '|") == [""]
    typed.run("%%events\n" + "\n".join(f'Quote symbol="S{n}" bid=1.0' for n in range(30)))
    assert offers(typed, "%%epl\nselect * from Quote where symbol = '|") == [""]


def test_likely_columns_come_first(typed: Notebook) -> None:
    """Before from is written, the columns of all types are offered, those of the most frequent events first."""
    typed.run('%%events\nQuote symbol="A" bid=1.0')
    found = offers(typed, "%%epl\nselect |")
    assert found.index("bid") < found.index("price")


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


DECLARED = """%%epl
create schema Base(at long) starttimestamp at;
create schema Trade(symbol string, price double) inherits Base;
create variable int least = 2;
create context PerSymbol partition by symbol from Trade;
create table Sums(symbol string primary key, n count(*));
create window Kept#keepall as Trade;
create index kept_by on Kept(symbol);
create expression twice {x => x * 2};
insert into Kept select * from Trade;
@name('mean') context PerSymbol insert into Means select symbol, avg(price) as mean from Trade#length(3)"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "%%epl\nselect * from Trad|e",
            "event type Trade inherits Base\n  at      long\n  symbol  string\n  price   double\n  event time: at\n"
            "  created in cell [2]\n  read by stmt_7, mean\n  1 event until now",
        ),
        (
            "%%epl\nselect * from Bas|e",
            "event type Base\n  at  long\n  event time: at\n  inherited by Trade\n  created in cell [2]\n"
            "  0 events until now",
        ),
        (
            "%%epl\nselect * from Means|",
            "event type Means\n  symbol  string\n  mean    double\n  created in cell [2]\n  filled by mean\n"
            "  1 event until now",
        ),
        (
            "%%epl\nselect * from Fligh|t",
            "event type Flight\n  x  double\n  defined from Python in cell [3]\n  0 events until now",
        ),
        (
            "%%epl\ncreate schema New(a int); select * from N|ew",
            "event type New\n  a  int\n  created in this cell, which has not run",
        ),
        (
            "%%epl\nselect * from Kept|",
            "named window Kept\n  at      long\n  symbol  string\n  price   double\n  holds 1 row\n"
            "  index kept_by hash(symbol): 1 key\n  created in cell [2]\n  filled by stmt_7",
        ),
        ("%%epl\nselect Sum|s['a'].n from Trade", "table Sums\n  symbol  string\n  n       long\n  holds 0 rows"),
        ("%%epl\nselect * from Trade(price > leas|t)", "variable least int\n  now 2\n  created in cell [2]"),
        (
            "%%epl\ncontext PerSymbo|l select * from Trade",
            "context PerSymbol: keyed, over Trade\n"
            "  context.name  string\n  context.id    int\n  context.key1  string\n"
            "  1 live partition\n  created in cell [2]\n  used by mean",
        ),
        (
            "%%epl\nselect twic|e(price) from Trade",
            "expression twice\ncreate expression twice {x => x * 2}\n  created in cell [2]",
        ),
        ("%%epl\nselect 1 as x from Kept_by, kept_b|y", "index kept_by of Kept\ncreate index kept_by on Kept(symbol)"),
        ("%%events\nTrade = {pric|e = 1.0}", "price double\n  property of Trade"),
        ("%%epl\nselect t.symbol, a|t from Trade as t", "at long\n  property of Trade, its event time"),
    ],
)
def test_what_a_name_stands_for(notebook: Notebook, code: str, expected: str) -> None:
    """Its properties, its supertypes, the cell that made it, who fills and reads it."""
    cells = ("1", DECLARED, "cep.define('Flight', {'x': float})", "%%events\nTrade = {symbol='A'}")
    for number, cell in enumerate(cells):
        notebook.shell.run_cell(cell, cell_id=f"c{number}", store_history=True).raise_error()
    host = getattr(notebook.shell, _ATTRIBUTE)._host
    found = describe(host, code.replace("|", "", 1), code.index("|")) or ""
    assert found.startswith(expected)


def test_a_word_that_is_the_name_of_a_magic_too_is_that_of_epl(typed: Notebook) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    code = "%%epl\nselect * from Trade output every 5 events"
    found = describe(host, code, len(code) - 2) or ""
    assert found.startswith("events\n  How many events") and "%%events" not in found
    assert typed.shell.find_cell_magic("events").__doc__.startswith("Send events")  # which IPython shows at the magic


def test_inspection_of_nothing(typed: Notebook) -> None:
    host = getattr(typed.shell, _ATTRIBUTE)._host
    assert describe(host, "%%epl\nselect nosuchname", 14) is None
    assert describe(host, "%%epl\n", 6) is None
    assert describe(host, "print(1)", 3) is None
