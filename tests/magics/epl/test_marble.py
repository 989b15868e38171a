"""``%epl marble``, and how a notebook shows what `Workbench.marble` returns."""

from __future__ import annotations

import sys

import pytest

from cepbook.widgets.charts import MIME
from tests.magics.conftest import Notebook
from tests.magics.editor.test_completion import offers

pytestmark = pytest.mark.histories

WINDOW = "%%epl\n@name('last') select irstream * from Trade#length(1)"
TRADED = "marble diagram of last: 2 arrivals, 2 bars, 2 insert rows, 1 remove row, 00:00:00.000 to 00:00:00.005"


@pytest.fixture
def traded(trades: Notebook) -> Notebook:
    trades.run(WINDOW)
    trades.run('%%events\nTrade symbol="A"\n@5\nTrade symbol="B"')
    return trades


def spec(notebook: Notebook, line: str) -> dict[str, object]:
    """The chart that a cell shows."""
    notebook.run(line)
    bundles = [output["data"] for output in notebook.shell.display_pub.outputs]  # type: ignore[attr-defined]
    return next(dict(bundle[MIME]) for bundle in bundles if MIME in bundle)


@pytest.mark.parametrize("line", ["%epl marble last", "cep.marble('last')"])
def test_a_statement_is_drawn(traded: Notebook, line: str) -> None:
    assert traded.run(line) == TRADED
    assert spec(traded, line)["description"] == TRADED


def test_options(traded: Notebook) -> None:
    assert traded.run("%epl marble last --events 1 --label volume").startswith("marble diagram of last: 1 arrival,")
    assert "1 to 200 events, not 0" in traded.error("%epl marble last --events 0")
    assert "--events: `few` is no whole number" in traded.error("%epl marble last --events few")
    assert "has no property `prize`" in traded.error("%epl marble last --label prize")


def test_mistakes(traded: Notebook) -> None:
    assert "takes the name of one statement" in traded.error("%epl marble")
    assert "takes the name of one statement" in traded.error("%epl marble last all")
    assert "did you mean `last`?" in traded.error("%epl marble lst")


def test_advances_of_an_events_cell_are_part_of_the_picture(trades: Notebook) -> None:
    trades.run("%%epl\n@name('s') select irstream * from Trade#time(10 msec)")
    trades.run('%%events\nTrade symbol="A"\n@8\n@50 stepping\nTrade symbol="B"')
    marble = trades.cep.marble("s")
    assert marble.notes == ()
    assert [bar.left for bar in marble.bars] == [10, None]


def test_statements_are_offered(traded: Notebook) -> None:
    assert {"all", "last"} <= set(offers(traded, "%epl marble |"))


def test_without_altair_it_is_a_text_that_says_why(traded: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert traded.run("%epl marble last") == f"{TRADED}\n  charts need the package altair: pip install 'cepbook[lab]'"


def test_without_the_extension_it_is_a_text(traded: Notebook) -> None:
    traded.shell.run_line_magic("unload_ext", "cepbook")
    assert traded.run("cep.marble('last')") == TRADED
