"""``%%scenario`` and ``%%expect``: reactions beside stimuli, and assertions about the cell before."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import StatementError, UsageError
from cepbook.magics.event_cells.reaction_recorder import ExpectationError
from cepbook.testing.cell_reader import EventsError
from tests.magics.conftest import Notebook

SENT = '%%events --quiet\nTrade symbol="A" price=1.0\n@2000\nTrade symbol="B" price=2.0\n'
BOTH = 'all + symbol="A" price=1.0 volume=null\nall + symbol="B" price=2.0 volume=null\n'


# ---------------------------------------------------------------- %%scenario
def test_reactions_stand_beside_stimuli(trades: Notebook) -> None:
    trades.run("%%epl\n@name('pairs') select irstream symbol from Trade#length_batch(1)")
    shown = trades.run('%%scenario\nTrade symbol="A"\n@1000\nTrade symbol="B"\niterate pairs\n')
    assert shown == (
        "  stimulus          statement  ±  reaction\n"
        '  Trade symbol="A"  all        +  symbol=A  price=null  volume=null\n'
        "                    pairs      +  symbol=A\n"
        "  @1000\n"
        '  Trade symbol="B"  all        +  symbol=B  price=null  volume=null\n'
        "                    pairs      +  symbol=B\n"
        "                               −  symbol=A\n"
        "  iterate pairs                =  (none)"
    )


def test_the_session_sees_nothing_of_it(trades: Notebook) -> None:
    trades.run('%%epl\n@name("n") select count(*) as n from Trade')
    trades.run('%%events --quiet\n@5000\nTrade symbol="A"')
    trades.run('%%scenario\n@1000\nTrade symbol="B"\n    n + n=1\n')  # from the beginning, not from 5000
    assert trades.cep.runtime.now == 5000
    assert trades.cep.feed("n").total_insert == 1


def test_what_differs_is_marked_and_named(trades: Notebook) -> None:
    cell = '%%scenario\nTrade symbol="A"\n    all + symbol="A" price=null volume=null\nTrade symbol="B"\n'
    cell += '    all + symbol="C"\n'
    result, shown = trades.try_run(cell)
    assert isinstance(result.error_in_exec, ExpectationError)
    assert str(result.error_in_exec) == "1 stimulus with other reactions than expected: line 4"
    assert [line.split()[0] for line in shown.splitlines() if "✗" in line] == ["Trade"]
    assert 'all + symbol="C"' in shown and 'all + symbol="B" price=null volume=null' in shown


def test_agreement_is_said_and_saved(trades: Notebook, tmp_path: Path) -> None:
    file = tmp_path / "cases.md"
    cell = '%%scenario --save {} --title "one trade"\nTrade symbol="A"\n    all + symbol="{}" price=null volume=null\n'
    assert isinstance(trades.try_run(cell.format(file, "B"))[0].error_in_exec, ExpectationError)
    assert not file.exists()
    assert "✓ 1 reaction as expected" in trades.run(cell.format(file, "A"))
    assert "## one trade" in file.read_text() and 'all + symbol="A"' in file.read_text()


def test_mistakes_run_nothing(trades: Notebook) -> None:
    message = trades.error('%%scenario\nTrade symbol="A"\nTrad symbol="A"\n')
    assert "there is no event type `Trad`" in message and "cell:3:1" in message
    assert "al" in trades.error('%%scenario --only al\nTrade symbol="A"\n')


def test_a_failure_stands_beside_its_event(trades: Notebook) -> None:
    trades.cep.register_function("boom", lambda x: 1 // 0, returns="int")
    trades.run("%%epl\n@name('f') select boom(price) as b from Trade")
    result, shown = trades.try_run('%%scenario\nTrade symbol="A"\n')
    assert isinstance(result.error_in_exec, StatementError)
    assert "f          !" in shown and "division" in shown
    assert trades.cep.failures == {}


# ---------------------------------------------------------------- %%expect
def test_what_the_cell_before_caused(trades: Notebook) -> None:
    trades.run('%%events --quiet\nTrade symbol="old"')
    trades.run(SENT)
    for _ in range(2):  # again, and with cells between that do nothing
        assert trades.run("%%expect\n" + BOTH) == "✓ 2 deliveries of all as expected"
        trades.run("1 + 1")
    trades.run("cep.advance(by='1 sec')")  # which delivers nothing
    timed = BOTH.replace('all + symbol="B"', '@2000\nall + symbol="B"')
    assert "✓ 2" in trades.run("%%expect\n# by time\n@0\n" + timed)


def test_all_since_it_was_deployed(trades: Notebook) -> None:
    trades.run(SENT)
    trades.run('%%events --quiet\nTrade symbol="C"')
    last = 'all + symbol="C" price=null volume=null\n'
    assert "1 delivery" in trades.run("%%expect\n" + last)
    assert "3 deliveries" in trades.run("%%expect --all\n" + BOTH + last)


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        ("all (none)\n", '(nothing) all + symbol="A"'),
        ('all + symbol="A" price=1.0 volume=null\n', '✗ all + symbol="B"'),
        (BOTH.replace("2.0", "2.5"), 'price=2.5 volume=null all + symbol="B" price=2.0'),
        ("@1\n" + BOTH, "all @00:00:02.000"),
        ("iterate kept\n= n=3\n", "= n=3"),
        ("! all\n", "! all"),
    ],
)
def test_differences_are_shown_side_by_side(trades: Notebook, cell: str, seen: str) -> None:
    trades.run("%%epl\n@name('kept') select count(*) as n from Trade#keepall")
    trades.run(SENT)
    result, shown = trades.try_run("%%expect\n" + cell)
    assert isinstance(result.error_in_exec, ExpectationError)
    assert "as expected" not in str(result.error_in_exec) and ": line" in str(result.error_in_exec)
    assert seen in " ".join(shown.split()) and "expected" in shown


def test_nothing_failures_and_readings(trades: Notebook) -> None:
    trades.cep.register_function("boom", lambda x: 1 // 0, returns="int")
    trades.run("%%epl\n@name('never') select * from Trade(price > 100);\n@name('f') select boom(price) as b from Trade")
    trades.try_run(SENT)
    assert "✓ 0 deliveries of never, f as expected" in trades.run("%%expect\nnever (none)\n! f\n")
    trades.run("%%epl\n@name('kept') select count(*) as n from Trade#keepall")
    assert trades.run("%%expect\niterate kept\n    = n=0\n") == "✓ 1 reading as expected"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("al (none)", "there is no statement `al`"),
        ("= n=1", "rows without what they are read from"),
        ('Trade symbol="A"', "expected a reaction"),
        ("set v = 1", "expected a reaction"),
        ('all + symbol="A"\n@5\nall + symbol="B"', "some deliveries have a time and these have none"),
        ("iterate al\n= n=1", "there is no statement `al`"),
        ("@5\n! all", "at what time a statement failed is not known"),
    ],
)
def test_malformed_expectations(trades: Notebook, cell: str, message: str) -> None:
    result, _ = trades.try_run("%%expect\n" + cell)
    assert isinstance(result.error_in_exec, EventsError)
    assert message in str(result.error_in_exec) and "^" in str(result.error_in_exec)


def test_an_empty_expectation_and_rows_that_are_gone(trades: Notebook) -> None:
    assert "the cell expects nothing" in trades.error("%%expect\n\n# later\n")
    trades.run("from cepbook import Workbench\ncep = Workbench(feed_capacity=1)")
    trades.run("%%epl\ncreate schema Trade(symbol string);\n@name('all') select * from Trade")
    trades.run("for i in range(5000): cep.send('Trade', symbol='A')")
    result, _ = trades.try_run('%%expect\nall + symbol="A"')
    assert isinstance(result.error_in_exec, UsageError) and "are not kept any more" in str(result.error_in_exec)


def test_a_reaction_is_found_by_the_whole_name(trades: Notebook) -> None:
    trades.run("%%epl\n@name('all2') select * from Trade")
    result, _ = trades.try_run('%%expect\n@5\nall2 + symbol="A"\n! all')
    assert "cell:4:1" in str(result.error_in_exec) and "! all" in str(result.error_in_exec)


# ---------------------------------------------------------------- times of events
FLIGHTS = """%%epl
create schema Flight(origin string, dep long) starttimestamp dep;
@name('out') select origin, dep from Flight"""
FLOWN = """t = "2013-01-01 05:15"
Flight = {origin='EWR', dep='2013-01-01 05:10'}
    out + origin="EWR" dep="2013-01-01 05:1%s"
t = t.plus(30 min)
Flight origin="JFK" dep=1357019100000
    out + origin="JFK" dep=1357019100000
"""


def test_times_of_events_are_dates_beside_their_stimuli(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(FLIGHTS)
    file = tmp_path / "flights.md"
    shown = notebook.run(f"%%scenario --save {file}\n{FLOWN % 0}")
    assert "+  origin=EWR  dep=2013-01-01 05:10:00" in shown and "dep=2013-01-01 05:45:00" in shown
    assert "1357" not in shown.replace("dep=1357019100000", "", 1)  # but where the cell wrote it
    assert 'out + origin="EWR" dep=1357017000000' in file.read_text()  # a file has what is compared


@pytest.mark.parametrize("magic", ["scenario", "events"])
def test_dates_that_differ_are_shown_as_they_are_stated(notebook: Notebook, magic: str) -> None:
    notebook.run(FLIGHTS)
    result, shown = notebook.try_run(f"%%{magic}\n{FLOWN % 2}")
    assert isinstance(result.error_in_exec, ExpectationError)
    line = next(line for line in shown.splitlines() if "✗" in line)
    assert line.endswith('out + origin="EWR" dep="2013-01-01 05:12:00"  out + origin="EWR" dep="2013-01-01 05:10:00"')


def test_an_expectation_names_its_times_as_dates(notebook: Notebook) -> None:
    notebook.run(FLIGHTS)
    notebook.run(f"%%events --quiet\n{FLOWN % 0}")
    stated = """t = "2013-01-01 05:15"  // the first
out + origin="EWR" dep="2013-01-01 05:10"
t = t.plus(30 min)
out + origin="JFK" dep="2013-01-01 05:45"
"""
    assert "✓ 2 deliveries" in notebook.run("%%expect\n" + stated)
    result, shown = notebook.try_run("%%expect\n" + stated.replace("30 min", "31 min"))
    assert isinstance(result.error_in_exec, ExpectationError)
    assert "out @2013-01-01 05:46:00" in shown and "out @2013-01-01 05:45:00" in shown


@pytest.mark.parametrize(
    ("line", "message", "caret"),
    [
        ("t = t.plus(1 hour)", "t has no value yet", "2:5"),
        ('t = "2013-13-01"', "'2013-13-01' is not an ISO 8601 date and time", "2:5"),
        ('t = "2013-01-01" then', "there is something behind the time", "2:1"),
    ],
)
def test_times_of_expectations_that_are_none(trades: Notebook, line: str, message: str, caret: str) -> None:
    result, _ = trades.try_run(f"%%expect\n{line}\nall (none)\n")
    assert isinstance(result.error_in_exec, EventsError)
    assert message in str(result.error_in_exec) and f"cell:{caret}" in str(result.error_in_exec)


def test_rows_that_are_read_have_dates(notebook: Notebook) -> None:
    notebook.run(FLIGHTS.replace("from Flight", "from Flight#keepall"))
    notebook.run("%%events --quiet\nFlight = {origin='EWR', dep='2013-01-01 05:10'}")
    assert "EWR     2013-01-01 05:10:00" in notebook.run("%%events\niterate out")
    assert "✓" in notebook.run('%%expect\niterate out\n= origin="EWR" dep="2013-01-01 05:10"')


@pytest.mark.parametrize("magic", ["scenario", "events"])
def test_an_event_of_another_time_than_the_clock_is_told(notebook: Notebook, magic: str) -> None:
    """Who comes from tables of times expects the clock to follow: windows go by the clock alone."""
    notebook.run(FLIGHTS)
    cell = f"%%{magic}\nt = \"2013-01-01 05:15\"\nFlight = {{origin='EWR', dep='2013-01-01 05:15'}}\n"
    assert "do not move it" not in notebook.run(cell + "Flight = {origin='JFK'}")
    notebook.run("%epl rewind")
    shown = notebook.run(cell + "t = t.plus(1 min)\nFlight = {origin='JFK', dep='2013-01-01 05:45'}")
    told = "`dep` of Flight is 2013-01-01 05:45:00, the clock is at 2013-01-01 05:16:00"
    assert shown.endswith(f"{told}: events do not move it, `t = …` does")
