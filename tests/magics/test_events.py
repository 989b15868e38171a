"""``%%events``: send, show, check; nothing is sent when anything is wrong."""

from __future__ import annotations

import re

import pytest

from cepbook.errors import StatementError
from cepbook.lang.types import DOUBLE
from cepbook.magics.event_cells.reaction_recorder import ExpectationError
from cepbook.magics.events import DETAILS
from cepbook.testing.cell_reader import EventsError
from tests.magics.conftest import Notebook

START = """%%events
t = "2024-01-01 08:00:00.000"
Trade = {symbol = 'A', price = 10, volume = 5}
t = t.plus(10 seconds)
Trade symbol="B" price=20.5
"""


def test_events_are_sent_and_deliveries_shown(trades: Notebook) -> None:
    shown = trades.run(START)
    assert shown == (
        "2 events, clock 2024-01-01 08:00:10 (1704096010000 ms), 2 deliveries\n"
        "  time                 statement  ±  symbol  price  volume\n"
        "  2024-01-01 08:00:00  all        +  A        10.0       5\n"
        "  2024-01-01 08:00:10  all        +  B        20.5    null"
    )
    assert trades.cep.runtime.now == 1704096010000


def test_quiet_and_only(trades: Notebook) -> None:
    trades.run("%%epl\n@name('second') select symbol from Trade")
    assert trades.run('%%events --quiet\nTrade symbol="A"') == ""
    assert "second" not in trades.run('%%events --only all\nTrade symbol="A"')
    assert "al" in trades.error('%%events --only al\nTrade symbol="A"')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('Trad symbol="A"', "there is no event type `Trad`"),
        ("Trade = {symbl = 'A'}", "event type `Trade` has no property `symbl`"),
        ('Trade price="cheap"', "property `price` of event type `Trade` is double"),
        ("Trade = {volume = 99999999999}", "property `volume` of event type `Trade` is int"),
        ("@100", "is before the clock"),
        ("iterate al", "there is no statement `al`"),
        ("partitions Nowhere", "there is no context `Nowhere`"),
        ("undeploy main", "not supported yet in a cell: `undeploy`"),
        ("Trade = {symbol = eval('x')}", "eval(…) is not run"),
        ("Trade symbol=", "cell:5:1"),
        ('    unknown + symbol="A"', "there is no statement `unknown`"),
    ],
)
def test_a_mistake_in_the_last_line_sends_nothing(trades: Notebook, line: str, message: str) -> None:
    seen: list[object] = []
    trades.cep.runtime.statement("all").add_listener(seen.append)
    result, shown = trades.try_run(f'%%events\n@2000\nTrade symbol="A" price=1.0\n@3000\n{line}\n')
    assert isinstance(result.error_in_exec, EventsError)
    assert message in str(result.error_in_exec) and "^" in str(result.error_in_exec)
    assert (seen, trades.cep.runtime.now, shown) == ([], 0, "")


def test_every_mistake_of_a_cell_is_reported(trades: Notebook) -> None:
    message = trades.error("%%events\nTrade = {symbl = 'A', price = 'x'}\nTrad = {}\n")
    assert message.count("-->") == 3
    assert "hint: did you mean `symbol`?" in message and "hint: did you mean `Trade`?" in message


def test_expected_reactions_agree(trades: Notebook) -> None:
    shown = trades.run(
        "%%events\nTrade = {symbol = 'A', price = 10, volume = 5}\n"
        '    all + symbol="A" price=10.0 volume=5\n@1000\niterate all\n'
    )
    assert "✓ 1 reaction as expected" in shown


@pytest.mark.parametrize(
    "cell",
    [
        'Trade symbol="A"\n    all + symbol="B" price=null volume=null\n',
        'Trade symbol="A"\n    all + symbol="A" price=null volume=null\n    all + symbol="A" price=null volume=null\n',
        'Trade symbol="A"\n    all + symbol="A" price=null volume=null\nTrade symbol="B"\n',
        '@1000\n    all + symbol="A" price=null volume=null\n',
    ],
)
def test_other_reactions_than_expected(trades: Notebook, cell: str) -> None:
    result, shown = trades.try_run("%%events\n" + cell)
    assert isinstance(result.error_in_exec, ExpectationError)
    assert str(result.error_in_exec).startswith("1 stimulus with other reactions than expected: line ")
    assert "expected" in shown and "actual" in shown and "✗" in shown
    assert "as expected" not in shown


def test_listeners_do_not_stay(trades: Notebook) -> None:
    trades.run('%%events\nTrade symbol="A"')
    second = trades.run('%%events\nTrade symbol="A"')
    assert "1 delivery" in second


def test_iterate_shows_rows(trades: Notebook) -> None:
    trades.run("%%epl\n@name('kept') select symbol from Trade#length(2)")
    shown = trades.run('%%events\nTrade symbol="A"\nTrade symbol="B"\niterate kept\n')
    assert "iterate kept: 2 rows" in shown


def test_a_batch_window_delivers_both_streams(trades: Notebook) -> None:
    trades.run("%%epl\n@name('pairs') select irstream symbol from Trade#length_batch(1)")
    first = 'Trade symbol="A"\n    pairs + symbol="A"\n'
    second = 'Trade symbol="B"\n    pairs + symbol="B"\n          - symbol="A"\n'
    assert "✓ 2 reactions as expected" in trades.run("%%events\n" + first + second)


def test_times_of_events_are_shown_as_times(notebook: Notebook) -> None:
    """Where the type of the events says what is one; what is expected is written, and compared, as it is."""
    notebook.run(
        "%%epl\ncreate schema T(at long, other long) starttimestamp at;\n"
        "@name('a') select at, other, at - 5 as before from T"
    )
    notebook.run("%clock 1357034400000")
    cell = "%%events\nT = {at = 1357034400000, other = 1357034400000}\n"
    assert notebook.run(cell).splitlines()[-1].split("  ")[-3:] == [
        "2013-01-01 10:00:00", "1357034400000", "1357034399995"
    ]  # fmt: skip
    dated = "%%events\nT = {at = '2013-01-01 10:00', other = 1357034400000}\nT at=\"2013-01-01T10:00:00\" other=5\n"
    assert notebook.run(dated).count("  2013-01-01 10:00:00  ") == 4, "and may be written so"
    assert "`at` of event type `T` is long, not 'soon'" in notebook.error("%%events\nT = {at = 'soon'}")
    assert "is long, not '2013-01-01'" in notebook.error("%%events\nT = {other = '2013-01-01'}")
    assert "✓" in notebook.run(f"{cell}    a + at=1357034400000 other=1357034400000 before=1357034399995\n")


def test_output_repeats_exactly(trades: Notebook) -> None:
    first = trades.run(START)
    trades.run("%epl reset")
    trades.run("%%epl\ncreate schema Trade(symbol string, price double, volume int);\n@name('all') select * from Trade")
    assert trades.run(START) == first


@pytest.fixture
def fragile(trades: Notebook) -> Notebook:
    """A notebook whose statement `f` fails on prices above 5."""

    def boom(price: float) -> float:
        if price > 5:
            raise ValueError("too much")
        return price

    trades.cep.register_function("boom", boom, returns=DOUBLE)
    trades.run("%%epl\n@name('f') select boom(price) as b from Trade")
    return trades


def test_a_failing_statement_stops_no_other_and_is_told(fragile: Notebook) -> None:
    result, shown = fragile.try_run("%%events\nTrade price=1.0\nTrade price=10.0\nTrade price=2.0\n")
    assert isinstance(result.error_in_exec, StatementError)
    assert "3 events" in shown and "5 deliveries" in shown and "line 2: statement `f` failed" in shown


def test_an_expected_failure(fragile: Notebook) -> None:
    assert "✓" in fragile.run("%%events\nTrade price=10.0\n    ! f\nTrade price=2.0\n    f + b=2.0\n")
    result, shown = fragile.try_run("%%events\nTrade price=10.0\nTrade price=2.0\n    f + b=2.0\n")
    assert isinstance(result.error_in_exec, ExpectationError) and "✗  (nothing)  ! f" in shown


def test_partitions_and_queries_are_read_and_checked(trades: Notebook) -> None:
    trades.run("%%epl\ncreate context P partition by symbol from Trade")
    trades.run("%%epl\n@name('pc') context P select symbol from Trade#keepall")
    events = 'Trade symbol="A"\nTrade symbol="B"\n'
    rows = '    = id=0 key1="A" name="P"\n    = id=1 key1="B" name="P"\n'
    shown = trades.run(f"%%events --only pc\n{events}partitions P\n{rows}query select * from pc\n")
    assert "partitions P: 2 rows" in shown and "query select * from pc: 2 rows" in shown
    assert "✓ 1 reaction as expected" in shown
    _, shown = trades.try_run("%%events\npartitions P\n" + rows.replace('"B"', '"C"'))
    assert '✗  = id=1 key1="C" name="P"  = id=1 key1="B" name="P"' in shown
    assert "cell:3:1" in trades.error('%%events\nTrade symbol="C"\nquery select * from nowhere')
    assert len(trades.cep.partitions("P")) == 2


def test_the_help_is_right(notebook: Notebook) -> None:
    """The example lines of `%epl help events` run as they stand there."""
    assert 'Tick symbol="A" price=10.0' in notebook.run("%epl help events")
    examples = [line.strip() for line in DETAILS.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    lines = [re.split(r"\s{3,}", line)[0] for line in examples]
    notebook.run("%%epl\ncreate schema Tick(symbol string, price double);\n@name('out') select * from Tick")
    notebook.run("%%epl\ncreate variable int threshold")
    clock, plus, event, trace, at, iterate, assign, comments = lines
    shown = notebook.run("\n".join(["%%events", at, clock, plus, event, trace, iterate, assign, *comments.split(", ")]))
    assert notebook.cep.get("threshold") == 5
    assert shown.startswith("2 events, clock 2024-01-01 09:00:30")


def test_variables_are_set_and_read(trades: Notebook) -> None:
    trades.run("%%epl\ncreate variable double low = 5; @name('q') select price from Trade(price > low)")
    sent = "set low = 3\nTrade price=4.0\n    q + price=4.0\nset low = null\nTrade price=9.0\nget low\n    = value=null"
    assert "✓ 2 reactions as expected" in trades.run(f"%%events\n{sent}")
    assert "get low: 1 row" in trades.run("%%events\nset low = 7\nget low")
    assert trades.cep.get("low") == 7.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("set lov = 1", "unknown-variable: there is no variable `lov`"),
        ("get lov", "unknown-variable: there is no variable `lov`"),
        ('set low = "x"', "wrong-type: variable `low` is int, not 'x'"),
        ("set TOP = 2", "constant-variable: `TOP` is a constant, it cannot be set"),
    ],
)
def test_wrong_assignments_are_told_before_anything_happens(trades: Notebook, line: str, message: str) -> None:
    trades.run("%%epl\ncreate variable int low = 5; create constant variable int TOP = 1")
    assert message in trades.error(f"%%events\nset low = 6\n{line}")
    assert trades.cep.get("low") == 5


@pytest.mark.parametrize(
    "line",
    [
        "Trade = {symbol = 'A', price = 10.5}",
        "Trade = {'symbol': 'A', 'price': 10.5}",
        'Trade {"symbol": "A", "price": 10.5}',
        "Trade {symbol: 'A', price: 10.5}",
        "Trade(symbol='A', price=10.5)",
        "Trade (symbol = :name, price = :price)",
        "Trade = {symbol = :name, price = :number}",
        "Trade symbol=:name price=:price",
    ],
)
def test_notations_of_an_event(trades: Notebook, line: str) -> None:
    """Those of Python and JSON too, and values of Python variables."""
    trades.shell.user_ns.update(name="A", price=10.5)
    trades.shell.run_cell("import numpy; number = numpy.float64(10.5)")
    trades.run(f"%%events\n{line}")
    (row,) = trades.cep.changes("all").to_dict("records")
    assert (row["symbol"], row["price"]) == ("A", 10.5)


@pytest.mark.parametrize("line", ["t = t.plus(5 sec)", "t + 5 sec", "t += 5 seconds", "t = t + 5 sec"])
def test_notations_of_a_step_in_time(trades: Notebook, line: str) -> None:
    before = trades.cep.runtime.now
    trades.run(f'%%events\n{line}\nTrade symbol="A"')
    assert trades.cep.runtime.now == before + 5000


def test_what_the_notations_refuse(trades: Notebook) -> None:
    assert "give it one: a Python variable `nosuch`" in trades.error("%%events\nTrade(symbol=:nosuch)")
    assert "nosuch" in trades.error("%%events\nTrade symbol=:nosuch")
    assert "is no value" in trades.error("%%events\nTrade(symbol=A)")
    assert "no time period" in trades.error("%%events\nt + nonsense")
    trades.run("%%events\nt = 10000")
    assert "`%epl rewind` begins anew" in trades.error("%%events\nt = 5000")
