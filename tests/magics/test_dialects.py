"""``%%apama`` and ``%%cruncher``: cells that run, replace themselves, complete and explain."""

from __future__ import annotations

import pandas as pd
import pytest

from cepbook.errors import BindError, UsageError
from cepbook.magics import _ATTRIBUTE
from cepbook.magics.editor.completion import complete
from cepbook.magics.editor.inspection import describe
from cepbook.magics.shell.host import NotebookHost
from tests.magics.conftest import Notebook

APAMA = "%%apama big\nfrom t in all Trade(volume > 100) within 5.0 select sum(t.price)"


def _host(notebook: Notebook) -> NotebookHost:
    found = getattr(notebook.shell, _ATTRIBUTE)._host
    assert isinstance(found, NotebookHost)
    return found


def offered(notebook: Notebook, code: str) -> list[str]:
    """What completion offers at the ``|`` of a cell."""
    cursor = code.index("|")
    found = complete(_host(notebook), code.replace("|", ""), cursor)
    return [each.text for each in found["completions"]]


def test_a_cell_runs_and_replaces_itself(trades: Notebook) -> None:
    assert trades.run(APAMA).startswith("deployed big")
    assert trades.run(APAMA, "c1").startswith("replaced big")
    assert trades.run(APAMA.replace("big", "huge"), "c1").startswith("replaced huge")
    assert "big" not in trades.deployed()["statements"]
    assert trades.run("%%apama --quiet\nfrom t in all Trade() select t.price") == ""


def test_errors_show_no_traceback(trades: Notebook) -> None:
    with pytest.raises(BindError, match="`Trade` has no field `prise`"):
        trades.run("%%apama x\nfrom t in all Trade() select t.prise")
    with pytest.raises(UsageError, match="unknown option `--weights`"):
        trades.run("%%apama x --weights 1\nfrom t in all Trade() select t.price")


def test_stages(trades: Notebook) -> None:
    trades.run(APAMA)
    assert "#time(5 sec)" in trades.run("%epl show epl big")
    assert "time(5 sec)" in trades.run("%epl show plan big")


def test_settings_are_options(trades: Notebook) -> None:
    cell = "%%cruncher c --weights '{\"Trade\": 0.5}'\nselect symbol from Trade (partition store last 3) as p"
    assert trades.run(cell).startswith("deployed c")


CODES = "select symbol from Trade (partition store last 9 where symbol in (select code from prio)) as w"


@pytest.mark.parametrize("tables", ["prio", "prio=listed", "prio=listed,other=prio", '\'{"prio": [{"code": "A"}]}\''])
def test_tables_are_frames_by_name(trades: Notebook, tables: str) -> None:
    trades.shell.user_ns.update(prio=pd.DataFrame({"code": ["A"]}), listed=pd.DataFrame({"code": ["A", "C"]}))
    trades.run(f"%%cruncher c --tables {tables}\n{CODES} where w.$row_status is new")
    cep = trades.shell.user_ns["cep"]
    cep.send("Trade", symbol="A")
    cep.send("Trade", symbol="B")
    trades.run("%query insert into prio(code) values ('B')")
    cep.send("Trade", symbol="B")
    cep.replace_rows("prio", trades.shell.user_ns["prio"])
    cep.send("Trade", symbol="B")
    assert list(cep.changes("c")["symbol"]) == ["A", "B"]


def test_tables_that_are_none(trades: Notebook) -> None:
    trades.shell.user_ns["listed"] = pd.DataFrame({"code": ["A"]})
    with pytest.raises(UsageError, match=r"(?s)no variable `liste`.*did you mean `listed`"):
        trades.run(f"%%cruncher c --tables prio=liste\n{CODES}")
    trades.shell.user_ns["prio"] = 3
    with pytest.raises(UsageError, match="table `prio` is not understood"):
        trades.run(f"%%cruncher c --tables prio\n{CODES}")
    assert "c" not in trades.deployed()["statements"]


def test_completion(trades: Notebook) -> None:
    assert "Trade" in offered(trades, "%%apama x\nfrom t in all |")
    assert offered(trades, "%%apama x\nfrom t in all Trade() select t.|")[:2] == ["symbol", "price"]
    assert {"within", "wavg"} <= set(offered(trades, "%%apama x\nfrom t in all Trade() w|"))
    assert "lots" in offered(
        trades, "%%apama x\nstream<float> lots := from t in all Trade() select t.price; from x in |"
    )
    assert "--quiet" in offered(trades, "%%apama x --|")
    assert "--weights" in offered(trades, "%%cruncher x --|")


def test_help(trades: Notebook) -> None:
    code = "%%apama x\nfrom t in all Trade() within 5.0 select t.price"
    assert "last d seconds" in (describe(_host(trades), code, code.index("within") + 2) or "")
    assert "wavg" in trades.run("%epl help dialects")
    assert "%%apama" in trades.run("%epl help apama")
