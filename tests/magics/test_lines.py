"""``%clock``, ``%query``, ``%view``."""

from __future__ import annotations

import asyncio

import pandas as pd
import pytest

from cepbook.widgets import StatementView
from tests.magics.conftest import Notebook
from tests.waiting import until


def test_clock_moves_forward_only(trades: Notebook) -> None:
    assert trades.run("%clock") == "00:00:00.000 (0 ms)"
    assert trades.run("%clock 1500") == "00:00:01.500 (1500 ms)"
    assert trades.run("%clock +10 sec") == "00:00:11.500 (11500 ms)"
    assert trades.run("%clock 2024-01-01T08:00") == "2024-01-01 08:00:00 (1704096000000 ms)"
    trades.error("%clock 1500")
    assert trades.cep.runtime.now == 1704096000000


@pytest.mark.parametrize("line", ["%clock soon", "%clock +soon", "%clock 10 parsecs", "%clock -5"])
def test_malformed_times(trades: Notebook, line: str) -> None:
    assert trades.error(line)
    assert trades.cep.runtime.now == 0


@pytest.mark.parametrize("line", ["advance 5 sec", "5 sec", "forward 1 min"])
def test_a_span_without_a_plus_gets_a_hint(trades: Notebook, line: str) -> None:
    span = line.removeprefix("advance ").removeprefix("forward ")
    assert f"hint: `%clock +{span}` moves the clock forward" in trades.error(f"%clock {line}")


def test_names_that_are_not_near_are_listed(trades: Notebook) -> None:
    trades.run("%%epl --name two\n@name('other') select * from Trade")
    assert "hint: there are `all`, `other`" in trades.error("%view zzz")


def test_clock_shows_what_is_due(trades: Notebook) -> None:
    trades.run("%%epl\n@name('w') select irstream * from Trade#time(5 sec)")
    trades.run('%%events\n@1000\nTrade symbol="A"')
    assert trades.run("%clock").splitlines()[1] == "next due: 00:00:06.000 (6000 ms)"


def test_an_empty_query_says_which_statement_keeps_no_rows(trades: Notebook) -> None:
    trades.run("%%epl\n@name('kept') select * from Trade#length(2)")
    trades.cep.send("Trade", symbol="A", price=1.0)
    reason = "`all` keeps no rows: no data window"
    assert reason in trades.run("%query select * from `all`")
    assert reason in trades.run("%%query --into none\nselect * from `all` where price > 1")
    assert trades.shell.user_ns["none"].empty
    assert "keeps no rows" not in trades.run("%query select * from kept where price > 1")


def test_query_gives_a_frame(trades: Notebook) -> None:
    trades.run("%%epl\n@name('kept') select * from Trade#keepall")
    trades.run('%%events\nTrade symbol="A" price=2.0 volume=1')
    trades.run("found = %query select * from kept;")
    found = trades.shell.user_ns["found"]
    assert isinstance(found, pd.DataFrame) and list(found["symbol"]) == ["A"]
    assert "A" in trades.run("%%query\nselect * from kept;")
    assert trades.run("%%query --into again\nselect * from kept") == ""
    pd.testing.assert_frame_equal(trades.shell.user_ns["again"], found)


def test_malformed_queries(trades: Notebook) -> None:
    assert "an EPL query is missing" in trades.error("%query")
    assert trades.error("%query select * from nowhere")
    assert "cannot be the name of a variable" in trades.error("%%query --into 1x\nselect * from all")


def test_view(trades: Notebook) -> None:
    trades.run("widget = %view all")
    assert isinstance(trades.shell.user_ns["widget"], StatementView)
    trades.run("widget = %view all  # live")
    assert trades.error("%view") == "%view takes the name of one statement\n  hint: the statement is `all`"
    assert "did you mean `all`?" in trades.error("%view al")


def test_which_names_could_be_meant(notebook: Notebook) -> None:
    """A name that is missing, or of something else, is told with those that there are: of what can be shown."""
    assert notebook.error("%view").endswith("hint: there is no statement yet")
    notebook.run(
        "%%epl\ncreate schema Trade(symbol string, price double);\ncreate variable int least = 1;\n"
        "create context PerSymbol partition by symbol from Trade;\ncreate window Kept#keepall as Trade;\n"
        "@name('all') select * from Trade;\n@name('rise') select a.price as p from pattern [every a=Trade]"
    )
    for line in ("%view", "%view all rise", "%view --chart", "%epl marble"):
        assert notebook.error(line).endswith("hint: there are `Kept`, `all`, `rise`")
    for name, what in (("Trade", "an event type"), ("PerSymbol", "a context"), ("least", "a variable")):
        told = notebook.error(f"%view {name}")
        assert told.startswith(f"there is no statement `{name}`: it is {what}\n  hint: there are `Kept`, `all`")
    assert notebook.error("%epl partials").endswith("hint: the statement with a pattern is `rise`")
    assert notebook.error("%epl timeline").endswith("hint: the context is `PerSymbol`")
    assert notebook.error("%epl partitions a b").endswith("hint: the context is `PerSymbol`")


def test_a_comment_may_follow(trades: Notebook) -> None:
    assert trades.run("%clock 1500  # later") == "00:00:01.500 (1500 ms)"
    assert "all" in trades.run("%epl list # what is there")
    assert trades.run("%epl help #length # the window").startswith("#length(size)")


def test_the_clock_needs_a_loop_to_be_live(notebook: Notebook) -> None:
    assert "running event loop" in notebook.error("%clock live")

    async def cells() -> None:
        for cell, live in (("%clock live here", True), ("%clock", True), ("%clock stop", False)):
            result = await notebook.shell.run_cell_async(cell, transformed_cell=notebook.shell.transform_cell(cell))
            result.raise_error()
            assert (notebook.cep.live_clock is not None) is live

    asyncio.run(cells())


def test_the_clock_tells_what_ended_it(notebook: Notebook) -> None:
    async def ends() -> None:
        async def gone(seconds: float) -> None:
            raise OSError("gone")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        clock = notebook.cep.run_clock(here=True, sleep=gone)
        await until(lambda: not clock.running)

    asyncio.run(ends())
    time, note = notebook.run("%clock").splitlines()
    assert not time.endswith(", live") and note == "the live clock ended: OSError: gone"
    assert "ended" not in notebook.run("%clock stop")
